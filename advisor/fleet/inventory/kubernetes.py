"""Nodes of Kubernetes: `kubectl get nodes -o json`, and pods, which tell what is taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.decoding import Json, decode_json
from advisor.errors import BadFile
from advisor.files import parse_json
from advisor.fleet.inventory.cards import CardLookup
from advisor.fleet.inventory.foreign import ForeignShape, as_shape, check_names, parse_quantity, positive
from advisor.fleet.inventory.labels import NodeLabels, find_by_instance, find_devices, read_node_words
from advisor.fleet.inventory.parts import make_part
from advisor.fleet.inventory.register import (
    CLASS,
    REGISTER,
    Claimable,
    RegisteredCard,
    count_claimable,
    read_register,
)
from advisor.fleet.types import Inventory, Node
from advisor.machines.host import normalise_arch
from advisor.machines.types import Cpu, HostMemory, Machine, Os
from advisor.record import Value

MAX_PODS = 1_000_000
PODS_HINT = "what pods have taken is not known: --pods FILE tells (kubectl get pods -A -o json)"
NAMES_DEVICES = re.compile(r"gpu|accelerat|[nxt]pu\b|cuda", re.I)  # keys of labels of nodes whose cards have no name
UNIQUE = re.compile(r"timestamp|driver|cuda\.|hostname|uuid|serial", re.I)  # of these, what tells nothing of the cards
MOST_LABELS = 16
# kubectl describe nodes, kubectl get nodes; what `-o custom-columns` and `-l` of the command before a table ask for
PRINTED = re.compile(r"^(?:Name:\s+\S+\s*\n(?=Roles:)|NAME(?: +[A-Z][A-Z\d._-]*)+ *$)", re.M)
_PATHS = re.compile(r"([^\s:,=\"']+):\.?(?:metadata\.)?(labels|status\.capacity|status\.allocatable)\.([^\s,\"']+)")
_SELECTED = re.compile(r"(?<=[\s,\"'])([\w.-]*[./][\w./-]+)=([\w.-]+)")
TABLE_NOTE = "a table for people: cards by labels and machine types; taints and what can be allocated are not in it"
CLAIMS = "claims"  # the key under which pods with claims are counted
Taken = Mapping[str, Mapping[str, int]]  # node -> resource -> devices


class _Metadata(ForeignShape, frozen=True, kw_only=True):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: msgspec.Raw = msgspec.Raw()
    deletionTimestamp: str | None = None


class _Taint(ForeignShape, frozen=True, kw_only=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _Resources(ForeignShape, frozen=True, kw_only=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(ForeignShape, frozen=True, kw_only=True):
    resources: _Resources | None = None
    restartPolicy: str | None = None


class _Spec(ForeignShape, frozen=True, kw_only=True):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None
    nodeName: str | None = None
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None
    resourceClaims: list[Json] | None = None
    # of a ResourceSlice
    driver: str | None = None
    pool: Json | None = None
    devices: list[Json] | None = None


class _Condition(ForeignShape, frozen=True, kw_only=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class _Status(ForeignShape, frozen=True, kw_only=True):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None
    phase: str | None = None


class _Item(ForeignShape, frozen=True, kw_only=True):
    """A node or a pod."""

    kind: str | None = None
    metadata: _Metadata = _Metadata()
    spec: _Spec | None = None
    status: _Status | None = None


class _List(ForeignShape, frozen=True, kw_only=True):
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


class NodeOptions(Value, frozen=True):
    """What the caller says of all nodes: taints that pods tolerate (KEY[=VALUE]), further labels that are kept."""

    tolerate: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


NO_OPTIONS = NodeOptions()


class PodList(Value, frozen=True):
    """A list of pods in JSON, and where it comes from."""

    data: bytes
    where: object


class _Seen(Value, frozen=True):
    """What is read of a node, of pods and of claims."""

    lookup: CardLookup
    options: NodeOptions
    taken: Taken | None
    claimable: Mapping[str, Claimable]


def read_kubernetes(
    data: bytes, where: object, lookup: CardLookup, pods: PodList | None = None, options: NodeOptions = NO_OPTIONS
) -> Inventory:
    """The nodes of a list in JSON; pods in it, or in a list of their own, tell what is taken. Raises BadFile."""
    nodes, taken, slices = _split(_items(data, where))
    if pods is not None:
        others, taken, _ = _split(_items(pods.data, pods.where))
        if taken is None and (others or parse_json(pods.data, pods.where, _List).items != []):
            raise BadFile(pods.where, "describes no pods: kubectl get pods -A -o json")
        taken = taken or {}
    return _make_inventory(nodes, where, _Seen(lookup, options, taken, count_claimable(slices)))


def read_kubernetes_values(
    value: Any, where: object, lookup: CardLookup, pods: PodList | None = None, options: NodeOptions = NO_OPTIONS
) -> Inventory:
    """As `read_kubernetes`, of the plain values of a YAML file."""
    return read_kubernetes(msgspec.json.encode(as_shape(value, Json, where)), where, lookup, pods, options)


def read_printed(
    text: str, where: object, lookup: CardLookup, pods: PodList | None = None, options: NodeOptions = NO_OPTIONS
) -> Inventory:
    """The nodes of what kubectl prints for people: `describe nodes`, a table with columns of labels (`-L
    node.kubernetes.io/instance-type`) or with the command that says what they are (`-o custom-columns`). Raises
    BadFile."""
    start = PRINTED.search(text)
    assert start is not None
    if start[0].startswith("Name:"):
        described = [_read_described(part) for part in re.split(r"(?m)^(?=Name:\s)", text)[1:]]
        stated = all(pod is not None for _, pod in described)  # what all pods have taken
        items = [node for node, _ in described] + [pod for _, pod in described if pod is not None and stated]
        return read_kubernetes_values({"kind": "List", "items": items}, where, lookup, pods, options)
    header, *rows = text[start.start() :].splitlines()
    columns, places = header.split(), [m.start() for m in re.finditer(r"\S+", header)] + [None]
    words, command = read_node_words(lookup.rules), text[: start.start()]
    paths = {c: ("labels", key) for c, key in words.columns.items() if c in columns}
    paths |= {c: (what, re.sub(r"\\(.)", r"\1", key)) for c, what, key in _PATHS.findall(command)}
    if not paths:
        raise BadFile(where, "is a table of kubectl for people: kubectl get nodes -o json")
    items, unknown = [], {}
    for row in rows:
        cells = dict(zip(columns, re.split(r" {2,}", row.strip()), strict=False))
        if len(cells) < len(columns):  # an empty cell has a place and no words
            cells = {c: row[places[i] : places[i + 1]].strip() for i, c in enumerate(columns)}
        if not cells["NAME"]:
            continue
        said: dict[str, dict[str, str]] = {"labels": dict(_SELECTED.findall(command))}
        for column, (what, key) in paths.items():
            if cells.get(column, "<none>") not in ("", "<none>"):
                said.setdefault(what, {})[key] = cells[column]
        labels, counts = said["labels"], said.get("status.allocatable", said.get("status.capacity"))
        cards = find_by_instance(NodeLabels(labels, {}, {}), lookup)
        number = positive(labels.get("nvidia.com/gpu.count")) or (cards[1] if cards is not None else 0)
        resource = words.resources.get(cards[0].vendor if cards is not None else "nvidia", "")
        if not number and counts is None:
            machine = cells.get("INSTANCE-TYPE", "")[:60]
            unknown[cells["NAME"]] = f"whether its machine type {machine} has cards is not known"
        states = cells["STATUS"].split(",") if "STATUS" in cells else None
        items.append({
            "kind": "Node", "metadata": {"name": cells["NAME"], "labels": labels},
            "spec": {"unschedulable": "SchedulingDisabled" in (states or ())},
            "status": {"allocatable": counts or ({resource: number} if resource else {}),
                       "conditions": [{"type": "Ready", "status": str("Ready" in states)}] if states else []},
        })  # fmt: skip
    made = read_kubernetes_values({"kind": "List", "items": items}, where, lookup, pods, options)
    nodes = [replace(n, parts=(), reason=unknown[n.name]) if n.parts and n.name in unknown else n for n in made.nodes]
    return replace(made, nodes=tuple(nodes), notes=(*made.notes, TABLE_NOTE))


def _read_described(text: str) -> tuple[Json, Json | None]:
    """A node as `kubectl describe` prints it, and a pod that has taken what its pods have; None where that is not
    printed."""
    sections: dict[str, list[str]] = {}
    here: list[str] = []
    for line in text.splitlines():
        m = re.match(r"([A-Z][A-Za-z -]*):(?:\s+|$)(.*)", line)
        if m is not None:
            here = sections.setdefault(m[1], [])
        here.append((m[2] if m is not None else line).strip())

    def pairs(section: str, mark: str) -> dict[str, str]:
        found = (line.partition(mark) for line in sections.get(section, ()))
        return {key: value.strip() for key, sign, value in found if sign}

    taints = [re.fullmatch(r"([^=:\s]+)(?:=([^:\s]*))?:(\w+)", line) for line in sections.get("Taints", ())]
    states = [line.split() for line in sections.get("Conditions", ())]
    capacity, name = pairs("Capacity", ":"), sections["Name"][0]
    node = {
        "kind": "Node", "metadata": {"name": name, "labels": pairs("Labels", "="),
                                     "annotations": pairs("Annotations", ": ")},
        "spec": {"unschedulable": sections.get("Unschedulable") == ["true"],
                 "taints": [{"key": t[1], "value": t[2], "effect": t[3]} for t in taints if t is not None]},
        "status": {"capacity": capacity, "allocatable": pairs("Allocatable", ":") or None,
                   "conditions": [{"type": s[0], "status": s[1]} for s in states if s[:1] == ["Ready"]]},
    }  # fmt: skip
    if "Allocated resources" not in sections:
        return node, None
    rows = [line.split() for line in sections["Allocated resources"]]
    taken = {row[0]: row[1] for row in rows if len(row) > 1 and "/" in row[0]}
    return node, {"kind": "Pod", "spec": {"nodeName": name, "containers": [{"resources": {"requests": taken}}]}}


def _items(data: bytes, where: object) -> Iterator[_Item]:
    """Items one after the other, so that never more than one is held with all it says."""
    listed = parse_json(data, where, _List)
    if listed.items is None:
        yield parse_json(data, where, _Item)
        return
    if len(listed.items) > MAX_PODS:
        raise BadFile(where, f"has more than {MAX_PODS:,} items")
    kind = (listed.kind or "").removesuffix("List") or None
    for item in listed.items:
        made = parse_json(item, where, _Item)
        yield made if made.kind or not kind else replace(made, kind=kind)


def _split(items: Iterable[_Item]) -> tuple[list[_Item], dict[str, Counter[str]] | None, list[Json]]:
    """Nodes; what pods have taken, None without pods; specs of ResourceSlices."""
    nodes: list[_Item] = []
    slices: list[Json] = []
    taken: dict[str, Counter[str]] | None = None
    for item in items:
        if item.kind == "Pod":
            taken = {} if taken is None else taken
            _count_pod(item, taken)
        elif item.kind == "ResourceSlice" and item.spec is not None:
            slices.append(msgspec.structs.asdict(item.spec))
        elif item.kind == "Node" or (item.kind is None and item.status is not None and item.status.allocatable):
            nodes.append(item)
    return nodes, taken, slices


def _count_pod(pod: _Item, taken: dict[str, Counter[str]]) -> None:
    """Add the devices that a pod holds on its node: those of its containers, or more for one before them."""
    spec, phase = pod.spec, pod.status.phase if pod.status is not None else None
    if spec is None or not spec.nodeName or phase in ("Succeeded", "Failed"):
        return
    total: Counter[str] = Counter()
    for container in spec.containers or ():
        total.update(_asked(container))
    for container in spec.initContainers or ():
        if container.restartPolicy == "Always":  # runs next to the others until the end
            total.update(_asked(container))
        else:
            total |= Counter(_asked(container))
    if spec.resourceClaims:
        total[CLAIMS] = 1
    taken.setdefault(spec.nodeName, Counter()).update(total)


def _asked(container: _Container) -> dict[str, int]:
    """Devices that a container asks for: of resources with a maker's name, whole ones."""
    resources = container.resources or _Resources()
    asked = {**(resources.limits or {}), **(resources.requests or {})}
    return {k: n for k, v in asked.items() if "/" in k and (n := positive(v)) is not None}


