"""`advise probe` as text."""

from __future__ import annotations

from advisor.machines.types import Device, Machine
from advisor.report.text import bullets, wrap_text
from advisor.units import format_gib


def describe_machine(machine: Machine) -> str:
    """The machine, one fact a line; unknown is stated."""
    out = []

    def line(name: str, value: object) -> None:
        out.append(wrap_text("unknown" if value is None or value == "" else str(value), f"{name + ':':15}", " " * 15))

    system = " ".join(str(x) for x in (machine.os, machine.os_version, machine.arch) if x)
    line(
        "system",
        system + (" (WSL)" if machine.wsl else "") + (f", in {machine.container}" if machine.container else ""),
    )
    cores = f"{machine.cpu.physical_cores or 'unknown'} cores, {machine.cpu.logical_cores or 'unknown'} threads"
    usable = f", {machine.cpu.usable_cores:g} usable" if machine.cpu.usable_cores is not None else ""
    line("CPU", f"{machine.cpu.model or 'unknown'}; {cores}{usable}")
    line("CPU flags", " ".join(machine.cpu.flags) if machine.cpu.flags is not None else None)
    ram = format_gib(machine.memory.total_bytes, 1)
    if machine.memory.available_bytes is not None:
        ram += f", {format_gib(machine.memory.available_bytes, 1)} available"
    if machine.memory.limit_bytes is not None:
        ram += f", limited to {format_gib(machine.memory.limit_bytes, 1)}"
    line("RAM", ram)
    for device in machine.devices:
        line(f"GPU {device.index}", _device(device))
    if not machine.devices:
        line("GPU", "none found")
    if machine.interconnect:
        line("interconnect", machine.interconnect)
    if machine.drivers:
        line("drivers", ", ".join(f"{k} {v}" for k, v in machine.drivers.items()))
    if machine.npu:
        line("NPU", machine.npu)
    engines = [f"{e.engine} {e.version or e.build or '(version unknown)'}" for e in machine.engines]
    line("engines", ", ".join(engines) or "none found")
    line("docker", {True: "yes", False: "no", None: None}[machine.docker])
    notes = [*machine.notes, *(f"GPU {d.index}: {n}" for d in machine.devices for n in d.notes)]
    if notes:
        out += ["", "Notes:", *bullets(notes)]
    return "\n".join(out)


def _device(device: Device) -> str:
    parts = [device.name]
    memory = format_gib(device.total_bytes, 1)
    if device.total_basis and device.total_basis != "reported":
        memory += f" ({device.total_basis})"
    if device.free_bytes is not None:
        memory += f", {format_gib(device.free_bytes, 1)} free"
    parts.append(memory + (" of host memory" if device.unified else ""))
    if device.compute_capability:
        parts.append(f"compute capability {device.compute_capability}")
    if device.gfx:
        parts.append(device.gfx + (f" (overridden as {device.gfx_override})" if device.gfx_override else ""))
    if device.mig_profile:
        parts.append(f"MIG {device.mig_profile}")
    if device.power_limit_watts is not None:
        parts.append(f"{device.power_limit_watts:.0f} W")
    if device.driver_missing:
        parts.append("driver missing")
    if not device.visible:
        parts.append("hidden by the environment")
    if device.accelerator is None:
        parts.append("not in the catalogue")
    return "; ".join(parts)
