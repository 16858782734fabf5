"""Every engine asked for its best plan: what each offers with its points, and why others offer nothing."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.advice.choice_notes import brings_something
from advisor.advice.ranking import Ranking, score_deployment
from advisor.advice.recommend_request import GuideResult, RecommendRequest
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.filters import hardware_support, judge_engine
from advisor.decision.needed_features import list_needed_features
from advisor.decision.types import Reason
from advisor.planning.search import find_best_plan
from advisor.planning.search_request import SearchRequest
from advisor.planning.types import Plan, Rejection
from advisor.record import Value


class EngineAnswers(Value, frozen=True):
    """The plans that were found, and what was refused."""

    hits: list[tuple[dict[str, float], Engine, Plan]]  # with the points of each
    rejected: dict[str, tuple[Reason, ...]]
    needs: dict[str, int]  # of what finds no room, bytes


def search_engines(
    request: RecommendRequest,
    guide_result: GuideResult,
    search: SearchRequest,
    asked: Engine | None,
    order: Ranking,
    rules: Catalog,
) -> EngineAnswers:
    """The best plan of each engine, and why others have none."""
    found, listed = EngineAnswers([], {}, {}), list(guide_result.decision.engines)
    hits, rejected, needs = found.hits, found.rejected, found.needs
    for entry in list_in_order(listed, asked, rules):
        if entry.kind != "engine" and entry.id not in listed and (asked is None or entry.id != asked.id):
            # wrappers, proxies and clients are offered when they are asked for, or by the guide
            reasons = judge_engine(entry, guide_result.facts, None, search.model, request.workload).reasons
            rejected[entry.id] = reasons or (_not_asked(entry),)
            continue
        limited = _limited(entry, guide_result, listed, asked)
        if limited is not None:
            reasons = judge_engine(entry, guide_result.facts, None, search.model, request.workload).reasons
            rejected[entry.id] = reasons or (limited,)
            continue
        result = find_best_plan(entry, search, rules)
        if isinstance(result, Rejection):
            if result.reasons:
                rejected[entry.id] = result.reasons
            if result.needs_bytes is not None:
                needs[entry.id] = result.needs_bytes
            continue
        held = guide_result.decision.held_back.get(entry.id, ())
        if held:
            result = replace(result, notes=(*result.notes, *(r.text for r in held)))
        liked = search.policy.preferred(entry.id, search.facts)
        if liked is not None:
            result = replace(result, notes=(*result.notes, f"preferred by policy: {liked.text}"))
        pinned = search.policy.version(entry.id, search.facts)
        if pinned is not None:
            result = replace(result, notes=(*result.notes, f"pinned to {pinned[0]} by policy: {pinned[1]}"))
        points = score_deployment(
            entry, result.memory, listed, guide_result.facts, list_needed_features(request.workload), order,
            asked=asked is not None and entry.id == asked.id, liked=liked is not None, held=bool(held),
            offload=result.offload, queues=not result.holds_all, late=result.on_time is False,
            no_download=brings_something(entry, result, rules),
        )  # fmt: skip
        hits.append((points, entry, result))
    return found


def list_in_order(listed: list[str], asked: Engine | None, rules: Catalog) -> list[Engine]:
    """The engine asked for, the guide's in its order, then all others."""
    names = [*([asked.id] if asked else []), *listed, *rules.engines()]
    return [rules.engines()[n] for n in dict.fromkeys(names)]


def _limited(entry: Engine, guide_result: GuideResult, listed: list[str], asked: Engine | None) -> Reason | None:
    """Why an engine that the guide does not name is left out: its support for this hardware is partial or unknown."""
    if entry.id in listed or (asked is not None and entry.id == asked.id):
        return None
    support = hardware_support(entry, str(guide_result.facts.get("gpu.vendor")))
    if support is None or support.support in ("yes", "no"):
        return None
    note = f" ({support.note})" if support.note else ""
    text = f"{entry.name}: support for this hardware is {support.support}{note}; named with --engine it is looked at"
    return Reason(code="not_asked_for", rule=f"{entry.id}/hardware", text=text, source=", ".join(support.src) or None)


def _not_asked(entry: Engine) -> Reason:
    runs = f"it runs {' or '.join(entry.runs)} underneath" if entry.runs else f"it is a {entry.kind}"
    return Reason(
        code="not_asked_for", rule=f"{entry.id}/kind", text=f"{entry.name}: {runs}; named with --engine it is looked at"
    )
