"""Launch files of a plan: each kind of replica by the templates of `advise render`, its number and nodes added.

What a template writes is read back as YAML and only added to: replicas, a selector of nodes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.resolve import resolve_or_size
from advisor.decoding import Json
from advisor.deployment import Deployment, KvType
from advisor.distribution import WRITTEN_BY
from advisor.errors import BadInput
from advisor.estimation import find_machine
from advisor.fleet.demand import load_fleet_rules
from advisor.fleet.inventory.register import CLASS
from advisor.fleet.plan_types import PlannedReplica, read_plan
from advisor.machines.types import Machine
from advisor.planning.layouts import show_devices
from advisor.planning.recipes import with_recipe
from advisor.record import Value, pick_fields
from advisor.render.context import make_slug
from advisor.render.copies import dump_yaml
from advisor.render.files import LaunchFile, render_files
from advisor.session import Session

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a gateway or another node asks the servers, which start with a key only
TARGETS = ("command", "kubernetes", "keda", "lws", "kserve", "llm-d", "ray", "slurm", "compose", "litellm")
NUMBERS = ("replicas", "minReplicas", "maxReplicas", "min_replicas", "max_replicas")
SHARING = ("command", "compose", "litellm")  # where several servers may have one card
NAMED_BY_KIND = ("kubernetes", "keda")
APPLIED = ("kubernetes", "keda", "lws", "kserve", "llm-d")  # what `kubectl apply -k` starts
PLAIN_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915")  # as the templates write them
FRONTED = ("kubernetes", "nodes")  # what a gateway can stand in front of: Services, ports of nodes
STAND_IN = 47_123  # a port that stands for the replica's own while the template writes the file
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
MOST_OF_NODE = 0.9  # of its memory: the system and Slurm have the rest
MEMORY = re.compile(r"^#SBATCH --mem=(\d+)M$", re.MULTILINE)
GPUS = re.compile(r"^#SBATCH --gpus-per-node=(\d+)$", re.MULTILINE)
_PORT_WORD = re.compile(rf"'[^']*{STAND_IN}[^']*'|{STAND_IN}")


class PlannedPool(msgspec.Struct, frozen=True, kw_only=True):
    """What files need of a pool."""

    id: str
    devices: int
    labels: dict[str, str] = {}
    tolerations: tuple[str, ...] = ()
    resource: str | None = None


class PlanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as `advise fleet plan --json` writes it."""

    replicas: tuple[PlannedReplica, ...]
    pools: tuple[PlannedPool, ...]


class ReplicaKind(Value, frozen=True):
    """Equal replicas: what they run, on which pool, and all of them."""

    name: str
    deployment: Deployment  # without the devices and the port of one of them
    nodes: int  # of one replica
    replicas: tuple[PlannedReplica, ...]
    suffix: str = ""  # of names in files, where a model has several kinds


def render_fleet(plan: PlanFile, target: str, session: Session, fronts: str | None = None) -> tuple[LaunchFile, ...]:
    """The files of a target. `fronts`: of a gateway, the target that runs the replicas (None: kubernetes where the plan
    has resources of its pods). Raises BadInput for an unknown target and for replicas that it cannot start."""
    if target not in TARGETS:
        from advisor.near import near_matches

        raise BadInput(f"unknown target {target!r}; there are {', '.join(TARGETS)}", near_matches(target, TARGETS))
    if not plan.replicas:
        raise BadInput("the plan has no replica to render")
    shared = next((r.name for r in plan.replicas if r.card_share < 1), None)
    if shared is not None and target not in SHARING:
        raise BadInput(f"{shared} shares a card, and pods and jobs have theirs alone: --target {' or '.join(SHARING)}")
    kinds = group_replicas(plan, session.rules)
    if target in ("command", "compose", "slurm"):  # pods and Ray listen for others anyway
        kinds = [replace(k, deployment=replace(k.deployment, host=EVERYWHERE)) for k in kinds]
    pools = {p.id: p for p in plan.pools}
    if fronts is not None and target != "litellm":
        raise BadInput("--fronts goes with --target litellm: it says what runs the replicas behind the gateway")
    if target == "litellm":
        in_pods = any("/" in (p.resource or "") for p in plan.pools)
        return (_make_gateway(kinds, fronts or ("kubernetes" if in_pods else "nodes"), session),)
    if target in ("command", "compose"):
        return tuple(_list_node_files(kinds, target, session))
    if target == "slurm":
        return tuple(job for k in kinds for job in list_jobs(k, pools.get(k.replicas[0].pool), session))
    if target in NAMED_BY_KIND:
        _refuse_several_nodes(kinds, "lws or ray")
    made = tuple(make_resources(k, target, pools.get(k.replicas[0].pool), session) for k in kinds)
    return (*made, _list_in_order(made)) if target in APPLIED else made


