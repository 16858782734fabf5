"""Which node and which devices each replica gets. Large ones first, so that what is left fits the small ones."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.fleet.problem import FleetProblem, count_group_nodes, is_whole, round_size
from advisor.record import Value


class Place(Value, frozen=True):
    """Where one replica stands: nodes of its pool's group, and on each of them its devices, both counted from 0."""

    variant: int
    nodes: tuple[int, ...]
    devices: tuple[int, ...]


def place_replicas(problem: FleetProblem, replicas: Sequence[int]) -> list[Place] | None:
    """A place for every replica; None where nodes lack. Replicas of a demand that wants several nodes are spread."""
    paid = count_group_nodes(problem, replicas)
    taken: dict[tuple[int, int], int] = {}  # (pool, node) -> devices
    stands: set[tuple[int, int, int]] = set()  # (demand, group, node)
    order = [k for k, n in enumerate(replicas) for _ in range(n)]

    def size(k: int) -> int:
        return round_size(problem.variants[k], problem.pools[problem.variants[k].pool])

    order.sort(key=lambda k: (not _is_whole(problem, k), -size(k)))
    out: list[Place] = []
    for k in order:
        variant = problem.variants[k]
        pool = problem.pools[variant.pool]
        room = pool.devices - size(k)
        spread = problem.demands[variant.demand].least_nodes > 1
        free = [
            n
            for n in range(problem.groups[pool.group].nodes)
            if taken.get((variant.pool, n), 0) <= room and (n < paid[pool.group] or spread)
        ]
        if spread:
            free.sort(key=lambda n: ((variant.demand, pool.group, n) in stands, n >= paid[pool.group], n))
        else:  # where least is left over
            free.sort(key=lambda n: (-taken.get((variant.pool, n), 0), n))
        chosen = free[: variant.nodes]
        if len(chosen) < variant.nodes:
            return None
        first = taken.get((variant.pool, chosen[0]), 0)
        for n in chosen:
            taken[variant.pool, n] = taken.get((variant.pool, n), 0) + size(k)
            stands.add((variant.demand, pool.group, n))
        out.append(Place(k, tuple(chosen), tuple(range(first, first + variant.devices))))
    return out


def _is_whole(problem: FleetProblem, k: int) -> bool:
    return is_whole(problem.variants[k], problem.pools[problem.variants[k].pool])


def is_spread(problem: FleetProblem, places: Sequence[Place]) -> bool:
    """Whether the replicas of every demand stand on as many different nodes as it wants."""
    for k, demand in enumerate(problem.demands):
        mine = [p for p in places if problem.variants[p.variant].demand == k]
        nodes = {(problem.pools[problem.variants[p.variant].pool].group, n) for p in mine for n in p.nodes}
        if mine and len(nodes) < demand.least_nodes:
            return False
    return True
