"""Solvers against all possibilities tried one by one, and against each other."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from advisor.fleet.greedy import solve_greedily
from advisor.fleet.highs import SolverLimits, solve_exactly
from advisor.fleet.problem import (
    Demand,
    DevicePool,
    FleetProblem,
    NodeGroup,
    Solution,
    Variant,
    find_cost,
    find_least_nodes,
    has_room,
    is_better,
    list_served,
)
from advisor.fleet.replicas import place_replicas

LIMITS = SolverLimits(gap=0.001, seconds=600)  # by the clock: a busy machine must not reach it


def draw_problem(seed: int) -> FleetProblem:
    """A small case: two or three kinds of nodes, two or three models."""
    rng = random.Random(seed)
    groups = tuple(
        NodeGroup(rng.choice((1, 2, 3)), rng.choice((1.0, 2.5, 6.0, 20.0))) for _ in range(rng.choice((2, 3)))
    )
    pools = tuple(DevicePool(g, rng.choice((1, 2, 3, 4, 7, 8))) for g in range(len(groups)))
    demands = tuple(
        Demand(rng.choice((1.0, 3.0, 9.0)), rng.choice((0, 0, 1)), rng.choice((1, 2)), rng.choice((1, 1, 1, 2)))
        for _ in range(rng.choice((2, 3)))
    )
    variants = []
    for d, p in itertools.product(range(len(demands)), range(len(pools))):
        for devices in {1, 2, 4} if rng.random() < 0.7 else {pools[p].devices}:
            if devices <= pools[p].devices and rng.random() < 0.5:
                variants.append(Variant(d, p, devices, 1, rng.choice((0.7, 1.5, 4.0)) * devices))
        if rng.random() < 0.1 and groups[pools[p].group].nodes > 1:
            variants.append(Variant(d, p, pools[p].devices, 2, 5.0))
    return FleetProblem(groups, pools, tuple(variants[:7]), demands)


def pack(problem: FleetProblem, replicas: tuple[int, ...]) -> list[int] | None:
    """Nodes of each group that the replicas take, each put into nodes one by one with its true size; None: no room.

    Independent of the sums over sizes in `problem`: first fit by falling size, which is the best for sizes that divide
    each other, with sizes rounded as the planner says it rounds them.
    """
    used = [0] * len(problem.groups)
    for p, pool in enumerate(problem.pools):
        free: list[int] = []
        sized = []
        for variant, n in zip(problem.variants, replicas, strict=True):
            if variant.pool == p:
                size = 1
                while size < variant.devices:
                    size *= 2
                size = min(size, pool.devices) if variant.nodes == 1 else pool.devices
                sized += [(size, variant.nodes)] * n
        for size, nodes in sorted(sized, reverse=True):
            for _ in range(nodes):
                at = next((i for i, room in enumerate(free) if room >= size), None)
                if at is None:
                    free.append(pool.devices)
                    at = len(free) - 1
                free[at] -= size
        used[pool.group] = max(used[pool.group], len(free))
    return used if all(n <= g.nodes for n, g in zip(used, problem.groups, strict=True)) else None


def try_all(problem: FleetProblem) -> tuple[tuple[int, ...], float]:
    """(unserved of each priority, the highest first; cost) of the best plan there is."""
    best: tuple[tuple[int, ...], float] = ((99,) * 3, math.inf)
    most = []
    for v in problem.variants:
        need = problem.demands[v.demand]
        pool = problem.pools[v.pool]
        room = problem.groups[pool.group].nodes * pool.devices // (v.devices * v.nodes)
        most.append(min(room, max(math.ceil(need.amount / v.capacity), need.least_nodes)))
    levels = len({d.priority for d in problem.demands})
    for replicas in itertools.product(*(range(m, -1, -1) for m in most)):
        used = pack(problem, replicas)
        if used is None:
            continue
        if best <= ((0,) * levels, add_prices(problem, used)):  # further nodes cost more, and all may be served already
            continue
        for more in itertools.product(*(range(3) for _ in problem.groups)):  # further nodes, to stand apart on
            paid = [u + m for u, m in zip(used, more, strict=True)]
            if any(more) and (all(d.least_nodes < 2 for d in problem.demands)):
                break
            if all(n <= g.nodes for n, g in zip(paid, problem.groups, strict=True)):
                best = min(best, judge(problem, replicas, paid))
    return best


def judge(problem: FleetProblem, replicas: tuple[int, ...], paid: list[int]) -> tuple[tuple[int, ...], float]:
    levels = sorted({d.priority for d in problem.demands}, reverse=True)
    served = []
    for d, demand in enumerate(problem.demands):
        mine = [(v, n) for v, n in zip(problem.variants, replicas, strict=True) if n and v.demand == d]
        apart = sum(
            min(paid[g], sum(v.nodes * n for v, n in mine if problem.pools[v.pool].group == g))
            for g in range(len(problem.groups))
        )
        served.append(
            sum(v.capacity * n for v, n in mine) >= demand.amount - 1e-9
            and apart >= demand.least_nodes
            and len(mine) <= demand.most_variants
        )
    missing = tuple(
        sum(d.priority == level and not s for d, s in zip(problem.demands, served, strict=True)) for level in levels
    )
    return missing, add_prices(problem, paid)


def add_prices(problem: FleetProblem, paid: list[int]) -> float:
    return sum(n * g.price for n, g in zip(paid, problem.groups, strict=True))


def rank(problem: FleetProblem, solution: Solution) -> tuple[tuple[int, ...], float]:
    levels = sorted({d.priority for d in problem.demands}, reverse=True)
    return tuple(
        sum(d.priority == level and not s for d, s in zip(problem.demands, solution.served, strict=True))
        for level in levels
    ), solution.cost


def size(problem: FleetProblem) -> float:
    n = 1.0
    for v in problem.variants:
        need, pool = problem.demands[v.demand], problem.pools[v.pool]
        room = problem.groups[pool.group].nodes * pool.devices // (v.devices * v.nodes)
        n *= 1 + min(room, max(math.ceil(need.amount / v.capacity), need.least_nodes))
    return n


SMALL = [seed for seed in range(600) if size(draw_problem(seed)) <= 6000][:200]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 120, 10))
def test_no_plan_is_cheaper(seed: int) -> None:
    """The solver is within 1 % of the best of all plans, and never above the greedy."""
    for each in SMALL[seed : seed + 10]:
        problem = draw_problem(each)
        best, start = try_all(problem), solve_greedily(problem)
        found = solve_exactly(problem, LIMITS, start)
        assert found is not None
        for solution in (start, found):
            assert has_room(problem, solution.replicas), each
            assert pack(problem, solution.replicas) is not None, each
            assert list_served(problem, solution.replicas) == solution.served
            assert find_cost(problem, solution.replicas) == solution.cost
        missing, cost = rank(problem, found)
        assert missing == best[0], (each, found, best)
        assert best[1] - 1e-9 <= cost <= 1.01 * best[1] + 1e-9, (each, found, best)
        assert not is_better(problem, start, found) or start.cost >= 0.99 * cost, each


def test_a_priority_goes_first() -> None:
    """One node, two models that both want it: the one with the higher priority gets it, cheaper or not."""
    groups, pools = (NodeGroup(1, 1.0),), (DevicePool(0, 2),)
    variants = (Variant(0, 0, 2, 1, 1.0), Variant(1, 0, 1, 1, 1.0))
    for first in (0, 1):
        demands = (Demand(1.0, priority=1 - first), Demand(1.0, priority=first))
        found = solve_exactly(
            FleetProblem(groups, pools, variants, demands), LIMITS, Solution((0, 0), (False, False), 0.0, "none")
        )
        assert found is not None
        assert found.served == ((True, False) if not first else (False, True))


@pytest.mark.parametrize("start", range(0, 300, 60))
def test_replicas_stand_on_devices_that_are_there(start: int) -> None:
    """Every solution finds places: devices within the node, each with one replica, nodes of the group."""
    placed = 0
    for seed in range(start, start + 60):
        problem = draw_problem(seed)
        found = solve_greedily(problem)
        replicas = [n if found.served[v.demand] else 0 for v, n in zip(problem.variants, found.replicas, strict=True)]
        together = tuple(replace(d, least_nodes=1) for d in problem.demands)  # spreading is a wish beyond the count
        places = place_replicas(replace(problem, demands=together), replicas)
        assert places is not None, seed
        assert Counter(p.variant for p in places) == Counter({k: n for k, n in enumerate(replicas) if n})
        taken = set()
        for place in places:
            variant = problem.variants[place.variant]
            pool = problem.pools[variant.pool]
            assert len(set(place.nodes)) == variant.nodes
            assert set(place.nodes) <= set(range(problem.groups[pool.group].nodes))
            assert len(place.devices) == variant.devices
            assert set(place.devices) <= set(range(pool.devices))
            here = {(variant.pool, n, d) for n in place.nodes for d in place.devices}
            assert not here & taken
            taken |= here
            placed += 1
    assert placed > 60


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_stands_on_fewer_nodes_than_the_least(seed: int) -> None:
    """Never above the best plan that trying all finds."""
    drawn = draw_problem(seed)
    problem = replace(drawn, groups=tuple(replace(g, price=1.0) for g in drawn.groups))
    missing, nodes = try_all(problem)
    if not any(missing):
        assert find_least_nodes(problem, [True] * len(problem.demands)) <= nodes


@pytest.mark.parametrize("seed", range(20))
def test_the_least_is_that_of_trying_all_for_one_model_on_one_kind_of_nodes(seed: int) -> None:
    rng = random.Random(seed)
    sizes = rng.sample((1, 2, 4, 8), 2)
    variants = tuple(Variant(0, 0, size, 1, rng.uniform(0.8, 1.6) * size) for size in sizes)
    groups, pools = (NodeGroup(4, 1.0),), (DevicePool(0, 8),)
    problem = FleetProblem(groups, pools, variants, (Demand(rng.uniform(2, 20), 0, 2, 1),))
    missing, nodes = try_all(problem)
    assert not any(missing)
    assert find_least_nodes(problem, [True]) == nodes
