"""Kubernetes manifests: the objects of a file, and the launches of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from advisor.checks.read import custom_resources
from advisor.checks.read.context import ReaderContext, read_nested
from advisor.checks.read.launch import Launch
from advisor.checks.read.pods import PodSurroundings, find_pod_specs, read_containers, read_pod_setup
from advisor.yaml_places import (
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


def read_objects(objects: list[dict[str, Located]], ctx: ReaderContext) -> list[Launch]:
    """The launches of parsed objects; services and volume claims among them say what surrounds the pods."""
    around = PodSurroundings(objects)
    ctx = replace(ctx, objects=tuple(objects))
    out: list[Launch] = []
    for o in objects:
        kind = str(o.get("kind", ""))
        if kind in _SKIP:
            continue
        name = as_string(o, "metadata", "name")
        ignore = _ignored(o)
        if kind in ("ConfigMap", "Secret"):
            for key, value in as_mapping(o, "data").items():
                if isinstance(value, Text):
                    out += read_nested(ctx, value, str(key))
            continue
        special = custom_resources.read(kind, o, ctx)
        found = special if special is not None else _pods(o, kind, name, ctx, around)
        out += [replace(x, ignore={**ignore, **x.ignore}) for x in found] if ignore else found
    return out


def _flat(doc: object) -> Iterator[dict[str, Located]]:
    if isinstance(doc, dict) and str(doc.get("kind", "")).endswith("List") and isinstance(doc.get("items"), list):
        for item in doc["items"]:
            yield from _flat(item)
    elif isinstance(doc, dict) and doc.get("kind") is not None:
        yield doc


def _ignored(resource: Mapping[str, Located]) -> dict[str, str]:
    notes = as_mapping(resource, "metadata", "annotations")
    return {str(k)[len(IGNORE) :]: str(v) for k, v in notes.items() if str(k).startswith(IGNORE)}


def _pods(
    resource: dict[str, Located], kind: str, name: str | None, ctx: ReaderContext, around: PodSurroundings
) -> list[Launch]:
    out: list[Launch] = []
    for spec, above in find_pod_specs(resource):
        if any(as_string(x, "type") == "frontend" for x in above[-2:] if isinstance(x, dict)):
            continue  # DynamoGraphDeployment: its front end has the engine's image, and no model
        labels = as_mapping(above[-1], "metadata", "labels") if above else as_mapping(resource, "metadata", "labels")
        pod = read_pod_setup(spec, ctx)
        owner = as_mapping(resource, "spec")
        pod = replace(
            pod,
            exposed=around.exposed(labels) or ("the host's network" if pod.host_network else None),
            replicas=as_whole_number(owner, "replicas"),
            progress_deadline=as_whole_number(owner, "progressDeadlineSeconds"),
            rolling=_rolling(kind, owner),
            nodes=_nodes(kind, owner),
            places={**pod.places, "object": line_of(resource), "kind:" + kind: 1},
        )
        out += read_containers(spec, pod, name, ctx, around, labels)
    if not out:  # resources that fill a pod in from one container (`mainContainer`)
        for body in find_all(resource, "image"):
            if isinstance(body.get("image"), Text) and (
                body.get("args") is not None or body.get("command") is not None
            ):
                out += read_containers({"containers": [body]}, read_pod_setup({}, ctx), name, ctx)
    return out


def _rolling(kind: str, owner: Mapping[str, Located]) -> bool | None:
    if kind != "Deployment":
        return None
    strategy = as_mapping(owner, "strategy")
    if str(strategy.get("type")) == "Recreate":
        return False
    surge = str(value_at(strategy, "rollingUpdate", "maxSurge") or "25%")
    return surge not in ("0", "0%")


def _nodes(kind: str, owner: Mapping[str, Located]) -> int | None:
    if kind == "LeaderWorkerSet":
        return as_whole_number(owner, "leaderWorkerTemplate", "size")
    return None
