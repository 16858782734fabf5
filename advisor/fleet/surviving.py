"""Plans that serve a demand after nodes are lost, without starting anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.fleet.candidates import Confidence, ReplicaCandidate
from advisor.fleet.demand import load_fleet_rules
from advisor.fleet.greedy import solve_greedily
from advisor.fleet.highs import SolverLimits, has_solver, solve_exactly
from advisor.fleet.offers import NodePrices, PoolOffers, PosedProblem, pose_problem
from advisor.fleet.plan_types import PlannedReplica
from advisor.fleet.problem import Solution, is_better
from advisor.fleet.replicas import place

MOST_APART = 4  # further nodes than the fewest that are tried


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


def solve_demands(
    offers: PoolOffers, prices: NodePrices, confidence: Confidence, rules: Catalog
) -> tuple[PosedProblem, Solution]:
    """The best plan in which what has to survive a loss does; the variants of its problem have their whole capacity."""
    settle_cheapest(offers, prices, confidence)
    tried = MOST_APART if any(d.demand.survive for d in offers.demands) else 1
    best: tuple[tuple[int, float], PosedProblem, Solution] | None = None
    for apart in range(tried):
        posed, solution = solve_settled(offers, prices, confidence, rules, apart=apart)
        posed = _uncap(posed, confidence)
        if tried > 1:
            solution = replace(solution, served=_list_surviving(posed, solution, offers))
        rank = sum(not s for s in solution.served), solution.cost
        if best is None or rank < best[0]:
            best = rank, posed, solution
    assert best is not None
    return best[1], best[2]


def solve_settled(
    offers: PoolOffers, prices: NodePrices, confidence: Confidence, rules: Catalog, **more: Any
) -> tuple[PosedProblem, Solution]:
    """The best plan, all of whose replicas have a capacity that is known: what is not chosen by its upper bound would
    not be chosen by what it serves. The greedy comes first, because it is faster."""
    solvers: tuple[Callable[[PosedProblem], Solution], ...] = (
        lambda posed: solve_greedily(posed.problem),
        lambda posed: solve(posed, rules),
    )
    posed, solution = pose_problem(offers, prices, confidence, **more), None
    for solver in solvers:
        solution = solver(posed)
        while _settle_chosen(offers, posed, solution):
            posed = pose_problem(offers, prices, confidence, **more)
            solution = solver(posed)
    assert solution is not None
    return posed, solution


def _settle_chosen(offers: PoolOffers, posed: PosedProblem, solution: Solution) -> bool:
    """Find out what chosen replicas serve; whether there was one that had been bounded only."""
    triples = zip(posed.problem.variants, posed.candidates, solution.replicas, strict=True)
    open_ones = [(v, c) for v, c, n in triples if n and c.pending]
    for variant, candidate in open_ones:
        offers.offers[variant.demand, variant.pool].settle(candidate)
    return bool(open_ones)


def settle_cheapest(offers: PoolOffers, prices: NodePrices, confidence: Confidence) -> None:
    """Find out what those candidates serve that a demand alone would take, by what their devices cost."""
    posed = pose_problem(offers, prices, confidence)
    for d, planned in enumerate(offers.demands):
        mine = [(p, o) for (k, p), o in offers.offers.items() if k == d]

        def price(pool: int, candidate: ReplicaCandidate, amount: float = planned.demand.amount) -> float:
            here = posed.problem.pools[pool]
            serves = candidate.amount(confidence)
            share = (
                candidate.devices
                * candidate.part
                * candidate.nodes
                * posed.problem.unit
                / here.devices
                * posed.problem.groups[here.group].price
            )
            return max(1.0, amount / serves) * share if serves > 0 else inf

        while True:
            listed = [(price(p, c), k, o, c) for k, (p, o) in enumerate(mine) for c in o.candidates]
            best = min(listed, key=lambda x: x[:2], default=None)
            if best is None or not best[3].pending:
                break
            best[2].settle(best[3])


def _uncap(posed: PosedProblem, confidence: Confidence) -> PosedProblem:
    pairs = zip(posed.problem.variants, posed.candidates, strict=True)
    variants = tuple(replace(v, capacity=c.amount(confidence)) for v, c in pairs)
    return replace(posed, problem=replace(posed.problem, variants=variants))


def _list_surviving(posed: PosedProblem, solution: Solution, offers: PoolOffers) -> tuple[bool, ...]:
    """Which demands are served, also after as many nodes are lost as they say."""
    able: list[dict[tuple[int, int], float]] = [{} for _ in solution.served]
    for p in place(posed, solution):
        variant = posed.problem.variants[p.variant]
        for node in p.nodes:
            key = posed.problem.pools[variant.pool].group, node
            able[variant.demand][key] = able[variant.demand].get(key, 0.0) + variant.capacity
    wanted = [d.demand for d in offers.demands]
    left = [_count_left(list(nodes.values()), d.survive) for nodes, d in zip(able, wanted, strict=True)]
    return tuple(
        served and (not d.survive or rest >= d.amount * (1 - 1e-9))
        for served, rest, d in zip(solution.served, left, wanted, strict=True)
    )


def _count_left(nodes: Sequence[float], lost: int) -> float:
    return sum(sorted(nodes)[: max(0, len(nodes) - lost)])


def find_least_left(replicas: Sequence[PlannedReplica], lost: int, nodes: frozenset[str] | None = None) -> float:
    """What replicas of one demand serve after the worst loss of so many nodes (of these); in the unit of the demand."""
    able: dict[str, float] = {}
    for r in replicas:
        for node in r.nodes:
            able[node] = able.get(node, 0.0) + r.capacity
    candidates = sorted(n for node, n in able.items() if nodes is None or node in nodes)
    return sum(r.capacity for r in replicas) - sum(candidates[max(0, len(candidates) - lost) :])
