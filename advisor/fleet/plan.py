"""`advise fleet plan`: which replicas of which model run on which nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.distribution import install_command
from advisor.fleet.candidates import make_replica_plan
from advisor.fleet.capacity import Confidence
from advisor.fleet.demand import ModelDemand
from advisor.fleet.fleet_rules import load_fleet_rules
from advisor.fleet.greedy import solve_greedily
from advisor.fleet.highs import SolverLimits, has_solver, solve_exactly
from advisor.fleet.keep import KeptReplica, RunningReplica, find_kept, without_kept
from advisor.fleet.offers import (
    PlannedDemand,
    PoolOffers,
    PosedProblem,
    Progress,
    collect_offers,
    complete,
    find_models,
    find_wider,
    get_capacity,
    pose_problem,
)
from advisor.fleet.plan_types import Changes, FleetCost, FleetPlan, Replica, SolverReport
from advisor.fleet.prices import NodePrices, find_node_prices
from advisor.fleet.problem import Solution, is_better
from advisor.fleet.replicas import make_replica, make_replicas
from advisor.fleet.types import Fleet, describe_pool
from advisor.fleet.unserved import explain_unserved, find_measurement
from advisor.record import Value


class FleetRequest(Value, frozen=True):
    """What is asked of `advise fleet plan`."""

    fleet: Fleet
    demands: tuple[ModelDemand, ...]
    confidence: Confidence = "likely"
    prices: str | None = None
    running: tuple[RunningReplica, ...] | None = None  # a plan to keep as far as it goes
    jobs: int = 1  # processes for what is worked out of every model and kind of node
    advice: bool = True  # whether to say what would help, and what to measure


class ChosenPlan(Value, frozen=True):
    """A solution of the problem as replicas on nodes."""

    posed: PosedProblem
    solution: Solution
    replicas: tuple[Replica, ...]


def plan_fleet(request: FleetRequest, rules: Catalog, progress: Progress | None = None) -> FleetPlan:
    """The plan of a fleet. Raises UnknownName, BadInput, BadFile for names and files that cannot be."""
    began = time.monotonic()
    demands = find_models(request.demands, rules)
    offers = collect_offers(request.fleet, demands, rules, progress, request.jobs)
    prices = find_node_prices(request.fleet, request.prices, rules)
    chosen, changes = choose_plan(offers, prices, request.confidence, rules), None
    money = find_money(chosen, prices)
    other: Confidence = "safe" if request.confidence == "likely" else "likely"
    second_posed = pose_problem(offers, prices, other)
    second = ChosenPlan(second_posed, solve(second_posed, rules), ())
    second_money = find_money(second, prices)
    if money is not None and second_money is not None and (second_money < money) is (other == "safe"):
        second_money = money  # within the solver's gap
    solutions = {request.confidence: chosen.solution, other: second.solution}
    if request.running is not None:
        kept = keep_plan(request, offers, demands, prices, rules)
        chosen, changes, money = kept if kept is not None else compare_plans(request.running, chosen, money)
    unserved = explain_unserved(
        chosen.posed, chosen.solution, offers, prices, request.confidence, request.advice, rules
    )
    costs = {request.confidence: money, other: second_money}
    return FleetPlan(
        confidence=request.confidence,
        replicas=chosen.replicas,
        unserved=unserved,
        cost_per_hour=FleetCost(likely=costs["likely"], safe=costs["safe"], currency=prices.currency),
        nodes_used=len({n for r in chosen.replicas for n in r.nodes}),
        measure=find_measurement(offers, prices, solutions) if request.advice and not unserved else None,
        solver=SolverReport(
            name=chosen.solution.solver, gap=chosen.solution.gap, seconds=round(time.monotonic() - began, 3)
        ),
        changes=changes,
        pools=tuple(map(describe_pool, request.fleet.pools)),
        set_aside=request.fleet.set_aside,
        notes=(*request.fleet.notes, *prices.notes, *list_notes(offers, request, chosen.replicas)),
    )


def choose_plan(offers: PoolOffers, prices: NodePrices, confidence: Confidence, rules: Catalog) -> ChosenPlan:
    """The best plan at one confidence, with its replicas."""
    posed = pose_problem(offers, prices, confidence)
    solution = solve(posed, rules)
    posed = widen_formats(posed, solution, offers, confidence)
    return ChosenPlan(posed, solution, make_replicas(posed, solution, offers, confidence, rules))


def keep_plan(
    request: FleetRequest,
    offers: PoolOffers,
    demands: Sequence[PlannedDemand],
    prices: NodePrices,
    rules: Catalog,
) -> tuple[ChosenPlan, Changes, float | None] | None:
    """What runs, with what has to be added; None where that does not serve everything."""
    kept, stopped = find_kept(request.running or (), offers, request.confidence)
    served = [sum(k.capacity for k in kept if k.demand == d) for d in range(len(demands))]
    short = [d for d, planned in enumerate(demands) if served[d] < planned.demand.amount * (1 - 1e-9)]
    for d, planned in enumerate(demands):
        nodes_of = {(offers.pools[k.pool].group, k.node) for k in kept if k.demand == d}
        if d not in short and len(nodes_of) < planned.demand.spread:
            return None
    rest = without_kept(request.fleet, offers, kept)
    left = collect_offers(rest, [demands[d] for d in short], rules, jobs=request.jobs, known=offers.known)
    amounts = [demands[d].demand.amount - served[d] for d in short]
    posed = pose_problem(left, find_node_prices(rest, request.prices, rules), request.confidence, left=amounts)
    solution = solve(posed, rules)
    if not all(solution.served):
        return None
    ports: dict[str, int] = {}
    shares = _share_demands(offers, kept, posed, solution, short)
    going = tuple(_keep_replica(k, offers, ports, shares[k.demand], request.confidence, rules) for k in kept)
    added = make_replicas(posed, solution, left, request.confidence, rules, ports, [shares[d] for d in short])
    nodes = {(offers.pools[k.pool].group, k.node) for k in kept}
    money = [prices.by_group.get(group) for group, _ in nodes]
    new = find_money(ChosenPlan(posed, solution, ()), find_node_prices(rest, request.prices, rules))
    total = None if new is None or None in money else new + sum(m for m in money if m is not None)
    whole = replace(solution, served=(True,) * len(demands), gap=None)
    changes = Changes(
        kept=len(going), started=len(added), stopped=tuple(f"{r.model} on {', '.join(r.nodes)}" for r in stopped)
    )
    return ChosenPlan(posed, whole, (*going, *added)), changes, total


def _share_demands(
    offers: PoolOffers, kept: Sequence[KeptReplica], posed: PosedProblem, solution: Solution, short: Sequence[int]
) -> list[float]:
    """Of each demand's replicas, the kept and the added ones, the share of their capacity that is used."""
    capacity = [sum(k.capacity for k in kept if k.demand == d) for d in range(len(offers.demands))]
    for variant, n in zip(posed.problem.variants, solution.replicas, strict=True):
        capacity[short[variant.demand]] += n * variant.capacity
    return [p.demand.amount / c if c else 1.0 for p, c in zip(offers.demands, capacity, strict=True)]


