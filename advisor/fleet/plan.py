"""`advise fleet plan`: which replicas of which model run on which nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from advisor.distribution import install_command
from advisor.fleet.candidates import Confidence, ReplicaCandidate, make_replica_plan
from advisor.fleet.demand import ModelDemand
from advisor.fleet.highs import has_solver
from advisor.fleet.offers import (
    NodePrices,
    PlannedDemand,
    PoolOffers,
    PosedProblem,
    Progress,
    collect_offers,
    complete,
    find_free_indices,
    find_models,
    find_node_prices,
    find_wider,
)
from advisor.fleet.plan_types import Changes, FleetCost, FleetPlan, Replica, SolverReport, Unserved, read_plan
from advisor.fleet.problem import Solution, find_least_nodes
from advisor.fleet.replicas import make_replica, make_replicas
from advisor.fleet.surviving import find_least_left, solve_demands, solve_settled
from advisor.fleet.types import Fleet, Pool, describe_pool
from advisor.fleet.unserved import explain_unserved, find_measurement
from advisor.record import Value
from advisor.session import Session
from advisor.speed.efficiencies import READS_ONLY


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


class RunningReplica(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a replica of a plan; further fields are left alone."""

    model: str
    engine: str
    quantization: str
    nodes: tuple[str, ...]
    devices: int
    device_indices: tuple[int, ...] = ()
    name: str | None = None


class RunningPlan(msgspec.Struct, frozen=True):
    """The part of a plan that says what runs where."""

    replicas: tuple[RunningReplica, ...]


class KeptReplica(Value, frozen=True):
    """A running replica that goes on: which demand, pool and candidate it is, on which node, with which devices."""

    demand: int
    pool: int
    candidate: ReplicaCandidate
    node: int  # position in the pool
    devices: tuple[int, ...]  # positions among the free devices of the node
    capacity: float


def plan_fleet(request: FleetRequest, session: Session, progress: Progress | None = None) -> FleetPlan:
    """The plan of a fleet. Raises UnknownName, BadInput, BadFile for names and files that cannot be."""
    rules = session.rules
    began = time.monotonic()
    unsized: list[Unserved] = []
    demands = find_models(request.demands, rules, unsized)
    offers = collect_offers(request.fleet, demands, session, progress, request.jobs)
    prices = find_node_prices(request.fleet, request.prices, rules)
    chosen, changes = choose_plan(offers, prices, request.confidence, session), None
    least: int | None = find_least_nodes(chosen.posed.problem, chosen.solution.served)
    money = find_money(chosen, prices)
    other: Confidence = "safe" if request.confidence == "likely" else "likely"
    second = ChosenPlan(*solve_demands(offers, prices, other, rules), ())
    second_money = find_money(second, prices)
    if money is not None and second_money is not None and (second_money < money) is (other == "safe"):
        second_money = money  # within the solver's gap
    solutions = {request.confidence: (chosen.posed, chosen.solution), other: (second.posed, second.solution)}
    if request.running is not None:
        kept = keep_plan(request, offers, demands, prices, session)
        chosen, changes, money = kept or (*compare_plans(request.running, chosen), money)
        least = None if kept else least
    unserved = explain_unserved(chosen.solution, offers, prices, request.confidence, request.advice, session)
    costs = {request.confidence: money, other: second_money}
    return FleetPlan(
        confidence=request.confidence,
        replicas=chosen.replicas,
        unserved=(*unserved, *unsized),
        cost_per_hour=FleetCost(likely=costs["likely"], safe=costs["safe"], currency=prices.currency),
        nodes_used=len({n for r in chosen.replicas for n in r.nodes}),
        least_nodes=least,
        measure=find_measurement(offers, prices, solutions) if request.advice and not unserved else None,
        solver=SolverReport(
            name=chosen.solution.solver, gap=chosen.solution.gap, seconds=round(time.monotonic() - began, 3)
        ),
        changes=changes,
        pools=tuple(map(describe_pool, request.fleet.pools)),
        set_aside=request.fleet.set_aside,
        notes=(*request.fleet.notes, *prices.notes, *list_notes(offers, request, chosen.replicas)),
    )


