"""Launch files of a plan: each kind of replica by the templates of `advise render`, its number and nodes added.

What a template writes is read back as YAML and only added to: replicas, a selector of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.resolve import resolve_model
from advisor.deployment import Deployment, KvType, Setting
from advisor.distribution import WRITTEN_BY
from advisor.errors import BadFile, BadInput
from advisor.estimation import find_machine
from advisor.files import parse_json, read_bytes
from advisor.planning.layouts import show_devices
from advisor.render.context import make_slug
from advisor.render.files import LaunchFile, render_files

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a gateway or another node asks the servers, which start with a key only
MOST_BYTES = 64 * 2**20
TARGETS = {
    "command": "a script for each node",
    "kubernetes": "a Deployment for each kind of replica, with its number and its nodes",
    "keda": "the same, with a ScaledObject each, bounded by the plan",
    "lws": "a LeaderWorkerSet for each kind of replica over several nodes",
    "kserve": "an InferenceService for each kind of replica",
    "ray": "a RayService for each kind of replica",
    "slurm": "a job for each kind of replica on each node; several replicas are an array",
    "compose": "a project for each node",
    "litellm": "one gateway in front of all replicas",
}


class PlannedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """What files need of a replica of a plan; further fields are left alone."""

    name: str
    model: str
    engine: str
    quantization: str
    settings: dict[str, Any]
    pool: str
    hardware: str | None
    nodes: tuple[str, ...]
    devices: int
    device_indices: tuple[int, ...]
    port: int
    context_length: int
    sequences: int
    capacity: float
    engine_version: str | None = None


class PlannedPool(msgspec.Struct, frozen=True, kw_only=True):
    """What files need of a pool."""

    id: str
    devices: int
    labels: dict[str, str] = {}
    resource: str | None = None


class PlanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as `advise fleet plan --json` writes it."""

    replicas: tuple[PlannedReplica, ...]
    pools: tuple[PlannedPool, ...]


class ReplicaKind(NamedTuple):
    """Equal replicas: what they run, on which pool, and all of them."""

    name: str
    deployment: Deployment  # without the devices and the port of one of them
    nodes: int  # of one replica
    replicas: tuple[PlannedReplica, ...]
    suffix: str = ""  # of names in files, where a model has several kinds


def read_plan_file(path: str) -> PlanFile:
    """A plan in JSON. Raises BadFile for what is none."""
    data = parse_json(read_bytes(path, MOST_BYTES), Path(path))
    try:
        return msgspec.convert(data, PlanFile)
    except msgspec.ValidationError as e:
        raise BadFile(path, f"is no fleet plan (`advise fleet plan --json` writes one): {e}") from None


def render_fleet(plan: PlanFile, target: str, rules: Catalog) -> tuple[LaunchFile, ...]:
    """The files of a target. Raises BadInput for an unknown target and for replicas that it cannot start."""
    if target not in TARGETS:
        from advisor.near import near_matches

        raise BadInput(f"unknown target {target!r}; there are {', '.join(TARGETS)}", near_matches(target, TARGETS))
    if not plan.replicas:
        raise BadInput("the plan has no replica to render")
    kinds = group_replicas(plan, rules)
    if target in ("command", "compose", "slurm"):  # pods and Ray listen for others anyway
        kinds = [k._replace(deployment=msgspec.structs.replace(k.deployment, host=EVERYWHERE)) for k in kinds]
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


def group_replicas(plan: PlanFile, rules: Catalog) -> list[ReplicaKind]:
    """Replicas by kind, each as the deployment that starts it. Raises UnknownName, BadInput."""
    kinds: dict[tuple[str, ...], list[PlannedReplica]] = {}
    for r in plan.replicas:
        key = (r.name, r.engine, r.quantization, r.pool, str(r.devices), str(len(r.nodes)))
        kinds.setdefault(key, []).append(r)
    names: set[str] = set()
    out = []
    for same in kinds.values():
        base = re.sub(r"[^a-z0-9]+", "-", same[0].name.lower().rpartition("/")[2]).strip("-")[:40] or "model"
        name, k = base, 2
        while name in names:
            name, k = f"{base}-{k}", k + 1
        names.add(name)
        made = _make_deployment_of(same[0], rules)
        out.append(ReplicaKind(name, made, len(same[0].nodes), tuple(same), name[len(base) :]))
    return out


def _make_deployment_of(replica: PlannedReplica, rules: Catalog) -> Deployment:
    if replica.hardware is None:
        raise BadInput(f"{replica.name}: the plan does not say on which hardware it runs")
    found = resolve_model(replica.model, rules)
    machine = msgspec.structs.replace(find_machine(replica.hardware, rules), nodes=max(1, len(replica.nodes)))
    entry = rules.engine(replica.engine)
    own: dict[str, Setting] = {
        k: v for k, v in replica.settings.items() if not k.isupper() and isinstance(v, (str, int, float, bool))
    }
    cache = own.get("kv-cache-dtype")
    return Deployment(
        model=found.model,
        engine=entry.id,
        engine_version=replica.engine_version,
        quantization=replica.quantization,
        machine=machine,
        device_count=replica.devices // max(1, len(replica.nodes)) or None,
        context_length=replica.context_length,
        sequences=replica.sequences,
        kv_cache_type=KvType(k=str(cache), v=str(cache)) if cache else KvType(),
        model_path=found.path,
        settings=own,
        served_name=replica.name,  # one name for all replicas of a model, whatever repository they load
    )


def render_kind(kind: ReplicaKind, target: str, rules: Catalog) -> LaunchFile:
    """The file of a kind; where one model has several, what it names has the number of the kind behind it."""
    made = render_files(kind.deployment, target, rules)[0]
    if not kind.suffix:
        return made
    name = make_slug(f"{kind.deployment.engine}-{kind.deployment.served_name}")
    text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", f"{name}{kind.suffix}", made.content)
    return msgspec.structs.replace(made, content=text)


def _rename(file: LaunchFile, name: str) -> LaunchFile:
    return msgspec.structs.replace(file, name=f"{name}-{file.name}")


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
        out.append(msgspec.structs.replace(made, name=f"{safe}.sh") if target == "command" else _rename(made, safe))
    return out


def _on_node(deployment: Deployment, replica: PlannedReplica) -> Deployment:
    """The deployment with the port and the devices of one replica."""
    made = msgspec.structs.replace(deployment, port=replica.port)
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