def _refuse_several_nodes(kinds: Sequence[ReplicaKind], targets: str) -> None:
    """Raises BadInput for replicas over several nodes, which `targets` start."""
    for kind in kinds:
        if kind.nodes > 1:
            raise BadInput(f"{kind.name} takes {kind.nodes} nodes: --target {targets} starts such a replica")


def _list_node_files(kinds: Sequence[ReplicaKind], target: str, session: Session) -> list[LaunchFile]:
    """A file for each node with all servers that it runs."""
    from advisor.render.copies import render_side_by_side

    _refuse_several_nodes(kinds, "slurm, lws or ray")
    nodes: dict[str, list[tuple[ReplicaKind, PlannedReplica]]] = {}
    for kind in kinds:
        for replica in kind.replicas:
            nodes.setdefault(replica.nodes[0], []).append((kind, replica))
    out = []
    for node, here in sorted(nodes.items()):
        servers = [_on_node(kind.deployment, replica) for kind, replica in here]
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", node)
        cards = [replica.device_indices for _, replica in here]
        made = render_side_by_side(servers, target, session, devices=cards)[0]
        begin, mark, rest = made.content.partition(f"# {WRITTEN_BY}.\n")
        made = replace(made, content=f"{begin}{mark}# advise: on={here[0][1].hardware}\n{rest}" if mark else begin)
        out.append(replace(made, name=f"{safe}.sh" if target == "command" else f"{safe}-{made.name}"))
    return out


def _on_node(deployment: Deployment, replica: PlannedReplica) -> Deployment:
    """The deployment with the port and the devices of one replica."""
    made = replace(deployment, port=replica.port)
    machine = deployment.machine
    total = len(machine.usable_devices) if machine is not None else 0
    return show_devices(made, replica.device_indices) if 0 < len(replica.device_indices) < total else made


def _make_gateway(kinds: Sequence[ReplicaKind], fronts: str, session: Session) -> LaunchFile:
    """A LiteLLM configuration: requests for a model go to its servers by what each of them serves. Of Kubernetes one
    entry a Service, which deals them out to equal pods. Raises BadInput for what it cannot stand in front of."""
    import yaml

    if fronts not in FRONTED:
        raise BadInput(f"--fronts {fronts}: a gateway stands in front of {' or '.join(FRONTED)}")
    listed: list[Json] = []
    for kind in kinds:
        name = kind.replicas[0].name
        if fronts == "kubernetes":
            service = find_service_name(kind)
            port = session.rules.engine(kind.deployment.engine).port or 8000
            listed.append(_list_server(name, f"{service}:{port}", sum(r.capacity for r in kind.replicas)))
        else:
            listed += [_list_server(name, f"{r.nodes[0]}:{r.port}", r.capacity) for r in kind.replicas]
    body = {"model_list": listed, "router_settings": {"routing_strategy": "simple-shuffle", "num_retries": 2}}
    text = f"# One address for all models of the fleet: litellm --config litellm.yaml\n# {WRITTEN_BY}.\n"
    where = "Services of Kubernetes, in whose namespace it runs" if fronts == "kubernetes" else "servers on the nodes"
    text += f"# In front of {where}; `weight` is what each serves by the plan.\n"
    return LaunchFile(name="litellm.yaml", content=text + yaml.safe_dump(body, sort_keys=False, width=1000))


def _list_server(name: str, address: str, capacity: float) -> Json:
    return {
        "model_name": name,
        "litellm_params": {
            "model": f"openai/{name}",
            "api_base": f"http://{address}/v1",
            "api_key": "os.environ/API_KEY",
            "weight": max(1, round(100 * capacity)),
        },
    }


