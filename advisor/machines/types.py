"""What a machine is: the plain values that a probe, a snapshot or a hardware string produce.

Unknown is `None` everywhere, never 0. Byte fields are int bytes, bandwidths GB/s (10**9), power watts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from advisor.memo import MemoRecord
from advisor.record import Record

Vendor = Literal["nvidia", "amd", "intel", "apple", "google", "aws", "habana", "qualcomm", "other", "unknown"]
USUAL_BACKENDS = {"nvidia": "cuda", "amd": "rocm", "apple": "metal", "intel": "sycl"}  # where no other is stated
Os = Literal["linux", "windows", "macos", "android", "ios", "browser"]


class Device(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One accelerator as found (a MIG slice or a board half counts as one device)."""

    index: int  # position in the driver's own order
    name: str  # as the driver reports it, else the catalogue's name
    vendor: Vendor
    accelerator: str | None = None  # id in the accelerator catalogue
    uuid: str | None = None
    pci_id: str | None = None  # "10de:2684"
    pci_subsystem: str | None = None  # "1043:889a"
    pci_bus: str | None = None  # "0000:01:00.0"
    total_bytes: int | None = None  # what programs can allocate at most, empty device
    total_basis: Literal["reported", "catalogue", "assumed"] | None = None
    # where the total is not known: usable bytes of the smallest and largest sold; where it is assumed: its range
    sold_bytes: tuple[int, int] | None = None
    free_bytes: int | None = None
    unified: bool = False  # shares the host's memory
    compute_capability: str | None = None  # "8.9"
    gfx: str | None = None  # "gfx1100"
    gfx_override: str | None = None  # HSA_OVERRIDE_GFX_VERSION as gfx name; what the runtime will believe
    mig_profile: str | None = None  # "3g.40gb"
    mig_enabled: bool | None = None
    gpu_cores: int | None = None  # Apple GPU cores
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    bandwidth_gbs: float | None = None  # read from the device; the catalogue has the rest
    nvlink_active: int | None = None  # links that are up
    pcie_generation: int | None = None
    pcie_width: int | None = None
    driver_missing: bool = False  # the card is on the bus but nothing can drive it
    visible: bool = True  # False: hidden by CUDA_VISIBLE_DEVICES and similar variables
    processes: int | None = None  # compute processes on it
    notes: tuple[str, ...] = ()


class Cpu(Record, frozen=True, kw_only=True):
    """The processor, as the operating system shows it."""

    model: str | None = None
    vendor: str | None = None
    sockets: int | None = None
    physical_cores: int | None = None
    logical_cores: int | None = None
    usable_cores: float | None = None  # after affinity and cgroup quota
    flags: tuple[str, ...] | None = None  # engine-relevant ISA flags, lower case as in /proc/cpuinfo
    platform: str | None = None  # id in the CPU bandwidth catalogue


class HostMemory(Record, frozen=True, kw_only=True):
    """RAM of the host and what limits it."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = None  # cgroup or container limit, None = no limit known
    reserve_bytes: int | None = None  # what the system is assumed to keep, where what is available was not read
    sold_bytes: tuple[int, int] | None = None  # where the total is not known: smallest and largest that is sold
    transfers_mts: int | None = None  # million transfers a second, where it was stated
    channels: int | None = None  # over all sockets, where it was stated

    @property
    def usable_bytes(self) -> int | None:
        """RAM that a process here may use at most: the smaller of total and limit; None when neither is known."""
        known = [x for x in (self.total_bytes, self.limit_bytes) if x is not None]
        return min(known) if known else None

    @property
    def budget_bytes(self) -> int | None:
        """RAM that a new process finds: what is available now, where that was read, else all but the reserve."""
        total = self.usable_bytes
        if self.available_bytes is not None:
            return self.available_bytes if total is None else min(self.available_bytes, total)
        return None if total is None else total - (self.reserve_bytes or 0)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The least and the most of it that may be there, where its size, or what the system keeps, is assumed:
        half of that for sure."""
        if self.available_bytes is None and self.reserve_bytes and self.usable_bytes is not None:
            return self.usable_bytes - self.reserve_bytes, self.usable_bytes - self.reserve_bytes // 2
        return self.sold_bytes


class CardRoom(Record, frozen=True, kw_only=True):
    """What the computer has for more cards, where it was stated."""

    psu_watts: float | None = None  # one of two supplies: they stand in for each other
    slots: int | None = None  # of two widths each, those of the cards that are there included
    free_slots: int | None = None
    low_profile: bool = False
    no_lead: bool = False  # a card has what the slot gives
    passive: bool = False  # the case moves the air


class InstalledEngine(Record, frozen=True, kw_only=True):
    """An engine found on this machine."""

    engine: str  # engine id of the catalogue
    version: str | None = None  # in the catalogue's numbering; None = it does not say
    build: str | None = None  # as the program stated it
    path: str | None = None  # program, or None for a Python package
    package: str | None = None  # Python distribution name


class Machine(MemoRecord, frozen=True, kw_only=True):
    """What is here. `nodes` machines of this kind when more than one."""

    schema: int = 1
    source: Literal["probe", "text", "snapshot"] = "probe"
    text: str | None = None  # the hardware string it came from
    os: Os | None = None
    os_version: str | None = None
    arch: str | None = None  # "x86_64", "arm64"
    wsl: bool | None = None
    container: str | None = None  # "docker", "podman", "kubernetes", "lxc", ... ; None = none seen
    orchestrator: str | None = None  # "kubernetes"
    nodes: int = 1
    cpu: Cpu = Cpu()
    memory: HostMemory = HostMemory()
    devices: tuple[Device, ...] = ()
    disk_gbs: float | None = None  # what files are read with, where it was stated
    place: CardRoom | None = None
    interconnect: str | None = None  # between devices: "nvlink", "pcie", "nvlink+infiniband", ...
    network_gbs: float | None = None  # one way between machines, where it was stated
    drivers: dict[str, str] = {}  # "nvidia": "580.95", "cuda": "13.0", "rocm": "7.2", ...
    engines: tuple[InstalledEngine, ...] = ()
    docker: bool | None = None
    npu: str | None = None  # "Ryzen AI", "Intel"
    python: str | None = None
    notes: tuple[str, ...] = ()

    @cached_property  # asked many times for each estimate
    def usable_devices(self) -> tuple[Device, ...]:
        """Devices a new process would see and can use."""
        return tuple(d for d in self.devices if d.visible and not d.driver_missing)

    def installed_version(self, engine_id: str) -> str | None:
        """The version of an engine that was found on the machine; None where none was."""
        return next((e.version for e in self.engines if e.engine == engine_id and e.version), None)


def fingerprint_machine(machine: Machine) -> str:
    """Devices and processor of a machine, by their names."""
    names = [x.name for x in machine.usable_devices]
    devices = ", ".join(f"{names.count(n)}x {n}" for n in dict.fromkeys(names)) or "no accelerator"
    return (
        f"{devices}; {machine.cpu.model or machine.cpu.platform or 'unknown processor'}, "
        f"{machine.cpu.physical_cores or '?'} cores"
    )
