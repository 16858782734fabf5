"""Jobs that probe the nodes of a Kubernetes cluster: a manifest to look at and to apply. Nothing is applied here."""

from __future__ import annotations

import re
from typing import Any

from advisor import __version__
from advisor.distribution import DISTRIBUTION, install_command
from advisor.errors import BadInput
from advisor.fleet.types import Inventory, Node

IMAGE = f"registry.example.com/{DISTRIBUTION}:{__version__}"
LABEL = "advise-probe"
HOW = f"""\
# One Job a node: each asks for all devices of its node, so it waits until they are free, and prints a snapshot.
# The image is one of your own with `advise` in it, such as python:3.12-slim after `{install_command()}`.
#
#   kubectl apply -f probe.yaml
#   mkdir -p nodes; for job in $(kubectl get jobs -l app.kubernetes.io/name={LABEL} -o name); do
#     node=$(kubectl get "$job" -o jsonpath='{{.metadata.annotations.node}}')
#     kubectl logs "$job" > "nodes/$node.json"
#   done
#   advise fleet show nodes
#   kubectl delete jobs -l app.kubernetes.io/name={LABEL}
"""


def make_probe_jobs(inventory: Inventory) -> str:
    """The manifest for all nodes that are not set aside. Raises BadInput where there is none."""
    import yaml

    nodes = [n for n in inventory.nodes if n.parts]
    if not nodes:
        raise BadInput("no node can be used, so there is nothing to probe")
    jobs = [_make_job(i, node) for i, node in enumerate(nodes)]
    return f"{HOW}---\n" + "---\n".join(yaml.safe_dump(job, sort_keys=False, width=120) for job in jobs)


def _make_job(i: int, node: Node) -> dict[str, Any]:
    asked = {p.resource: p.devices for p in node.parts if p.devices and p.resource}
    name = re.sub(r"[^a-z0-9-]+", "-", node.name.lower())[:40].strip("-") or "node"
    container: dict[str, Any] = {"name": "probe", "image": IMAGE, "command": ["advise", "probe", "--json"]}
    if asked:
        container["resources"] = {"limits": {k: str(v) for k, v in asked.items()}}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node.name]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [{"key": k, "operator": "Exists"} for k in asked],
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{LABEL}-{i}-{name}",
            "labels": {"app.kubernetes.io/name": LABEL},
            "annotations": {"node": node.name},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": 3600,
            "ttlSecondsAfterFinished": 86400,
            "template": {"metadata": {"labels": {"app.kubernetes.io/name": LABEL}}, "spec": pod},
        },
    }
