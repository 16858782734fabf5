"""A fleet in words: YAML (or JSON) with nodes, their hardware as people write it, and what they cost."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from advisor.catalog import Catalog
from advisor.errors import AdvisorError, BadFile, BadInput
from advisor.estimation import find_machine
from advisor.fleet.inventory.foreign import MAX_NAME, MAX_NODES, as_shape
from advisor.fleet.inventory.parts import describe_hardware, split_machine
from advisor.fleet.types import Inventory, Node, NodePart
from advisor.machines.types import Machine
from advisor.near import unknown_options
from advisor.record import Record

EXAMPLE = '{nodes: [{name: a, count: 2, hardware: "8x H100 80GB SXM, 2TB RAM", price_per_hour: 20}]}'


class FleetEntry(Record, frozen=True, kw_only=True):
    """Equal nodes, named NAME-1 to NAME-n."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME - 7)]
    hardware: Annotated[str, Meta(min_length=1)]
    count: Annotated[int, Meta(ge=1, le=MAX_NODES)] | None = None
    price_per_hour: Annotated[float, Meta(ge=0, le=10**9)] | None = None  # of one node
    labels: dict[str, str] = {}


class FleetFile(Record, frozen=True, kw_only=True):
    """The whole file."""

    nodes: list[dict[str, Any]]
    currency: Annotated[str, Meta(min_length=1, max_length=8)] | None = None


def read_own_file(value: object, where: object, rules: Catalog) -> Inventory:
    """The nodes of the file's plain values. Raises BadFile, BadInput (unknown keys), and what hardware words do."""
    if not isinstance(value, dict):
        raise BadFile(where, f"is not a fleet: {EXAMPLE}")
    _refuse_unknown(value, FleetFile, str(where))
    body = as_shape(value, FleetFile, where)
    if not body.nodes:
        raise BadFile(where, f"has no nodes: {EXAMPLE}")
    nodes: list[Node] = []
    names: set[str] = set()
    machines: dict[str, Machine] = {}
    for i, raw in enumerate(body.nodes):
        place = f"{where}: nodes[{i}]"
        _refuse_unknown(raw, FleetEntry, place)
        entry = as_shape(raw, FleetEntry, place)
        machine, count = _read_hardware(entry, place, rules, machines)
        if len(nodes) + count > MAX_NODES:
            raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
        parts = split_machine(machine, rules, busy_known=False)
        for k in range(1, count + 1):
            name = f"{entry.name}-{k}"
            if name in names:
                raise BadFile(place, f"a node named {name[:80]!r} is there already")
            names.add(name)
            nodes.append(_make_node(name, entry, machine, parts))
    return Inventory(kind="file", nodes=tuple(nodes), currency=body.currency)


def _make_node(name: str, entry: FleetEntry, machine: Machine, parts: tuple[NodePart, ...]) -> Node:
    if machine.devices and not machine.usable_devices:
        return Node(name=name, reason="no usable device: " + "; ".join(machine.notes)[:200], labels=entry.labels)
    return Node(name=name, parts=parts, price_per_hour=entry.price_per_hour, labels=entry.labels, notes=machine.notes)


def _read_hardware(entry: FleetEntry, place: str, rules: Catalog, machines: dict[str, Machine]) -> tuple[Machine, int]:
    """One node, and how many of it. Raises AdvisorError with the place."""
    try:
        machine = find_machine(entry.hardware, rules, machines)
    except AdvisorError as e:
        raise AdvisorError(e.code, f"{place}: {e.message}", e.near) from None
    if machine.nodes > 1:
        if entry.count not in (None, machine.nodes):
            raise BadInput(
                f"{place}: the hardware says {machine.nodes} nodes and count says {entry.count}: say the number once"
            )
        count, machine = machine.nodes, msgspec.structs.replace(machine, nodes=1)
        return msgspec.structs.replace(machine, text=describe_hardware(machine, rules)), count
    return machine, entry.count or 1


def _refuse_unknown(value: dict[Any, Any], shape: type[Record], place: str) -> None:
    known = tuple(shape.__struct_fields__)
    unknown = [str(k) for k in value if k not in known]
    if unknown:
        raise unknown_options(place, unknown, known)
