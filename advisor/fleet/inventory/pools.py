"""Pools of equal nodes: the same devices, as many of them free, the same price, the same labels.

Nodes that were bought as equal report sizes that differ by some pages of memory, so sizes within a percent are equal,
and the pool has the least of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from advisor.fleet.types import Fleet, Inventory, Node, NodePart, Pool, SetAside
from advisor.machines.types import Machine
from advisor.record import Value, pick_fields

TOLERANCE = 0.01
Sizes = tuple[int | None, ...]


class _Kind(Value, frozen=True):
    """Nodes that differ in nothing but some sizes."""

    nodes: list[Node]
    sizes: list[Sizes]


def make_fleet(inventory: Inventory) -> Fleet:
    """Every node in a pool, or in several with the same group, or set aside with its reason."""
    signatures: dict[int, bytes] = {}
    kinds: dict[tuple[object, ...], _Kind] = {}
    aside = []
    for node in inventory.nodes:
        if node.reason is not None or not node.parts:
            aside.append(SetAside(node=node.name, reason=node.reason or "nothing of it can be used"))
            continue
        kind = kinds.setdefault(_signature(node, signatures), _Kind([], []))
        kind.nodes.append(node)
        kind.sizes.append(tuple(x for p in node.parts for x in _sizes(p.machine)))
    places = {node.name: i for i, node in enumerate(inventory.nodes)}
    groups = [group for kind in kinds.values() for group in _split_by_size(kind)]
    groups.sort(key=lambda group: places[group.nodes[0].name])
    ids = _make_ids(groups)
    return Fleet(
        kind=inventory.kind,
        pools=tuple(p for group, names in zip(groups, ids, strict=True) for p in _make_pools(group, names)),
        set_aside=tuple(aside),
        currency=inventory.currency,
        notes=inventory.notes,
    )


def _signature(node: Node, seen: dict[int, bytes]) -> tuple[object, ...]:
    """What equal nodes have in common; machines that are one object are looked at once."""
    parts = []
    for part in node.parts:
        if id(part.machine) not in seen:
            seen[id(part.machine)] = _machine_signature(part.machine)
        parts.append((seen[id(part.machine)], part.devices, part.devices_free, part.free_indices, part.resource,
                      part.whole))  # fmt: skip
    return (tuple(parts), node.price_per_hour, tuple(sorted(node.labels.items())), node.notes)


def _machine_signature(machine: Machine) -> bytes:
    """A machine without what each one has of its own: sizes to the byte, serial numbers, what is free at the moment."""
    devices = tuple(
        (d.vendor, d.accelerator, d.name, d.total_basis, d.total_bytes is None, d.mig_profile, d.unified,
         d.driver_missing, d.visible, d.power_limit_watts, d.compute_capability, d.gfx, d.gfx_override)
        for d in machine.devices
    )  # fmt: skip
    cpu = replace(machine.cpu, usable_cores=None)
    host = (machine.os, machine.arch, machine.orchestrator, cpu, machine.memory.usable_bytes is None,
            machine.interconnect, sorted(machine.drivers.items()), machine.engines)  # fmt: skip
    return msgspec.json.encode((devices, host))


def _sizes(machine: Machine) -> Sizes:
    """RAM and the memory of each device."""
    return (machine.memory.usable_bytes, *(d.total_bytes for d in machine.devices))


def _split_by_size(kind: _Kind) -> list[_Kind]:
    """The nodes in groups whose sizes lie within a percent of the least; the order of nodes stays."""
    places = sorted(range(len(kind.nodes)), key=lambda i: tuple(x or 0 for x in kind.sizes[i]))
    found: list[list[int]] = []
    for i in places:
        home = next((g for g in found[-8:] if _near(kind.sizes[g[0]], kind.sizes[i])), None)
        if home is None:
            found.append([i])
        else:
            home.append(i)
    made = [sorted(group) for group in found]
    return [_Kind([kind.nodes[i] for i in group], [kind.sizes[i] for i in group]) for group in made]


def _near(least: Sizes, other: Sizes) -> bool:
    return all(
        a == b or (a is not None and b is not None and abs(b - a) <= TOLERANCE * max(a, b))
        for a, b in zip(least, other, strict=True)
    )


def _make_pools(group: _Kind, ids: Sequence[str]) -> list[Pool]:
    first = group.nodes[0]
    names = tuple(n.name for n in group.nodes)
    return [
        Pool(
            id=ids[k],
            group=ids[0],
            node_names=names,
            machine=_least([n.parts[k] for n in group.nodes]),
            **pick_fields(part, "devices", "devices_free", "free_indices", "resource", "whole"),
            tolerations=tuple(dict.fromkeys(t for n in group.nodes for t in n.tolerations)),
            **pick_fields(first, "price_per_hour", "labels", "notes"),
        )
        for k, part in enumerate(first.parts)
    ]


def _least(parts: Sequence[NodePart]) -> Machine:
    """The machine with the least memory that one of the nodes has, so that what fits there fits on each."""
    machine = min(parts, key=lambda p: p.machine.memory.usable_bytes or 0).machine
    if len({id(p.machine) for p in parts}) == 1:
        return machine
    columns = zip(*(tuple(d.total_bytes for d in p.machine.devices) for p in parts), strict=True)
    least = [None if None in column else min(x for x in column if x is not None) for column in columns]
    devices = tuple(
        d if d.total_bytes == total else replace(d, total_bytes=total)
        for d, total in zip(machine.devices, least, strict=True)
    )
    return replace(machine, devices=devices)


def _make_ids(groups: Sequence[_Kind]) -> list[list[str]]:
    """An id for each pool of each group: its devices and their number, what is free where some are taken; unique."""
    taken: set[str] = set()
    last: dict[str, int] = {}  # the number of the last pool of a name

    def make_id(part: NodePart) -> str:
        name = base = _describe(part)
        while name in taken:
            last[base] = last.get(base, 1) + 1
            name = f"{base}-{last[base]}"
        taken.add(name)
        return name

    return [[make_id(part) for part in group.nodes[0].parts] for group in groups]


def _describe(part: NodePart) -> str:
    if not part.devices:
        return "cpu"
    device = part.machine.usable_devices[0]
    words = device.accelerator or device.name
    profile = f"-{device.mig_profile}" if device.mig_profile and device.mig_profile not in words else ""
    name = re.sub(r"[^a-z0-9.]+", "-", f"{words}{profile}".lower()).strip("-.")[:60] or "device"
    taken = part.devices_free is not None and part.devices_free < part.devices
    return f"{name}-{part.devices}x" + (f"-{part.devices_free}-free" if taken else "")