def choose_plan(offers: PoolOffers, prices: NodePrices, confidence: Confidence, session: Session) -> ChosenPlan:
    """The best plan at one confidence, with its replicas."""
    posed, solution = solve_demands(offers, prices, confidence, session.rules)
    posed = widen_formats(posed, solution, offers, confidence)
    return ChosenPlan(posed, solution, make_replicas(posed, solution, offers, confidence, session))


def keep_plan(
    request: FleetRequest,
    offers: PoolOffers,
    demands: Sequence[PlannedDemand],
    prices: NodePrices,
    session: Session,
) -> tuple[ChosenPlan, Changes, float | None] | None:
    """What runs, with what has to be added; None where that does not serve everything."""
    rules = session.rules
    if any(d.demand.survive or d.demand.least > 1 or d.demand.share_card for d in demands):
        return None  # how replicas stand is planned as a whole
    kept, stopped = find_kept(request.running or (), offers, request.confidence)
    served = [sum(k.capacity for k in kept if k.demand == d) for d in range(len(demands))]
    short = [d for d, planned in enumerate(demands) if served[d] < planned.demand.amount * (1 - 1e-9)]
    for d, planned in enumerate(demands):
        nodes_of = {(offers.pools[k.pool].group, k.node) for k in kept if k.demand == d}
        if d not in short and len(nodes_of) < planned.demand.spread:
            return None
    rest = without_kept(request.fleet, offers, kept)
    left = collect_offers(rest, [demands[d] for d in short], session, jobs=request.jobs, known=offers.known)
    amounts = [demands[d].demand.amount - served[d] for d in short]
    rest_prices = find_node_prices(rest, request.prices, rules)
    posed, solution = solve_settled(left, rest_prices, request.confidence, rules, left=amounts)
    if not all(solution.served):
        return None
    ports: dict[str, int] = {}
    shares = _share_demands(offers, kept, posed, solution, short)
    going = tuple(_keep_replica(k, offers, ports, shares[k.demand], request.confidence, session) for k in kept)
    added = make_replicas(posed, solution, left, request.confidence, session, ports, [shares[d] for d in short])
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
    kept: KeptReplica, offers: PoolOffers, ports: dict[str, int], share: float, confidence: Confidence, session: Session
) -> Replica:
    candidate = kept.candidate
    made = complete(offers, kept.demand, kept.pool, candidate, session)
    plan = make_replica_plan(made, candidate.serves[confidence].users, kept.capacity * share)
    place = (kept.node,), kept.devices
    replica = make_replica(offers, kept.demand, kept.pool, candidate, plan, place, kept.capacity, share, ports, session)
    return replace(replica, changed=False)


def compare_plans(running: Sequence[RunningReplica], chosen: ChosenPlan) -> tuple[ChosenPlan, Changes]:
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
    return replace(chosen, replicas=tuple(replicas)), changes


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
                amount = wider.amount(confidence)
                lost = (variants[k].capacity - amount) * solution.replicas[k]
                if confidence in wider.serves and total - lost >= planned.demand.amount:
                    total -= lost
                    candidates[k], variants[k] = wider, replace(variants[k], capacity=amount)
                    break
    return replace(posed, candidates=tuple(candidates), problem=replace(posed.problem, variants=tuple(variants)))


def list_notes(offers: PoolOffers, request: FleetRequest, replicas: Sequence[Replica]) -> list[str]:
    """What is worth knowing of the whole plan."""
    usable = {p.id for p in offers.pools}
    blind = [p.id for p in request.fleet.pools if p.id not in usable and p.devices and not p.memory_known]
    unseen = [p.id for p in request.fleet.pools if p.devices and p.devices_free is None]
    notes = list(dict.fromkeys(d.found.note for d in offers.demands if d.found.note))
    if blind:
        notes.append(
            f"not used, since the memory of their devices is not known (fleet show --probe): {', '.join(blind)}"
        )
    if unseen:
        notes.append(f"not used, since it is not known how many of their devices are free: {', '.join(unseen)}")
    for demand in request.demands:
        nodes = {n for r in replicas if r.name == demand.name for n in r.nodes}
        if nodes and len(nodes) < demand.spread:
            notes.append(f"{demand.name} runs on {len(nodes)} nodes where {demand.spread} were asked for")
        if len(nodes) > 1 and demand.spread > 1 and not demand.survive:
            left = find_least_left([r for r in replicas if r.name == demand.name], 1) / demand.amount
            if left < 1:
                notes.append(f"{demand.name}: after the loss of one node {left:.0%} of it are served (`survive: 1`)")
    if any(d.found.model.kind != "chat" and r.name == d.demand.name for d in offers.demands for r in replicas):
        notes.append(READS_ONLY)
    if any(r.card_share < 1 for r in replicas):
        notes.append("replicas that share a card have their part of its memory, and are as slow as if they took turns")
    if not has_solver():
        notes.append(f"planned by the greedy alone: `{install_command('fleet')}` brings the solver HiGHS")
    return notes


