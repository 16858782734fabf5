"""The same choice by HiGHS (extra `[fleet]`): proven to a gap, or the best that was found in time.

Equal nodes are one whole number each, so five thousand nodes of twenty kinds are twenty variables.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from advisor.fleet.problem import (
    FleetProblem,
    Solution,
    has_room,
    is_whole,
    list_sizes,
    make_solution,
    round_size,
)
from advisor.record import Value

TIE = 1e-4  # of the price of a device: what a replica costs beyond its node, so that none is started for nothing


class _Row(Value, frozen=True):
    low: float
    high: float
    entries: dict[int, float]


class SolverLimits(Value, frozen=True):
    """When the solver may stop."""

    gap: float  # share of the cost
    seconds: float


@contextlib.contextmanager
def _without_banner() -> Iterator[None]:
    """HiGHS greets on the process's standard output when it is made, whatever its options say: answers go there."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(nowhere)
        os.close(kept)


def has_solver() -> bool:
    """Whether highspy is installed."""
    from importlib.util import find_spec

    return find_spec("highspy") is not None


def solve_exactly(problem: FleetProblem, limits: SolverLimits, start: Solution) -> Solution | None:
    """The cheapest plan that serves as many demands as can be, priority by priority; None where none was found in time.

    `start` is a plan to begin with.
    """
    if all(start.served):
        return _Model(problem, _count_by_level(problem, (True,) * len(problem.demands))).run(limits, start)
    least: dict[int, int] = {}
    found = start
    for level in sorted({d.priority for d in problem.demands}, reverse=True):
        most = _Model(problem, least, level).run(limits, found)
        if most is None:
            return None
        found, least = most, {**least, level: _count_by_level(problem, most.served)[level]}
    return _Model(problem, least).run(limits, found)


def _count_by_level(problem: FleetProblem, served: Sequence[bool]) -> dict[int, int]:
    """How many demands of each priority are met."""
    counts = dict.fromkeys((d.priority for d in problem.demands), 0)
    for demand, ok in zip(problem.demands, served, strict=True):
        counts[demand.priority] += ok
    return counts


