"""Launch files of a plan: each kind of replica by the templates of `advise render`, its number and nodes added.

What a template writes is read back as YAML and only added to: replicas, a selector of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.deployment import Deployment
from advisor.distribution import WRITTEN_BY
from advisor.errors import BadInput
from advisor.fleet.plan_types import PlannedReplica
from advisor.fleet.planned_files import PlanFile, ReplicaKind, group_replicas
from advisor.planning.layouts import show_devices
from advisor.render.files import LaunchFile

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a gateway or another node asks the servers, which start with a key only
TARGETS = {
    "command": "a script for each node",
    "kubernetes": "a Deployment for each kind of replica, with its number and its nodes",
    "keda": "the same, with a ScaledObject each, bounded by the plan",
    "lws": "a LeaderWorkerSet for each kind of replica over several nodes",
    "kserve": "an InferenceService for each kind of replica",
    "llm-d": "values of its chart for each kind of replica",
    "ray": "a RayService for each kind of replica",
    "slurm": "a job for each kind of replica on each node; several replicas are an array",
    "compose": "a project for each node",
    "litellm": "one gateway in front of all replicas",
}


def render_fleet(plan: PlanFile, target: str, rules: Catalog) -> tuple[LaunchFile, ...]:
    """The files of a target. Raises BadInput for an unknown target and for replicas that it cannot start."""
    if target not in TARGETS:
        from advisor.near import near_matches

        raise BadInput(f"unknown target {target!r}; there are {', '.join(TARGETS)}", near_matches(target, TARGETS))
    if not plan.replicas:
        raise BadInput("the plan has no replica to render")
    kinds = group_replicas(plan, rules)
    if target in ("command", "compose", "slurm"):  # pods and Ray listen for others anyway
        kinds = [replace(k, deployment=replace(k.deployment, host=EVERYWHERE)) for k in kinds]
    pools = {p.id: p for p in plan.pools}
    if target == "litellm":
        return (_make_gateway(kinds),)
    if target in ("command", "compose"):
        return tuple(_list_node_files(kinds, target, rules))
    if target == "slurm":
        from advisor.fleet.render_slurm import list_jobs

        return tuple(job for k in kinds for job in list_jobs(k, pools.get(k.replicas[0].pool), rules))
    if target in ("kubernetes", "keda"):
        for kind in kinds:
            if kind.nodes > 1:
                raise BadInput(f"{kind.name} takes {kind.nodes} nodes: --target lws or ray starts such a replica")
    from advisor.fleet.render_pods import make_resources

    return tuple(make_resources(k, target, pools.get(k.replicas[0].pool), rules) for k in kinds)


def _rename(file: LaunchFile, name: str) -> LaunchFile:
    return replace(file, name=f"{name}-{file.name}")


def _list_node_files(kinds: Sequence[ReplicaKind], target: str, rules: Catalog) -> list[LaunchFile]:
    """A file for each node with all servers that it runs."""
    from advisor.render.copies import render_side_by_side

    nodes: dict[str, list[tuple[ReplicaKind, PlannedReplica]]] = {}
    for kind in kinds:
        for replica in kind.replicas:
            if kind.nodes > 1:
                raise BadInput(
                    f"{kind.name} takes {kind.nodes} nodes: --target slurm, lws or ray starts such a replica"
                )
            nodes.setdefault(replica.nodes[0], []).append((kind, replica))
    out = []
    for node, here in sorted(nodes.items()):
        servers = [_on_node(kind.deployment, replica) for kind, replica in here]
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", node)
        cards = [replica.device_indices for _, replica in here]
        made = render_side_by_side(servers, target, rules, devices=cards)[0]
        out.append(replace(made, name=f"{safe}.sh") if target == "command" else _rename(made, safe))
    return out


def _on_node(deployment: Deployment, replica: PlannedReplica) -> Deployment:
    """The deployment with the port and the devices of one replica."""
    made = replace(deployment, port=replica.port)
    machine = deployment.machine
    total = len(machine.usable_devices) if machine is not None else 0
    return show_devices(made, replica.device_indices) if 0 < len(replica.device_indices) < total else made


def _make_gateway(kinds: Sequence[ReplicaKind]) -> LaunchFile:
    """A LiteLLM configuration: requests for a model go to the replica with the fewest under way."""
    import yaml

    listed = [
        {
            "model_name": kind.replicas[0].name,
            "litellm_params": {
                "model": f"openai/{replica.name}",
                "api_base": f"http://{replica.nodes[0]}:{replica.port}/v1",
                "api_key": "os.environ/API_KEY",
            },
        }
        for kind in kinds
        for replica in kind.replicas
    ]
    body = {"model_list": listed, "router_settings": {"routing_strategy": "least-busy"}}
    text = f"# One address for all models of the fleet: litellm --config litellm.yaml\n# {WRITTEN_BY}.\n"
    return LaunchFile(name="litellm.yaml", content=text + yaml.safe_dump(body, sort_keys=False, width=1000))
