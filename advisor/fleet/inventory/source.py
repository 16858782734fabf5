"""The one entry point to all inventories: what a file is, is found out from what is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.errors import BadFile, BadInput
from advisor.files import MAX_TEXT, decode_text, parse_yaml
from advisor.fleet.inventory import kubernetes, own_file, ray, slurm_json, slurm_text, snapshots
from advisor.fleet.inventory.cards import make_lookup
from advisor.fleet.inventory.foreign import STDIN, ForeignShape, decode_as, read_source
from advisor.fleet.inventory.kubernetes import PodList
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.types import Fleet, Inventory, SourceKind

WANTED = (
    "is none of the inventories that can be read: kubectl get nodes -o json, scontrol show node -o -d, sinfo --json, "
    "json.dumps(ray.nodes()), a folder of snapshots (advise probe --save), or YAML: nodes: [{name, count, hardware}]"
)


_ABSENT = msgspec.Raw()


class _Head(ForeignShape, frozen=True, kw_only=True):
    """The keys by which JSON objects are distinguished; what is in them is not looked at."""

    kind: msgspec.Raw = _ABSENT
    items: msgspec.Raw = _ABSENT
    nodes: msgspec.Raw = _ABSENT
    sinfo: msgspec.Raw = _ABSENT
    meta: msgspec.Raw = _ABSENT
    last_update: msgspec.Raw = _ABSENT
    schema: msgspec.Raw = _ABSENT
    devices: msgspec.Raw = _ABSENT


def read_fleet(source: str, rules: Catalog, pods: str | None = None) -> Fleet:
    """The pools of a file, of standard input (`-`) or of a folder of snapshots; `pods`: pods of a Kubernetes cluster.

    Raises BadFile, BadInput, and for hardware in words what these raise.
    """
    return make_fleet(read_inventory(source, rules, pods))


def read_inventory(source: str, rules: Catalog, pods: str | None = None) -> Inventory:
    """The nodes of a source. Raises as `read_fleet` does."""
    if source == STDIN == pods:
        raise BadInput("only one of the nodes and the pods can come from standard input")
    path = Path(source)
    if source != STDIN and path.is_dir():
        made = snapshots.read_snapshots(path, rules)
    else:
        where = "standard input" if source == STDIN else path
        taken = PodList(read_source(pods), "standard input" if pods == STDIN else pods) if pods is not None else None
        made = parse_inventory(read_source(source), where, rules, taken)
    if pods is not None and made.kind != "kubernetes":
        raise BadInput(f"--pods describes Kubernetes, and the source is of another kind ({made.kind})")
    return made


def parse_inventory(data: bytes, where: object, rules: Catalog, pods: PodList | None = None) -> Inventory:
    """The nodes that the content of a file describes. Raises as `read_fleet` does."""
    lookup = make_lookup(rules)
    begin = data[:4096].lstrip()
    if not begin:
        raise BadFile(where, "is empty")
    if begin.startswith(b"["):
        return ray.read_ray(data, where, lookup)
    if begin.startswith(b"{") and not re.match(rb"\{\s*\w+\s*:", begin):  # {nodes: [...]} is YAML's short form
        kind = _kind_of_object(data, where)
        if kind == "kubernetes":
            return kubernetes.read_kubernetes(data, where, lookup, pods)
        if kind == "slurm":
            return slurm_json.read_slurm_json(data, where, lookup)
        if kind == "snapshots":
            return _read_one_snapshot(where, rules)
        return own_file.read_own_file(decode_as(data, dict[str, Any], where), where, rules)
    if re.search(rb"(?m)^NodeName=", data):
        return slurm_text.read_scontrol(data, where, lookup)
    return _read_yaml(data, where, rules, pods)


def _kind_of_object(data: bytes, where: object) -> SourceKind:
    """Which inventory a JSON object is. Raises BadFile where it is none."""
    head = decode_as(data, _Head, where)
    if _there(head.items) or bytes(head.kind) == b'"Node"':
        return "kubernetes"
    if _there(head.sinfo) or (_there(head.nodes) and (_there(head.meta) or _there(head.last_update))):
        return "slurm"
    if _there(head.schema) and _there(head.devices):
        return "snapshots"
    if _there(head.nodes):
        return "slurm" if _looks_like_slurm(head.nodes, where) else "file"
    raise BadFile(where, WANTED)


def _there(part: msgspec.Raw) -> bool:
    return memoryview(part).nbytes > 0


def _looks_like_slurm(nodes: msgspec.Raw, where: object) -> bool:
    """Whether entries describe states and generic resources, which our own files know nothing of."""
    entries = decode_as(nodes, object, where)
    first = entries[0] if isinstance(entries, list) and entries else None
    return isinstance(first, dict) and "hardware" not in first and ("gres" in first or "state" in first)


def _read_one_snapshot(where: object, rules: Catalog) -> Inventory:
    if not isinstance(where, Path):
        raise BadFile(
            where, "is a snapshot, whose file name is the name of the node: give the file, or a folder of them"
        )
    return snapshots.read_snapshot(where, rules)


def _read_yaml(data: bytes, where: object, rules: Catalog, pods: PodList | None) -> Inventory:
    if len(data) > MAX_TEXT:
        raise BadFile(where, f"is larger than {MAX_TEXT // 2**20} MiB, which is too much for YAML: give JSON")
    text = decode_text(data, where)
    if re.match(r"\s*PARTITION\s+AVAIL|\s*NODELIST\s", text):
        raise BadFile(where, "is a table of sinfo for people: scontrol show node -o -d, or sinfo --json")
    if re.match(r"\s*NAME\s+STATUS\s+ROLES", text):
        raise BadFile(where, "is a table of kubectl for people: kubectl get nodes -o json")
    value = parse_yaml(text, where)
    if not isinstance(value, dict) or not ({"nodes", "items", "kind"} & set(value)):
        raise BadFile(where, WANTED)
    if "items" in value or value.get("kind") == "Node":
        return kubernetes.read_kubernetes_values(value, where, make_lookup(rules), pods)
    return own_file.read_own_file(value, where, rules)
