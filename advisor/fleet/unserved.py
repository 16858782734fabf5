"""What a plan leaves out and the smallest change that would serve it; and what to measure to plan more closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.fleet.candidates import CONFIDENCES, Confidence, Refusal, list_candidates, settle
from advisor.fleet.demand import load_fleet_rules
from advisor.fleet.greedy import solve_greedily
from advisor.fleet.offers import (
    NodePrices,
    PlannedDemand,
    PoolOffers,
    PosedProblem,
    find_accelerator,
    pose_problem,
)
from advisor.fleet.plan_types import Measurement, Unserved
from advisor.fleet.problem import Solution, Variant, count_group_nodes
from advisor.planning.targets import TARGETS, find_named_limits
from advisor.planning.traffic import read_traffic
from advisor.session import Session
from advisor.units import format_gib

MOST_EXTRA = 10_000  # nodes that may be added
MOST_PAIRS = 12  # of model and card that are tried as measured
WORST_FIRST = ("too_slow", "does_not_fit", "unknown", "engine", "licence")


def explain_unserved(
    solution: Solution, offers: PoolOffers, prices: NodePrices, confidence: Confidence, advice: bool, session: Session
) -> tuple[Unserved, ...]:
    """Every demand that is not served, why, and what would serve it."""
    out = []
    for (d, _), offer in offers.offers.items():
        for candidate in list(offer.candidates) if not solution.served[d] else ():
            offer.settle(candidate)  # the reason has figures, and bounds are none
    posed = pose_problem(offers, prices, confidence) if not all(solution.served) else None
    for d, planned in enumerate(offers.demands):
        if posed is not None and not solution.served[d]:
            code, why, helps = _explain(d, posed, solution, offers, prices, advice, session)
            demand = planned.demand
            out.append(Unserved(model=demand.model, name=demand.name, code=code, why=why, what_would_help=helps))
    return tuple(out)


def _explain(
    d: int,
    posed: PosedProblem,
    solution: Solution,
    offers: PoolOffers,
    prices: NodePrices,
    advice: bool,
    session: Session,
) -> tuple[str, str, str | None]:
    """(code, why, what would help)."""
    planned = offers.demands[d]
    if planned.refusal is not None:
        return planned.refusal.code, planned.refusal.text, "another model, or `licence` left out"
    mine = [v for v in posed.problem.variants if v.demand == d]
    if mine:
        more = _find_more_nodes(d, posed, solution, offers, prices) if advice else None
        return "no_room", _describe_lack(d, mine, posed, offers), more
    found = [o for (k, _), o in offers.offers.items() if k == d]
    if any(
        c.serves for o in found for c in o.candidates
    ):  # in time as predicted, but not at the low end of the predictions
        why = "its targets are met by the likely speeds only, not by their low bounds"
        helps = "`--confidence likely`, looser targets, or `advise calibrate` with a measurement of this model here"
        return "too_slow", why, helps
    refusals = [o.refusal for o in found if o.refusal is not None]
    if not found and offers.pools:
        where = ", ".join(f"{k}={v}" for k, v in planned.demand.where.items())
        spot = {None: "", True: "spot nodes", False: "nodes that are not spot"}[planned.demand.spot]
        return "where", f"no usable pool is where it may stand: {' and '.join(filter(None, (where, spot)))}", None
    if any(o.candidates for o in found):
        return "too_slow", "its targets are not met by one request alone", "looser targets, or a smaller model"
    if not refusals:
        why = "no pool can be planned for: it is not known which devices are free, or how much memory they have"
        helps = "--pods (Kubernetes), `scontrol show node -o -d` (Slurm), `advise fleet show --probe`"
        return "unknown", why, helps
    worst = min(refusals, key=lambda r: (WORST_FIRST.index(r.code), r.needs_bytes or 0))
    return worst.code, _describe(worst, planned, session), _find_other_help(planned, worst, session) if advice else None


def _describe(refusal: Refusal, planned: PlannedDemand, session: Session) -> str:
    """Why, with the figures."""
    text = f"no node of the fleet holds it: {refusal.text}" if refusal.code == "does_not_fit" else refusal.text
    times, work = refusal.times, planned.demand.workload
    if times is None:
        return text
    limits = find_named_limits(work)
    missed = [
        f"{t.name} {times.times[t.figure]:.3g} s"
        for t in reversed(TARGETS)
        if t.figure in times.times and (t.figure not in limits or times.times[t.figure] > limits[t.figure].most)
    ]
    why = f"the targets are not met by one request alone: {' and '.join(missed) or text} at best"
    if work.prompt_p95 is not None or not any("first token" in m or "whole answer" in m for m in missed):
        return why
    longest = read_traffic(work, planned.found.model.max_context, session.rules).prompt.p95
    return f"{why}, with a prompt of {longest:,} tokens, which is assumed for one in twenty (`prompt_p95`)"


def _describe_lack(d: int, mine: Sequence[Variant], posed: PosedProblem, offers: PoolOffers) -> str:
    """How much of the demand the fleet could serve if it served nothing else."""
    unit = "requests a second" if offers.demands[d].demand.workload.rate is not None else "users"
    by_pool: dict[int, float] = {}
    for v in mine:
        pool = posed.problem.pools[v.pool]
        nodes = posed.problem.groups[pool.group].nodes
        count = nodes // v.nodes if v.nodes > 1 else nodes * (pool.devices // v.devices)
        by_pool[v.pool] = max(by_pool.get(v.pool, 0.0), count * v.capacity)
    most, wanted = sum(by_pool.values()), offers.demands[d].demand
    amount = posed.problem.demands[d].amount
    if wanted.survive:
        lost = f"{wanted.survive} node{'s' * (wanted.survive > 1)}"
        return f"too few nodes can carry it for {wanted.amount:.3g} {unit} to be served after {lost} are lost"
    if most < amount:
        return f"all usable nodes together serve {most:.3g} of {amount:.3g} {unit}"
    return f"the other models leave too few devices for {amount:.3g} {unit}"


def _find_more_nodes(
    d: int, posed: PosedProblem, solution: Solution, offers: PoolOffers, prices: NodePrices
) -> str | None:
    """The cheapest addition of equal nodes of one pool that serves everything this plan serves and this demand."""
    demands = tuple(
        demand if solution.served[k] or k == d else replace(demand, amount=1e-12, least_nodes=1)
        for k, demand in enumerate(posed.problem.demands)
    )
    best: tuple[float, int, str] | None = None
    for g, group in enumerate(posed.problem.groups):
        here = [
            v for v in posed.problem.variants if v.demand == d and posed.problem.pools[v.pool].group == g and v.capacity
        ]
        if not here:
            continue
        groups = list(posed.problem.groups)
        groups[g] = replace(group, nodes=group.nodes + MOST_EXTRA)
        found = solve_greedily(replace(posed.problem, groups=tuple(groups), demands=demands))
        if not found.served[d] or not all(s for k, s in enumerate(found.served) if solution.served[k]):
            continue
        more = max(1, count_group_nodes(replace(posed.problem, groups=tuple(groups)), found.replicas)[g] - group.nodes)
        pool = next(p for p in offers.pools if p.group == posed.groups[g])
        cost = more * group.price
        if best is None or cost < best[0]:
            best = (cost, more, pool.id)
    if best is None:
        return None
    cost, more, name = best
    priced = f" ({cost:.4g} {prices.currency or ''} an hour)".replace(" )", ")") if name and prices.by_group else ""
    return f"{more} more node{'s' if more > 1 else ''} like {name}{priced}"


def _find_other_help(planned: PlannedDemand, refusal: Refusal, session: Session) -> str | None:
    """What would serve a model that no node here does: hardware by name, looser targets, another format."""
    if refusal.code == "engine":
        return "other `engines`, or none named" if planned.demand.engines else None
    if refusal.code == "unknown":
        return "a measurement: `advise calibrate` with a benchmark of this model on this hardware"
    for words in load_fleet_rules(session.rules).would_help:
        try:
            machine = find_machine(words, session.rules)
        except AdvisorError:
            continue
        if any(
            "likely" in settle(c).serves
            for c in list_candidates(planned.demand, planned.found, machine, 1, session).candidates
        ):
            return f"a node with {words.partition(',')[0]}"
    if refusal.code == "too_slow":
        return "looser targets (`ttft_s`, `tpot_s`, `e2e_s`), or a smaller model"
    if refusal.needs_bytes is not None:
        return f"devices with {format_gib(refusal.needs_bytes, 0)} of memory on one node"
    return None


def find_measurement(
    offers: PoolOffers,
    prices: NodePrices,
    solutions: Mapping[Confidence, tuple[PosedProblem, Solution]],
) -> Measurement | None:
    """The model and card whose measured speed would bring the safe plan nearest to the likely one; None where both are
    the same."""
    safe, likely = solutions["safe"][1], solutions["likely"][1]
    if all(safe.served) and safe.cost <= likely.cost * 1.01:
        return None
    base = pose_problem(offers, prices, "safe", settled=True)
    start = solve_greedily(base.problem)
    pairs: dict[tuple[int, str | None], float] = {}
    for confidence in CONFIDENCES:
        posed, solution = solutions[confidence]
        for v, n in zip(posed.problem.variants, solution.replicas, strict=True):
            if n:
                key = v.demand, find_accelerator(offers.pools[v.pool])
                pairs[key] = pairs.get(key, 0.0) + n * v.devices * v.nodes
    best: tuple[int, float, tuple[int, str | None]] | None = None
    for pair in sorted(pairs, key=lambda x: -pairs[x])[:MOST_PAIRS]:
        found = solve_greedily(pose_problem(offers, prices, "safe", [pair], settled=True).problem)
        missing = sum(not s for s in found.served)
        if best is None or (missing, found.cost) < best[:2]:
            best = (missing, found.cost, pair)
    if best is None:
        return None
    missing, cost, (d, accelerator) = best
    before = sum(not s for s in start.served)
    if missing > before or (missing == before and cost >= start.cost - 1e-9):
        return None
    pool = next(p for p in offers.pools if find_accelerator(p) == accelerator)
    planned = offers.demands[d]
    candidate = next((c for c in offers.offers[d, offers.pools.index(pool)].candidates if "likely" in c.serves), None)
    engine = f" --engine {candidate.engine}" if candidate is not None else ""
    saves = round(start.cost - cost, 6) if missing == before == 0 and prices.by_group else None
    return Measurement(
        model=planned.demand.model,
        hardware=accelerator or pool.id,
        saves_per_hour=saves,
        command=f"advise calibrate RESULT{engine} --model {planned.demand.model} --on '{pool.machine.text}'",
    )
