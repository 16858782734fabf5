"""The choice of replicas as a covering problem: enough capacity for every demand on the nodes that are paid.

Nodes of a group are equal and are paid whole as soon as they carry a replica. A pool is the devices of one kind of a
group's nodes. Sizes of replicas are rounded up to powers of two, or to the whole node, because then they fill nodes
without a remainder that depends on the order: so many replicas of sizes s find room on y nodes of g devices exactly if
for every size s those of it and of larger sizes, counted in units of s, are at most floor(g / s) x y.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from advisor.record import Value

EPSILON = 1e-9
MOST_PAIRS = 200_000  # mixes of two kinds of replicas that are looked at for one demand


class NodeGroup(Value, frozen=True):
    """Equal nodes."""

    nodes: int
    price: float  # of one node, an hour
    paid: int = 0  # of the nodes that are paid already, whatever is planned


class DevicePool(Value, frozen=True):
    """The devices of one kind of each node of a group."""

    group: int
    devices: int  # free ones of a node; a node without accelerators counts as one


class Variant(Value, frozen=True):
    """One way to run a replica of a model."""

    demand: int
    pool: int
    devices: int  # of one node
    nodes: int  # that one replica takes, each of them whole where there are several
    capacity: float  # in the unit of the demand
    tie: float = 0.0  # what is preferred among equal costs has less


class Demand(Value, frozen=True):
    """What one model has to serve."""

    amount: float
    priority: int = 0  # the higher ones are served first where not all can be
    most_variants: int = 2  # kinds of replicas; each is one more thing to operate
    least_nodes: int = 1  # that its replicas stand on


class FleetProblem(Value, frozen=True):
    """Everything the solvers need."""

    groups: tuple[NodeGroup, ...]
    pools: tuple[DevicePool, ...]
    variants: tuple[Variant, ...]
    demands: tuple[Demand, ...]
    unit: int = 1  # parts of a device that devices are counted in, where replicas share them


class Solution(Value, frozen=True):
    """How many replicas of each variant run, and which demands are met."""

    replicas: tuple[int, ...]
    served: tuple[bool, ...]
    cost: float  # of all nodes that carry a replica or are paid anyway
    solver: str
    gap: float | None = None  # how much less any solution may cost, as a share; None = not known


def round_size(variant: Variant, pool: DevicePool) -> int:
    """Devices of a node that a replica takes up: the next power of two, or the whole node."""
    if variant.nodes > 1:
        return pool.devices
    size = 1 << (variant.devices - 1).bit_length()
    return size if size <= pool.devices else pool.devices


def is_whole(variant: Variant, pool: DevicePool) -> bool:
    """Whether a replica shares its nodes' devices with no other."""
    return variant.nodes > 1 or round_size(variant, pool) == pool.devices


def list_sizes(problem: FleetProblem, pool: int) -> list[int]:
    """The sizes for which room on a pool has to be counted, with 1 always."""
    shared = [
        round_size(v, problem.pools[pool])
        for v in problem.variants
        if v.pool == pool and not is_whole(v, problem.pools[pool])
    ]
    return sorted({1, *shared})


def count_nodes(problem: FleetProblem, pool: int, replicas: Sequence[int]) -> int:
    """Nodes of the pool's group that the replicas on it take."""
    here = problem.pools[pool]
    placed = [(v, n) for v, n in zip(problem.variants, replicas, strict=True) if n and v.pool == pool]
    whole = sum(n * v.nodes for v, n in placed if is_whole(v, here))
    shared: dict[int, int] = {}
    for v, n in placed:
        if not is_whole(v, here):
            shared[round_size(v, here)] = shared.get(round_size(v, here), 0) + n
    return whole + count_shared(here.devices, shared)


