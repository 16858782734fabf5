"""Fit the efficiencies of rules/speed.yaml to measured rows.

Each coefficient is a base times factors (see efficiencies). Bases and factors are fitted together to the logarithms of
all rows by least squares on log errors that grow linearly beyond `ROBUST` (Huber's idea: a wrong row pulls, but not
harder than two). Every factor is drawn to 1 and every base to its prior by the widths below, so that classes with few
rows stay at their parent. Needs numpy (the test extra); the estimator itself does not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from advisor.record import Value
from advisor.speed import laws
from advisor.speed.efficiencies import AT_MOST, DECODE, PREFILL, WAITS, limit_share
from advisor.speed.laws import Efficiency, WaitFactors
from advisor.speed.steps import Pass
from tools.speed.rows import FitSample

ROBUST = 0.1  # log error from which a row's pull stops growing
ROUNDS, FEW_ROUNDS, HALVINGS = 400, 6, 8  # steps of the search, and how often one is halved
CLOSE = 1e-6  # a step that gains a smaller share ends the search
# prior of the base, its width (log), and the width of each kind of factor: f family, e engine, g its generation,
# v vendor, c hardware class, q format class, x link, b backend, u unit that multiplies
Prior = tuple[str, str, float, float, dict[str, float]]
PRIORS: dict[str, Prior] = {
    "memory": ("share", "of the peak memory bandwidth, weights read in decoding", 0.75, 0.3,
               {"f": 0.16, "e": 0.093, "g": 0.11, "v": 0.11, "c": 0.16, "q": 0.085, "x": 0.11, "f/c": 0.13, "b": 0.1}),
    "experts": ("share", "of `memory`, for routed experts", 0.7, 0.3,
                {"f": 0.16, "e": 0.13, "c": 0.11, "q": 0.12, "q/b": 0.3}),
    "cache": ("share", "of `memory`, for the KV cache", 0.7, 0.3,
              {"f": 0.21, "e": 0.19, "g": 0.16, "c": 0.16, "q": 0.17, "f/c": 0.13, "b": 0.16}),
    "latent": ("share", "of `memory`, for latent rows of the cache (MLA)", 0.4, 0.5,
               {"f": 0.38, "e": 0.19, "c": 0.16}),
    "unpacking": ("share", "of `memory`, for quantised weights that matrix units multiply in decoding", 0.8, 0.3,
                  {"c": 0.15, "q": 0.12}),
    "host": ("share", "of the host's memory bandwidth", 0.5, 0.2, {}),
    "products": ("share", "of the peak compute rate, products of a decoded batch", 0.4, 0.5,
                 {"f": 0.16, "e": 0.093, "g": 0.16, "c": 0.21, "q": 0.12, "x": 0.11, "f/c": 0.13, "u": 0.3}),
    "attention": ("share", "of the peak compute rate, attention of a decoded batch", 0.3, 0.5,
                  {"f": 0.21, "e": 0.19, "c": 0.16, "u": 0.3}),
    "layer": ("seconds", "per layer of a decode step: launches", 6e-6, 0.5,
              {"f": 0.26, "e": 0.093, "g": 0.21, "v": 0.16, "c": 0.075, "f/c": 0.17}),
    "moe_layer": ("seconds", "per layer with routed experts, on top", 6e-6, 0.5,
                  {"f": 0.26, "e": 0.13, "v": 0.16, "c": 0.075, "q": 0.12, "x": 0.21, "f/c": 0.17, "b": 0.26}),
    "other_mixer": ("seconds", "per recurrent or latent mixer, on top", 6e-6, 0.7,
                    {"f": 0.38, "e": 0.19, "v": 0.16, "c": 0.075, "f/c": 0.17}),
    "exchange": ("seconds", "per exchange between tensor-parallel ranks", 12e-6, 0.5,
                 {"e": 0.19, "c": 0.22, "x": 0.26}),
    "link": ("share", "of the link's bandwidth", 0.5, 0.3, {"x": 0.16}),
    "scan": ("share", "of `memory`, recurrent states that a prompt's tokens update one after the other", 1.0, 0.3,
             {"f": 0.38, "e": 0.26, "c": 0.22}),
    "vector": ("share", "of the peak compute rate, products of so few tokens that no matrix units are used", 0.04, 0.7,
               {"f": 0.15, "c": 0.38, "q": 0.17}),
    "prompt_products": ("share", "of the peak compute rate, products of a prompt", 0.4, 0.5,
                        {"f": 0.3, "e": 0.1, "g": 0.22, "v": 0.22, "f/v": 0.25, "c": 0.15, "q": 0.17, "x": 0.15,
                         "f/c": 0.15, "b": 0.3, "q/b": 0.3, "u": 0.3}),
    "prompt_attention": ("share", "of the peak compute rate, attention of a prompt", 0.5, 0.2,
                         {"f": 0.2, "e": 0.06, "g": 0.22, "c": 0.15, "f/c": 0.15, "u": 0.5, "b": 0.22}),
    "prompt_layer": ("seconds", "per layer of a prompt's chunk", 12e-6, 0.5, {"f": 0.38, "v": 0.3, "c": 0.15}),
    "prompt_moe_layer": ("seconds", "per layer with routed experts, on top", 20e-6, 0.5,
                         {"f": 0.38, "v": 0.3, "c": 0.3, "q": 0.29, "b": 0.38}),
    "prompt_other_mixer": ("seconds", "per recurrent or latent mixer, on top", 20e-6, 0.7,
                           {"f": 0.38, "v": 0.22, "c": 0.22}),
    "mixing": ("share", "of the others' prompts that delays a running request", 0.7, 0.4, {"e": 0.19, "g": 0.3}),
    "queue": ("share", "of the wait for others' prompts in a queue of random arrivals", 0.7, 0.5, {"e": 0.19}),
    "together": ("share", "of the requests that come when all others do: a closed loop begins so", 0.1, 0.3,
                 {"e": 0.75}),
    "fixed": ("seconds", "per request: HTTP, tokenizer, scheduling", 0.02, 0.6, {"f": 0.38, "e": 0.19}),
    "sequence": ("seconds", "per step for every further sequence: scheduling, sampling, answering", 2e-5, 0.7,
                 {"f": 0.75, "e": 0.19, "g": 0.75}),
}  # fmt: skip
# Chosen, with the widths above and ROBUST, by the errors of rows of left-out families and of the rows themselves, some
# eighty combinations: the figures of the fit lean on that choice, those of left-out rows less
WEIGHTS = {"ttft": 0.15, "offline": 0.7, "closed": 0.7, "prefill": 1.8}  # of a row; others 1


class FitProblem(Value, frozen=True):
    """Rows as arrays, and the unknowns: logarithms of bases and factors."""

    names: list[tuple[str, str]]  # (coefficient, factor; "" = base)
    prior: Any
    width: Any
    unknowns: dict[str, Any]  # coefficient -> unknowns of each row
    steps: Any
    output: Any
    prompt: Any
    kind: Any
    measured: Any
    weight: Any


class _Arrays:
    """Attributes that are arrays, in place of a struct of numbers."""

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(columns)

    def take(self, i: Any) -> _Arrays:
        return _Arrays(**{k: v.take(i) if isinstance(v, _Arrays) else v[i] for k, v in self.__dict__.items()})


def make_problem(rows: Sequence[FitSample]) -> FitProblem:
    """Rows as arrays."""
    import numpy as np

    names: dict[tuple[str, str], int] = {("", ""): 0}  # the first unknown stays 0: no such factor
    prior, width, index = [0.0], [1e-9], {}
    for c, (_, _, base, wide, factors) in PRIORS.items():
        names[c, ""] = len(prior)
        prior.append(np.log(base))
        width.append(wide)
        columns = [[names[c, ""]] * len(rows)]
        levels = [s.keys.of(c) for s in rows]
        for level, w in factors.items():
            column = []
            for x in levels:
                at = names.get((c, x[level])) if x[level] else 0
                if at is None:
                    at = names[c, x[level]] = len(prior)
                    prior.append(0.0)
                    width.append(w)
                column.append(at)
            columns.append(column)
        index[c] = np.array(columns).T
    arrays = _Arrays(
        **{
            which: _Arrays(
                **{
                    a: np.array([getattr(getattr(s.steps, which), a) for s in rows], float)
                    for a in Pass.__struct_fields__
                }
            )
            for which in ("decode", "few", "prefill")
        },
        **{
            a: np.array([getattr(s.steps, a) for s in rows], float)
            for a in ("chunks", "running", "batch", "delaying", "asked", "side_by_side", "joins")
        },
    )
    return FitProblem(
        names=list(names),
        prior=np.array(prior),
        width=np.array(width),
        unknowns=index,
        steps=arrays,
        output=np.array([s.row.load.output for s in rows], float),
        prompt=np.array([s.row.load.prompt for s in rows], float),
        kind=np.array([s.row.kind for s in rows]),
        measured=np.array([s.row.value for s in rows], float),
        weight=np.array(
            [WEIGHTS.get(s.row.kind, 1.0) * s.row.weight / n for s, n in zip(rows, _count_listings(rows), strict=True)]
        ),
    )


def _count_listings(rows: Sequence[FitSample]) -> list[int]:
    """How often the measurement of each row is listed, under other names of the model or version as well."""
    keys = []
    for row in (s.row for s in rows):
        asked = row.request
        keys.append(
            (
                row.kind,
                row.value,
                row.load,
                row.source,
                asked.engine,
                asked.hardware,
                str(sorted(asked.settings.items())),
            )
        )
    count = Counter(keys)
    return [count[k] for k in keys]


def select_rows(problem: FitProblem, i: Any) -> FitProblem:
    """Some of the rows, all of the unknowns."""
    return replace(
        problem,
        unknowns={c: x[i] for c, x in problem.unknowns.items()},
        steps=problem.steps.take(i),
        output=problem.output[i],
        prompt=problem.prompt[i],
        kind=problem.kind[i],
        measured=problem.measured[i],
        weight=problem.weight[i],
    )


def predict_rows(problem: FitProblem, logs: dict[str, Any]) -> Any:
    """The measured quantity of every row, by the laws; `logs` are the coefficients' logarithms per row."""
    import numpy as np

    value = {c: limit_share(np.exp(x), AT_MOST[c]) if c in AT_MOST else np.exp(x) for c, x in logs.items()}
    times = laws.compute_times(
        problem.steps,
        problem.output,
        Efficiency(*(value[n] for n in DECODE)),
        Efficiency(*(value[n] for n in PREFILL)),
        WaitFactors(*(value[n] for n in WAITS)),
    )
    kinds = (("decode", "static"), ("prefill",), ("closed", "offline"), ("tpot",), ("ttft",))
    values = (1 / times.step, problem.prompt / times.prompt, times.rate, times.between, times.first)
    return np.select([np.isin(problem.kind, k) for k in kinds], values)


