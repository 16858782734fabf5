"""Nodes of Ray: `ray.nodes()` as JSON, and `ray list nodes --format json` (with --detail for resources).

Ray counts devices and says a short name of theirs; sizes it does not know. What it calls memory is what it may use.
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec.structs import replace

from advisor.decoding import Json
from advisor.errors import BadFile
from advisor.files import parse_json
from advisor.fleet.inventory.cards import CardKind, CardLookup, find_by_words
from advisor.fleet.inventory.foreign import MAX_NAME, MAX_NODES, ForeignShape, as_number
from advisor.fleet.inventory.labels import read_node_words
from advisor.fleet.inventory.parts import make_part
from advisor.fleet.types import Inventory, Node, NodePart
from advisor.machines.types import Cpu, HostMemory, Machine

MEMORY_NOTE = "RAM is what Ray may use of it, not all that the machines have"
TAKEN_NOTE = "what tasks and actors have taken is not in ray.nodes(): how many devices are free is not known"
TYPE_PREFIX = "accelerator_type:"
MOST_DEVICES = 4096
TYPE_LABEL = "ray.io/accelerator-type"


class _RayNode(ForeignShape, frozen=True, kw_only=True):
    """An entry of ray.nodes() (capitals), or of the state API."""

    NodeID: str | None = None
    Alive: bool | None = None
    alive: bool | None = None
    NodeName: str | None = None
    NodeManagerHostname: str | None = None
    NodeManagerAddress: str | None = None
    DeathReasonMessage: str | None = None
    Resources: Json | None = None
    Labels: Json | None = None
    AvailableResources: Json | None = None  # this and the next: added by ray_client
    Probe: Json | None = None
    node_id: str | None = None
    node_name: str | None = None
    node_ip: str | None = None
    state: str | None = None
    state_message: str | None = None
    resources_total: Json | None = None
    labels: Json | None = None


def read_ray(data: bytes, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of the list. Raises BadFile."""
    entries = parse_json(data, where, list[_RayNode])
    if not entries:
        raise BadFile(where, "has no nodes: json.dumps(ray.nodes()) needs at least one")
    if len(entries) > MAX_NODES:
        raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
    nodes = tuple(
        _make_node(name, entry, lookup) for name, entry in zip(name_nodes(entries, where), entries, strict=True)
    )
    parts = [p for n in nodes for p in n.parts]
    notes = [MEMORY_NOTE] if any(p.machine.memory.limit_bytes is not None for p in parts) else []
    if any(p.devices_free is None for p in parts):
        notes.append(TAKEN_NOTE)
    return Inventory(kind="ray", nodes=nodes, notes=tuple(notes))


def read_probes(data: bytes, where: object) -> dict[str, Json]:
    """name -> what a probe answered, {machine} or {error}, of nodes that were asked. Raises BadFile."""
    entries = parse_json(data, where, list[_RayNode])
    named = zip(name_nodes(entries, where), entries, strict=True)
    return {name: entry.Probe for name, entry in named if entry.Probe is not None}


def name_nodes(entries: list[_RayNode], where: object) -> list[str]:
    """A name for each entry: its own, else its host's; where two have the same, the begin of their ids next to it."""
    names = []
    for entry in entries:
        labels = entry.Labels or entry.labels or {}
        candidates = (labels.get("ray.io/node-name"), entry.NodeName, entry.node_name, entry.NodeManagerHostname,
                entry.NodeManagerAddress, entry.node_ip, entry.NodeID, entry.node_id)  # fmt: skip
        name = next((x for x in candidates if isinstance(x, str) and x), None)
        if name is None or len(name) > MAX_NAME:
            raise BadFile(where, "has a node without a name, or with one of more than 253 characters")
        names.append(name)
    again = Counter(names)
    made = [
        f"{name}-{(entry.NodeID or entry.node_id or '')[:12]}" if again[name] > 1 else name
        for name, entry in zip(names, entries, strict=True)
    ]
    if len(set(made)) < len(made):
        raise BadFile(where, f"has node {Counter(made).most_common(1)[0][0][:80]!r} twice")
    return made