def _keep_replica(
    kept: KeptReplica, offers: PoolOffers, ports: dict[str, int], share: float, confidence: Confidence, rules: Catalog
) -> Replica:
    candidate = offers.offers[kept.demand, kept.pool].candidates[kept.candidate]
    served = get_capacity(candidate, confidence)
    assert served is not None
    pool = offers.pools[kept.pool]
    names = (pool.node_names[kept.node],)
    offset = ports.get(names[0], 0)
    ports[names[0]] = offset + 1
    made = complete(offers, kept.demand, kept.pool, candidate, rules)
    plan = make_replica_plan(made, served.users, kept.capacity * share)
    replica = make_replica(
        offers.demands[kept.demand].demand, plan, candidate, pool, names, kept.devices, offset, kept.capacity,
        share, rules,
    )  # fmt: skip
    return replace(replica, changed=False)


def compare_plans(
    running: Sequence[RunningReplica], chosen: ChosenPlan, money: float | None
) -> tuple[ChosenPlan, Changes, float | None]:
    """A plan that was made again, next to what runs."""
    left = [(r.model, r.engine, r.quantization, r.nodes, r.devices) for r in running]
    replicas = []
    for replica in chosen.replicas:
        kind = (replica.model, replica.engine, replica.quantization, replica.nodes, replica.devices)
        new = kind not in left
        if not new:
            left.remove(kind)
        replicas.append(replace(replica, changed=new))
    started = sum(bool(r.changed) for r in replicas)
    stopped = tuple(f"{kind[0]} on {', '.join(kind[3])}" for kind in left)
    changes = Changes(kept=len(replicas) - started, started=started, stopped=stopped)
    return replace(chosen, replicas=tuple(replicas)), changes, money