def find_service_name(kind: ReplicaKind) -> str:
    """What the files of a kind call its objects, the Service among them."""
    return make_slug(f"{kind.deployment.engine}-{kind.deployment.served_name}") + kind.suffix


def _list_in_order(files: Sequence[LaunchFile]) -> LaunchFile:
    """What applies a folder as a whole. Secrets come first: they are not among the files."""
    first = [line for f in files for line in f.content.splitlines() if line.startswith(("# First:", "# and"))]
    said = "".join(f"{line}\n" for line in dict.fromkeys(first))
    body = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    content = dump_yaml({**body, "resources": [f.name for f in files]})
    return LaunchFile(
        name="kustomization.yaml", content=f"{said}# Then: kubectl apply -k .\n# {WRITTEN_BY}.\n{content}"
    )


def make_resources(kind: ReplicaKind, target: str, pool: PlannedPool | None, session: Session) -> LaunchFile:
    """The file of a kind. Raises BadInput for targets that the engine does not have."""
    from advisor.files import parse_yaml

    if target in ("ray", "llm-d") and pool is not None and (pool.resource or "").startswith(CLASS):
        raise BadInput(f"{kind.name}: its devices are had by claims, which --target kubernetes, lws and kserve make")
    made = render_kind(kind, "kubernetes" if target == "keda" else target, session)
    head = "".join(f"{line}\n" for line in made.content.splitlines() if line.startswith("# "))
    out: list[Json] = []
    claims: dict[str, Json] = {}  # of what pods on several nodes would share
    for body in (parse_yaml(part, made.name) for part in made.content.split("\n---\n")):
        if not isinstance(body, dict):
            continue
        _multiply(body, len(kind.replicas), made.name)
        if body.get("kind") == "PersistentVolumeClaim" and len(kind.replicas) * kind.nodes > 1:
            if kind.deployment.model_path is None:
                claims[body["metadata"]["name"]] = body["spec"]
                continue
            body["spec"]["accessModes"] = ["ReadWriteMany"]  # one copy for all, so its storage class has to offer that
        for spec in _find_pod_specs(body):
            if pool is not None:
                _place_pods(spec, pool)
                claim = _ask_for_devices(spec, pool, kind.name)
                if claim is not None and claim not in out:
                    out.insert(0, claim)
            _give_own_volumes(spec, claims)
        if body.get("kind") == "Deployment" and len(kind.replicas) > 1:
            _keep_up(body, kind, out)
        if target == "keda" and body.get("kind") == "Deployment":
            out.append(_make_scaled_object(body["metadata"]["name"], kind, session.rules))
        out.append(body)
    name = f"{kind.name}.yaml" if target in NAMED_BY_KIND else f"{kind.name}-{made.name}"
    return LaunchFile(name=name, content=head + "---\n".join(dump_yaml(body) for body in out))


def _multiply(body: Json, count: int, name: str) -> None:
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


def _find_pod_specs(body: Json) -> Iterator[Json]:
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


def _place_pods(spec: Json, pool: PlannedPool) -> None:
    """Onto the nodes of a pool: by its labels, and with its taints tolerated."""
    if pool.labels:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **pool.labels}
    listed = spec.get("tolerations", [])
    known = {t.get("key") for t in listed if t.get("operator") == "Exists"}
    for taint in pool.tolerations:
        shown, _, effect = taint.rpartition(":")
        key, _, value = shown.partition("=")
        if key not in known:
            operator = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
            listed.append({"key": key, **operator, "effect": effect})
    if listed:
        spec["tolerations"] = listed


def _ask_for_devices(spec: Json, pool: PlannedPool, name: str) -> Json | None:
    """Devices under the name that the pool's nodes have them by: a resource, or a device class, whose claim it makes.

    The template of the claim is of Kubernetes 1.34 and newer (resource.k8s.io/v1).
    """
    resource, count, claim = pool.resource or "", 0, f"{name}-devices"
    for container in (*spec.get("containers", ()), *([spec["model"]] if "model" in spec else ())):
        asked = container.get("resources", {})
        for listed in (asked.get("limits", {}), asked.get("requests", {})):
            known = next((k for k in listed if k in PLAIN_RESOURCES), None)
            if known is None or "/" not in resource or known == resource:
                continue
            count = int(listed.pop(known))
            if not resource.startswith(CLASS):
                listed[resource] = str(count)
                continue
            asked["claims"] = [{"name": "devices"}]
            spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": claim}]
    if not count or not resource.startswith(CLASS):
        return None
    device = {"deviceClassName": resource.removeprefix(CLASS), "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": claim},
        "spec": {"spec": {"devices": {"requests": [{"name": "devices", "exactly": device}]}}},
    }