def _make_node(name: str, entry: _RayNode, lookup: CardLookup) -> Node:
    alive = next((x for x in (entry.Alive, entry.alive) if x is not None), None)
    if alive is None and entry.state is not None:
        alive = entry.state.upper() == "ALIVE"
    if not alive:
        why = (entry.DeathReasonMessage or entry.state_message or "").strip()
        state = "is dead" if alive is False else "whether it is alive is not stated"
        return Node(name=name, reason=f"{state}: {why[:200]}" if why else state)
    resources = entry.Resources if entry.Resources is not None else entry.resources_total
    if resources is None:
        return Node(name=name, reason="its resources are not reported (ray list nodes --detail reports them)")
    host = _make_host(resources)
    types = _types(resources, entry.Labels or entry.labels or {})
    parts: list[NodePart] = []
    problems: list[str] = []
    notes: list[str] = []
    for resource in read_node_words(lookup.rules).ray:
        count = as_number(resources.get(resource))
        if count is None or count <= 0:
            continue
        if resource.endswith("_cores"):
            problems.append(f"{count:g} {resource}: cores of devices, whose number is not reported")
        elif count < 1 or count > MOST_DEVICES:
            problems.append(f"{count:g} {resource}: no whole device" if count < 1 else f"{count:g} {resource}")
        else:
            kind = _find_kind(resource, types, lookup)
            notes.extend(kind.notes)
            if count != int(count):
                notes.append(f"{count:g} {resource}: the part of a device is not used")
            free = _free(entry, resource, int(count))
            parts.append(make_part(lookup, host, kind, int(count), free, resource=resource))
    if not parts and problems:
        return Node(name=name, reason="; ".join(problems))
    notes += [f"not used: {p}" for p in problems]
    made = tuple(parts) or (make_part(lookup, host),)
    return Node(name=name, parts=made, notes=tuple(dict.fromkeys(notes)))


def _types(resources: Json, labels: Json) -> list[str]:
    """Names of devices: `accelerator_type:H100` among the resources, else a label."""
    found = [k.removeprefix(TYPE_PREFIX)[:MAX_NAME] for k in resources if k.startswith(TYPE_PREFIX)]
    label = labels.get(TYPE_LABEL)
    return found or ([label[:MAX_NAME]] if isinstance(label, str) and label else [])


def _find_kind(resource: str, types: list[str], lookup: CardLookup) -> CardKind:
    vendor, product = read_node_words(lookup.rules).ray[resource]
    if len(types) == 1:
        # TPU-V5LITEPOD is what Ray calls the generation that is sold as v5e
        words = re.sub(r"v5litepod", "v5e", types[0], flags=re.I)
        kind = find_by_words(lookup, words, vendor)
        return replace(kind, vendor=kind.vendor if kind.vendor != "unknown" else vendor)
    if types:
        note = f"devices of several kinds: {', '.join(types)[:200]}; which are which, a probe tells (--probe)"
        return CardKind(resource, vendor, notes=(note,))
    return find_by_words(lookup, product, vendor)


def _free(entry: _RayNode, resource: str, count: int) -> int | None:
    """Whole devices that nothing has asked for; None where it is not told."""
    if entry.AvailableResources is None:
        return None
    left = as_number(entry.AvailableResources.get(resource, 0))
    return None if left is None else max(0, min(count, int(left)))


def _make_host(resources: Json) -> Machine:
    cores, memory = as_number(resources.get("CPU")), as_number(resources.get("memory"))
    return Machine(
        source="text",
        cpu=Cpu(usable_cores=cores if cores else None),
        memory=HostMemory(limit_bytes=int(memory) if memory is not None and memory >= 1 else None),
    )
