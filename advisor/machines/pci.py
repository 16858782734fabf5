"""Accelerators on the PCI bus, from /sys/bus/pci alone: what is there when no driver answers.

Also reads the PCI facts (ids, link) that the vendor probes share.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from advisor.machines.system_access import (
    ProbeResult,
    list_names,
    parse_fields,
    path_exists,
    read_number,
    read_system_text,
)
from advisor.machines.types import Device, Vendor
from advisor.record import Value

VENDORS: dict[str, Vendor] = {
    "10de": "nvidia", "1002": "amd", "8086": "intel", "1da3": "habana", "1d0f": "aws", "1ae0": "google",
}  # fmt: skip
# PCI base classes: VGA, 3D and other display controllers, processing accelerators.
DISPLAY = ("0300", "0302", "0380", "1200")
# Not display class, known by id (AWS Neuron as in the catalogue, Google TPU as in pci.ids).
BY_ID = {
    "1d0f:7064", "1d0f:7164", "1d0f:7264", "1d0f:7364", "1d0f:7564", "1d0f:7565",
    "1ae0:005e", "1ae0:0062", "1ae0:0063", "1ae0:006f", "1ae0:0076",
}  # fmt: skip
DRIVERS = {
    "nvidia": ("nvidia",), "amd": ("amdgpu",), "intel": ("i915", "xe"), "habana": ("habanalabs",), "aws": ("neuron",),
    "google": ("gasket", "apex", "vfio-pci"),
}  # fmt: skip
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # by GT/s


class PciFunction(Value, frozen=True):
    """One accelerator function on the bus."""

    bus: str  # "0000:01:00.0"
    id: str  # "10de:2684"
    subsystem: str | None
    vendor: Vendor
    driver: str | None
    folder: Path
    generation: int | None
    width: int | None


def find_functions(root: Path) -> tuple[PciFunction, ...]:
    """All display controllers and accelerators of known vendors, in bus order."""
    base = root / "sys/bus/pci/devices"
    found = (read_function(base / bus, bus) for bus in list_names(base))
    return tuple(f for f in found if f is not None)


def read_function(folder: Path, bus: str) -> PciFunction | None:
    """The PCI facts of one device folder; None when it is no accelerator of a known vendor."""
    vendor, device = read_number(folder / "vendor"), read_number(folder / "device")
    if vendor is None or device is None:
        return None
    pci_id = f"{vendor:04x}:{device:04x}"
    known = VENDORS.get(pci_id[:4])
    kind = f"{read_number(folder / 'class') or 0:06x}"[:4]
    if known is None or (kind not in DISPLAY and pci_id not in BY_ID):
        return None
    sub = (
        read_number(folder / "subsystem_vendor"),
        read_number(folder / "subsystem_device"),
    )
    generation, width = read_link(folder)
    return PciFunction(
        bus=bus,
        id=pci_id,
        subsystem=f"{sub[0]:04x}:{sub[1]:04x}" if sub[0] is not None and sub[1] is not None else None,
        vendor=known,
        driver=parse_fields(read_system_text(folder / "uevent"), "=").get("DRIVER"),
        folder=folder,
        generation=generation,
        width=width,
    )


def describe_device(card: PciFunction, index: int, name: str, **fields: Any) -> Device:
    """The device of a function, with its address, ids and link, and what else is known of it."""
    return Device(
        index=index,
        name=name,
        vendor=card.vendor,
        pci_id=card.id,
        pci_subsystem=card.subsystem,
        pci_bus=card.bus,
        pcie_generation=card.generation,
        pcie_width=card.width,
        **fields,
    )


def read_link(folder: Path) -> tuple[int | None, int | None]:
    """PCIe generation the slot allows (idle cards drop the current speed) and the width in use."""
    try:
        speed = float((read_system_text(folder / "max_link_speed") or "nan").split(" ")[0])
    except ValueError:
        speed = 0.0
    width = read_number(folder / "current_link_width")
    return _GENERATIONS.get(speed), width or None


def find_unclaimed_devices(root: Path, claimed: Collection[str]) -> ProbeResult:
    """Devices on the bus that no vendor probe answered for (`claimed` are bus addresses), with the reason."""
    devices: list[Device] = []
    notes: list[str] = []
    for card in find_functions(root):
        if card.bus in claimed:
            continue
        why, missing, hidden = _reason(root, card)
        name = f"{card.vendor} device [{card.id}]"
        if why:
            notes.append(f"{name} at {card.bus}: {why}")
        devices.append(
            describe_device(
                card,
                len(devices),
                name,
                unified=card.vendor == "intel" and card.bus == "0000:00:02.0",
                driver_missing=missing,
                visible=not hidden,
                notes=(why,) if why else (),
            )
        )
    return ProbeResult(tuple(devices), {}, tuple(notes))


def _reason(root: Path, card: PciFunction) -> tuple[str | None, bool, bool]:
    """Why a function did not answer: (text, driver missing, hidden from here)."""
    if card.driver in DRIVERS[card.vendor] and card.vendor not in ("nvidia", "amd"):
        return None, False, False
    if card.vendor == "nvidia" and path_exists(root / "proc/driver/nvidia/version"):
        if card.driver not in (None, "nvidia"):
            return f"bound to {card.driver}, not to the NVIDIA driver", True, False
        if path_exists(root / "dev/nvidiactl"):
            return "the driver is loaded but its library does not answer", True, False
        return "the host's driver is loaded, but the card is not passed into this container", False, True
    if card.driver in DRIVERS[card.vendor]:
        return f"driver {card.driver} is loaded but shows no device here", False, True
    if card.driver:
        return f"driver missing (bound to {card.driver}, which cannot compute)", True, False
    return "driver missing", True, False
