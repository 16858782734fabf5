"""How estimates use what `advise calibrate` read from start-up logs of a machine.

A log tells what an engine took that the rules did not predict: of the weights, and of everything except weights and
cache. Both are kept as residuals, logged less predicted, by machine, engine, release and class of model. What was read
for the model itself counts before what was read for another model of its class, which says nothing of its weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor import engines
from advisor.catalog.types import Engine
from advisor.deployment import Correction, Deployment
from advisor.engines.base import get_flag, get_integer, get_setting
from advisor.engines.versions import version_key
from advisor.machines.types import fingerprint_machine
from advisor.memory.layers import cache_layers
from advisor.models.types import Model
from advisor.patterns import pattern_when_used
from advisor.session import Session
from advisor.units import GIB, format_gib

if TYPE_CHECKING:
    from advisor.history import MemoryResidual

_SWITCHES = ("eager", "text_only", "lora")
_SIZES = ("tensor_parallel", "pipeline_parallel", "data_parallel")
_WORD = pattern_when_used(r"[a-z0-9_-]{1,30}")
KNOWN_WEIGHTS = GIB // 4  # a log whose weights differ by more says nothing of other models


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


def release(version: str | None) -> tuple[int, ...]:
    """What versions of one release have in common: its first two numbers; a build number is its own."""
    return version_key(version or "")[:2]


def find_residual(deployment: Deployment, entry: Engine, ranks: int, session: Session) -> MemoryResidual | None:
    """The newest one that says most of a deployment on `ranks` devices; None where nothing like it was read.

    `entry` is the engine's, or that of the engine beneath.

    A version that is not stated is the one that was logged: it is what runs on the machine.
    """
    if deployment.machine is None or not session.residuals:
        return None
    here = fingerprint_machine(deployment.machine)
    of_machine = [r for r in session.residuals if r.machine == here]
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
