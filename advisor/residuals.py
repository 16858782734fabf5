"""What `advise calibrate` read from start-up logs of a machine, and how later estimates for that machine use it.

A log tells what an engine took that the rules did not predict: of the weights, and of everything except weights and
cache. Both are kept as residuals, logged less predicted, by machine, engine, release and class of model. What was read
for the model itself counts before what was read for another model of its class, which says nothing of its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from advisor import engines
from advisor.catalog.roots import data_dir
from advisor.catalog.types import Engine
from advisor.decoding import decode_json
from advisor.deployment import Correction, Deployment
from advisor.engines.base import get_flag, get_integer, get_setting
from advisor.engines.versions import version_key
from advisor.errors import BadFile
from advisor.files import read_bytes, replace_file
from advisor.machines.types import Machine, fingerprint_machine
from advisor.memo import memoize_by_identity
from advisor.memory.layers import cache_layers
from advisor.models.types import Model
from advisor.patterns import pattern_when_used
from advisor.record import Record
from advisor.units import GIB, format_gib

_SWITCHES = ("eager", "text_only", "lora")
_SIZES = ("tensor_parallel", "pipeline_parallel", "data_parallel")
_WORD = pattern_when_used(r"[a-z0-9_-]{1,30}")
KNOWN_WEIGHTS = GIB // 4  # a log whose weights differ by more says nothing of other models
KEPT = 200  # logs; the oldest go first
LIMIT = 2**20


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


class ResidualHistory(Record, frozen=True, kw_only=True):
    """The file."""

    schema: int = 1
    residuals: tuple[MemoryResidual, ...] = ()


def residuals_path() -> Path:
    """Where they are kept."""
    return data_dir() / "memory-calibration.json"


def classify_model(model: Model) -> str:
    """Models whose working memory is alike: dense or routed experts, with recurrent states, with a vision tower."""
    words = ["moe" if model.is_moe else "dense"]
    words += ["states"] if any(x.recurrent for x in cache_layers(model)) else []
    words += ["vision"] if model.vision is not None else []
    return ", ".join(words)


def describe_launch(deployment: Deployment, entry: Engine) -> dict[str, str]:
    """What of a launch decides which parts there are other than weights and cache, in plain words: no path, no name."""
    out = {}
    for name in _SWITCHES:
        if get_flag(deployment.settings, *getattr(entry.concepts, name).flags):
            out[name] = "on"
    for name in _SIZES:
        size = get_integer(deployment.settings, *getattr(entry.concepts, name).flags)
        if size is not None and size > 1:
            out[name] = str(size)
    if get_setting(deployment.settings, *entry.concepts.speculative.flags) is not None:
        method = engines.find_method_name(deployment.settings, entry) or "on"
        out["speculative"] = method if _WORD.fullmatch(method) else "on"
    return out


def load_residuals() -> tuple[MemoryResidual, ...]:
    """All of them; none where no log was read. Raises BadFile for a file that is none of ours."""
    where = residuals_path()
    if not where.exists():
        return ()
    try:
        return decode_json(read_bytes(where, LIMIT), ResidualHistory).residuals
    except (msgspec.MsgspecError, RecursionError) as e:
        raise BadFile(
            where, f"is no file of `advise calibrate` ({e}); `advise calibrate --forget` removes it"
        ) from None


def store_residual(residual: MemoryResidual) -> Path:
    """Adds one; an earlier one of the same launch goes. Raises BadFile, BadInput."""
    fields = ("machine", "engine", "engine_version", "model", "quantization", "ranks", "launch")

    def same(memory_residual: MemoryResidual) -> tuple[object, ...]:
        return tuple(getattr(memory_residual, f) for f in fields)

    kept = [r for r in load_residuals() if same(r) != same(residual)]
    where = residuals_path()
    data = msgspec.json.format(msgspec.json.encode(ResidualHistory(residuals=(*kept, residual)[-KEPT:])))
    replace_file(where, data)
    return where


def forget_residuals() -> int:
    """Removes all; how many there were (0 also for a file that could not be read)."""
    try:
        n = len(load_residuals())
    except BadFile:
        n = 0
    residuals_path().unlink(missing_ok=True)
    return n


def release(version: str | None) -> tuple[int, ...]:
    """What versions of one release have in common: its first two numbers; a build number is its own."""
    return version_key(version or "")[:2]


@memoize_by_identity
def list_residuals(machine: Machine) -> tuple[MemoryResidual, ...]:
    """Those of a machine, the newest last."""
    known = load_residuals()
    if not known:
        return ()
    here = fingerprint_machine(machine)
    return tuple(r for r in known if r.machine == here)


def find_residual(
    deployment: Deployment, entry: Engine, ranks: int, known: Sequence[MemoryResidual] | None = None
) -> MemoryResidual | None:
    """The newest one that says most of a deployment on `ranks` devices; None where nothing like it was read.

    `entry` is the engine's, or that of the engine beneath.

    A version that is not stated is the one that was logged: it is what runs on the machine.
    """
    if deployment.machine is None:
        return None
    of_machine = list_residuals(deployment.machine) if known is None else known
    if not of_machine:
        return None
    kind = (deployment.engine, classify_model(deployment.model), ranks, describe_launch(deployment, entry))
    stated_version = deployment.engine_version
    alike = [
        r
        for r in of_machine
        if (r.engine, r.model_class, r.ranks, r.launch) == kind
        and (stated_version is None or r.engine_version is None or release(r.engine_version) == release(stated_version))
    ]
    own = [r for r in alike if is_of_model(r, deployment)]
    chosen = own or [r for r in alike if abs(r.weights_bytes) <= KNOWN_WEIGHTS]
    return chosen[-1] if chosen else None


def is_of_model(residual: MemoryResidual, deployment: Deployment) -> bool:
    """Whether it was read for this very model in this format, so that it says something of the weights, too."""
    return (residual.model, residual.quantization) == (deployment.model.id, deployment.quantization)


def make_correction(residual: MemoryResidual, deployment: Deployment) -> Correction:
    """What a residual changes of an estimate, and the line that says so."""
    own = is_of_model(residual, deployment)
    weights = residual.weights_bytes if own else 0
    of = " ".join(w for w in (residual.engine, residual.engine_version) if w)
    what = f"{residual.model} {residual.quantization}" if own else f"{residual.model}, a model of its class"
    parts = [f"{_signed(residual.beside_bytes)} in addition to weights and cache"]
    parts += [f"{_signed(weights)} of weights"] if weights else []
    return Correction(
        weights_bytes=weights,
        beside_bytes=residual.beside_bytes,
        same_model=own,
        note=f"calibrated by a start-up log of this machine ({of}, {what}, read {residual.date}): {', '.join(parts)}",
    )


def _signed(size: int) -> str:
    return ("+" if size >= 0 else "-") + format_gib(abs(size))
