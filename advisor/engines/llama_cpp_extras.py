"""What llama-server loads next to a model: the projector of images with its encoder's scratch, and LoRA adapters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from advisor.deployment import Deployment
from advisor.engines.base import get_flag, get_setting
from advisor.memory.gguf_weights import weights_from_file
from advisor.memory.placement import HOST
from advisor.models.types import Vision
from advisor.record import Record

# Warm-up encodes an image of 1472 x 1472 where a tower takes any size, in patches of 16 (14 in older ones); one of the
# tower's own size else. Per patch the fullest moment holds the widened row and three plain ones in 4 bytes: 250.5 MiB
# for Qwen3.6-27B, whose log has 248.1 (two public logs of May 2026, flash attention on).
PATCHES = (1472 // 16) ** 2
ROWS = 3
SCRATCH_RANGE = (0.3, 3.0)  # of towers that no log was seen of; assumed


class Extras(Record, frozen=True, kw_only=True):
    """Bytes by place (-1 = host): what stays, and scratch as (low, value, high); and what is not counted."""

    weights: dict[int, int]
    scratch: dict[int, tuple[int, int, int]]
    notes: tuple[str, ...] = ()


NOTHING = Extras(weights={}, scratch={})
NO_PROJECTOR = Extras(weights={}, scratch={}, notes=("image projector (mmproj)",))


def list_extras(deployment: Deployment, where: tuple[int, ...], flash: bool, on_devices: bool) -> Extras:
    """The extras of a launch; `where` is the device of each layer, the output's last. Raises BadFile for a bad file."""
    vision = deployment.model.vision
    if not loads_extras(deployment):
        return NOTHING if vision is None else NO_PROJECTOR
    weights: Counter[int] = Counter()
    scratch: dict[int, tuple[int, int, int]] = {}
    notes = []
    projector = size_projector(deployment)
    if projector:
        at = 0 if on_devices and not get_flag(deployment.settings, "no-mmproj-offload") else HOST
        weights[at] += projector
        value = size_encoder_scratch(vision) if vision is not None and flash else None
        if value is None:
            notes.append("scratch of the image encoder")
        else:
            low, high = (int(value * x) for x in SCRATCH_RANGE)
            scratch[at] = low, value, high
    elif projector is None or vision is not None:
        notes += NO_PROJECTOR.notes
    for path in _adapter_paths(deployment):
        if not path.is_file():
            notes.append("a LoRA adapter, whose file is not here")
            continue
        layers = Counter(where[:-1])
        for place, n in layers.items():  # each matrix lies where its layer does
            weights[place] += weights_from_file(path).file_bytes * n // layers.total()
    return Extras(weights=dict(weights), scratch=scratch, notes=tuple(dict.fromkeys(notes)))


def loads_extras(deployment: Deployment) -> bool:
    """Whether the launch names a projector or adapters."""
    return get_setting(deployment.settings, "mmproj", "mm", "lora", "lora-scaled") is not None


def size_projector(deployment: Deployment) -> int | None:
    """Bytes of the projector that `--mmproj` loads: the file's, else 16 bit a parameter; 0 without, None unknown."""
    path = get_setting(deployment.settings, "mmproj", "mm")
    if path is None:
        return 0
    if Path(str(path)).is_file():
        return weights_from_file(Path(str(path))).file_bytes
    return None if deployment.model.vision is None else 2 * deployment.model.vision.params


def size_encoder_scratch(vision: Vision) -> int | None:
    """Bytes that the encoder of a tower takes with flash attention; None where its widths are not known."""
    if not vision.hidden or not vision.intermediate:
        return None
    return 4 * (vision.positions or PATCHES) * (vision.intermediate + ROWS * vision.hidden)


def _adapter_paths(deployment: Deployment) -> list[Path]:
    """Files of `--lora A,B` and `--lora-scaled A:0.5,B:1`."""
    plain = str(get_setting(deployment.settings, "lora") or "").split(",")
    scaled = str(get_setting(deployment.settings, "lora-scaled") or "").split(",")
    return [Path(x) for x in (*plain, *(x.rpartition(":")[0] or x for x in scaled)) if x]
