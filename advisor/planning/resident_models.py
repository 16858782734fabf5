"""Models that stay loaded beside the one that is sized: what they take, and what they leave of the card."""

from __future__ import annotations

import math

import msgspec

from advisor import estimation, formats
from advisor.catalog import Catalog
from advisor.catalog.resolve import choose_file_format, resolve_model
from advisor.deployment import Deployment
from advisor.engines.flags import find_own_flag
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.units import format_gib

FAMILY = "gguf"  # a second model beside the first is usually a small one, in a format of this family
LENGTH = 4096
LARGEST_SHARE = 0.9  # of a card that is not one server's alone


def estimate_resident_bytes(names: tuple[str, ...], machine: Machine, rules: Catalog) -> int:
    """Bytes of device memory (host memory without devices) that further models take, each for one request of 4k.

    Raises UnknownName, BadInput.
    """
    entry, total = formats.usual_engine(FAMILY, rules), 0
    layers = find_own_flag(entry, "layers_on_device")
    for name in names:
        found = resolve_model(name, rules)
        quantization = formats.choose_format(
            choose_file_format(found, None, rules), entry, found.model, rules
        ).quantization
        deployment = Deployment(
            model=found.model,
            engine=entry.id,
            quantization=quantization.id,
            machine=machine,
            device_count=1 if machine.usable_devices else None,
            context_length=min(LENGTH, found.model.max_context or LENGTH),
            settings={layers: "all"} if layers and machine.usable_devices else {},
            model_path=found.path,
        )
        estimate = estimation.estimate(deployment, rules)
        row = estimate.devices[0] if estimate.devices else estimate.host
        if row is None or row.total_bytes is None:
            raise BadInput(f"{found.model.id}: its size beside the others cannot be told")
        total += row.total_bytes
    return total


def reserve_resident_bytes(machine: Machine, taken: int) -> tuple[Machine, float | None, str]:
    """The machine with `taken` bytes gone from its first device (or host), the share of the card left, and a note."""
    devices = machine.usable_devices
    note = f"the other models stay loaded: about {format_gib(taken, 1)} of the memory are theirs"
    if not devices or devices[0].total_bytes is None:
        return machine, None, note
    first = devices[0]
    total = first.total_bytes or 0
    free = max(0, min(first.free_bytes if first.free_bytes is not None else total, total) - taken)
    left = msgspec.structs.replace(first, free_bytes=free)
    changed = tuple(left if d is first else d for d in machine.devices)
    share = math.floor(100 * min(LARGEST_SHARE, 0.97 * free / total)) / 100 if total else None
    return msgspec.structs.replace(machine, devices=changed), share or None, note
