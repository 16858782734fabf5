"""The probe: asks every source once and assembles the Machine. A source that fails leaves None and a note."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TypeVar

import msgspec

from advisor.machines import (
    amd,
    apple,
    device_visibility,
    host,
    installed_engines,
    intel,
    nvidia,
    pci,
)
from advisor.machines.system_access import (
    ProbeResult,
    RunCommand,
    parse_fields,
    parse_whole_number,
    path_exists,
    read_number,
    read_system_text,
    run_command,
    run_nothing,
    run_slow_command,
)
from advisor.machines.types import Cpu, Device, HostMemory, InstalledEngine, Machine
from advisor.record import Value

T = TypeVar("T")
N = TypeVar("N", int, float)
NO_LIMIT = 2**62  # cgroup v1 writes 2**63 rounded down to a page for "none"


class ProbeReaders(Value, frozen=True):
    """What the probe reads besides files. Tests put recordings here."""

    system: str  # sys.platform's word
    arch: str | None
    run: RunCommand
    nvml: ModuleType | None  # the pynvml module or a recording; None = not here
    amdsmi: ModuleType | None
    metal: Callable[[], int | None]
    site: tuple[Path, ...] | None = None  # folders with *.dist-info; None = this Python's own


class ProcessLimits(Value, frozen=True):
    """Tightest limits found; None = none."""

    memory_bytes: int | None = None
    cpus: float | None = None  # CPU time quota in cores
    affinity: int | None = None  # logical CPUs this process may run on


def live_readers(root: Path, env: Mapping[str, str]) -> ProbeReaders:
    """The readers of the running machine. NVIDIA's and AMD's modules load only where their library is."""
    import os

    system = "linux" if sys.platform.startswith("linux") else sys.platform
    arch = os.uname().machine if hasattr(os, "uname") else env.get("PROCESSOR_ARCHITECTURE")
    return ProbeReaders(
        system=system,
        arch=arch,
        run=run_command if system == "linux" else run_slow_command,
        nvml=nvidia.load_nvml(root, env, system),
        amdsmi=amd.load_amdsmi(root) if system == "linux" else None,
        metal=apple.read_metal_working_set,
    )


def recorded_readers(system: str = "linux", arch: str | None = None) -> ProbeReaders:
    """Readers for a recorded tree: nothing is started and no library is loaded."""
    return ProbeReaders(system, arch, run_nothing, None, None, lambda: None, ())


def probe_machine(
    root: Path = Path("/"),
    env: Mapping[str, str] | None = None,
    *,
    readers: ProbeReaders | None = None,
    engines: installed_engines.KnownEngines | None = None,
) -> Machine:
    """What this machine is. Never raises for a source that fails; `notes` say what is missing.

    `root` other than `/` is a recorded tree: then nothing outside it is read and no program starts, unless `readers`
    say so. `engines` are those to look for, by the catalogue; without them none is found.
    """
    import os

    live = root == Path("/")
    if env is None:
        env = os.environ if live else {}
    if readers is None:
        readers = live_readers(root, env) if live else recorded_readers()
    notes: list[str] = []
    here = _try("host", lambda: host.read_host(root, env, readers.system, readers.arch), Machine(), notes)
    memory = _try("memory", lambda: _memory(root, readers.system), HostMemory(), notes)
    processor = _try("processor", lambda: _cpu(root, readers), Cpu(), notes)
    caps = _try("limits", lambda: read_limits(root), ProcessLimits(), notes)
    found = _devices(root, env, readers, memory, processor, notes)
    devices, hidden = device_visibility.apply_visibility(found.devices, env)
    there: tuple[InstalledEngine, ...] = _try(
        "engines",
        lambda: installed_engines.read_installed(root, env, readers.run, readers.site, engines, readers.system),
        (),
        notes,
    )
    cores = [float(x) for x in (processor.logical_cores, caps.affinity, caps.cpus) if x is not None]
    return msgspec.structs.replace(
        here,
        cpu=msgspec.structs.replace(processor, usable_cores=min(cores, default=None)),
        memory=msgspec.structs.replace(memory, limit_bytes=caps.memory_bytes),
        devices=devices,
        interconnect=_interconnect(devices),
        drivers=found.drivers,
        engines=there,
        docker=_try("docker", lambda: host.read_docker(root, env, readers.system), None, notes),
        npu=_try("npu", lambda: host.read_npu(root, readers.system, readers.run), None, notes),
        python=host.python_version(),
        notes=tuple(dict.fromkeys([*notes, *found.notes, *hidden])),
    )


def _try(what: str, read: Callable[[], T], otherwise: T, notes: list[str]) -> T:
    """The answer of one source, or `otherwise` and a note: one broken source must not hide the others."""
    try:
        return read()
    except Exception as e:
        notes.append(f"{what}: could not be read ({type(e).__name__}: {str(e)[:120]})")
        return otherwise


def _memory(root: Path, system: str) -> HostMemory:
    found = host.read_meminfo(root)
    return host.read_psutil_memory() if found.total_bytes is None and system in ("darwin", "win32") else found


def _cpu(root: Path, readers: ProbeReaders) -> Cpu:
    if readers.system == "darwin":
        return host.read_macos(readers.run)
    if readers.system == "win32":
        return host.read_windows(readers.run)
    return host.read_linux(root)


def _devices(
    root: Path, env: Mapping[str, str], readers: ProbeReaders, memory: HostMemory, processor: Cpu, notes: list[str]
) -> ProbeResult:
    """All vendors' devices, renumbered, then whatever is left on the bus."""
    sources: list[tuple[str, Callable[[], ProbeResult]]] = []
    nvml = readers.nvml
    if nvml is not None:
        named = device_visibility.list_mig_uuids(env)
        sources.append(("nvidia", lambda: nvidia.probe_nvidia(nvml, root, memory, named)))
    if readers.system == "linux":
        sources.append(("amd", lambda: amd.probe_amd(root, env, processor.model, memory, readers.amdsmi)))
        sources.append(("intel", lambda: intel.probe_intel(root)))
    if readers.system == "darwin":
        sources.append(("apple", lambda: apple.probe_apple(readers.run, memory, readers.metal)))
    devices: list[Device] = []
    drivers: dict[str, str] = {}
    source_notes: list[str] = []
    for name, source in sources:
        found = _try(name, source, ProbeResult(), notes)
        devices += found.devices
        drivers |= found.drivers
        source_notes += found.notes
    claimed = {d.pci_bus for d in devices if d.pci_bus is not None}
    if readers.system == "linux" and not (nvml is None and host.is_wsl(root)):
        rest = _try("pci", lambda: pci.find_unclaimed_devices(root, claimed), ProbeResult(), notes)
        why = next((n for n in source_notes if n.startswith("NVIDIA driver")), None)
        devices += [
            msgspec.structs.replace(d, driver_missing=True, visible=True, notes=(why,))
            if d.vendor == "nvidia" and why
            else d
            for d in rest.devices
        ]
        source_notes += rest.notes
    numbered = tuple(msgspec.structs.replace(d, index=i) for i, d in enumerate(devices))
    return ProbeResult(numbered, drivers, tuple(source_notes))


