"""The host around the devices: operating system, WSL, container, orchestrator, RAM, Docker, NPU and processor."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from advisor.machines.system_access import (
    RunCommand,
    list_names,
    parse_fields,
    parse_whole_number,
    path_exists,
    read_system_text,
)
from advisor.machines.types import Cpu, HostMemory, Machine

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


def read_host(root: Path, env: Mapping[str, str], system: str, arch: str | None) -> Machine:
    """The machine with its system alone, as `system` (sys.platform's word) and files under `root` describe it."""
    if system == "darwin":
        import platform

        return Machine(os="macos", os_version=platform.mac_ver()[0] or None, arch=normalise_arch(arch))
    if system in ("win32", "cygwin"):
        import platform

        return Machine(os="windows", os_version=platform.release() or None, arch=normalise_arch(arch), wsl=False)
    if "ANDROID_ROOT" in env and "ANDROID_DATA" in env:
        return Machine(os="android", arch=normalise_arch(arch))
    release = parse_fields(read_system_text(root / "etc/os-release"), "=")
    version = " ".join(release[k].strip("\"'") for k in ("ID", "VERSION_ID") if release.get(k))
    return Machine(
        os="linux",
        os_version=version or None,
        arch=normalise_arch(arch),
        wsl=is_wsl(root),
        container=detect_container(root, env),
        orchestrator="kubernetes" if detect_kubernetes(root, env) else None,
    )


def normalise_arch(arch: str | None) -> str | None:
    """`aarch64` and `arm64` are one architecture here, as are `amd64` and `x86_64`."""
    if not arch:
        return None
    low = arch.lower()
    return {"aarch64": "arm64", "amd64": "x86_64", "x64": "x86_64", "arm64e": "arm64"}.get(low, low)


def is_wsl(root: Path) -> bool:
    """Whether the kernel is Microsoft's."""
    return "microsoft" in (read_system_text(root / "proc/sys/kernel/osrelease") or "").lower()


def detect_kubernetes(root: Path, env: Mapping[str, str]) -> bool:
    """Whether this process runs in a pod."""
    return "KUBERNETES_SERVICE_HOST" in env or path_exists(root / "var/run/secrets/kubernetes.io/serviceaccount")


def detect_container(root: Path, env: Mapping[str, str]) -> str | None:
    """The kind of container this process is in; None when none is seen."""
    if detect_kubernetes(root, env):
        return "kubernetes"
    if path_exists(root / ".dockerenv"):
        return "docker"
    if path_exists(root / "run/.containerenv"):
        return "podman"
    if env.get("container"):  # systemd-nspawn, lxc and podman set it
        return env["container"][:40]
    init = re.search(r"(?:^|\0)container=([\w.-]{1,40})", read_system_text(root / "proc/1/environ") or "")
    if init:
        return init[1]
    groups = read_system_text(root / "proc/self/cgroup") or ""
    for mark, kind in (("kubepods", "kubernetes"), ("/docker", "docker"), ("libpod", "podman"), ("/lxc", "lxc")):
        if mark in groups:
            return kind
    return None


def read_meminfo(root: Path) -> HostMemory:
    """RAM from /proc/meminfo: MemTotal and MemAvailable."""
    found = parse_fields(read_system_text(root / "proc/meminfo"), ":")
    return HostMemory(total_bytes=_kib(found.get("MemTotal")), available_bytes=_kib(found.get("MemAvailable")))


def read_psutil_memory() -> HostMemory:
    """RAM through psutil, for systems without /proc/meminfo."""
    try:
        import psutil

        ram = psutil.virtual_memory()
    except Exception:  # a probe field never kills the probe
        return HostMemory()
    return HostMemory(total_bytes=int(ram.total) or None, available_bytes=int(ram.available))


def read_docker(root: Path, env: Mapping[str, str], system: str) -> bool:
    """Whether a Docker command or socket is here."""
    from advisor.machines.installed_engines import find_program

    if find_program("docker", env, root, system) is not None:
        return True
    return path_exists(root / "var/run/docker.sock") or path_exists(root / "run/docker.sock")


def read_npu(root: Path, system: str, run: RunCommand) -> str | None:
    """The NPU next to the CPU: amdxdna or intel_vpu in /sys/class/accel; on Windows by device name."""
    base = root / "sys/class/accel"
    for name in list_names(base):
        driver = parse_fields(read_system_text(base / name / "device/uevent"), "=").get("DRIVER")
        if driver == "amdxdna":
            return "Ryzen AI"
        if driver == "intel_vpu":
            return "Intel"
    if system == "win32":
        listed = run(["pnputil", "/enum-devices", "/connected", "/class", "ComputeAccelerator"]) or ""
        known = (("Intel", "Intel"), ("AMD", "Ryzen AI"), ("NPU Compute", "Ryzen AI"), ("Hexagon", "Hexagon"))
        for mark, name in known:
            if mark in listed:
                return name
    return None


def python_version() -> str:
    """Version of the Python that runs this, `3.12.4`."""
    return ".".join(str(n) for n in sys.version_info[:3])


def _kib(value: str | None) -> int | None:
    n = parse_whole_number((value or "").split(" ")[0])
    return None if n is None else n * 1024


def read_linux(root: Path) -> Cpu:
    """The processor from /proc/cpuinfo and /sys/devices/system/cpu; what is not stated stays None."""
    body = read_system_text(root / "proc/cpuinfo") or ""
    first = parse_fields(body.split("\n\n")[0], ":")
    listed = first.get("flags") or first.get("Features")
    model = first.get("model name") or first.get("cpu model") or _arm_model(body)
    sockets, cores, logical = _topology(root)
    return Cpu(
        model=model,
        vendor=first.get("vendor_id")
        or {"0x41": "ARM", "0xc0": "Ampere", "0x61": "Apple"}.get(first.get("CPU implementer", "").lower()),
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
    found = parse_fields(run(["sysctl", *keys]), ":")
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
        sockets=parse_whole_number(found.get("hw.packages")) or 1,
        physical_cores=parse_whole_number(found.get("hw.physicalcpu")),
        logical_cores=parse_whole_number(found.get("hw.logicalcpu")),
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
        flags=relevant_flags([re.sub(r"^avx512_?(vnni|bf16|fp16|vbmi)$", r"avx512_\1", str(f).lower()) for f in flags])
        if isinstance(flags, list)
        else None,
    )


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
    for name in list_names(base):
        if not re.fullmatch(r"cpu\d+", name):
            continue
        core = read_system_text(base / name / "topology/core_id")
        if core is None:
            continue
        logical += 1
        # clusters of an Arm chip may reuse core numbers
        cluster = read_system_text(base / name / "topology/cluster_id") or ""
        cores.add((read_system_text(base / name / "topology/physical_package_id") or "", f"{cluster}/{core}"))
    if not logical:
        return None, None, None
    return len({p for p, _ in cores}), len(cores), logical


def _count(body: str, key: str) -> int | None:
    return len(set(re.findall(rf"(?m)^{key}\s*:\s*(\S+)", body))) or None


def _cores(body: str) -> int | None:
    """Distinct (socket, core) pairs of /proc/cpuinfo."""
    blocks = (parse_fields(block, ":") for block in body.split("\n\n"))
    return len({(f.get("physical id", "0"), f["core id"]) for f in blocks if "core id" in f}) or None
