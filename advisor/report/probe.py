"""`advise probe` as text."""

from __future__ import annotations

from advisor.machines.types import Device, Machine
from advisor.report.text import bullets, wrap
from advisor.units import gib


def probed(m: Machine) -> str:
    """The machine, one fact a line; unknown is said."""
    out = []

    def line(name: str, value: object) -> None:
        out.append(wrap("unknown" if value is None or value == "" else str(value), f"{name + ':':15}", " " * 15))

    system = " ".join(str(x) for x in (m.os, m.os_version, m.arch) if x)
    line("system", system + (" (WSL)" if m.wsl else "") + (f", in {m.container}" if m.container else ""))
    cores = f"{m.cpu.physical_cores or 'unknown'} cores, {m.cpu.logical_cores or 'unknown'} threads"
    usable = f", {m.cpu.usable_cores:g} usable" if m.cpu.usable_cores is not None else ""
    line("CPU", f"{m.cpu.model or 'unknown'}; {cores}{usable}")
    line("CPU flags", " ".join(m.cpu.flags) if m.cpu.flags is not None else None)
    ram = gib(m.memory.total_bytes, 1)
    if m.memory.available_bytes is not None:
        ram += f", {gib(m.memory.available_bytes, 1)} available"
    if m.memory.limit_bytes is not None:
        ram += f", limited to {gib(m.memory.limit_bytes, 1)}"
    line("RAM", ram)
    for d in m.devices:
        line(f"GPU {d.index}", _device(d))
    if not m.devices:
        line("GPU", "none found")
    if m.interconnect:
        line("interconnect", m.interconnect)
    if m.drivers:
        line("drivers", ", ".join(f"{k} {v}" for k, v in m.drivers.items()))
    if m.npu:
        line("NPU", m.npu)
    engines = [f"{e.engine} {e.version or e.build or '(version unknown)'}" for e in m.engines]
    line("engines", ", ".join(engines) or "none found")
    line("docker", {True: "yes", False: "no", None: None}[m.docker])
    notes = [*m.notes, *(f"GPU {d.index}: {n}" for d in m.devices for n in d.notes)]
    if notes:
        out += ["", "Notes:", *bullets(notes)]
    return "\n".join(out)


def _device(d: Device) -> str:
    parts = [d.name]
    memory = gib(d.total_bytes, 1)
    if d.total_basis and d.total_basis != "reported":
        memory += f" ({d.total_basis})"
    if d.free_bytes is not None:
        memory += f", {gib(d.free_bytes, 1)} free"
    parts.append(memory + (" of host memory" if d.unified else ""))
    if d.compute_capability:
        parts.append(f"compute capability {d.compute_capability}")
    if d.gfx:
        parts.append(d.gfx + (f" (overridden as {d.gfx_override})" if d.gfx_override else ""))
    if d.mig_profile:
        parts.append(f"MIG {d.mig_profile}")
    if d.power_limit_watts is not None:
        parts.append(f"{d.power_limit_watts:.0f} W")
    if d.driver_missing:
        parts.append("driver missing")
    if not d.visible:
        parts.append("hidden by the environment")
    if d.accelerator is None:
        parts.append("not in the catalogue")
    return "; ".join(parts)
