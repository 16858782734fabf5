"""Kubernetes manifests: the objects of a file, and the launches of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from advisor.checks.read import custom_resources
from advisor.checks.read.context import ReaderContext, find_name, read_nested
from advisor.checks.read.launch import Launches
from advisor.checks.read.pods import PodSurroundings, find_pod_specs, read_containers, read_pod_setup
from advisor.yaml_places import (
    Block,
    Located,
    Text,
    as_mapping,
    as_string,
    as_whole_number,
    find_all,
    line_of,
    value_at,
)

IGNORE = "advise.check/ignore-"
_SKIP = frozenset(("CustomResourceDefinition", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"))


def read_objects(objects: list[Block], ctx: ReaderContext) -> Launches:
    """The launches of parsed objects; services and volume claims among them say what surrounds the pods."""
    around = PodSurroundings(objects)
    ctx = replace(ctx, objects=tuple(objects))
    out: Launches = []
    for o in objects:
        kind = str(o.get("kind", ""))
        if kind in _SKIP:
            continue
        notes = as_mapping(o, "metadata", "annotations")
        ignore = {k.removeprefix(IGNORE): str(v) for k, v in notes.items() if k.startswith(IGNORE)}
        if kind in ("ConfigMap", "Secret"):
            for key, value in as_mapping(o, "data").items():
                if isinstance(value, Text):
                    out += read_nested(ctx, value, str(key))
            continue
        special = custom_resources.read(kind, o, ctx)
        found = special if special is not None else _pods(o, kind, ctx, around)
        out += [replace(x, ignore={**ignore, **x.ignore}) for x in found] if ignore else found
    return out


def flatten_lists(doc: object) -> Iterator[Block]:
    """The objects of a document: itself, or the items of a `List`."""
    if isinstance(doc, dict) and str(doc.get("kind", "")).endswith("List") and isinstance(doc.get("items"), list):
        for item in doc["items"]:
            yield from flatten_lists(item)
    elif isinstance(doc, dict) and doc.get("kind") is not None:
        yield doc


def _pods(resource: Block, kind: str, ctx: ReaderContext, around: PodSurroundings) -> Launches:
    name, owner = find_name(resource), as_mapping(resource, "spec")
    out: Launches = []
    for spec, above in find_pod_specs(resource):
        if any(as_string(x, "type") == "frontend" for x in above[-2:] if isinstance(x, dict)):
            continue  # DynamoGraphDeployment: its front end has the engine's image, and no model
        labels = as_mapping(above[-1], "metadata", "labels") if above else as_mapping(resource, "metadata", "labels")
        pod = read_pod_setup(spec, ctx)
        pod = replace(
            pod, exposed=around.exposed(labels) or ("the host's network" if pod.host_network else None),
            replicas=as_whole_number(owner, "replicas"),
            progress_deadline=as_whole_number(owner, "progressDeadlineSeconds"), rolling=_rolling(kind, owner),
            nodes=as_whole_number(owner, "leaderWorkerTemplate", "size") if kind == "LeaderWorkerSet" else None,
            places={**pod.places, "object": line_of(resource), "kind:" + kind: 1}
        )  # fmt: skip
        out += read_containers(spec, pod, name, ctx, around, labels)
    if out:
        return out
    # resources that fill a pod in from one container (`mainContainer`)
    bodies = [x for x in find_all(resource, "image") if x.get("args") is not None or x.get("command") is not None]
    specs: list[Block] = [{"containers": [x]} for x in bodies if isinstance(x["image"], Text)]
    return [x for spec in specs for x in read_containers(spec, read_pod_setup({}, ctx), name, ctx)]


def _rolling(kind: str, owner: Mapping[str, Located]) -> bool | None:
    if kind != "Deployment":
        return None
    surge = str(value_at(owner, "strategy", "rollingUpdate", "maxSurge") or "25%")
    return as_string(owner, "strategy", "type") != "Recreate" and surge not in ("0", "0%")