def _make_inventory(items: list[_Item], where: object, seen: _Seen) -> Inventory:
    if not items:  # nothing but ResourceSlices
        items = [_Item(metadata=_Metadata(name=name)) for name in seen.claimable]
    if not items:
        raise BadFile(where, "has no nodes: kubectl get nodes -o json")
    names = [item.metadata.name or "" for item in items]
    if not all(names):
        raise BadFile(where, "has a node without a name")
    check_names(names, where)
    nodes = [_make_node(name, item, seen) for name, item in zip(names, items, strict=True)]
    notes = (PODS_HINT,) if seen.taken is None and any(p.devices for n in nodes for p in n.parts) else ()
    return Inventory(kind="kubernetes", nodes=tuple(nodes), notes=notes)


def _make_node(name: str, item: _Item, seen: _Seen) -> Node:
    labels, lookup, taken = item.metadata.labels or {}, seen.lookup, seen.taken
    words = read_node_words(lookup.rules)
    selecting = {k: labels[k] for k in (*words.selecting, *words.capacity_types, *seen.options.keep) if labels.get(k)}
    status = item.status or _Status()
    reason, tolerated = _read_taints(item, seen.options.tolerate, words.device_taints)
    if reason is not None and not reason.startswith("tainted"):
        return Node(name=name, reason=reason, labels=selecting)
    can_be_had = status.capacity if status.allocatable is None else status.allocatable
    described = NodeLabels(
        labels, _counts(status.capacity), _counts(can_be_had), _read_annotations(item.metadata.annotations),
        seen.claimable.get(name, {}), item.status is not None,
    )  # fmt: skip
    found = find_devices(described, lookup)
    if reason is not None:
        cards = ", ".join(f"{g.number}x {g.kind.name}" for g in found.groups)
        return Node(name=name, reason=f"{reason}, with {cards}" if cards else reason, labels=selecting)
    host = _make_host(labels, status)
    if not found.groups:
        if found.problems:
            return Node(name=name, reason="; ".join(found.problems), labels=selecting)
        return Node(name=name, parts=(make_part(lookup, host),), labels=selecting, tolerations=tolerated)
    if any(g.kind.accelerator is None for g in found.groups):  # unlike labels never share a pool
        selecting |= _list_naming_labels(labels)
    notes = [*found.notes, *(f"not used: {p}" for p in found.problems)]
    if not any(c.type == "Ready" for c in status.conditions or ()):
        notes.append("whether the node is ready is not stated")
    if status.allocatable is None and status.capacity is not None:
        notes.append("what can be allocated is not stated: its capacity is taken")
    parts = []
    for group in found.groups:
        busy = taken.get(name, {}).get(group.resource, 0) if taken is not None else None
        if group.resource.startswith(CLASS) and taken is not None and CLAIMS in taken.get(name, {}):
            busy = None  # how many devices a claim has is in the claim
        free = None if busy is None else max(0, group.number - busy)
        part = make_part(lookup, host, group.kind, group.number, free, resource=group.resource)
        parts.append(replace(part, whole=group.whole) if group.whole > group.number else part)
    return Node(
        name=name, parts=tuple(parts), labels=selecting, notes=tuple(dict.fromkeys(notes)), tolerations=tolerated
    )


