"""Intel GPUs from sysfs: the xe driver's tiles, i915's local memory; integrated graphics share the host's memory."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.machines import pci
from advisor.machines.system_access import ProbeResult, list_names, read_number, read_system_text
from advisor.machines.types import Device

INTEGRATED_BUS = "0000:00:02.0"  # Intel's integrated graphics always sit here


def probe_intel(root: Path) -> ProbeResult:
    """Intel GPUs that xe or i915 drives.

    Free memory is not read: both drivers hide it from users or report the total as free.
    """
    devices: list[Device] = []
    drivers: dict[str, str] = {}
    for card in pci.find_functions(root):
        if card.vendor != "intel" or card.driver not in ("xe", "i915"):
            continue
        drivers[card.driver] = read_system_text(root / "sys/module" / card.driver / "version") or "in-kernel"
        total = _xe(card.folder) or _i915(card.folder)
        integrated = total is None and card.bus == INTEGRATED_BUS
        notes = []
        if integrated:
            notes.append("integrated graphics: shares the host's memory")
        elif total is None:
            notes.append("this kernel does not report the card's memory size")
        devices.append(
            pci.describe_device(
                card,
                len(devices),
                f"Intel GPU [{card.id}]",
                total_bytes=total,
                total_basis=None if total is None else "reported",
                unified=integrated,
                notes=tuple(notes),
            )
        )
    return ProbeResult(tuple(devices), drivers)


def _xe(folder: Path) -> int | None:
    """VRAM of the xe driver: the sum over the card's tiles."""
    tiles = [n for n in list_names(folder) if re.fullmatch(r"tile\d+", n)]
    sizes = [read_number(folder / t / "physical_vram_size_bytes") for t in tiles]
    return sum(s for s in sizes if s) or None


def _i915(folder: Path) -> int | None:
    """VRAM of the i915 driver."""
    for card in list_names(folder / "drm"):
        if re.fullmatch(r"card\d+", card):
            size = read_number(folder / "drm" / card / "lmem_total_bytes")
            if size:
                return size
    return None
