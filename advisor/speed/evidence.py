"""What was measured on this machine, and how it moves and narrows later predictions for it.

Kept are ratios of measured to predicted rates. A prediction's error on one machine is taken as a sum of parts that
measurements share: all of one engine, those of one weight format, and those of one model at a near load
(`evidence` in rules/speed-engines.yaml, with the figures behind it). The expected error, given what was measured,
moves the value; what stays unknown of it is the new bound (Gaussian conditioning, e.g. Rasmussen and Williams 2006,
equations 2.23 and 2.24). How large errors are on this machine is learned from the measurements as well (Shah, Wilson
and Ghahramani 2014, Student-t processes): a bound is wider than without them only where they lie further off than
bounds say.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from advisor.deployment import Deployment
from advisor.machines.types import fingerprint_machine
from advisor.record import Value
from advisor.session import Session
from advisor.speed.efficiencies import EvidenceRules
from advisor.speed.work import RequestLoad

if TYPE_CHECKING:
    from advisor.history import SpeedMeasurement

USED = 40  # of all measurements, the nearest ones
# kinds of quantities that one pass decides: their errors go together
PASSES = {"prefill": "prompt", "ttft": "prompt"}
TIMES = ("ttft", "tpot")  # seconds; the others are rates


class Adjustment(Value, frozen=True):
    """What evidence does to a predicted rate: a factor on it, and the factor of its bound."""

    factor: float
    bound: float


class Evidence(Value, frozen=True):
    """Measurements of this machine with the engine of a deployment."""

    measurements: tuple[SpeedMeasurement, ...]
    model: str
    quantization: str
    format: str
    layout: str
    rules: EvidenceRules

    @property
    def note(self) -> str:
        """One line that names them."""
        n = len(self.measurements)
        newest = max(self.measurements, key=lambda m: m.date)
        own = [m for m in self.measurements if (m.model, m.quantization) == (self.model, self.quantization)]
        tools = ", ".join(dict.fromkeys(m.tool for m in self.measurements))
        return (
            f"calibrated by {n} measurement{'s' if n > 1 else ''} of this machine ({tools}; {len(own)} of this model; "
            f"the last of {newest.date}, {newest.model} {newest.quantization})"
        )

    def adjust(self, kind: str, load: RequestLoad, bound: float) -> Adjustment:
        """The factor on the predicted rate of `kind`, and the bound's factor.

        It is at most `bound`, and more only where the measurements are further off than is usual.
        """
        target = _Place(self.model, self.quantization, self.format, self.layout, kind, load, math.log(bound))
        known = [(_describe_place(m), math.log(m.ratio)) for m in self.measurements]
        nearest = sorted(known, key=lambda x: -_shared(target, x[0], self.rules))[:USED]
        chosen, errors = [place for place, _ in nearest], [error for _, error in nearest]
        matrix = [
            [_shared(a, b, self.rules) + (self.rules.noise * a.width**2 if i == j else 0.0)
             for j, b in enumerate(chosen)]
            for i, a in enumerate(chosen)
        ]  # fmt: skip
        near = [_shared(target, p, self.rules) for p in chosen]
        weights, surprise = _solve(matrix, near), _solve(matrix, errors)
        whole = _shared(target, target, self.rules) + self.rules.noise * target.width**2
        left = max(0.0, whole - sum(w * n for w, n in zip(weights, near, strict=True)))
        squares, usual = sum(s * e for s, e in zip(surprise, errors, strict=True)), self.rules.usual_count
        # mean square of the errors on this machine, between what was measured and what is usual
        size = (squares + usual * self.rules.usual) / (len(errors) + usual)
        widest = target.width * max(1.0, math.sqrt(size / self.rules.usual))
        wide = min(widest, self.rules.reach * math.sqrt(size * left))
        expected = sum(w * e for w, e in zip(weights, errors, strict=True))
        return Adjustment(math.exp(expected), math.exp(wide))


class _Place(Value, frozen=True):
    """What decides how much a quantity's error has in common with another's."""

    model: str
    quantization: str
    format: str
    layout: str
    kind: str
    load: RequestLoad
    width: float  # logarithm of the bound


def _describe_place(measured: SpeedMeasurement) -> _Place:
    load = RequestLoad(
        concurrency=measured.concurrency, prompt=measured.prompt_tokens, output=measured.output_tokens,
        depth=measured.depth_tokens,
    )  # fmt: skip
    return _Place(
        measured.model, measured.quantization, measured.format, measured.layout, measured.kind, load,
        math.log(measured.bound),
    )  # fmt: skip


def _shared(one: _Place, other: _Place, rules: EvidenceRules) -> float:
    """Covariance of the logarithms of two errors. What the wider of two bounds has beyond the other is its own."""
    out = rules.engine
    if one.format == other.format:
        out += rules.format
    if (one.model, one.quantization) == (other.model, other.quantization):
        distance = _distance(one.load, other.load) + (one.layout != other.layout)
        out += rules.model * math.exp(-distance / rules.reach_of_load)
    if one.kind != other.kind:
        out *= rules.same_pass if PASSES.get(one.kind) == PASSES.get(other.kind) else rules.other_pass
    return out * min(one.width, other.width) ** 2


def _distance(one: RequestLoad, other: RequestLoad) -> float:
    """How far two loads are apart, in logarithms of requests, prompt and depth."""

    def depth(load: RequestLoad) -> float:
        return load.depth + load.output / 2 + 256

    return (
        abs(math.log(one.concurrency / other.concurrency))
        + 0.5 * abs(math.log((one.prompt + 64) / (other.prompt + 64)))
        + 0.5 * abs(math.log(depth(one) / depth(other)))
    )


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a symmetric, positive definite system, by Cholesky's factors."""
    n = len(right)
    lower = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = math.sqrt(max(rest, 1e-12)) if i == j else rest / lower[j][j]
    half = [0.0] * n
    for i in range(n):
        half[i] = (right[i] - sum(lower[i][k] * half[k] for k in range(i))) / lower[i][i]
    out = [0.0] * n
    for i in reversed(range(n)):
        out[i] = (half[i] - sum(lower[k][i] * out[k] for k in range(i + 1, n))) / lower[i][i]
    return out


def find_evidence(
    deployment: Deployment, format_: str, layout: str, rules: EvidenceRules, session: Session
) -> Evidence | None:
    """Measurements for a deployment on the machine it was probed on; None elsewhere, and where nothing was measured."""
    if deployment.machine is None or deployment.machine.source != "probe":
        return None
    here = fingerprint_machine(deployment.machine)
    chosen = tuple(m for m in session.measurements if (m.machine, m.engine) == (here, deployment.engine))
    if not chosen:
        return None
    return Evidence(chosen, deployment.model.id, deployment.quantization, format_, layout, rules)