class _Model:
    """Columns: replicas of each variant, nodes of each group, variants in use, demands met.

    `least`: how many demands of a priority are met at the least. `most`: the priority of which as many as can be are
    met, whatever it costs; None: the cost is what matters.
    """

    def __init__(self, problem: FleetProblem, least: dict[int, int], most: int | None = None) -> None:
        self.problem = problem
        self.by_cost = most is None
        self.cost: list[float] = []
        self.upper: list[float] = []
        self.lower: list[float] = []
        self.rows: list[_Row] = []
        self.most = [self._count_most(k) for k in range(len(problem.variants))]
        self.replicas = [self._column(self._tie(k), n) for k, n in enumerate(self.most)]
        self.nodes = [self._column(g.price, g.nodes, g.paid) for g in problem.groups]
        self.met: list[int] = []
        self._make_room()
        for level in {*least, *(() if most is None else (most,))}:
            self._meet([k for k, d in enumerate(problem.demands) if d.priority == level], least.get(level))

    def _column(self, cost: float, upper: float, lower: float = 0) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.lower.append(lower)
        return len(self.cost) - 1

    def _tie(self, k: int) -> float:
        variant = self.problem.variants[k]
        pool = self.problem.pools[variant.pool]
        share = variant.nodes * round_size(variant, pool) / pool.devices
        return TIE * (share + 1e-3 * variant.tie) * (self.problem.groups[pool.group].price or 1.0)

    def _count_most(self, k: int) -> int:
        """Replicas of a variant that find most, and no more than the demand can use."""
        variant = self.problem.variants[k]
        pool, demand = self.problem.pools[variant.pool], self.problem.demands[variant.demand]
        nodes = self.problem.groups[pool.group].nodes
        most = (
            nodes // variant.nodes if is_whole(variant, pool) else nodes * (pool.devices // round_size(variant, pool))
        )
        if variant.capacity <= 0:
            return 0
        return min(most, max(math.ceil(demand.amount / variant.capacity), demand.least_nodes))

    def _make_room(self) -> None:
        for p, pool in enumerate(self.problem.pools):
            mine = [k for k, v in enumerate(self.problem.variants) if v.pool == p]
            for size in list_sizes(self.problem, p):
                per_node = pool.devices // size
                entries = {self.nodes[pool.group]: -float(per_node)}
                for k in mine:
                    variant = self.problem.variants[k]
                    if is_whole(variant, pool):
                        entries[self.replicas[k]] = float(per_node * variant.nodes)
                    elif round_size(variant, pool) >= size:
                        entries[self.replicas[k]] = float(round_size(variant, pool) // size)
                self.rows.append(_Row(-math.inf, 0.0, entries))

    def _meet(self, demands: Sequence[int], least: int | None) -> None:
        """Of these demands at least so many are met; None: as many as can be."""
        if least == len(demands):
            for k in demands:
                self._cover(k, None)
            return
        switches = [self._column(0.0, 1) for _ in demands]
        for k, switch in zip(demands, switches, strict=True):
            self._cover(k, switch)
        if least is None:
            self.met = switches
        elif least:
            self.rows.append(_Row(float(least), math.inf, dict.fromkeys(switches, 1.0)))

    def _cover(self, demand: int, switch: int | None) -> None:
        """The demand is met; with a switch only where that is on."""
        want = self.problem.demands[demand]
        mine = [k for k, v in enumerate(self.problem.variants) if v.demand == demand and self.most[k]]
        capacity = {self.replicas[k]: self.problem.variants[k].capacity / want.amount for k in mine}
        self._at_least(capacity, 1.0, switch)
        if want.least_nodes > 1:
            self._at_least(self._make_apart(mine), float(want.least_nodes), switch)
        if len(mine) > want.most_variants:
            used = {k: self._column(0.0, 1) for k in mine}
            for k in mine:
                self.rows.append(_Row(-math.inf, 0.0, {self.replicas[k]: 1.0, used[k]: -float(self.most[k])}))
            self.rows.append(_Row(-math.inf, float(want.most_variants), dict.fromkeys(used.values(), 1.0)))

    def _make_apart(self, mine: Sequence[int]) -> dict[int, float]:
        """Columns of the nodes of each group that these variants stand on: no more than nodes, nor than replicas."""
        out = {}
        for g, group in enumerate(self.problem.groups):
            here = [k for k in mine if self.problem.pools[self.problem.variants[k].pool].group == g]
            if here:
                column = self._column(0.0, group.nodes)
                out[column] = 1.0
                self.rows.append(_Row(-math.inf, 0.0, {column: 1.0, self.nodes[g]: -1.0}))
                standing = {self.replicas[k]: -float(self.problem.variants[k].nodes) for k in here}
                self.rows.append(_Row(-math.inf, 0.0, {column: 1.0, **standing}))
        return out

    def _at_least(self, entries: dict[int, float], low: float, switch: int | None) -> None:
        row = _Row(low, math.inf, entries) if switch is None else _Row(0.0, math.inf, {**entries, switch: -low})
        self.rows.append(row)

    def run(self, limits: SolverLimits, start: Solution) -> Solution | None:
        """The best solution that is found within the limits."""
        import highspy
        import numpy as np

        cost = self.cost if self.by_cost else [0.0] * len(self.cost)
        for switch in self.met:
            cost[switch] = -1.0
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(cost), len(self.rows)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = (
            np.array(x, dtype=np.double) for x in (cost, self.lower, self.upper)
        )
        lp.row_lower_ = np.array([r.low for r in self.rows], dtype=np.double)
        lp.row_upper_ = np.array([r.high for r in self.rows], dtype=np.double)
        starts, index, value = [0], list[int](), list[float]()
        for row in self.rows:
            index += row.entries.keys()
            value += row.entries.values()
            starts.append(len(index))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(starts)
        lp.a_matrix_.index_ = np.array(index)
        lp.a_matrix_.value_ = np.array(value, dtype=np.double)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(cost)
        with _without_banner():
            solver: Any = highspy.Highs()  # type: ignore[no-untyped-call,unused-ignore]  # some releases have no types
        for name, setting in (
            ("output_flag", False),
            ("mip_rel_gap", limits.gap if self.by_cost else 0.0),
            ("time_limit", limits.seconds),
            ("threads", 1),  # the same plan every time
            ("random_seed", 1),
        ):
            solver.setOptionValue(name, setting)
        solver.passModel(lp)
        self._begin_with(solver, start)
        solver.run()
        if not math.isfinite(solver.getInfo().objective_function_value):
            return None
        values = list(solver.getSolution().col_value)
        if not values or solver.getInfo().primal_solution_status != 2:
            return None
        replicas = [round(values[c]) for c in self.replicas]
        if not has_room(self.problem, replicas):
            return None
        gap = solver.getInfo().mip_gap
        return make_solution(self.problem, replicas, "HiGHS", gap if self.by_cost and math.isfinite(gap) else None)

    def _begin_with(self, solver: Any, start: Solution) -> None:
        """Tell the solver a plan that it need not find itself."""
        if not self.by_cost or not all(start.served):
            return
        import numpy as np

        solver.setSolution(
            len(self.replicas), np.array(self.replicas, dtype=np.int32), np.array(start.replicas, dtype=np.double)
        )
