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
from collections.abc import Sequence
from pathlib import Path

import msgspec

from advisor.catalog.roots import data_dir
from advisor.decoding import decode_json
from advisor.deployment import Deployment
from advisor.errors import BadFile
from advisor.files import read_bytes, replace_file
from advisor.machines.types import fingerprint_machine
from advisor.record import Record, Value
from advisor.speed.efficiencies import EvidenceRules
from advisor.speed.work import RequestLoad

KEPT = 400  # measurements; the oldest go first
USED = 40  # of these, the nearest ones
LIMIT = 2**20
# kinds of quantities that one pass decides: their errors go together
PASSES = {"prefill": "prompt", "ttft": "prompt"}
TIMES = ("ttft", "tpot")  # seconds; the others are rates


class SpeedMeasurement(Record, frozen=True, kw_only=True):
    """One quantity of one load, measured on this machine."""

    date: str  # YYYY-MM-DD
    machine: str  # as `fingerprint_machine` writes it
    engine: str
    engine_version: str | None = None
    model: str
    quantization: str
    format: str  # weight formats whose kernels are alike
    layout: str = ""  # how ranks split the model
    kind: str  # decode, prefill, closed (output of all requests), tpot, ttft
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    depth_tokens: int = 0
    measured: float | None  # tokens a second, or seconds; None = of a run that an earlier version kept
    ratio: float  # measured over predicted rate
    bound: float  # factor of the prediction's own bound
    tool: str
    settings: dict[str, str] = {}  # of the server, as far as they are plain words and numbers


class MeasuredSpeeds(Record, frozen=True, kw_only=True):
    """The file."""

    schema: int = 2
    measurements: tuple[SpeedMeasurement, ...] = ()


class _EarlierRun(msgspec.Struct):
    """A run as files of schema 1 have it."""

    date: str
    machine: str
    engine: str
    model: str
    quantization: str
    format: str
    prompt_tokens: int
    output_tokens: int
    decode: float
    prefill: float
    tool: str
    engine_version: str | None = None


class _EarlierFile(msgspec.Struct):
    runs: list[_EarlierRun]


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
        places = [_describe_place(m) for m in self.measurements]
        order = sorted(range(len(places)), key=lambda i: -_shared(target, places[i], self.rules))[:USED]
        chosen = [places[i] for i in order]
        matrix = [
            [_shared(a, b, self.rules) + (self.rules.noise * a.width**2 if i == j else 0.0)
             for j, b in enumerate(chosen)]
            for i, a in enumerate(chosen)
        ]  # fmt: skip
        near = [_shared(target, p, self.rules) for p in chosen]
        errors = [math.log(self.measurements[i].ratio) for i in order]
        weights, surprise = _solve(matrix, near), _solve(matrix, errors)
        whole = _shared(target, target, self.rules) + self.rules.noise * target.width**2
        left = max(0.0, whole - sum(w * n for w, n in zip(weights, near, strict=True)))
        size = self._size_of_errors(sum(s * e for s, e in zip(surprise, errors, strict=True)), len(errors))
        widest = target.width * max(1.0, math.sqrt(size / self.rules.usual))
        wide = min(widest, self.rules.reach * math.sqrt(size * left))
        expected = sum(w * e for w, e in zip(weights, errors, strict=True))
        return Adjustment(math.exp(expected), math.exp(wide))

    def _size_of_errors(self, squares: float, count: int) -> float:
        """Mean square of the errors on this machine, between what was measured and what is usual."""
        usual = self.rules.usual_count
        return (squares + usual * self.rules.usual) / (count + usual)


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


def find_evidence(deployment: Deployment, format_: str, layout: str, rules: EvidenceRules) -> Evidence | None:
    """Measurements for a deployment on the machine it was probed on; None elsewhere, and where nothing was measured."""
    if deployment.machine is None or deployment.machine.source != "probe":
        return None
    here = fingerprint_machine(deployment.machine)
    kept = load_measurements().measurements
    chosen = tuple(m for m in kept if (m.machine, m.engine) == (here, deployment.engine))
    if not chosen:
        return None
    return Evidence(chosen, deployment.model.id, deployment.quantization, format_, layout, rules)


def measurements_path() -> Path:
    """Where the measurements are kept."""
    return data_dir() / "calibration.json"


def load_measurements() -> MeasuredSpeeds:
    """All measurements; none where nothing was measured. Raises BadFile for a file that is none of ours."""
    where = measurements_path()
    if not where.exists():
        return MeasuredSpeeds()
    data = read_bytes(where, LIMIT)
    try:
        try:
            return decode_json(data, MeasuredSpeeds)
        except msgspec.ValidationError:
            return _read_earlier(data)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise BadFile(where, f"is no file of measured speeds ({e}); `advise calibrate --forget` removes it") from None


def _read_earlier(data: bytes) -> MeasuredSpeeds:
    """Runs that an earlier version kept: their factors on decoding and prompts."""
    out = []
    for run in decode_json(data, _EarlierFile).runs:
        for kind, ratio, bound in (("decode", run.decode, 1.2), ("prefill", run.prefill, 1.7)):  # bounds of then
            out.append(
                SpeedMeasurement(
                    date=run.date, machine=run.machine, engine=run.engine, engine_version=run.engine_version,
                    model=run.model, quantization=run.quantization, format=run.format, kind=kind, concurrency=1,
                    prompt_tokens=run.prompt_tokens, output_tokens=run.output_tokens, measured=None, ratio=ratio,
                    bound=bound, tool=run.tool,
                )
            )  # fmt: skip
    return MeasuredSpeeds(measurements=tuple(out))


def store_measurements(new: Sequence[SpeedMeasurement]) -> Path:
    """Adds measurements; earlier ones of the same quantity and load go. Raises BadFile, BadInput."""

    def quantity(known: SpeedMeasurement) -> tuple[object, ...]:
        return (known.machine, known.engine, known.model, known.quantization, known.layout, known.kind,
                known.concurrency, known.prompt_tokens, known.output_tokens, known.depth_tokens)  # fmt: skip

    replaced = {quantity(m) for m in new}
    kept = [m for m in load_measurements().measurements if quantity(m) not in replaced]
    where = measurements_path()
    data = msgspec.json.format(msgspec.json.encode(MeasuredSpeeds(measurements=(*kept, *new)[-KEPT:])))
    replace_file(where, data)
    return where


def forget_measurements() -> int:
    """Removes all measurements; how many there were (0 also for a file that could not be read)."""
    try:
        n = len(load_measurements().measurements)
    except BadFile:
        n = 0
    measurements_path().unlink(missing_ok=True)
    return n
