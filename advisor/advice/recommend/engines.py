"""Every engine asked for its best plan: what each offers, what it is worth, why others offer nothing."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.advice.recommend_request import GuideResult, RecommendRequest
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.filters import hardware_support, judge_engine, list_needed_features
from advisor.decision.types import Reason
from advisor.planning.search import find_best_plan, speculate_where_sure
from advisor.planning.types import Plan, Rejection, SearchRequest
from advisor.planning.utility import add_up, load_utility, value_plan
from advisor.record import Value
from advisor.render.words import make_model_reference
from advisor.session import Session


class EngineAnswers(Value, frozen=True):
    """The plans that were found, and what was refused."""

    offers: list[tuple[Worth, Engine, Plan]]
    rejected: dict[str, tuple[Reason, ...]]
    needs: dict[str, int]  # of what finds no room, bytes


def search_engines(
    request: RecommendRequest,
    guide_result: GuideResult,
    search: SearchRequest,
    asked: Engine | None,
    session: Session,
) -> EngineAnswers:
    """The best plan of each engine, and why others have none."""
    found, listed = EngineAnswers([], {}, {}), list(guide_result.decision.engines)
    offers, rejected, needs = found.offers, found.rejected, found.needs
    for entry in list_in_order(listed, asked, session.rules):
        if request.brief and entry.id not in listed and any(w.is_settled for w, _, _ in offers):
            break  # no engine that the guide does not name comes before that
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
            by = (
                f"pinned to {pinned[0]} by policy: {pinned[1]}"
                if pinned[1]
                else f"release {pinned[0]}, as it was named"
            )
            result = replace(result, notes=(*result.notes, by))
        offers.append((value_engine(entry, result, search, guide_result, asked, session.rules), entry, result))
    offers.sort(key=lambda x: x[0].order, reverse=True)
    if offers:
        _, entry, plan = offers[0]
        sooner = speculate_where_sure(entry, plan, search, session)
        if sooner is not plan:
            sooner = replace(sooner, tried=plan.tried, notes=plan.notes)
            offers[0] = value_engine(entry, sooner, search, guide_result, asked, session.rules), entry, sooner
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


class Worth(Value, frozen=True):
    """What an engine's plan is worth: the floors it is over, the first weighing the most, and the terms above them."""

    floors: dict[str, bool]
    terms: dict[str, float]

    @property
    def order(self) -> tuple[list[bool], float]:
        """What is better sorts later."""
        return [*self.floors.values()], add_up(self.terms)

    @property
    def is_settled(self) -> bool:
        """Whether it is over every floor but those that somebody's wishes make."""
        return all(held for name, held in self.floors.items() if name not in ("asked", "policy"))


def value_engine(
    entry: Engine, plan: Plan, search: SearchRequest, guide_result: GuideResult, asked: Engine | None, rules: Catalog
) -> Worth:
    """The worth of an engine's best plan among those of the others. Of engines the guide says which is the faster one,
    so that each place in its order counts and no predicted speed alone decides."""
    weights, decision, listed = load_utility(rules), guide_result.decision, list(guide_result.decision.engines)
    support = hardware_support(entry, str(guide_result.facts.get("gpu.vendor")))
    features = list_needed_features(search.workload)
    missing = sum(entry.features.get(f) is None or entry.features[f].support != "yes" for f in features)
    floors = {
        "asked": asked is not None and entry.id == asked.id,
        "starts": plan.starts is True,
        "download": not brings_something(entry, plan, rules),
        "policy": search.policy.preferred(entry.id, search.facts) is not None,
        # at a rate arrivals are the judge of targets, not so many users at once
        "pace": plan.on_time is not False or search.traffic.rate is not None,
        "listed": entry.id in listed,
        "not_held_back": not decision.held_back.get(entry.id),
    }
    own = {
        "place": -weights.place * (listed.index(entry.id) if entry.id in listed else len(listed)),
        "hardware": -weights.limited_hardware * (support is None or support.support != "yes"),
        "features": -weights.missing_feature * missing,
    }
    terms = {**value_plan(plan, search, rules), **own}
    return Worth(floors, {k: round(v, 4) for k, v in terms.items() if v})


def brings_something(entry: Engine, plan: Plan, rules: Catalog) -> bool:
    """Whether the user has to bring something: a checkpoint that no download is known of, or files of a conversion."""
    needs = entry.start is not None and bool(entry.start.needs)
    return needs or make_model_reference(plan.deployment, rules).missing is not None
