"""NVIDIA GPUs through NVML (the `pynvml` module of nvidia-ml-py).

Every field is asked for on its own: any call may be unsupported on some card, and one refusal must not lose the device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from advisor.machines.system_access import ProbeResult, path_exists, read_system_text
from advisor.machines.types import Device, HostMemory
from advisor.patterns import pattern_when_used
from advisor.record import Value

# Chips whose GPU has no memory of its own. NVML answers memory queries there with an error, or with wrong numbers.
INTEGRATED = pattern_when_used(r"\b(GB10|Orin|Thor|Xavier|Tegra|nvgpu)\b", re.I)
SUPERCHIP = pattern_when_used(r"\bG[BH]\d00\b", re.I)  # coherent with the CPU, yet with HBM of its own
NOT_AVAILABLE = 2**64 - 1
MAX_LINKS = 18
WSL_LIBRARY = "usr/lib/wsl/lib/libnvidia-ml.so.1"
_LIBRARIES = (
    WSL_LIBRARY, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "usr/lib64/libnvidia-ml.so.1", "usr/lib/libnvidia-ml.so.1", "usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "run/opengl-driver/lib/libnvidia-ml.so.1",
)  # fmt: skip
_DEVICES = ("dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia/version", "dev/nvhost-gpu", "dev/nvgpu", "dev/dxg")
_INIT_NOTES = {
    "LibRmVersionMismatch": "NVIDIA driver and library versions differ (usual after an upgrade): reboot or reload it",
    "DriverNotLoaded": "the NVIDIA driver is installed but not loaded",
    "NoPermission": "no permission to use the NVIDIA driver",
    "LibraryNotFound": "the NVIDIA management library (libnvidia-ml) is not here",
}


class _MigSlice(Value, frozen=True):
    """A device handle to describe, and its parent when it is a MIG slice."""

    handle: object
    parent: object


def load_nvml(root: Path, env: Mapping[str, str], system: str) -> ModuleType | None:
    """The `pynvml` module, or None when nothing of NVIDIA is on this machine (then it is not even imported)."""
    if system == "darwin":
        return None
    if system == "linux":
        listed = [p for p in env.get("LD_LIBRARY_PATH", "").split(":") if p][:50]
        paths = [root / p for p in (*_DEVICES, *_LIBRARIES)] + [Path(p) / "libnvidia-ml.so.1" for p in listed]
        if not any(path_exists(p) for p in paths):
            return None
        if path_exists(root / WSL_LIBRARY):
            _preload(root / WSL_LIBRARY)
    try:
        import pynvml
    except Exception:  # a broken installation of the package is no reason to stop
        return None
    module: ModuleType = pynvml
    return module


def _preload(library: Path) -> None:
    """Load WSL's real library first: a stub of the same name may come earlier on the search path."""
    import contextlib
    import ctypes

    with contextlib.suppress(OSError):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def probe_nvidia(nvml: ModuleType, root: Path, memory: HostMemory, mig_uuids: tuple[str, ...] = ()) -> ProbeResult:
    """All devices NVML shows; MIG slices take the place of their parent. Never raises."""
    try:
        nvml.nvmlInit()
    except Exception as e:
        kind = type(e).__name__.removeprefix("NVMLError_")
        return ProbeResult(notes=(_INIT_NOTES.get(kind, f"NVML does not start ({kind}): {e}"),))
    try:
        return _devices(nvml, root, memory, mig_uuids)
    finally:
        _ask(nvml.nvmlShutdown)


