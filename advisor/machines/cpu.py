"""The processor: model, sockets, cores and the instruction sets that engines care about.

Linux: /proc/cpuinfo and /sys topology. macOS: sysctl. Windows: py-cpuinfo in a child process with a time-out, because
one query takes more than a second there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from advisor.machines import system_access
from advisor.machines.system_access import RunCommand
from advisor.machines.types import Cpu

# Flags that decide kernels or floors in the engines; the rest of /proc/cpuinfo is noise here.
FLAGS = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "avx512_vbmi", "avx_vnni", "avx_vnni_int8", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "sse4_2",
    "asimd", "asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2", "sme", "sme2",
)  # fmt: skip
_KEEP = frozenset(FLAGS)
# Arm implementer and part numbers (MIDR), as in the kernel's cputype.h.
_ARM = {
    ("0x41", "0xd03"): "Cortex-A53", ("0x41", "0xd08"): "Cortex-A72", ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse N1", ("0x41", "0xd40"): "Neoverse V1", ("0x41", "0xd42"): "Cortex-A78AE",
    ("0x41", "0xd49"): "Neoverse N2", ("0x41", "0xd4f"): "Neoverse V2", ("0x41", "0xd83"): "Neoverse V3AE",
    ("0x41", "0xd84"): "Neoverse V3", ("0x41", "0xd85"): "Cortex-X925", ("0x41", "0xd87"): "Cortex-A725",
    ("0xc0", "0xac3"): "Ampere-1", ("0xc0", "0xac4"): "Ampere-1a",
}  # fmt: skip
_SYSCTL = ("physicalcpu", "logicalcpu", "packages")
_INTEL = ("features", "leaf7_features")
_APPLE = {"FEAT_DotProd": "asimddp", "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16", "FEAT_SME": "sme", "FEAT_SME2": "sme2",
          "FEAT_FP16": "asimdhp"}  # fmt: skip


def read_linux(root: Path) -> Cpu:
    """The processor from /proc/cpuinfo and /sys/devices/system/cpu; what is not stated stays None."""
    body = system_access.read_system_text(root / "proc/cpuinfo") or ""
    first = system_access.parse_fields(body.split("\n\n")[0], ":")
    listed = first.get("flags") or first.get("Features")
    model = first.get("model name") or first.get("cpu model") or _arm_model(body)
    sockets, cores, logical = _topology(root)
    return Cpu(
        model=model,
        vendor=first.get("vendor_id") or {"0x41": "ARM", "0xc0": "Ampere", "0x61": "Apple"}.get(_implementer(first)),
        sockets=sockets or _count(body, "physical id"),
        physical_cores=cores or _cores(body),
        logical_cores=logical or len(re.findall(r"(?m)^processor\s*:", body)) or None,
        flags=None if listed is None else relevant_flags(listed.split()),
    )


def relevant_flags(flags: list[str]) -> tuple[str, ...]:
    """The flags engines care about, in a fixed order."""
    have = _KEEP.intersection(f.lower() for f in flags)
    return tuple(f for f in FLAGS if f in have)


def read_macos(run: RunCommand) -> Cpu:
    """The processor from one `sysctl` call."""
    asked = [f"hw.optional.arm.{f}" for f in _APPLE]
    keys = ["machdep.cpu.brand_string", *(f"hw.{n}" for n in _SYSCTL), *(f"machdep.cpu.{n}" for n in _INTEL), *asked]
    found = system_access.parse_fields(run(["sysctl", *keys]), ":")
    if not found:
        return Cpu()
    model = found.get("machdep.cpu.brand_string")
    if any(a in found for a in asked):
        flags = relevant_flags(["asimd", *(_APPLE[a.rsplit(".", 1)[1]] for a in asked if found.get(a) == "1")])
    else:
        intel = f"{found.get('machdep.cpu.features', '')} {found.get('machdep.cpu.leaf7_features', '')}".lower()
        words = intel.replace("avx1.0", "avx").replace("sse4.2", "sse4_2").split()
        flags = relevant_flags(words)
    return Cpu(
        model=model,
        vendor="Apple" if (model or "").startswith("Apple") else "GenuineIntel" if model else None,
        sockets=system_access.parse_whole_number(found.get("hw.packages")) or 1,
        physical_cores=system_access.parse_whole_number(found.get("hw.physicalcpu")),
        logical_cores=system_access.parse_whole_number(found.get("hw.logicalcpu")),
        flags=flags or None,
    )


def read_windows(run: RunCommand) -> Cpu:
    """The processor through py-cpuinfo in a child process; an empty Cpu when that takes too long."""
    import msgspec

    answer = run([sys.executable, "-c", "import cpuinfo, json; print(json.dumps(cpuinfo.get_cpu_info()))"])
    try:
        data = msgspec.json.decode((answer or "").encode())
    except msgspec.DecodeError:
        return Cpu()
    if not isinstance(data, dict):
        return Cpu()
    flags = data.get("flags")
    count = data.get("count")
    model, vendor = data.get("brand_raw"), data.get("vendor_id_raw")
    return Cpu(
        model=model if isinstance(model, str) else None,
        vendor=vendor if isinstance(vendor, str) else None,
        logical_cores=count if isinstance(count, int) else None,
        flags=relevant_flags([_windows(str(f)) for f in flags]) if isinstance(flags, list) else None,
    )


def _windows(flag: str) -> str:
    """py-cpuinfo writes avx512vnni where Linux writes avx512_vnni."""
    return re.sub(r"^avx512_?(vnni|bf16|fp16|vbmi)$", r"avx512_\1", flag.lower())


def _implementer(first: dict[str, str]) -> str:
    return first.get("CPU implementer", "").lower()


def _arm_model(body: str) -> str | None:
    """Core names of an Arm processor that does not say its model (big.LITTLE parts name both)."""
    implementers = re.findall(r"(?m)^CPU implementer\s*:\s*(\S+)", body)
    parts = re.findall(r"(?m)^CPU part\s*:\s*(\S+)", body)
    known = dict.fromkeys(_ARM.get((i.lower(), p.lower()), "") for i, p in zip(implementers, parts, strict=False))
    return " + ".join(n for n in known if n) or None


def _topology(root: Path) -> tuple[int | None, int | None, int | None]:
    """(sockets, cores, logical CPUs) from /sys; None where it says nothing."""
    base = root / "sys/devices/system/cpu"
    cores: set[tuple[str, str]] = set()
    logical = 0
    for name in system_access.list_names(base):
        if not re.fullmatch(r"cpu\d+", name):
            continue
        core = system_access.read_system_text(base / name / "topology/core_id")
        if core is None:
            continue
        logical += 1
        # clusters of an Arm chip may reuse core numbers
        cluster = system_access.read_system_text(base / name / "topology/cluster_id") or ""
        cores.add(
            (system_access.read_system_text(base / name / "topology/physical_package_id") or "", f"{cluster}/{core}")
        )
    if not logical:
        return None, None, None
    return len({p for p, _ in cores}), len(cores), logical


def _count(body: str, key: str) -> int | None:
    return len(set(re.findall(rf"(?m)^{key}\s*:\s*(\S+)", body))) or None


def _cores(body: str) -> int | None:
    """Distinct (socket, core) pairs of /proc/cpuinfo."""
    pairs: set[tuple[str, str]] = set()
    for block in body.split("\n\n"):
        f = system_access.parse_fields(block, ":")
        if "core id" in f:
            pairs.add((f.get("physical id", "0"), f["core id"]))
    return len(pairs) or None