def count_shared(devices: int, replicas: Mapping[int, int]) -> int:
    """Nodes of so many devices that replicas share, which are given as numbers by size."""
    needed, units = 0, 0
    larger = 0  # the size before, in whose units are counted
    for size, n in sorted(replicas.items(), reverse=True):
        units = n + (units * (larger // size) if larger else 0)
        needed, larger = max(needed, -(-units // (devices // size))), size
    return needed


def count_group_nodes(problem: FleetProblem, replicas: Sequence[int]) -> list[int]:
    """Nodes of each group that carry a replica or are paid anyway."""
    used = [g.paid for g in problem.groups]
    for k, pool in enumerate(problem.pools):
        used[pool.group] = max(used[pool.group], count_nodes(problem, k, replicas))
    for k, demand in enumerate(problem.demands):
        if demand.least_nodes > 1:
            _spread(problem, k, replicas, used)
    return used


def count_replica_nodes(problem: FleetProblem, demand: int, replicas: Sequence[int]) -> list[int]:
    """Nodes of each group that the replicas of a demand stand on if each of them has its own."""
    out = [0] * len(problem.groups)
    for variant, n in zip(problem.variants, replicas, strict=True):
        if n and variant.demand == demand:
            out[problem.pools[variant.pool].group] += n * variant.nodes
    return out


def _spread(problem: FleetProblem, demand: int, replicas: Sequence[int], used: list[int]) -> None:
    """Take further nodes, the cheapest first, until the replicas can stand on as many as they should."""
    most = count_replica_nodes(problem, demand, replicas)
    different = sum(min(u, m) for u, m in zip(used, most, strict=True))
    while different < problem.demands[demand].least_nodes:
        more = [g for g, group in enumerate(problem.groups) if used[g] < min(most[g], group.nodes)]
        if not more:
            return
        used[min(more, key=lambda g: problem.groups[g].price)] += 1
        different += 1


def find_cost(problem: FleetProblem, replicas: Sequence[int]) -> float:
    """What the nodes cost an hour."""
    return sum(n * g.price for n, g in zip(count_group_nodes(problem, replicas), problem.groups, strict=True))


def has_room(problem: FleetProblem, replicas: Sequence[int]) -> bool:
    """Whether the replicas find room on the nodes that there are."""
    used = count_group_nodes(problem, replicas)
    return all(n <= g.nodes for n, g in zip(used, problem.groups, strict=True))


def list_served(problem: FleetProblem, replicas: Sequence[int]) -> tuple[bool, ...]:
    """Which demands the replicas meet: enough capacity, on enough nodes, by few enough variants."""
    out, used = [], count_group_nodes(problem, replicas)
    for k, demand in enumerate(problem.demands):
        here = [(v, n) for v, n in zip(problem.variants, replicas, strict=True) if v.demand == k and n]
        capacity = sum(v.capacity * n for v, n in here)
        most = count_replica_nodes(problem, k, replicas)
        out.append(
            capacity >= demand.amount * (1 - EPSILON)
            and sum(min(u, m) for u, m in zip(used, most, strict=True)) >= demand.least_nodes
            and len(here) <= demand.most_variants
        )
    return tuple(out)


def make_solution(problem: FleetProblem, replicas: Sequence[int], solver: str, gap: float | None = None) -> Solution:
    """The solution that these replicas are."""
    return Solution(tuple(replicas), list_served(problem, replicas), find_cost(problem, replicas), solver, gap)


def is_better(problem: FleetProblem, one: Solution, other: Solution) -> bool:
    """Whether a solution serves more of what comes first, or as much at a lower cost."""
    return _rank(problem, one) < _rank(problem, other)


def _rank(problem: FleetProblem, solution: Solution) -> tuple[tuple[int, ...], float]:
    levels = sorted({d.priority for d in problem.demands}, reverse=True)
    unserved = tuple(
        sum(d.priority == level and not ok for d, ok in zip(problem.demands, solution.served, strict=True))
        for level in levels
    )
    return unserved, solution.cost


def find_least_nodes(problem: FleetProblem, served: Sequence[bool]) -> int:
    """The fewest nodes that any plan stands on which serves these demands: a replica takes its share of a node and
    gives no more than its capacity, whatever stands next to it. Exact for one demand on one pool whose sizes divide
    each other."""
    needed = [_find_least_share(problem, k) for k, ok in enumerate(served) if ok]
    kinds = Counter(p.group for p in problem.pools)  # devices of several kinds on one node are shared out apart
    spread = max((d.least_nodes for d, ok in zip(problem.demands, served, strict=True) if ok), default=0)
    return max(spread, math.ceil(sum(needed) / max(kinds.values(), default=1) - 1e-6))


def _find_least_share(problem: FleetProblem, demand: int) -> float:
    """The least nodes, and parts of these, whose devices serve a demand by at most two kinds of replicas; by more kinds
    a replica may be given in part."""
    amount, most = problem.demands[demand].amount * (1 - EPSILON), problem.demands[demand].most_variants
    kinds = [
        (v.nodes if v.nodes > 1 else v.devices / problem.pools[v.pool].devices, v.capacity)
        for v in problem.variants
        if v.demand == demand and v.capacity > 0
    ]
    fewest = min((amount / capacity * share for share, capacity in kinds), default=0.0)
    count = sum(math.ceil(amount / capacity) for _, capacity in kinds)
    if most > 2 or count * len(kinds) > MOST_PAIRS:
        return fewest
    return min(
        (
            n * share + max(0, math.ceil((amount - n * capacity) / other)) * others
            for share, capacity in kinds
            for n in range(math.ceil(amount / capacity) + 1)
            for others, other in kinds
        ),
        default=fewest,
    )
