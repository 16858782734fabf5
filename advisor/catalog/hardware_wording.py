"""The words by which `--on` names a machine: `render` writes them into a file, so that `advise check` knows it."""

from __future__ import annotations

from collections import Counter

from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.store import Catalog
from advisor.errors import AdvisorError
from advisor.machines.types import Device, Machine
from advisor.units import GIB

LONGEST = 200  # characters of a comment
TOLERANCE = 0.05  # a driver shows a little less than a card's nominal memory


def word_hardware(machine: Machine | None, rules: Catalog) -> str | None:
    """Words that `--on` reads as this machine; None where no words name all of its devices."""
    if machine is None:
        return None
    text = " ".join((machine.text or _compose(machine, rules) or "").split())
    if not text or len(text) > LONGEST:
        return None
    try:
        read = parse_hardware(text, rules)
    except AdvisorError:
        return None
    return text if _alike(machine.usable_devices, read.usable_devices) and machine.nodes == read.nodes else None


def _compose(machine: Machine, rules: Catalog) -> str | None:
    cards = rules.accelerators()
    if machine.nodes > 1 or any(d.accelerator not in cards or d.mig_profile for d in machine.usable_devices):
        return None
    counts = Counter(cards[d.accelerator].name for d in machine.usable_devices if d.accelerator)
    parts = [f"{n}x {name}" for name, n in counts.items()] or ["cpu"]
    if machine.memory.total_bytes:
        parts.append(f"{round(machine.memory.total_bytes / GIB)}GB RAM")
    if machine.os:
        parts.append(machine.os)
    return ", ".join(parts)


def _alike(here: tuple[Device, ...], read: tuple[Device, ...]) -> bool:
    """Whether the devices are the same cards, of the same memory where both say it."""
    if Counter(d.accelerator for d in here) != Counter(d.accelerator for d in read):
        return False
    ours, theirs = (sorted(d.total_bytes or 0 for d in devices) for devices in (here, read))
    return all(a == 0 or b == 0 or abs(a - b) <= TOLERANCE * b for a, b in zip(ours, theirs, strict=True))