def read_running(path: str) -> tuple[RunningReplica, ...]:
    """The replicas of a plan in JSON. Raises BadFile for what is none."""
    return read_plan(path, RunningPlan).replicas


def find_kept(
    running: Sequence[RunningReplica], offers: PoolOffers, confidence: Confidence
) -> tuple[list[KeptReplica], list[RunningReplica]]:
    """(replicas that go on, those that cannot). A replica goes on where its model is asked for, its node is there and
    its kind is still offered; of a model no more than are needed."""
    kept: list[KeptReplica] = []
    stopped: list[RunningReplica] = []
    served = [0.0] * len(offers.demands)
    for replica in running:
        choices = (k for k in _list_matches(replica, offers, confidence) if not _overlaps(k, kept))
        found = next(choices, None)
        if found is None or served[found.demand] >= offers.demands[found.demand].demand.amount:
            stopped.append(replica)
            continue
        served[found.demand] += found.capacity
        kept.append(found)
    return kept, stopped


def _overlaps(one: KeptReplica, others: Sequence[KeptReplica]) -> bool:
    return any((one.pool, one.node) == (o.pool, o.node) and set(one.devices) & set(o.devices) for o in others)


def _list_matches(replica: RunningReplica, offers: PoolOffers, confidence: Confidence) -> Iterator[KeptReplica]:
    """What of the offers a running replica is. One over several nodes is none: it is planned again."""
    if len(replica.nodes) != 1:
        return
    for (d, p), offer in offers.offers.items():
        planned, pool = offers.demands[d], offers.pools[p]
        demand = planned.demand
        if replica.model not in (demand.model, planned.found.model.id) or replica.name not in (None, demand.name):
            continue
        free = find_free_indices(pool) if pool.devices else (0,)
        positions = replica.device_indices or free[: max(1, replica.devices)]
        if replica.nodes[0] not in pool.node_names or not set(positions) <= set(free):
            continue
        node, devices = pool.node_names.index(replica.nodes[0]), tuple(free.index(x) for x in positions)
        asked = replica.engine, replica.quantization, max(1, replica.devices), 1, 1.0
        for candidate in list(offer.candidates):
            if candidate.kind != asked:
                continue
            candidate = offer.settle(candidate)
            if confidence in candidate.serves:
                yield KeptReplica(d, p, candidate, node, devices, candidate.amount(confidence))


def without_kept(fleet: Fleet, offers: PoolOffers, kept: Sequence[KeptReplica]) -> Fleet:
    """The fleet as it is for what is added: nodes of kept replicas are pools of their own, with the devices that are
    left, and cost nothing more."""
    taken: dict[tuple[str, str], set[int]] = {}  # (pool, node) -> positions among the free devices
    for k in kept:
        pool = offers.pools[k.pool]
        taken.setdefault((pool.id, pool.node_names[k.node]), set()).update(k.devices)
    used = {(offers.pools[k.pool].group, offers.pools[k.pool].node_names[k.node]) for k in kept}
    out: list[Pool] = []
    for pool in fleet.pools:
        rest = tuple(n for n in pool.node_names if (pool.group, n) not in used)
        if rest:
            out.append(replace(pool, node_names=rest))
        for name in pool.node_names:
            if (pool.group, name) not in used:
                continue
            gone = taken.get((pool.id, name), set())
            left = tuple(x for k, x in enumerate(find_free_indices(pool)) if k not in gone)
            if not left or (not pool.devices and gone):
                continue
            out.append(
                replace(
                    pool,
                    id=f"{pool.id} ({name})",
                    group=f"{pool.group} ({name})",
                    node_names=(name,),
                    devices_free=len(left) if pool.devices else pool.devices_free,
                    free_indices=left if pool.devices else None,
                    price_per_hour=0.0,
                )
            )
    return replace(fleet, pools=tuple(out))