def solve(posed: PosedProblem, rules: Catalog) -> Solution:
    """The best plan: HiGHS's where it is installed, never one that is worse than the greedy."""
    start = solve_greedily(posed.problem)
    if not has_solver() or not posed.problem.variants:
        return start
    defaults = load_fleet_rules(rules)
    large = len(posed.problem.variants) >= defaults.large_from
    limits = SolverLimits(defaults.large_gap if large else defaults.gap, defaults.seconds)
    found = solve_exactly(posed.problem, limits, start)
    if found is None or is_better(posed.problem, start, found):
        return replace(start, gap=None)
    return found


def find_money(chosen: ChosenPlan, prices: NodePrices) -> float | None:
    """What the plan costs an hour; None where not everything is served or a price lacks."""
    posed, solution = chosen.posed, chosen.solution
    if not all(solution.served):
        return None
    used = {
        posed.groups[posed.problem.pools[v.pool].group]
        for v, n in zip(posed.problem.variants, solution.replicas, strict=True)
        if n
    }
    return round(solution.cost, 6) if used <= prices.by_group.keys() else None


def widen_formats(posed: PosedProblem, solution: Solution, offers: PoolOffers, confidence: Confidence) -> PosedProblem:
    """The same replicas in wider formats where these serve the demand as well."""
    candidates, variants = list(posed.candidates), list(posed.problem.variants)
    for d, planned in enumerate(offers.demands):
        mine = [k for k, v in enumerate(variants) if v.demand == d and solution.replicas[k]]
        total = sum(variants[k].capacity * solution.replicas[k] for k in mine)
        for k in mine:
            for wider in find_wider(offers, d, variants[k].pool, candidates[k]):
                served = get_capacity(wider, confidence)
                if served is None:
                    continue
                lost = (variants[k].capacity - served.amount) * solution.replicas[k]
                if total - lost >= planned.demand.amount:
                    total -= lost
                    candidates[k], variants[k] = wider, replace(variants[k], capacity=served.amount)
                    break
    return replace(posed, candidates=tuple(candidates), problem=replace(posed.problem, variants=tuple(variants)))


def list_notes(offers: PoolOffers, request: FleetRequest, replicas: Sequence[Replica]) -> list[str]:
    """What is worth knowing of the whole plan."""
    usable = {p.id for p in offers.pools}
    blind = [p.id for p in request.fleet.pools if p.id not in usable and p.devices and not p.memory_known]
    unseen = [p.id for p in request.fleet.pools if p.devices and p.devices_free is None]
    notes = []
    if blind:
        notes.append(
            f"not used, since the memory of their devices is not known (fleet show --probe): {', '.join(blind)}"
        )
    if unseen:
        notes.append(f"not used, since it is not known how many of their devices are free: {', '.join(unseen)}")
    for demand in request.demands:
        nodes = {n for r in replicas if r.name == demand.name for n in r.nodes}
        if nodes and len(nodes) < demand.spread:
            notes.append(f"{demand.name} stands on {len(nodes)} nodes where {demand.spread} were asked for")
    if not has_solver():
        notes.append(f"planned by the greedy alone: `{install_command('fleet')}` brings the solver HiGHS")
    return notes
