"""Plans without a solver: demands one after the other, each by the variant that adds least to the bill for what it
serves; then whatever can be left out is left out, and replicas move to where they save a node.

It is the check of the solver, too: no plan costs more than this one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.fleet.problem import (
    EPSILON,
    FleetProblem,
    Solution,
    count_shared,
    is_better,
    is_whole,
    make_solution,
    round_size,
)

ROUNDS = 4  # of improvement
MOST = 10_000  # replicas in one step
SEVERAL = 8  # pools next to which single ones are tried alone, too


def solve_greedily(problem: FleetProblem) -> Solution:
    """The best of several greedy plans: over all pools, and over each group alone."""
    found = [_solve(problem, None, order) for order in _list_orders(problem)]
    if 1 < len(problem.groups) <= SEVERAL:
        found += [_solve(problem, group, _list_orders(problem)[0]) for group in range(len(problem.groups))]
    best = found[0]
    for other in found[1:]:
        best = other if is_better(problem, other, best) else best
    return best


def _list_orders(problem: FleetProblem) -> list[list[int]]:
    """Demands by priority; of one priority those with few variants first, or the large ones first."""
    sizes: list[list[int]] = [[] for _ in problem.demands]  # devices of as many replicas of a variant as are needed
    for v in problem.variants:
        needed = max(1, math.ceil(problem.demands[v.demand].amount / v.capacity - EPSILON))
        sizes[v.demand].append(needed * v.devices * v.nodes)
    least = [min(x, default=0) for x in sizes]
    every = range(len(problem.demands))
    return [
        sorted(every, key=lambda k: (-problem.demands[k].priority, len(sizes[k]), -least[k])),
        sorted(every, key=lambda k: (-problem.demands[k].priority, -least[k])),
    ]


class _State:
    """Replicas so far, with the nodes that they take: only the pool that changes is counted again."""

    def __init__(self, problem: FleetProblem) -> None:
        self.problem = problem
        self.replicas = [0] * len(problem.variants)
        self.whole = [0] * len(problem.pools)  # nodes of replicas that share them with none
        self.shared: list[dict[int, int]] = [{} for _ in problem.pools]  # the others: number by size
        self.by_demand: list[list[int]] = [[] for _ in problem.demands]
        for k, variant in enumerate(problem.variants):
            self.by_demand[variant.demand].append(k)
        self.size = [
            0 if is_whole(v, problem.pools[v.pool]) else round_size(v, problem.pools[v.pool]) for v in problem.variants
        ]
        self.nodes = [0] * len(problem.pools)
        self.pools_of: list[list[int]] = [[] for _ in problem.groups]
        for k, pool in enumerate(problem.pools):
            self.pools_of[pool.group].append(k)

    def count(self, pool: int) -> int:
        """Nodes that the replicas on a pool take (`problem.count_nodes` over its own variants)."""
        return self.whole[pool] + count_shared(self.problem.pools[pool].devices, self.shared[pool])

    def add(self, k: int, count: int) -> float | None:
        """Add so many replicas (or take them away); what that adds to the cost, None where there is no room."""
        pool = self.problem.variants[k].pool
        group = self.problem.pools[pool].group
        before = self.count_group(group)
        self._change(k, count)
        self.nodes[pool] = self.count(pool)
        after = self.count_group(group)
        if after > self.problem.groups[group].nodes:
            return None
        return (after - before) * self.problem.groups[group].price

    def try_adding(self, k: int, count: int) -> float | None:
        """What `add` would say; nothing changes."""
        pool = self.problem.variants[k].pool
        nodes = self.nodes[pool]
        added = self.add(k, count)
        self._change(k, -count)
        self.nodes[pool] = nodes
        return added

    def _change(self, k: int, count: int) -> None:
        self.replicas[k] += count
        variant, size = self.problem.variants[k], self.size[k]
        if size:
            shared = self.shared[variant.pool]
            shared[size] = shared.get(size, 0) + count
        else:
            self.whole[variant.pool] += count * variant.nodes

    def restore(self, replicas: Sequence[int]) -> None:
        """Go back to these replicas."""
        for k, n in enumerate(replicas):
            if n != self.replicas[k]:
                self._change(k, n - self.replicas[k])
        self.nodes = [self.count(p) for p in range(len(self.problem.pools))]

    def count_group(self, group: int) -> int:
        """Nodes of a group that are paid."""
        return max([self.problem.groups[group].paid, *(self.nodes[p] for p in self.pools_of[group])])

    def missing(self, demand: int) -> tuple[float, int]:
        """(capacity, nodes) that the demand is short of."""
        target = self.problem.demands[demand]
        mine = [(self.problem.variants[k], self.replicas[k]) for k in self.by_demand[demand]]
        capacity = sum(v.capacity * n for v, n in mine)
        return target.amount - capacity, target.least_nodes - sum(v.nodes * n for v, n in mine)

    def is_met(self, demand: int) -> bool:
        """Whether the demand has enough capacity on enough nodes."""
        left, nodes = self.missing(demand)
        return left <= self.problem.demands[demand].amount * EPSILON and nodes <= 0


def _solve(problem: FleetProblem, only_group: int | None, order: Sequence[int]) -> Solution:
    state = _State(problem)
    allowed = [
        v.capacity > 0 and (only_group is None or problem.pools[v.pool].group == only_group) for v in problem.variants
    ]
    for demand in order:
        before = list(state.replicas)
        if not _serve(state, demand, [k for k in state.by_demand[demand] if allowed[k]]):
            state.restore(before)
    for _ in range(ROUNDS):
        if not (_drop(state) or _move(state, allowed)):
            break
    return make_solution(problem, state.replicas, "greedy")


def _serve(state: _State, demand: int, mine: Sequence[int]) -> bool:
    """Add replicas until the demand is met; False where there is no room for that."""
    target, used = state.problem.demands[demand], set[int]()
    while not state.is_met(demand):
        left, nodes = state.missing(demand)
        best: tuple[float, int, int] | None = None
        for k in mine if len(used) < target.most_variants else sorted(used):
            variant = state.problem.variants[k]
            whole = max(1, math.ceil(left / variant.capacity - EPSILON))
            for count in {1, min(whole, MOST)} if nodes <= 1 else {1}:
                added = state.try_adding(k, count)
                if added is None:
                    continue
                size = count * variant.devices * variant.nodes
                gained = min(left, count * variant.capacity) if left > 0 else count
                worth = (added + 1e-3 * size + 1e-6 * variant.tie) / max(gained, 1e-12)
                best = min(best, (worth, k, count)) if best is not None else (worth, k, count)
        if best is None:
            return False
        state.add(best[1], best[2])
        used.add(best[1])
    return True


def _drop(state: _State) -> bool:
    """Leave out replicas that nothing needs, the large ones first."""
    changed = False
    variants = state.problem.variants
    running = (k for k, n in enumerate(state.replicas) if n)
    for k in sorted(running, key=lambda k: -variants[k].devices * variants[k].nodes):
        while state.replicas[k]:
            state.add(k, -1)
            if not state.is_met(variants[k].demand):
                state.add(k, 1)
                break
            changed = True
    return changed


def _move(state: _State, allowed: Sequence[bool]) -> bool:
    """Replace all replicas of one variant by enough of another where that costs less."""
    changed = False
    for k in [k for k, n in enumerate(state.replicas) if n]:
        demand = state.problem.variants[k].demand
        for other in state.by_demand[demand]:
            if other != k and allowed[other] and state.replicas[k]:
                changed |= _replace(state, k, other)
    return changed


def _replace(state: _State, k: int, other: int) -> bool:
    """All replicas of `k` by enough of `other`, if that costs less; else nothing changes."""
    demand, number = state.problem.variants[k].demand, state.replicas[k]
    variant, target = state.problem.variants[other], state.problem.demands[demand]
    saved = state.add(k, -number) or 0.0
    left, nodes = state.missing(demand)
    more = max(0, math.ceil(left / variant.capacity - EPSILON), -(-nodes // variant.nodes))
    added = state.add(other, more)
    kinds = sum(1 for x in state.by_demand[demand] if state.replicas[x])
    if added is not None and saved + added < -1e-9 and kinds <= target.most_variants:
        return True
    state.add(other, -more)
    state.add(k, number)
    return False
