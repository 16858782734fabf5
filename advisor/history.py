"""What was learnt on this machine and is kept between runs: residuals of start-up logs, and measured speeds.

Each kind is one JSON file in the data folder of the user. `advise calibrate` and `advise bench` write them; estimates
get what a `Session` holds of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import msgspec

from advisor.catalog.roots import data_dir
from advisor.decoding import decode_json
from advisor.errors import BadFile
from advisor.files import hold_alone, read_bytes, replace_file
from advisor.record import Record

T = TypeVar("T", bound=Record)
LIMIT = 2**20
# how many are kept; the oldest go first
KEPT_RESIDUALS = 200
KEPT_MEASUREMENTS = 400
# what makes a new one take an earlier one's place
_LAUNCH = attrgetter("machine", "engine", "engine_version", "model", "quantization", "ranks", "launch")
_QUANTITY = attrgetter(
    "machine", "engine", "model", "quantization", "layout", "kind", "concurrency", "prompt_tokens", "output_tokens",
    "depth_tokens",
)  # fmt: skip


class MemoryResidual(Record, frozen=True, kw_only=True):
    """What one log says beyond the prediction. Bytes, of the fullest device; nothing of the log's own text."""

    date: str  # YYYY-MM-DD, of the reading
    machine: str  # as `fingerprint_machine` writes it
    engine: str
    engine_version: str | None = None
    model: str
    quantization: str
    model_class: str  # as `classify_model` writes it
    ranks: int  # devices the model was spread over
    launch: dict[str, str] = {}  # what of the launch decides the rest, as `describe_launch` writes it
    weights_bytes: int  # logged less predicted
    beside_bytes: int  # the same, of all but weights and cache


class _ResidualFile(Record, frozen=True, kw_only=True):
    schema: int = 1
    residuals: tuple[MemoryResidual, ...] = ()


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


class _MeasurementFile(Record, frozen=True, kw_only=True):
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


def residuals_path() -> Path:
    """Where residuals are kept."""
    return data_dir() / "memory-calibration.json"


def measurements_path() -> Path:
    """Where measured speeds are kept."""
    return data_dir() / "calibration.json"


def load_residuals() -> tuple[MemoryResidual, ...]:
    """All of them, the newest last; none where no log was read. Raises BadFile for a file that is none of ours."""
    return _load(residuals_path(), lambda data: decode_json(data, _ResidualFile).residuals, "`advise calibrate`")


def load_measurements() -> tuple[SpeedMeasurement, ...]:
    """All of them, the newest last; none where nothing was measured. Raises BadFile for a file that is none of ours."""
    return _load(measurements_path(), _read_measurements, "measured speeds")


def store_residual(residual: MemoryResidual) -> Path:
    """Adds one; an earlier one of the same launch goes. Raises BadFile, BadInput."""
    with hold_alone(residuals_path()) as where:
        kept = _replace(load_residuals(), [residual], _LAUNCH)[-KEPT_RESIDUALS:]
        return _write(where, _ResidualFile(residuals=kept))


def store_measurements(new: Sequence[SpeedMeasurement]) -> Path:
    """Adds measurements; earlier ones of the same quantity and load go. Raises BadFile, BadInput."""
    with hold_alone(measurements_path()) as where:
        kept = _replace(load_measurements(), new, _QUANTITY)[-KEPT_MEASUREMENTS:]
        return _write(where, _MeasurementFile(measurements=kept))


def forget_residuals() -> int:
    """Removes all; how many there were (0 also for a file that could not be read)."""
    return _forget(residuals_path(), load_residuals)


def forget_measurements() -> int:
    """Removes all; how many there were (0 also for a file that could not be read)."""
    return _forget(measurements_path(), load_measurements)


def _load(where: Path, read: Callable[[bytes], tuple[T, ...]], of: str) -> tuple[T, ...]:
    if not where.exists():
        return ()
    try:
        return read(read_bytes(where, LIMIT))
    except (msgspec.MsgspecError, RecursionError) as e:
        raise BadFile(where, f"is no file of {of} ({e}); `advise calibrate --forget` removes it") from None


def _replace(known: tuple[T, ...], new: Sequence[T], key: Callable[[T], object]) -> tuple[T, ...]:
    replaced = [key(x) for x in new]
    return (*(x for x in known if key(x) not in replaced), *new)


def _write(where: Path, file: Record) -> Path:
    replace_file(where, msgspec.json.format(msgspec.json.encode(file)))
    return where


def _forget(where: Path, load: Callable[[], tuple[T, ...]]) -> int:
    if not where.exists():
        return 0
    with hold_alone(where):
        try:
            n = len(load())
        except BadFile:
            n = 0
        where.unlink(missing_ok=True)
    return n


def _read_measurements(data: bytes) -> tuple[SpeedMeasurement, ...]:
    try:
        return decode_json(data, _MeasurementFile).measurements
    except msgspec.ValidationError:
        return _read_earlier(data)


def _read_earlier(data: bytes) -> tuple[SpeedMeasurement, ...]:
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
    return tuple(out)