def _give_own_volumes(spec: Json, claims: dict[str, Json]) -> None:
    """A claim for each pod in place of one for all, which is mounted by one node at a time."""
    for volume in spec.get("volumes", ()):
        name = volume.get("persistentVolumeClaim", {}).get("claimName")
        if name in claims:
            del volume["persistentVolumeClaim"]
            volume["ephemeral"] = {"volumeClaimTemplate": {"spec": claims[name]}}


def _keep_up(body: Json, kind: ReplicaKind, out: list[Json]) -> None:
    """A roll-out and a drained node stop one of several replicas at a time; pods stand apart where the plan says so."""
    spec, meta = body["spec"], body["metadata"]
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    out.append(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": meta["name"], "labels": dict(meta["labels"])},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(spec["selector"]["matchLabels"])}},
        }
    )
    nodes = {n for r in kind.replicas for n in r.nodes}
    if len(nodes) > 1:
        apart = len(nodes) == len(kind.replicas)
        spec["template"]["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule" if apart else "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(spec["selector"]["matchLabels"])},
            }
        ]


def _make_scaled_object(name: str, kind: ReplicaKind, rules: Catalog) -> Json:
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


def list_jobs(kind: ReplicaKind, pool: PlannedPool | None, session: Session) -> list[LaunchFile]:
    """The jobs of a kind, each on the nodes and with the ports of the plan. Raises BadInput for names of nodes that
    Slurm cannot have."""
    by_nodes: dict[tuple[str, ...], list[PlannedReplica]] = {}
    for replica in kind.replicas:
        by_nodes.setdefault(replica.nodes, []).append(replica)
    bare = replace(kind, deployment=replace(kind.deployment, port=STAND_IN))
    made = render_kind(bare, "slurm", session)
    out = []
    for nodes, replicas in by_nodes.items():
        wrong = next((n for n in nodes if not PLAIN_NAME.fullmatch(n)), None)
        if wrong is not None:
            raise BadInput(f"{wrong!r} is not a name of a Slurm node")
        name = kind.name if len(by_nodes) == 1 else f"{kind.name}-{nodes[0]}"
        text = _add_nodes(made.content, nodes, len(replicas), pool)
        text = _limit_memory(text, kind, replicas[0])
        text = _add_ports(text, [r.port for r in replicas])
        out.append(LaunchFile(name=f"{name}.sbatch", content=text, executable=made.executable))
    return out


def _add_nodes(text: str, nodes: Sequence[str], count: int, pool: PlannedPool | None) -> str:
    """The job on its nodes, with cards of the type that the pool has; several replicas as an array."""
    more = [f"#SBATCH --array=0-{count - 1}"] if count > 1 else []
    partition = pool.labels.get("partition") if pool is not None else None
    if partition is not None and PLAIN_NAME.fullmatch(partition):
        more.append(f"#SBATCH --partition={partition}")
    more.append(f"#SBATCH --nodelist={','.join(nodes)}")
    resource = pool.resource if pool is not None else None
    if resource is not None and re.fullmatch(r"gpu:[A-Za-z0-9_.-]+", resource):
        text = GPUS.sub(lambda m: f"#SBATCH --gpus-per-node={resource.partition(':')[2]}:{m[1]}", text)
    before, mark, after = text.partition("#SBATCH --nodes=")
    return before + "".join(f"{line}\n" for line in more) + mark + after