def row_logs(problem: FitProblem, unknowns: Any) -> dict[str, Any]:
    """Logarithm of each coefficient for each row."""
    return {c: unknowns[i].sum(axis=1) for c, i in problem.unknowns.items()}


def fit_coefficients(problem: FitProblem, start: Any = None, nearly: bool = False) -> Any:
    """Logarithms of bases and factors that bring the predictions near the measured values.

    Minimised by steps of Gauss and Newton, halved while they gain nothing (Nocedal and Wright, Numerical Optimization,
    10.3). `nearly`: ends after the few steps that are enough from a fit of more rows. Raises ArithmeticError where no
    minimum is found.
    """
    import numpy as np

    x = problem.prior.copy() if start is None else start.copy()
    cost, gradient = _cost(problem, x)
    for _ in range(FEW_ROUNDS if nearly else ROUNDS):
        step = -np.linalg.solve(_curvature(problem, x), gradient)
        tried = [_cost(problem, x + step)]
        while not tried[-1][0] < cost and len(tried) < HALVINGS:
            step /= 2
            tried.append(_cost(problem, x + step))
        if not tried[-1][0] < cost * (1 - CLOSE):
            return x
        (cost, gradient), x = tried[-1], x + step
    if nearly:
        return x
    raise ArithmeticError(f"no minimum after {ROUNDS} steps")


