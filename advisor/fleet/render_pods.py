"""Kubernetes files of a plan: what templates write for one replica, with the plan's number, on nodes of its pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.fleet.fleet_rules import load_fleet_rules
from advisor.fleet.planned_files import PlannedPool, ReplicaKind, render_kind
from advisor.render.copies import dump_yaml
from advisor.render.files import LaunchFile

NUMBERS = ("replicas", "minReplicas", "maxReplicas", "min_replicas", "max_replicas")
NAMED_BY_KIND = ("kubernetes", "keda")


def make_resources(kind: ReplicaKind, target: str, pool: PlannedPool | None, rules: Catalog) -> LaunchFile:
    """The file of a kind. Raises BadInput for targets that the engine does not have."""
    from advisor.files import parse_yaml

    made = render_kind(kind, "kubernetes" if target == "keda" else target, rules)
    head = "".join(f"{line}\n" for line in made.content.splitlines() if line.startswith("# "))
    out = []
    for body in (parse_yaml(part, made.name) for part in made.content.split("\n---\n")):
        if not isinstance(body, dict):
            continue
        _multiply(body, len(kind.replicas), made.name)
        for spec in _find_pod_specs(body):
            if pool is not None and pool.labels:
                spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **pool.labels}
        _spread(body, kind)
        if target == "keda" and body.get("kind") == "Deployment":
            out.append(_make_scaled_object(body["metadata"]["name"], kind, rules))
        out.append(body)
    name = f"{kind.name}.yaml" if target in NAMED_BY_KIND else f"{kind.name}-{made.name}"
    return LaunchFile(name=name, content=head + "---\n".join(dump_yaml(body) for body in out))


def _multiply(body: dict[str, Any], count: int, name: str) -> None:
    """So many replicas where the resource has one: of the resource itself, of Ray's workers, of Ray Serve's model."""
    from advisor.files import parse_yaml

    for key, value in body.items():
        if key in NUMBERS and isinstance(value, int):
            body[key] = value * count
        elif key == "serveConfigV2":  # YAML in a text
            inner = parse_yaml(value, name)
            _multiply(inner, count, name)
            body[key] = dump_yaml(inner)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, dict):
                _multiply(child, count, name)


def _find_pod_specs(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The specs of pods that have devices, wherever the resource has them."""
    for key, value in body.items():
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, dict):
                continue
            if key in ("spec", "predictor", "workerSpec") and ("containers" in child or "model" in child):
                if "ray-head" not in {c.get("name") for c in child.get("containers", ())}:
                    yield child
            else:
                yield from _find_pod_specs(child)


def _spread(body: dict[str, Any], kind: ReplicaKind) -> None:
    """A Deployment's pods over the nodes, where the plan has several."""
    if body.get("kind") != "Deployment" or len({n for r in kind.replicas for n in r.nodes}) < 2:
        return
    labels = body["spec"]["selector"]["matchLabels"]
    body["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(labels)},
        }
    ]


def _make_scaled_object(name: str, kind: ReplicaKind, rules: Catalog) -> dict[str, Any]:
    """KEDA scales on requests under way: its bounds and its threshold come from the plan, its metric from the engine's
    entry. Raises BadInput for an engine that counts none."""
    entry = rules.engine(kind.deployment.engine)
    metrics = entry.speed_figures.metrics
    if metrics is None or metrics.running is None:
        raise BadInput(f"{entry.name} has no metric of its running requests that is known: take --target kubernetes")
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": 1,
            "maxReplicaCount": len(kind.replicas),
            "triggers": [
                {
                    "type": "prometheus",
                    "metadata": {
                        "serverAddress": load_fleet_rules(rules).prometheus,
                        "query": f'sum({metrics.prefix}{metrics.running}{{service="{name}"}})',
                        "threshold": str(max(1, kind.replicas[0].sequences)),
                    },
                }
            ],
        },
    }
