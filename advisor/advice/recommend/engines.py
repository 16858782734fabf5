"""Every engine asked for its best plan: what each offers, its points (rules/ranking.yaml), why others offer nothing."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from advisor.advice.recommend_request import GuideResult, RecommendRequest
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.decision.filters import hardware_support, judge_engine, list_needed_features
from advisor.decision.types import FactValues, Reason
from advisor.deployment import MemoryEstimate
from advisor.planning.rules import PlanRules
from advisor.planning.search import find_best_plan
from advisor.planning.types import Plan, Rejection, SearchRequest
from advisor.record import Value
from advisor.render.words import make_model_reference
from advisor.session import Session


class EngineAnswers(Value, frozen=True):
    """The plans that were found, and what was refused."""

    offers: list[tuple[dict[str, float], Engine, Plan]]  # with the points of each
    rejected: dict[str, tuple[Reason, ...]]
    needs: dict[str, int]  # of what finds no room, bytes


def search_engines(
    request: RecommendRequest,
    guide_result: GuideResult,
    search: SearchRequest,
    asked: Engine | None,
    order: Ranking,
    session: Session,
) -> EngineAnswers:
    """The best plan of each engine, and why others have none."""
    found, listed = EngineAnswers([], {}, {}), list(guide_result.decision.engines)
    offers, rejected, needs = found.offers, found.rejected, found.needs
    for entry in list_in_order(listed, asked, session.rules):
        left_out = _explain_left_out(entry, guide_result, listed, asked)
        if left_out is not None:
            reasons = judge_engine(entry, guide_result.facts, None, search.model, request.workload).reasons
            rejected[entry.id] = reasons or (left_out,)
            continue
        result = find_best_plan(entry, search, session)
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
            sure=result.starts is True,
            asked=asked is not None and entry.id == asked.id, liked=liked is not None, held=bool(held),
            offload=result.offload, queues=not result.holds_all, late=result.on_time is False,
            no_download=brings_something(entry, result, session.rules),
        )  # fmt: skip
        offers.append((points, entry, result))
    return found


def list_in_order(listed: list[str], asked: Engine | None, rules: Catalog) -> list[Engine]:
    """The engine asked for, the guide's in its order, then all others."""
    names = [*([asked.id] if asked else []), *listed, *rules.engines()]
    return [rules.engines()[n] for n in dict.fromkeys(names)]


def _explain_left_out(
    entry: Engine, guide_result: GuideResult, listed: list[str], asked: Engine | None
) -> Reason | None:
    """Why an engine that neither the guide nor the user names is left out: it is a wrapper, a proxy or a client, or its
    support for this hardware is partial or unknown."""
    if entry.id in listed or (asked is not None and entry.id == asked.id):
        return None
    named = "named with --engine it is looked at"
    if entry.kind != "engine":
        runs = f"it runs {' or '.join(entry.runs)} underneath" if entry.runs else f"it is a {entry.kind}"
        return Reason(code="not_asked_for", rule=f"{entry.id}/kind", text=f"{entry.name}: {runs}; {named}")
    support = hardware_support(entry, str(guide_result.facts.get("gpu.vendor")))
    if support is None or support.support in ("yes", "no"):
        return None
    note = f" ({support.note})" if support.note else ""
    text = f"{entry.name}: support for this hardware is {support.support}{note}; {named}"
    return Reason(code="not_asked_for", rule=f"{entry.id}/hardware", text=text, source=", ".join(support.src) or None)


FULL = 0.9  # of a budget: what is used above it counts as tight


class RankingPoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points of each criterion; the sum orders, least first."""

    asked: float
    policy: float
    unsure: float
    held_back: float
    offload: float
    queues: float
    late: float
    unlisted: float
    place: float
    no_download: float
    tight: float
    limited_hardware: float
    missing_feature: float


class Ranking(msgspec.Struct, frozen=True):
    """rules/ranking.yaml."""

    source: str
    as_of: str
    points: RankingPoints
    tie: float
    plans: PlanRules


def load_ranking(rules: Catalog) -> Ranking:
    """The points from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "ranking.yaml", Ranking)


def score_deployment(
    entry: Engine,
    memory: MemoryEstimate,
    listed: list[str],
    facts: FactValues,
    features: Collection[str],
    ranking: Ranking,
    *,
    sure: bool,
    asked: bool,
    liked: bool,
    held: bool,
    offload: bool,
    queues: bool = False,
    late: bool = False,
    no_download: bool = False,
) -> dict[str, float]:
    """Points of one deployment by criterion; criteria that do not apply are left out. The sum orders, least first."""
    ranking_points = ranking.points
    support = hardware_support(entry, str(facts.get("gpu.vendor")))
    missing = sum(entry.features.get(f) is None or entry.features[f].support != "yes" for f in features)
    all_points = {
        "asked": ranking_points.asked * asked,
        "policy": ranking_points.policy * liked,
        "unsure": ranking_points.unsure * (not sure),
        "held_back": ranking_points.held_back * held,
        "offload": ranking_points.offload * offload,
        "queues": ranking_points.queues * queues,
        "late": ranking_points.late * late,
        "unlisted": ranking_points.unlisted * (entry.id not in listed),
        "place": ranking_points.place * (listed.index(entry.id) if entry.id in listed else 0),
        "no_download": ranking_points.no_download * no_download,
        "tight": round(ranking_points.tight * _tightness(memory), 4),
        "limited_hardware": ranking_points.limited_hardware * (support is None or support.support != "yes"),
        "missing_feature": round(ranking_points.missing_feature * missing, 4),
    }
    return {k: v for k, v in all_points.items() if v}


def _tightness(estimate: MemoryEstimate) -> float:
    """How much of the last tenth of the tightest budget is used, 0 to 1; 0 where no budget is known."""
    shares = [r.total_bytes / r.budget_bytes for r in estimate.devices if r.total_bytes and r.budget_bytes]
    return 0.0 if not shares else min(1.0, max(0.0, (max(shares) - FULL) / (1 - FULL)))


def brings_something(entry: Engine, plan: Plan, rules: Catalog) -> bool:
    """Whether the user has to bring something: a checkpoint that no download is known of, or files of a conversion."""
    needs = entry.start is not None and bool(entry.start.needs)
    return needs or make_model_reference(plan.deployment, rules).missing is not None
