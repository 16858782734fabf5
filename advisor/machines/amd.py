"""AMD GPUs from sysfs (amdgpu and KFD), without a library and without root; amdsmi only adds names where it works.

amdsmi is an extra (`amd`), not a dependency: programs next to us (Ray) import it wherever it is installed,
and without ROCm's library its import fails.

APUs: what the runtime can allocate is the BIOS carve-out plus GTT, not the carve-out that the management tools print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from advisor.distribution import install_command
from advisor.machines import pci
from advisor.machines.system_access import (
    ProbeResult,
    list_names,
    parse_fields,
    parse_whole_number,
    read_number,
    read_system_text,
)
from advisor.machines.types import Device, HostMemory
from advisor.record import Value

# Graphics of APUs (LLVM AMDGPU processor table, "APU" column).
APU_GFX = frozenset(
    (
        "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1151",
        "gfx1152", "gfx1153",
    )
)  # fmt: skip
MAX_CARDS = 256
APU_NOTE = "APU: usable memory is the VRAM carve-out plus GTT; ttm.pages_limit raises GTT (default about half of RAM)"


class KfdNode(Value, frozen=True):
    """One GPU node of the KFD topology, in the order the runtime numbers devices."""

    bus: str
    gfx: str | None
    uuid: str | None
    memory_bytes: int | None


def probe_amd(
    root: Path, env: Mapping[str, str], cpu_model: str | None, memory: HostMemory, smi: ModuleType | None = None
) -> ProbeResult:
    """AMD devices with the amdgpu driver, in the runtime's order (KFD), else in bus order."""
    cards = {
        f.bus: f
        for f in pci.find_functions(root)
        if f.vendor == "amd" and f.driver == "amdgpu" and _vram(f) is not None
    }
    if not cards:
        return ProbeResult()
    nodes = [n for n in read_kfd_nodes(root) if n.bus in cards]
    notes = [] if nodes else ["no compute node in /sys/class/kfd: ROCm cannot use these cards, Vulkan may"]
    missing = [KfdNode(b, _ip_gfx(f.folder), None, None) for b, f in cards.items() if b not in {n.bus for n in nodes}]
    override = parse_gfx_override(env.get("HSA_OVERRIDE_GFX_VERSION"))
    if override:
        notes.append(f"HSA_OVERRIDE_GFX_VERSION makes the runtime believe {override}; the hardware stays what it is")
    marketing = _market_names(smi)
    devices: list[Device] = []
    for node in [*nodes, *missing][:MAX_CARDS]:
        parts = sum(n.bus == node.bus for n in nodes)
        card, index = cards[node.bus], len(devices)
        devices.append(_device(root, index, card, node, parts, override, cpu_model, memory, marketing))
    if any(sum(n.bus == b for n in nodes) > 1 for b in cards):
        notes.append("a card is partitioned: each partition counts as one device")
    if smi is None and has_smi_library(root) and any(d.name == _nameless(cards[d.pci_bus or ""]) for d in devices):
        notes.append(_smi_would_name())
    return ProbeResult(tuple(devices), _drivers(root), tuple(notes))


def read_kfd_nodes(root: Path) -> list[KfdNode]:
    """GPU nodes of vendor AMD in /sys/class/kfd (CPU nodes and other vendors' are skipped)."""
    base = root / "sys/class/kfd/kfd/topology/nodes"
    out: list[KfdNode] = []
    for name in sorted(list_names(base), key=lambda n: (len(n), n)):
        properties = parse_fields(read_system_text(base / name / "properties"), " ")
        target, location = (
            parse_whole_number(properties.get("gfx_target_version")),
            parse_whole_number(properties.get("location_id")),
        )
        if parse_whole_number(properties.get("vendor_id")) != 0x1002 or not target or location is None:
            continue
        domain = parse_whole_number(properties.get("domain")) or 0
        unique = parse_whole_number(properties.get("unique_id"))
        bank = parse_fields(read_system_text(base / name / "mem_banks/0/properties"), " ")
        out.append(
            KfdNode(
                bus=f"{domain & 0xFFFF:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}",
                gfx=gfx_name(target),
                uuid=f"GPU-{unique:016x}" if unique else None,
                memory_bytes=parse_whole_number(bank.get("size_in_bytes")) or None,
            )
        )
    return out


def gfx_name(target: int) -> str:
    """KFD's gfx_target_version as a name: 110000 is gfx1100, 90010 is gfx90a (major x 10000 + minor x 100 + step)."""
    return f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"


def parse_gfx_override(value: str | None) -> str | None:
    """HSA_OVERRIDE_GFX_VERSION=10.3.0 as gfx1030; None when unset or malformed."""
    m = re.fullmatch(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{1,2})\s*", value or "")
    return f"gfx{int(m[1])}{int(m[2]):x}{int(m[3]):x}" if m else None


