"""The parts of a node: its equal devices in addition to its processors and memory, and words for them that read
back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.fleet.inventory.cards import CardKind, CardLookup, make_devices
from advisor.fleet.types import NodePart
from advisor.machines.types import Device, Machine
from advisor.units import GIB


def make_part(
    lookup: CardLookup,
    host: Machine,
    kind: CardKind | None = None,
    count: int = 0,
    devices_free: int | None = 0,
    free_indices: tuple[int, ...] | None = None,
    first: int = 0,
    resource: str | None = None,
) -> NodePart:
    """`count` devices of a kind on a host that has none yet, with indices from `first`; without a kind, its
    processors."""
    seen = free_indices[0] if free_indices else 0
    if kind is not None and host.memory.total_bytes and (kind.total_bytes or 0) > host.memory.total_bytes:
        entry = lookup.rules.accelerators().get(kind.accelerator or "")
        if entry is not None and entry.unified:  # one memory, of which the system says how much there is
            kind = replace(kind, total_bytes=host.memory.total_bytes, basis="reported")
    devices = make_devices(lookup, kind, count, first, seen) if kind is not None else ()
    return NodePart(
        machine=_with_devices(host, devices, lookup.rules),
        devices=len(devices),
        devices_free=devices_free,
        free_indices=free_indices,
        resource=resource,
    )


def split_machine(machine: Machine, rules: Catalog, busy_known: bool) -> tuple[NodePart, ...]:
    """The parts of a whole machine: equal devices stand together, in the order in which they first come.

    `busy_known`: processes on a device tell that it is taken; else all devices are free, as their owner says.
    """
    usable = [d for d in machine.devices if not d.driver_missing and (d.visible or d.mig_profile)]
    if not usable:
        return (NodePart(machine=machine, devices=0, devices_free=0),)
    groups: dict[tuple[object, ...], list[Device]] = {}
    for device in usable:
        groups.setdefault(_identity(device), []).append(device)
    made = []
    for devices in groups.values():
        free = tuple(i for i, d in enumerate(devices) if d.processes == 0)
        known = all(d.processes is not None for d in devices)
        count = len(devices) if not busy_known else len(free) if known else None
        some = free if busy_known and known and len(free) < len(devices) else None
        if devices[0].mig_profile is not None:  # a process sees one slice only
            seen = some[0] if some else 0
            devices = [replace(d, visible=i == seen) for i, d in enumerate(devices)]
        whole = len(groups) == 1 and devices == list(machine.devices)
        host = machine if len(devices) > 1 else replace(machine, interconnect=None)
        part = machine if whole else _with_devices(host, devices, rules)
        made.append(NodePart(machine=part, devices=len(devices), devices_free=count, free_indices=some))
    return tuple(made)


def _identity(device: Device) -> tuple[object, ...]:
    """What makes devices of one machine equal: the same card, and as many GiB."""
    size = None if device.total_bytes is None else round(device.total_bytes / GIB)
    return (device.vendor, device.accelerator, device.name, device.mig_profile, size)


def _with_devices(machine: Machine, devices: Sequence[Device], rules: Catalog) -> Machine:
    """The machine as if it had these devices only."""
    links = machine.interconnect.split("+") if machine.interconnect else ()
    made = replace(machine, devices=tuple(devices), interconnect=_interconnect(rules, devices, links))
    return replace(made, text=describe_hardware(made, rules))


def _interconnect(rules: Catalog, devices: Sequence[Device], links: Sequence[str]) -> str | None:
    """As the source says; else NVLink for several cards of a form that only exists on NVLink boards."""
    kinds = [link for link in dict.fromkeys(links) if len(devices) > 1 or link not in ("nvlink", "pcie")]
    if not any(link in kinds for link in ("nvlink", "pcie")) and len(devices) > 1:
        entries = [rules.accelerators().get(d.accelerator or "") for d in devices]
        if all(e is not None and e.form in ("sxm", "superchip") for e in entries) and not devices[0].mig_profile:
            kinds.insert(0, "nvlink")
    return "+".join(kinds) or None


def describe_hardware(machine: Machine, rules: Catalog) -> str:
    """The machine in words that hardware strings are made of: `8x H100 SXM5 80GB, 2015GB RAM, linux`."""
    words = []
    counts: dict[tuple[str, str], int] = {}
    for device in machine.devices:
        if device.driver_missing or not (device.visible or device.mig_profile):
            continue
        counts[device.name, device.accelerator or ""] = counts.get((device.name, device.accelerator or ""), 0) + 1
    for (name, accelerator), count in counts.items():
        entry = rules.accelerators().get(accelerator)
        of_card = entry.devices_per_card if entry is not None else 1
        if of_card > 1 and count % of_card == 0 and " MIG " not in name:  # a board of two counts as one in words
            count //= of_card
        words.append(f"{count}x {name}")
    if not counts:
        words.append(machine.cpu.model or "cpu")
        cores = machine.cpu.physical_cores or machine.cpu.logical_cores
        if cores is not None:
            words.append(f"{cores} cores")
    memory = machine.memory.usable_bytes
    if memory is not None:
        words.append(f"{round(memory / GIB)}GB RAM" if memory >= GIB else "1GB RAM")
    if machine.os is not None:
        words.append(machine.os)
    return ", ".join(words)
