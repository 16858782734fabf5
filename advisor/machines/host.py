"""The host around the devices: operating system, WSL, container, orchestrator, RAM, Docker and NPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from advisor.machines import system_access
from advisor.machines.system_access import RunCommand
from advisor.machines.types import HostMemory, Os
from advisor.record import Value


class HostSystem(Value, frozen=True):
    """What is known about the host itself."""

    os: Os | None = None
    os_version: str | None = None
    arch: str | None = None
    wsl: bool | None = None
    container: str | None = None
    orchestrator: str | None = None


def read_host(root: Path, env: Mapping[str, str], system: str, arch: str | None) -> HostSystem:
    """The host as `system` (sys.platform's word) and the files under `root` describe it."""
    if system == "darwin":
        import platform

        return HostSystem("macos", platform.mac_ver()[0] or None, normalise_arch(arch))
    if system in ("win32", "cygwin"):
        import platform

        return HostSystem("windows", platform.release() or None, normalise_arch(arch), wsl=False)
    if "ANDROID_ROOT" in env and "ANDROID_DATA" in env:
        return HostSystem("android", None, normalise_arch(arch))
    release = system_access.parse_fields(system_access.read_system_text(root / "etc/os-release"), "=")
    version = " ".join(release[k].strip("\"'") for k in ("ID", "VERSION_ID") if release.get(k))
    return HostSystem(
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
    return "microsoft" in (system_access.read_system_text(root / "proc/sys/kernel/osrelease") or "").lower()


def detect_kubernetes(root: Path, env: Mapping[str, str]) -> bool:
    """Whether this process runs in a pod."""
    return "KUBERNETES_SERVICE_HOST" in env or system_access.path_exists(
        root / "var/run/secrets/kubernetes.io/serviceaccount"
    )


def detect_container(root: Path, env: Mapping[str, str]) -> str | None:
    """The kind of container this process is in; None when none is seen."""
    if detect_kubernetes(root, env):
        return "kubernetes"
    if system_access.path_exists(root / ".dockerenv"):
        return "docker"
    if system_access.path_exists(root / "run/.containerenv"):
        return "podman"
    if env.get("container"):  # systemd-nspawn, lxc and podman set it
        return env["container"][:40]
    init = re.search(r"(?:^|\0)container=([\w.-]{1,40})", system_access.read_system_text(root / "proc/1/environ") or "")
    if init:
        return init[1]
    groups = system_access.read_system_text(root / "proc/self/cgroup") or ""
    for mark, kind in (("kubepods", "kubernetes"), ("/docker", "docker"), ("libpod", "podman"), ("/lxc", "lxc")):
        if mark in groups:
            return kind
    return None


def read_meminfo(root: Path) -> HostMemory:
    """RAM from /proc/meminfo: MemTotal and MemAvailable."""
    found = system_access.parse_fields(system_access.read_system_text(root / "proc/meminfo"), ":")
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
    return system_access.path_exists(root / "var/run/docker.sock") or system_access.path_exists(
        root / "run/docker.sock"
    )


def read_npu(root: Path, system: str, run: RunCommand) -> str | None:
    """The NPU next to the CPU: amdxdna or intel_vpu in /sys/class/accel; on Windows by device name."""
    base = root / "sys/class/accel"
    for name in system_access.list_names(base):
        driver = system_access.parse_fields(system_access.read_system_text(base / name / "device/uevent"), "=").get(
            "DRIVER"
        )
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
    n = system_access.parse_whole_number((value or "").split(" ")[0])
    return None if n is None else n * 1024