def _limit_memory(text: str, kind: ReplicaKind, replica: PlannedReplica) -> str:
    """No more memory than the replica's share of its node, so that all find room next to each other."""
    machine = kind.deployment.machine
    total = machine.memory.total_bytes if machine is not None else None
    cards = len(machine.usable_devices) if machine is not None else 0
    if not total or not cards:
        return text
    most = int(total * MOST_OF_NODE * replica.devices / kind.nodes / cards) >> 20
    return MEMORY.sub(lambda m: f"#SBATCH --mem={min(int(m[1]), most)}M", text)


def _add_ports(text: str, ports: Sequence[int]) -> str:
    """The port of each replica where the stand-in is: a task of an array takes its own."""
    first, lines = str(ports[0]), []
    for line in text.splitlines():
        if len(ports) == 1 or line.startswith("#"):
            line = line.replace(str(STAND_IN), first)
        lines.append(line)
    written = "\n".join(lines) + "\n"
    if len(ports) == 1 or str(STAND_IN) not in written:
        return written
    before, mark, after = written.partition("set -eu\n")
    listed = f"ports=({' '.join(map(str, ports))})\nport=${{ports[$SLURM_ARRAY_TASK_ID]}}\n"
    return f"{before}{mark}{listed}{_PORT_WORD.sub(_write_port, after)}"


def _write_port(found: re.Match[str]) -> str:
    """The task's port in place of the stand-in, also out of a quoted word."""
    if found[0].startswith("'"):
        left, _, right = shlex.split(found[0])[0].partition(str(STAND_IN))
        return f'{shlex.quote(left) if left else ""}"$port"{shlex.quote(right) if right else ""}'
    return '"$port"'


def read_plan_file(path: str) -> PlanFile:
    """A plan in JSON. Raises BadFile for what is none."""
    return read_plan(path, PlanFile)


def group_replicas(plan: PlanFile, rules: Catalog) -> list[ReplicaKind]:
    """Replicas by kind, each as the deployment that starts it. Raises UnknownName, BadInput."""
    kinds: dict[tuple[object, ...], list[PlannedReplica]] = {}
    for r in plan.replicas:
        key = (r.name, r.engine, r.quantization, r.pool, r.devices, len(r.nodes))
        kinds.setdefault(key, []).append(r)
    names: set[str] = set()
    out = []
    for same in kinds.values():
        base = re.sub(r"[^a-z0-9]+", "-", same[0].name.lower().rpartition("/")[2]).strip("-")[:40] or "model"
        name, k = base, 2
        while name in names:
            name, k = f"{base}-{k}", k + 1
        names.add(name)
        made = make_replica_deployment(same[0], rules)
        out.append(ReplicaKind(name, made, len(same[0].nodes), tuple(same), name[len(base) :]))
    return out


def make_replica_deployment(replica: PlannedReplica, rules: Catalog, machine: Machine | None = None) -> Deployment:
    """What starts a replica, on its own hardware or on this machine. Raises UnknownName, BadInput."""
    if machine is None and replica.hardware is None:
        raise BadInput(f"{replica.name}: the plan does not say on which hardware it runs")
    found = resolve_or_size(replica.model, rules)
    machine = replace(machine or find_machine(replica.hardware or "", rules), nodes=max(1, len(replica.nodes)))
    entry = rules.engine(replica.engine)
    own = {k: v for k, v in replica.settings.items() if not k.isupper()}
    cache = own.get("kv-cache-dtype")
    made = Deployment(
        model=found.model,
        engine=entry.id,
        machine=machine,
        device_count=replica.devices // max(1, len(replica.nodes)) or None,
        kv_cache_type=KvType(k=str(cache), v=str(cache)) if cache else KvType(),
        model_path=found.path,
        settings=own,
        **pick_fields(replica, "engine_version", "quantization", "context_length", "sequences"),
        served_name=replica.name,  # one name for all replicas of a model, whatever repository they load
    )
    return with_recipe(made, rules, tools=False)  # a plan tells flags only, and recipes have variables


def render_kind(kind: ReplicaKind, target: str, session: Session) -> LaunchFile:
    """The file of a kind; where one model has several, what it names has the number of the kind behind it."""
    made = render_files(kind.deployment, target, session)[0]
    if not kind.suffix:
        return made
    name = make_slug(f"{kind.deployment.engine}-{kind.deployment.served_name}")
    text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", f"{name}{kind.suffix}", made.content)
    return replace(made, content=text)
