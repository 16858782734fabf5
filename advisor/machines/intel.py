"""Intel GPUs from sysfs: the xe driver's tiles, i915's local memory; integrated graphics share the host's memory."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.machines import pci, reading
from advisor.machines.reading import Found
from advisor.machines.types import Device

INTEGRATED_BUS = "0000:00:02.0"  # Intel's integrated graphics always sit here


def probe_intel(root: Path) -> Found:
    """Intel GPUs that xe or i915 drives.

    Free memory is not read: both drivers hide it from users or report the total as free.
    """
    devices: list[Device] = []
    drivers: dict[str, str] = {}
    for f in pci.accelerators(root):
        if f.vendor != "intel" or f.driver not in ("xe", "i915"):
            continue
        drivers[f.driver] = reading.text(root / "sys/module" / f.driver / "version") or "in-kernel"
        total = _xe(f.folder) or _i915(f.folder)
        integrated = total is None and f.bus == INTEGRATED_BUS
        notes = []
        if integrated:
            notes.append("integrated graphics: shares the host's memory")
        elif total is None:
            notes.append("this kernel does not tell the card's memory size")
        devices.append(
            Device(
                index=len(devices),
                name=f"Intel GPU [{f.id}]",
                vendor="intel",
                pci_id=f.id,
                pci_subsystem=f.subsystem,
                pci_bus=f.bus,
                total_bytes=total,
                total_basis=None if total is None else "reported",
                unified=integrated,
                pcie_generation=f.generation,
                pcie_width=f.width,
                notes=tuple(notes),
            )
        )
    return Found(tuple(devices), drivers)


def _xe(folder: Path) -> int | None:
    """VRAM of the xe driver: the sum over the card's tiles."""
    tiles = [n for n in reading.names(folder) if re.fullmatch(r"tile\d+", n)]
    sizes = [reading.number(folder / t / "physical_vram_size_bytes") for t in tiles]
    return sum(s for s in sizes if s) or None


def _i915(folder: Path) -> int | None:
    """VRAM of the i915 driver."""
    for card in reading.names(folder / "drm"):
        if re.fullmatch(r"card\d+", card):
            size = reading.number(folder / "drm" / card / "lmem_total_bytes")
            if size:
                return size
    return None