def _read_annotations(raw: msgspec.Raw) -> tuple[RegisteredCard, ...]:
    """The register of a sharing scheduler; most nodes have none, and their annotations are long."""
    if not any(key.encode() in bytes(raw) for key in REGISTER):
        return ()
    try:
        return read_register(decode_json(raw, Json))
    except msgspec.MsgspecError:
        return ()


def _list_naming_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels that say something of the devices, whatever it means."""
    names = sorted(k for k in labels if NAMES_DEVICES.search(k) and not UNIQUE.search(k))
    return {k: labels[k] for k in names[:MOST_LABELS]}


def _read_taints(item: _Item, tolerate: Sequence[str], usual: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """(why no pods are started on a node, None where they are; the taints that these tolerate). `usual`: begin of
    taints that only keep pods without devices away."""
    spec = item.spec or _Spec()
    if item.metadata.deletionTimestamp:
        return "is being deleted", ()
    if spec.unschedulable:
        return "cordoned: no new pods are placed on it", ()
    conditions = (item.status or _Status()).conditions or ()
    ready = next((c for c in conditions if c.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        return "not ready" + (f": {ready.reason[:80]}" if ready.reason else ""), ()
    tolerated = []
    for taint in spec.taints or ():
        key = taint.key or ""
        shown = f"{key}={taint.value}" if taint.value else key
        if taint.effect not in ("NoSchedule", "NoExecute"):
            continue
        if not shown.startswith(usual) and key not in tolerate and shown not in tolerate:
            return f"tainted: {shown[:120]}:{taint.effect} (--tolerate {key[:60]} where pods tolerate it)", ()
        tolerated.append(f"{shown}:{taint.effect}")
    return None, tuple(tolerated)


def _counts(resources: Mapping[str, str | int | float] | None) -> dict[str, int]:
    """Devices by resource: those with a maker's name, whole numbers."""
    made = {}
    for key, value in (resources or {}).items():
        number = parse_quantity(value)
        if "/" in key and number is not None and 0 <= number < 2**16:
            made[key] = int(number)
    return made


def _make_host(labels: Mapping[str, str], status: _Status) -> Machine:
    capacity, allocatable = status.capacity or {}, status.allocatable or {}
    cores = parse_quantity(capacity.get("cpu"))
    usable = parse_quantity(allocatable.get("cpu"))
    system = labels.get("kubernetes.io/os") or labels.get("beta.kubernetes.io/os") or "linux"
    known: dict[str, Os] = {"linux": "linux", "windows": "windows"}
    return Machine(
        source="text",
        cpu=Cpu(logical_cores=int(cores) if cores and cores >= 1 else None, usable_cores=usable or None),
        memory=HostMemory(total_bytes=_bytes(capacity.get("memory")), limit_bytes=_bytes(allocatable.get("memory"))),
        os=known.get(system),
        arch=normalise_arch(labels.get("kubernetes.io/arch") or labels.get("beta.kubernetes.io/arch")),
        orchestrator="kubernetes",
    )


def _bytes(value: object) -> int | None:
    number = parse_quantity(value)
    return int(number) if number is not None and 1 <= number < 2**60 else None