def _devices(nvml: ModuleType, root: Path, memory: HostMemory, mig_uuids: tuple[str, ...]) -> ProbeResult:
    notes: list[str] = []
    slices: list[_MigSlice] = []
    for i in range(_ask(nvml.nvmlDeviceGetCount) or 0):
        handle = _ask(nvml.nvmlDeviceGetHandleByIndex, i)
        if handle is None:
            notes.append(f"NVML shows device {i} but gives no access to it")
            continue
        mode = _ask(nvml.nvmlDeviceGetMigMode, handle)
        found = _mig(nvml, handle) if mode and mode[0] == 1 else []
        if mode and mode[0] == 1 and not found and not mig_uuids:
            notes.append(f"device {i} is in MIG mode without a slice that can be used here")
            continue
        slices += found or ([] if mode and mode[0] == 1 else [_MigSlice(handle, None)])
    slices += _named(nvml, mig_uuids, slices)
    devices = [_device(nvml, n, s, root, memory) for n, s in enumerate(slices)]
    if any(s.parent is not None for s in slices):
        # with the slices listed, a parent that could not be asked for its mode is not a device of its own
        devices = [d for d in devices if d.mig_profile is not None or d.total_bytes is not None]
    drivers = {
        "nvidia": _ask(nvml.nvmlSystemGetDriverVersion),
        "cuda": _cuda(_ask(nvml.nvmlSystemGetCudaDriverVersion_v2)),
    }
    return ProbeResult(tuple(devices), {k: v for k, v in drivers.items() if v}, tuple(notes))


def _mig(nvml: ModuleType, parent: object) -> list[_MigSlice]:
    """The MIG slices of a card."""
    count = _ask(nvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0
    found = (_ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, i) for i in range(min(count, 16)))
    return [_MigSlice(h, parent) for h in found if h is not None]


def _named(nvml: ModuleType, uuids: tuple[str, ...], have: list[_MigSlice]) -> list[_MigSlice]:
    """Slices named in the environment: inside a container the parent refuses to list them."""
    known = {_ask(nvml.nvmlDeviceGetUUID, s.handle) for s in have}
    out: list[_MigSlice] = []
    for uuid in uuids:
        handle = None if uuid in known else _ask(nvml.nvmlDeviceGetHandleByUUID, uuid)
        if handle is not None:
            parent = _ask(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)
            out.append(_MigSlice(handle, parent if parent is not None else handle))
    return out


def _device(nvml: ModuleType, index: int, mig_slice: _MigSlice, root: Path, memory: HostMemory) -> Device:
    card = mig_slice.handle if mig_slice.parent is None else mig_slice.parent
    name = _ask(nvml.nvmlDeviceGetName, mig_slice.handle) or _ask(nvml.nvmlDeviceGetName, card) or "NVIDIA device"
    notes: list[str] = []
    integrated = _integrated(nvml, card, name)
    if integrated:
        name = _module(root, name)
        total, free = memory.total_bytes, memory.available_bytes
        notes.append("unified memory: sizes are MemTotal and MemAvailable of /proc/meminfo")
    else:
        total, free = _memory(nvml, mig_slice.handle)
        if total is None:
            notes.append("the driver does not report the memory size")
    if _ask(nvml.nvmlDeviceGetVirtualizationMode, card) == 2:
        notes.append("vGPU: memory is the profile's, it cannot be raised from here")
    pci = _ask(nvml.nvmlDeviceGetPciInfo, card)
    processes = _ask(nvml.nvmlDeviceGetComputeRunningProcesses, mig_slice.handle)
    capability = _ask(nvml.nvmlDeviceGetCudaComputeCapability, card)
    mode = _ask(nvml.nvmlDeviceGetMigMode, card)
    return Device(
        index=index,
        name=name,
        vendor="nvidia",
        uuid=_ask(nvml.nvmlDeviceGetUUID, mig_slice.handle),
        pci_id=_id(getattr(pci, "pciDeviceId", None)),
        pci_subsystem=_id(getattr(pci, "pciSubSystemId", None)),
        pci_bus=normalise_bus(getattr(pci, "busId", None)),
        total_bytes=total,
        total_basis=None if total is None else "reported",
        free_bytes=free,
        unified=integrated,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        mig_profile=_profile(nvml, mig_slice.handle, name) if mig_slice.parent is not None else None,
        mig_enabled=True if mig_slice.parent is not None else bool(mode[0]) if mode else None,
        power_limit_watts=_watts(_ask(nvml.nvmlDeviceGetEnforcedPowerLimit, card)),
        power_default_watts=_watts(_ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, card)),
        bandwidth_gbs=None if mig_slice.parent is not None or integrated else _bandwidth(nvml, card),
        nvlink_active=_links(nvml, card),
        pcie_generation=_ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, card),
        pcie_width=_ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, card),
        processes=None if processes is None else len(processes),
        notes=tuple(notes),
    )