def _device(
    root: Path,
    index: int,
    card: pci.PciFunction,
    node: KfdNode,
    parts: int,
    override: str | None,
    cpu_model: str | None,
    memory: HostMemory,
    marketing: dict[str, str],
) -> Device:
    folder = card.folder
    apu = node.gfx in APU_GFX
    total, used = _vram(card), read_number(folder / "mem_info_vram_used")
    free = total - used if total is not None and used is not None else None
    notes: list[str] = []
    if parts > 1:
        total, free = node.memory_bytes, None  # the counters are of the whole card
    if apu:
        gtt, gtt_used = (
            read_number(folder / "mem_info_gtt_total"),
            read_number(folder / "mem_info_gtt_used"),
        )
        notes.append(APU_NOTE)
        if gtt is None:
            notes.append("GTT size cannot be read: only the carve-out is counted")
        elif total is not None:
            total += gtt
            gtt_free = gtt - (gtt_used or 0)
            if memory.available_bytes is not None:
                gtt_free = min(gtt_free, memory.available_bytes)
            free = free + gtt_free if free is not None and gtt_used is not None else None
    name = marketing.get(card.bus) or _product(root, card) or (_from_cpu(cpu_model) if apu else None)
    return pci.describe_device(
        card,
        index,
        name or _nameless(card),
        uuid=node.uuid,
        total_bytes=total,
        total_basis=None if total is None else "reported",
        free_bytes=free,
        unified=apu,
        gfx=node.gfx,
        gfx_override=override,
        power_limit_watts=_watts(folder, "power1_cap"),
        power_default_watts=_watts(folder, "power1_cap_default"),
        notes=tuple(notes),
    )


def _nameless(card: pci.PciFunction) -> str:
    """What a card is called that nothing here names."""
    return f"AMD GPU [{card.id}]"


def _vram(card: pci.PciFunction) -> int | None:
    return read_number(card.folder / "mem_info_vram_total")


def _ip_gfx(folder: Path) -> str | None:
    """The graphics IP version from amdgpu's discovery table, for machines without KFD."""
    base = folder / "ip_discovery/die/0/GC/0"
    found = [read_number(base / n) for n in ("major", "minor", "revision")]
    known = [n for n in found if n is not None]
    return f"gfx{known[0]}{known[1]:x}{known[2]:x}" if len(known) == 3 else None


def _product(root: Path, card: pci.PciFunction) -> str | None:
    """The marketing name: the board's own record, else libdrm's table by device and revision."""
    own = read_system_text(card.folder / "product_name")
    if own:
        return own
    revision = read_number(card.folder / "revision")
    if revision is None:
        return None
    key = (card.id[5:], f"{revision:02x}")
    for place in ("usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids"):
        for line in (read_system_text(root / place) or "").splitlines():
            columns = [c.strip() for c in line.split(",", 2)]
            if len(columns) == 3 and (columns[0].lower(), columns[1].lower()) == key:
                return columns[2]
    return None


def _from_cpu(cpu_model: str | None) -> str | None:
    """An APU's graphics as the processor name says: `... w/ Radeon 8060S`."""
    m = re.search(r"\bw/ (Radeon .+)$", cpu_model or "", re.I)
    return f"AMD {m[1].strip()}" if m else None


def _watts(folder: Path, name: str) -> float | None:
    """A hwmon power value (microwatts) in watts."""
    for monitor in list_names(folder / "hwmon"):
        value = read_number(folder / "hwmon" / monitor / name)
        if value:
            return value / 1e6
    return None


def _drivers(root: Path) -> dict[str, str]:
    found = {
        "amdgpu": read_system_text(root / "sys/module/amdgpu/version"),
        "rocm": _version(read_system_text(root / "opt/rocm/.info/version")),
    }
    return {k: v for k, v in found.items() if v}


def _version(value: str | None) -> str | None:
    m = re.match(r"\d+(\.\d+)+", value or "")
    return m[0] if m else None


def has_smi_library(root: Path) -> bool:
    """Whether ROCm's management library is installed, without which amdsmi does not load."""
    folders = [n for n in list_names(root / "opt") if n.startswith("rocm")]
    return any(n.startswith("libamd_smi.so") for f in folders for n in list_names(root / "opt" / f / "lib"))


def _smi_would_name() -> str:
    """What to do where sysfs leaves a card without a name that ROCm knows."""
    from importlib.util import find_spec

    what = "a card has no name in sysfs or in libdrm's table"
    if find_spec("amdsmi") is not None:
        return f"{what}, and amdsmi does not load: its version has to be that of the installed ROCm"
    return f"{what}; amdsmi knows it: {install_command('amd')}"


def load_amdsmi(root: Path) -> ModuleType | None:
    """The amdsmi module where it and ROCm's library are installed, else None.

    Its import prints on standard output and raises KeyError without the library, so it is only tried next to one.
    """
    if not has_smi_library(root):
        return None
    import contextlib
    import io

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import amdsmi
    except BaseException as e:  # KeyError, OSError, SystemExit: whatever a version mismatch brings
        if isinstance(e, KeyboardInterrupt):
            raise
        return None
    module: ModuleType = amdsmi
    return module


def _market_names(smi: ModuleType | None) -> dict[str, str]:
    """Bus address -> marketing name from amdsmi; empty where anything about it fails."""
    if smi is None:
        return {}
    import contextlib
    import io

    out: dict[str, str] = {}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            smi.amdsmi_init()
            try:
                for handle in smi.amdsmi_get_processor_handles():
                    name = smi.amdsmi_get_gpu_asic_info(handle).get("market_name")
                    if isinstance(name, str) and name not in ("", "N/A"):
                        out[str(smi.amdsmi_get_gpu_device_bdf(handle)).lower()] = name
            finally:
                smi.amdsmi_shut_down()
    except Exception:  # version skew with the installed ROCm is common; sysfs gave the rest
        return out
    return out
