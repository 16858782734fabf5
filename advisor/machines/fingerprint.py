"""What makes things that were measured on machines comparable."""

from __future__ import annotations

from advisor.machines.types import Machine


def fingerprint_machine(machine: Machine) -> str:
    """Devices and processor of a machine, by their names."""
    names = [x.name for x in machine.usable_devices]
    devices = ", ".join(f"{names.count(n)}x {n}" for n in dict.fromkeys(names)) or "no accelerator"
    return (
        f"{devices}; {machine.cpu.model or machine.cpu.platform or 'unknown processor'}, "
        f"{machine.cpu.physical_cores or '?'} cores"
    )