def _integrated(nvml: ModuleType, card: object, name: str) -> bool:
    """Whether the GPU uses the host's memory: by name, or by address translation without memory of its own."""
    if INTEGRATED.search(name):
        return True
    mode = _ask(nvml.nvmlDeviceGetAddressingMode, card)
    return mode == getattr(nvml, "NVML_DEVICE_ADDRESSING_MODE_ATS", 2) and not SUPERCHIP.search(name)


def _module(root: Path, name: str) -> str:
    """Jetson modules share one NVML name; the device tree tells which it is."""
    model = read_system_text(root / "proc/device-tree/model")
    return model if model and re.search(r"orin|thor|xavier", name, re.I) else name


def _memory(nvml: ModuleType, handle: object) -> tuple[int | None, int | None]:
    """(total that programs can use, free). Version 2 lists the driver's reserve; version 1 counts it as used."""
    info = _ask(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    total = _size(getattr(info, "total", None))
    if total is None:
        info = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        return _size(getattr(info, "total", None)), _size(getattr(info, "free", None), zero=True)
    reserved = _size(getattr(info, "reserved", None)) or 0
    return total - reserved if reserved < total else total, _size(getattr(info, "free", None), zero=True)


def _size(value: object, zero: bool = False) -> int | None:
    """A byte count as NVML gives it; its "not available" and an empty total are None."""
    if not isinstance(value, int) or value >= NOT_AVAILABLE or value < 0 or (value == 0 and not zero):
        return None
    return value


def _profile(nvml: ModuleType, handle: object, name: str) -> str | None:
    """`3g.40gb` from the slice's name, else its share of the card (`3g`) from its attributes."""
    profile = re.search(r"\bMIG (\S+)", name)
    if profile:
        return profile[1]
    slices = getattr(_ask(nvml.nvmlDeviceGetAttributes_v2, handle), "gpuInstanceSliceCount", None)
    return f"{slices}g" if slices else "unknown"


def _bandwidth(nvml: ModuleType, card: object) -> float | None:
    """GB/s = memory clock x 2 (double data rate) x bus width / 8; agrees with the data sheets of GDDR and HBM cards."""
    clock = _ask(nvml.nvmlDeviceGetMaxClockInfo, card, nvml.NVML_CLOCK_MEM)
    width = _ask(nvml.nvmlDeviceGetMemoryBusWidth, card)
    return round(clock * 2 * width / 8 / 1000, 1) if clock and width else None


def _links(nvml: ModuleType, card: object) -> int | None:
    """NVLink links that are up; None when the card has none to ask for."""
    states = []
    for link in range(MAX_LINKS):
        state = _ask(nvml.nvmlDeviceGetNvLinkState, card, link)
        if state is None:
            break
        states.append(state)
    return sum(1 for s in states if s == 1) if states else None


def _ask(call: Callable[..., object], *arguments: object) -> Any:
    """The answer, or None: NVML raises for whatever a card, driver or container does not offer."""
    try:
        answer = call(*arguments)
    except Exception:  # one figure that driver or binding fails on, whatever it raises, must not hide the card
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def _cuda(version: int | None) -> str | None:
    return f"{version // 1000}.{version % 1000 // 10}" if version else None


def _id(value: int | None) -> str | None:
    """NVML packs vendor in the low half: 0x268410DE is 10de:2684."""
    return f"{value & 0xFFFF:04x}:{value >> 16:04x}" if value else None


def normalise_bus(value: object) -> str | None:
    """`00000000:01:00.0` as sysfs writes it."""
    shown = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if not shown:
        return None
    domain, _, rest = str(shown).lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _watts(milliwatts: int | None) -> float | None:
    return milliwatts / 1000 if milliwatts else None
