"""Apple silicon: chip, GPU cores and the share of the unified memory that Metal lets one process use.

Metal's recommendedMaxWorkingSetSize is the answer where it can be read (it follows iogpu.wired_limit_mb); then the
sysctl override; then two stock fractions, which are assumptions (0.67 to 0.84 was measured on different chips).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from advisor.machines.system_access import ProbeResult, RunCommand, parse_fields, parse_whole_number
from advisor.machines.types import Device, HostMemory
from advisor.units import GIB, MIB

WIRED_LIMITS = ("iogpu.wired_limit_mb", "debug.iogpu.wired_limit")  # macOS 14 and newer; before that in bytes
ASSUMED = "Metal's working-set limit could not be read: stock fraction of RAM assumed"


def default_working_set(ram_bytes: int) -> int:
    """Bytes that Metal lets one process use when nothing else is known: 0.67 of RAM below 36 GiB, 0.75 from there on.

    Stock fractions of macOS; measured 0.67 to 0.74 up to 24 GiB and 0.75 to 0.84 above.
    """
    return int(ram_bytes * (0.67 if ram_bytes < 36 * GIB else 0.75))


def probe_apple(run: RunCommand, memory: HostMemory, metal: Callable[[], int | None]) -> ProbeResult:
    """The GPU of an Apple chip. An Intel Mac gives a note and no device."""
    asked = parse_fields(run(["sysctl", "machdep.cpu.brand_string", "hw.memsize", *WIRED_LIMITS]), ":")
    chip = asked.get("machdep.cpu.brand_string")
    if chip is None:
        return ProbeResult(notes=("sysctl gives no processor name: the GPU is unknown",))
    if not chip.startswith("Apple"):
        return ProbeResult(notes=("Intel Mac: no GPU that the engines use",))
    ram = parse_whole_number(asked.get("hw.memsize")) or memory.total_bytes
    total, basis, notes = _total(ram, _override(asked), metal())
    available = memory.available_bytes
    return ProbeResult(
        devices=(
            Device(
                index=0,
                name=chip,
                vendor="apple",
                total_bytes=total,
                total_basis=basis,
                free_bytes=min(total, available) if total is not None and available is not None else None,
                unified=True,
                gpu_cores=_gpu_cores(run),
                notes=notes,
            ),
        )
    )


def _total(
    ram: int | None, override: int | None, property_bytes: int | None
) -> tuple[int | None, Literal["reported", "assumed"] | None, tuple[str, ...]]:
    if property_bytes:
        note = ("iogpu.wired_limit_mb raises or lowers the stock limit",) if override else ()
        return property_bytes, "reported", note
    if override:
        return override, "reported", ("limit set by iogpu.wired_limit_mb",)
    if ram:
        return default_working_set(ram), "assumed", (ASSUMED,)
    return None, None, ()


def _override(asked: dict[str, str]) -> int | None:
    """The wired limit in bytes; None when it is 0 (stock) or absent."""
    mb = parse_whole_number(asked.get(WIRED_LIMITS[0]))
    if mb:
        return mb * MIB
    return parse_whole_number(asked.get(WIRED_LIMITS[1])) or None


def _gpu_cores(run: RunCommand) -> int | None:
    """GPU cores, which separate the tiers of one chip name."""
    import msgspec

    try:
        data = msgspec.json.decode((run(["system_profiler", "SPDisplaysDataType", "-json"]) or "").encode())
    except msgspec.DecodeError:
        return None
    displays = data.get("SPDisplaysDataType") if isinstance(data, dict) else None
    for entry in displays if isinstance(displays, list) else ():
        cores = parse_whole_number(str(entry.get("sppci_cores", ""))) if isinstance(entry, dict) else None
        if cores:
            return cores
    return None


def read_metal_working_set() -> int | None:
    """recommendedMaxWorkingSetSize of the default Metal device; None where Metal cannot be asked."""
    try:
        import ctypes

        ctypes.CDLL("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics")  # else no default device
        metal = ctypes.CDLL("/System/Library/Frameworks/Metal.framework/Metal")
        objc = ctypes.CDLL("/usr/lib/libobjc.A.dylib")
        metal.MTLCreateSystemDefaultDevice.restype = ctypes.c_void_p
        device = metal.MTLCreateSystemDefaultDevice()
        if not device:
            return None
        objc.sel_registerName.restype = ctypes.c_void_p
        objc.sel_registerName.argtypes = [ctypes.c_char_p]
        ask = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)(("objc_msgSend", objc))
        return int(ask(device, objc.sel_registerName(b"recommendedMaxWorkingSetSize"))) or None
    except Exception:  # whatever is missing, sysctl and the stock fraction remain
        return None
