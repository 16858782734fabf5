"""Replicas of a solution as they are started: each with its nodes, cards, port, command and share of the demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from advisor import engines
from advisor.fleet.candidates import Confidence, ReplicaCandidate, make_replica_plan
from advisor.fleet.offers import (
    PoolOffers,
    PosedProblem,
    complete,
    find_free_indices,
    is_sliced,
)
from advisor.fleet.plan_types import Replica
from advisor.fleet.problem import FleetProblem, Solution, count_group_nodes, is_whole, round_size
from advisor.planning.layouts import show_devices
from advisor.planning.types import Plan
from advisor.record import Value
from advisor.render.copies import render_commands
from advisor.session import Session


class Place(Value, frozen=True):
    """Where one replica stands: nodes of its pool's group, and on each of them its devices, both counted from 0."""

    variant: int
    nodes: tuple[int, ...]
    devices: tuple[int, ...]


def place(posed: PosedProblem, solution: Solution) -> list[Place]:
    """A place for each replica of the demands that are served."""
    counts = [n if solution.served[v.demand] else 0
              for v, n in zip(posed.problem.variants, solution.replicas, strict=True)]  # fmt: skip
    places = place_replicas(posed.problem, counts)
    if places is None or not is_spread(posed.problem, places):  # nodes that were not counted on may be needed
        every = tuple(replace(g, paid=g.nodes) for g in posed.problem.groups)
        places = place_replicas(replace(posed.problem, groups=every), counts) or places
    if places is None:  # spreading left no most_taken for a large one: closer together, which the notes say
        together = tuple(replace(d, least_nodes=1) for d in posed.problem.demands)
        places = place_replicas(replace(posed.problem, groups=every, demands=together), counts)
    assert places is not None, "sizes that fill nodes without a remainder find their places"
    return places


def make_replicas(
    posed: PosedProblem,
    solution: Solution,
    offers: PoolOffers,
    confidence: Confidence,
    session: Session,
    ports: dict[str, int] | None = None,
    shares: Sequence[float] | None = None,
) -> tuple[Replica, ...]:
    """The replicas as they are started: each with its nodes, devices, port and share of the demand.

    `ports`: how many servers a node has already; `shares`: of the capacity of a demand's replicas what it uses.
    """
    places, ports = place(posed, solution), {} if ports is None else ports
    served = [0.0] * len(offers.demands)
    for p in places:
        variant = posed.problem.variants[p.variant]
        served[variant.demand] += variant.capacity
    if shares is None:
        shares = [d.demand.amount / s if s else 1.0 for d, s in zip(offers.demands, served, strict=True)]
    plans: dict[int, Plan] = {}
    out = []
    for p in sorted(places, key=lambda x: (posed.problem.variants[x.variant].demand, x.variant, x.nodes, x.devices)):
        variant, candidate = posed.problem.variants[p.variant], posed.candidates[p.variant]
        if p.variant not in plans:
            made = complete(offers, variant.demand, variant.pool, candidate, session)
            users = candidate.serves[confidence].users
            plans[p.variant] = make_replica_plan(made, users, variant.capacity * shares[variant.demand])
        replica = make_replica(
            offers, variant.demand, variant.pool, candidate, plans[p.variant], (p.nodes, p.devices), variant.capacity,
            shares[variant.demand], ports, session,
        )  # fmt: skip
        out.append(replica)
    return tuple(out)


