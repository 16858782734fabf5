"""What a process here may use: cgroup v1 and v2 memory and CPU limits along its path, and CPU affinity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from advisor.machines import system_access
from advisor.record import Value

NO_LIMIT = 2**62  # cgroup v1 writes 2**63 rounded down to a page for "none"


class ProcessLimits(Value, frozen=True):
    """Tightest limits found; None = none."""

    memory_bytes: int | None = None
    cpus: float | None = None  # CPU time quota in cores
    affinity: int | None = None  # logical CPUs this process may run on


def read_limits(root: Path) -> ProcessLimits:
    """Limits of this process. Every level counts: a parent's lower limit holds for its children."""
    memory: list[int] = []
    cpus: list[float] = []
    for line in (system_access.read_system_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            for base in (root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"):
                memory += _each(base, path, _memory_v2)
                cpus += _each(base, path, _cpu_v2)
            continue
        names = controllers.split(",")
        for mount in dict.fromkeys((controllers, *names)):
            base = root / "sys/fs/cgroup" / mount
            if "memory" in names:
                memory += _each(base, path, _memory_v1)
            if "cpu" in names:
                cpus += _each(base, path, _cpu_v1)
    return ProcessLimits(min(memory, default=None), min(cpus, default=None), _affinity(root))


def count_listed_cpus(text: str) -> int | None:
    """How many CPUs a kernel list such as `0-3,8` names; None when it is not one."""
    count = 0
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        first, last = system_access.parse_whole_number(low), system_access.parse_whole_number(high if dash else low)
        if first is None or last is None or last < first:
            return None
        count += last - first + 1
    return count


def _each(base: Path, path: str, read: Callable[[Path], int | float | None]) -> list[Any]:
    """The limit at every level from the mount down to `path`. A path of another namespace (`/../x`, or one that is
    not mounted here) leaves the mount itself, which then is the container's own group."""
    found = (read(folder) for folder in _levels(base, path))
    return [x for x in found if x is not None]


def _levels(base: Path, path: str) -> Iterator[Path]:
    yield base
    folder = base
    for part in PurePosixPath(path).parts:
        if part in ("/", ".."):
            continue
        folder = folder / part
        if not system_access.path_exists(folder):
            return
        yield folder


def _memory_v2(folder: Path) -> int | None:
    return system_access.read_number(folder / "memory.max")  # the text "max" is no number


def _memory_v1(folder: Path) -> int | None:
    n = system_access.read_number(folder / "memory.limit_in_bytes")
    return n if n is not None and 0 < n < NO_LIMIT else None


def _cpu_v2(folder: Path) -> float | None:
    quota, _, period = (system_access.read_system_text(folder / "cpu.max") or "").partition(" ")
    return _share(system_access.parse_whole_number(quota), system_access.parse_whole_number(period))


def _cpu_v1(folder: Path) -> float | None:
    return _share(
        system_access.read_number(folder / "cpu.cfs_quota_us"), system_access.read_number(folder / "cpu.cfs_period_us")
    )


def _share(quota: int | None, period: int | None) -> float | None:
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _affinity(root: Path) -> int | None:
    allowed = system_access.parse_fields(system_access.read_system_text(root / "proc/self/status"), ":").get(
        "Cpus_allowed_list"
    )
    return count_listed_cpus(allowed) if allowed else None