def _interconnect(devices: tuple[Device, ...]) -> str | None:
    """`nvlink` when every usable card has links up, `pcie` when several cards have none; None when not known."""
    cards = [d for d in devices if d.vendor == "nvidia" and not d.driver_missing and d.mig_profile is None]
    if len(cards) < 2 or any(d.driver_missing is False and d.vendor != "nvidia" for d in devices if d.visible):
        return None
    if all(d.nvlink_active for d in cards):
        return "nvlink"
    return "pcie" if not any(d.nvlink_active for d in cards) else None


def read_limits(root: Path) -> ProcessLimits:
    """Limits of this process. Every level counts: a parent's lower limit holds for its children."""
    memory: list[int] = []
    cpus: list[float] = []
    for line in (read_system_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            for base in (root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"):
                memory += _read_levels(base, path, _memory_v2)
                cpus += _read_levels(base, path, _cpu_v2)
            continue
        names = controllers.split(",")
        for mount in dict.fromkeys((controllers, *names)):
            base = root / "sys/fs/cgroup" / mount
            if "memory" in names:
                memory += _read_levels(base, path, _memory_v1)
            if "cpu" in names:
                cpus += _read_levels(base, path, _cpu_v1)
    return ProcessLimits(min(memory, default=None), min(cpus, default=None), _affinity(root))


def count_listed_cpus(text: str) -> int | None:
    """How many CPUs a kernel list such as `0-3,8` names; None when it is not one."""
    count = 0
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        first, last = parse_whole_number(low), parse_whole_number(high if dash else low)
        if first is None or last is None or last < first:
            return None
        count += last - first + 1
    return count


def _read_levels(base: Path, path: str, read: Callable[[Path], N | None]) -> list[N]:
    """The limit at every level from the mount down to `path`. A path of another namespace (`/../x`, or one that is
    not mounted here) leaves the mount itself, which then is the container's own group."""
    folder, found = base, [read(base)]
    for part in PurePosixPath(path).parts:
        if part in ("/", ".."):
            continue
        folder = folder / part
        if not path_exists(folder):
            break
        found.append(read(folder))
    return [x for x in found if x is not None]


def _memory_v2(folder: Path) -> int | None:
    return read_number(folder / "memory.max")  # the text "max" is no number


def _memory_v1(folder: Path) -> int | None:
    n = read_number(folder / "memory.limit_in_bytes")
    return n if n is not None and 0 < n < NO_LIMIT else None


def _cpu_v2(folder: Path) -> float | None:
    quota, _, period = (read_system_text(folder / "cpu.max") or "").partition(" ")
    return _share(parse_whole_number(quota), parse_whole_number(period))


def _cpu_v1(folder: Path) -> float | None:
    return _share(read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us"))


def _share(quota: int | None, period: int | None) -> float | None:
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _affinity(root: Path) -> int | None:
    allowed = parse_fields(read_system_text(root / "proc/self/status"), ":").get("Cpus_allowed_list")
    return count_listed_cpus(allowed) if allowed else None