def make_replica(
    offers: PoolOffers,
    demand: int,
    pool: int,
    candidate: ReplicaCandidate,
    plan: Plan,
    place: tuple[tuple[int, ...], tuple[int, ...]],
    capacity: float,
    share: float,
    ports: dict[str, int],
    session: Session,
) -> Replica:
    """One replica at its place: nodes of the pool, and free devices of each. `share`: of its capacity that the demand
    takes; `ports`: how many servers a node has already, which this one joins."""
    here, entry = offers.pools[pool], session.rules.engine(candidate.engine)
    names = tuple(here.node_names[n] for n in place[0])
    offset = ports.get(names[0], 0)
    ports[names[0]] = offset + 1
    free = find_free_indices(here)
    indices = tuple(free[k] for k in place[1]) if here.devices else ()
    deployment = replace(plan.deployment, port=(entry.port or 8000) + offset)
    if here.devices and len(indices) < here.devices and not is_sliced(here):
        numbers = tuple(here.machine.devices[k].index for k in indices)
        deployment = show_devices(deployment, numbers)
    decided = engines.decide_settings(deployment, session.rules.engines(), plan.quantization)
    row = next(iter(plan.memory.devices), plan.memory.host)
    tight = row.high_bytes / row.budget_bytes if row is not None and row.high_bytes and row.budget_bytes else None
    return Replica(
        name=offers.demands[demand].demand.name,
        model=deployment.model.id,
        engine=candidate.engine,
        engine_version=deployment.engine_version or entry.version,
        quantization=candidate.quantization,
        settings={d.name: d.value for d in decided},
        pool=here.id,
        hardware=here.machine.text,
        nodes=names,
        devices=len(indices) * len(names),
        card_share=candidate.part,
        device_indices=indices,
        port=deployment.port or 8000,
        context_length=plan.memory.context_length,
        sequences=deployment.sequences,
        command=render_commands([deployment], session, len(names)),
        load=round(capacity * share, 6),
        capacity=round(capacity, 6),
        headroom=round(1 / share - 1, 4),
        holds=plan.holds,
        speed=plan.speed,
        memory_share=round(tight, 4) if tight is not None else None,
    )


def place_replicas(problem: FleetProblem, replicas: Sequence[int]) -> list[Place] | None:
    """A place for every replica; None where nodes lack. Replicas of a demand that wants several nodes are spread."""
    paid = count_group_nodes(problem, replicas)
    taken: dict[tuple[int, int], int] = {}  # (pool, node) -> devices
    stands: Counter[tuple[int, int, int]] = Counter()  # (demand, group, node) -> replicas
    order = [k for k, n in enumerate(replicas) for _ in range(n)]

    def size(k: int) -> int:
        return round_size(problem.variants[k], problem.pools[problem.variants[k].pool])

    def is_shared(k: int) -> bool:
        return not is_whole(problem.variants[k], problem.pools[problem.variants[k].pool])

    order.sort(key=lambda k: (is_shared(k), -size(k)))
    out: list[Place] = []
    for k in order:
        variant = problem.variants[k]
        pool = problem.pools[variant.pool]
        most_taken = pool.devices - size(k)
        spread = problem.demands[variant.demand].least_nodes > 1
        free = [
            n
            for n in range(problem.groups[pool.group].nodes)
            if taken.get((variant.pool, n), 0) <= most_taken and (n < paid[pool.group] or spread)
        ]
        if spread:
            free.sort(key=lambda n: (stands[variant.demand, pool.group, n], n >= paid[pool.group], n))
        else:  # where least is left over
            free.sort(key=lambda n: (-taken.get((variant.pool, n), 0), n))
        chosen = free[: variant.nodes]
        if len(chosen) < variant.nodes:
            return None
        first = taken.get((variant.pool, chosen[0]), 0)
        for n in chosen:
            taken[variant.pool, n] = taken.get((variant.pool, n), 0) + size(k)
            stands[variant.demand, pool.group, n] += 1
        last = first + variant.devices - 1
        out.append(Place(k, tuple(chosen), tuple(range(first // problem.unit, last // problem.unit + 1))))
    return out


def is_spread(problem: FleetProblem, places: Sequence[Place]) -> bool:
    """Whether the replicas of every demand stand on as many different nodes as it wants."""
    for k, demand in enumerate(problem.demands):
        mine = [p for p in places if problem.variants[p.variant].demand == k]
        nodes = {(problem.pools[problem.variants[p.variant].pool].group, n) for p in mine for n in p.nodes}
        if mine and len(nodes) < demand.least_nodes:
            return False
    return True