def _errors(problem: FitProblem, unknowns: Any) -> tuple[Any, dict[str, Any]]:
    """Log error of each row, and how it changes with the logarithm of each coefficient."""
    import numpy as np

    logs, h, target = row_logs(problem, unknowns), 1e-4, np.log(problem.measured)
    error = np.log(predict_rows(problem, logs)) - target
    moved = {c: np.log(predict_rows(problem, {**logs, c: logs[c] + h})) - target for c in problem.unknowns}
    return error, {c: (m - error) / h for c, m in moved.items()}


def _cost(problem: FitProblem, unknowns: Any) -> tuple[float, Any]:
    """What is minimised (the robust squares of errors and those of what is drawn to the priors), and its gradient."""
    import numpy as np

    error, slopes = _errors(problem, unknowns)
    root = np.sqrt(1 + (error / ROBUST) ** 2)
    drawn = (unknowns - problem.prior) / problem.width
    gradient = 2 * drawn / problem.width
    for c, columns in problem.unknowns.items():
        pull = 2 * problem.weight * error / (ROBUST**2 * root) * slopes[c]
        for column in columns.T:
            gradient += np.bincount(column, pull, len(unknowns))
    return float((problem.weight * 2 * (root - 1)).sum() + (drawn**2).sum()), gradient


def _curvature(problem: FitProblem, unknowns: Any) -> Any:
    """The matrix of Gauss-Newton for `_cost`: positive definite, since every unknown has a prior."""
    import numpy as np

    error, slopes = _errors(problem, unknowns)
    rows = np.arange(len(error))
    jacobian = np.zeros((len(error), len(unknowns)))
    for c, columns in problem.unknowns.items():
        for column in columns.T:
            jacobian[rows, column] += slopes[c]
    jacobian *= np.sqrt(problem.weight / (ROBUST**2 * np.sqrt(1 + (error / ROBUST) ** 2)))[:, None]
    return 2 * (jacobian.T @ jacobian + np.diag(1 / problem.width**2))


Coefficients = dict[str, tuple[str, str, float, dict[str, float]]]


def make_coefficients(problem: FitProblem, unknowns: Any) -> Coefficients:
    """Coefficient -> unit, what it means, base, factors, as rules/speed.yaml has them."""
    out: Coefficients = {}
    for c, (unit, means, *_) in PRIORS.items():
        of = {f: float(v) for (name, f), v in zip(problem.names, unknowns, strict=True) if name == c}
        base = of.pop("")
        out[c] = (unit, means, math.exp(base), {f: math.exp(v) for f, v in of.items()})
    return out
