"""A folder of snapshots (`advise probe --save`), one node a file, named by the file; or one such file."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.match import join_catalogue
from advisor.errors import BadFile
from advisor.fleet.inventory.foreign import MAX_NODES
from advisor.fleet.inventory.parts import describe_hardware, split_machine
from advisor.fleet.types import Inventory, Node
from advisor.machines.snapshot import load_snapshot
from advisor.machines.types import Machine


def read_snapshots(folder: Path, rules: Catalog) -> Inventory:
    """The nodes of a folder, by name. A file that cannot be read sets its node aside. Raises BadFile."""
    try:
        files = sorted((p for p in folder.iterdir() if p.suffix == ".json" and p.is_file()), key=_natural)
    except OSError as e:
        raise BadFile(folder, f"cannot be read: {e.strerror or e}") from None
    if not files:
        raise BadFile(folder, "has no snapshot: advise probe --save NODE.json on each node")
    if len(files) > MAX_NODES:
        raise BadFile(folder, f"has more than {MAX_NODES:,} files")
    nodes = []
    for file in files:
        try:
            nodes.append(make_snapshot_node(file.stem, load_snapshot(file), rules))
        except BadFile as e:
            nodes.append(Node(name=file.stem, reason=e.problem[:300]))
    return Inventory(kind="snapshots", nodes=tuple(nodes))


def read_snapshot(file: Path, rules: Catalog) -> Inventory:
    """One node. Raises BadFile."""
    return Inventory(kind="snapshots", nodes=(make_snapshot_node(file.stem, load_snapshot(file), rules),))


def make_snapshot_node(name: str, machine: Machine, rules: Catalog) -> Node:
    """The node that a snapshot describes, joined to the catalogue of today."""
    machine = join_catalogue(machine, rules.accelerators(), rules.cpu_platforms())
    if machine.nodes > 1:
        return Node(name=name, reason=f"describes {machine.nodes} nodes; a snapshot is of one")
    if machine.devices and not machine.usable_devices:
        said = "; ".join(dict.fromkeys(x for d in machine.devices for x in d.notes)) or "its driver is missing"
        return Node(name=name, reason=f"none of its {len(machine.devices)} devices can be used: {said[:200]}")
    machine = msgspec.structs.replace(machine, text=describe_hardware(machine, rules))
    parts = split_machine(machine, rules, busy_known=True)
    usable = sum(p.devices for p in parts)
    notes = [f"{len(machine.devices)} devices, of which {usable} can be used"] if usable < len(machine.devices) else []
    for device in machine.usable_devices:
        notes.extend(device.notes)
    return Node(name=name, parts=parts, notes=tuple(dict.fromkeys(notes)))


def _natural(file: Path) -> list[tuple[int, str]]:
    """gpu2 before gpu10."""
    return [(int(x), "") if x.isdigit() else (-1, x) for x in re.split(r"(\d+)", file.stem)]
