"""Facts about probes, rollouts, pods, units and the files of llama-swap, Ollama and Docker."""

from __future__ import annotations

import re

from advisor.checks.facts import Seen, fact
from advisor.checks.facts_model import weight_bytes
from advisor.checks.facts_network import own_port
from advisor.checks.facts_setup import image_ref
from advisor.checks.launch import PULL, SWAP_FILE, TAKEN_SERVICE_NAME, Probe
from advisor.units import GIB


def _probes(s: Seen, *kinds: str) -> list[Probe]:
    return [p for p in s.v.launch.setup.probes if p.kind in kinds]


def _budget_of(p: Probe) -> float:
    return (p.delay or 0) + (p.period or 10) * (p.failures or 3)


@fact("probe.budget_seconds", "float", "time a probe leaves for loading before the container is restarted")
def _budget(s: Seen) -> float | None:
    startup = _probes(s, "startup")
    if startup:
        return min(map(_budget_of, startup))
    alive = _probes(s, "liveness")
    return min(map(_budget_of, alive)) if alive else None


@fact("probe.too_short", "bool", "probes restart the container before the weights are loaded")
def _too_short(s: Seen) -> bool | None:
    budget = s.facts["probe.budget_seconds"]
    if budget is None:
        return False
    load = s.facts["load.seconds"]
    return None if load is None else budget < load


@fact("probe.path_unknown", "bool", "a probe asks for a path the engine does not have")
def _path(s: Seen) -> bool | None:
    known = s.know.server(s.v.launch.engine)
    if known is None or not known.health:
        return None
    image = image_ref(s)
    if image is not None and image.entry is not None and image.entry.entry in ("opaque", "derived"):
        return None
    mine = own_port(s)
    for p in s.v.launch.setup.probes:
        if p.port is not None and mine is not None and p.port.isdigit() and int(p.port) != mine:
            continue
        if (
            p.path is not None
            and "$" not in p.path
            and p.path.split("?")[0] not in known.health
            and not p.path.startswith("/v1/")
        ):
            return True
    return False


@fact("probe.path", "str", "the paths of the probes")
def _paths(s: Seen) -> str:
    return ", ".join(dict.fromkeys(p.path for p in s.v.launch.setup.probes if p.path))


@fact("probe.health", "str", "the path to probe")
def _health(s: Seen) -> str | None:
    known = s.know.server(s.v.launch.engine)
    return known.health[0] if known and known.health else None


@fact("healthcheck.too_short", "bool", "the health check gives up before the weights are loaded")
def _healthcheck(s: Seen) -> bool | None:
    found = _probes(s, "healthcheck")
    if not found:
        return False
    load = s.facts["load.seconds"]
    p = found[0]
    budget = (p.delay or 0) + (p.period or 30) * (p.failures or 3)
    return None if load is None else budget < load


@fact("rollout.deadline_short", "bool", "the rollout is called failed before the weights are loaded")
def _deadline(s: Seen) -> bool | None:
    if "kind:Deployment" not in s.v.launch.setup.places:
        return False
    load = s.facts["load.seconds"]
    return None if load is None else (s.v.launch.setup.progress_deadline or 600) < load


@fact("rollout.surges", "bool", "a rollout starts the new pod beside the old one, and both want the GPUs")
def _surge(s: Seen) -> bool:
    x = s.v.launch.setup
    return x.rolling is True and bool(x.gpu_count)


@fact("pod.untolerated", "bool", "GPUs are asked for, without toleration and without node selection")
def _untolerated(s: Seen) -> bool:
    x = s.v.launch.setup
    return x.cluster and bool(x.gpu_count) and x.tolerates_gpu is False and x.selects_node is False


@fact("pod.host_path", "bool", "the model comes from a host path, and the pod is bound to no node")
def _host_path(s: Seen) -> bool:
    x = s.v.launch.setup
    return (
        x.cluster
        and x.selects_node is False
        and any(m.kind == "host" and not m.target.startswith("/dev") for m in x.mounts)
    )


@fact("pod.service_named_vllm", "bool", "a Service called vllm sets VLLM_PORT in its pods")
def _service(s: Seen) -> bool:
    return (
        TAKEN_SERVICE_NAME in s.v.launch.setup.places
        and s.v.launch.setup.service_links is not False
        and "VLLM_PORT" not in s.v.launch.env
    )


@fact("pod.nodes_mismatch", "bool", "pods x GPUs are not the ranks of the launch")
def _nodes(s: Seen) -> bool | None:
    x, n = s.v.launch.setup, s.facts["ranks"]
    if not x.nodes or not x.gpu_count or "kind:LeaderWorkerSet" not in x.places:
        return False
    if s.v.launch.unresolved or n is None:
        return None
    return bool(n != x.nodes * x.gpu_count)


@fact("pod.scales_to_zero", "bool", "the least number of replicas is 0")
def _zero(s: Seen) -> bool:
    return s.v.launch.setup.min_replicas == 0


@fact("pod.disk_small", "bool", "the volume for the model is smaller than the model (x 1.1)")
def _disk(s: Seen) -> bool | None:
    have, need = s.v.launch.setup.disk_bytes, weight_bytes(s)
    if have is None:
        return False
    return None if need is None else have < need * 1.1


@fact("pod.disk_gib", "float", "size of the volume for the model, GiB")
def _disk_gib(s: Seen) -> float | None:
    b = s.v.launch.setup.disk_bytes
    return round(b / GIB, 1) if b is not None else None


@fact("pod.storage_and_model", "bool", "a storage URI and another model in the arguments")
def _storage(s: Seen) -> bool:
    a = s.v.arguments.value("model", "model_id", "model-id")
    return bool(s.v.launch.setup.storage_uri) and a is not None and not a.startswith(("/mnt/models", "$"))


@fact("unit.present", "bool", "a systemd unit")
def _unit(s: Seen) -> bool:
    return "present" in s.v.launch.setup.unit


@fact("unit.no_network_order", "bool", "the unit does not wait for the network, or does not restart")
def _order(s: Seen) -> bool:
    u = s.v.launch.setup.unit
    return (
        "present" in u
        and bool(s.v.launch.program)
        and ("network-online.target" not in u.get("After", "") or "Restart" not in u)
    )


@fact("unit.no_device_access", "bool", "the unit's user or sandbox keeps it from the GPU")
def _access(s: Seen) -> bool:
    u = s.v.launch.setup.unit
    hidden = u.get("PrivateDevices", "").lower() in ("yes", "true", "1")
    known = s.know.server(s.v.launch.engine)
    users, wanted = (known.service_users, known.device_groups) if known is not None else ((), ())
    user = u.get("User", "root") not in ("root", *users) or u.get("DynamicUser", "").lower() in ("yes", "true")
    groups = f"{u.get('SupplementaryGroups', '')} {u.get('Group', '')}"
    return hidden or (user and bool(wanted) and not set(wanted) & set(re.findall(r"\w+", groups)))


@fact("swap.timeout", "float", "llama-swap's health check timeout, seconds")
def _timeout(s: Seen) -> float | None:
    t = s.v.launch.setup.unit.get("healthCheckTimeout")
    return float(t) if t and t.isdigit() else None


@fact("swap.timeout_short", "bool", "llama-swap gives up before the model is loaded")
def _timeout_short(s: Seen) -> bool | None:
    if s.v.launch.kind != SWAP_FILE:
        return False
    t, load = s.facts["swap.timeout"], s.facts["load.seconds"]
    return None if t is None or load is None else t < load - 60


@fact("swap.port_fixed", "bool", "a fixed port that the proxy does not know, or two models on one")
def _swap_port(s: Seen) -> bool:
    p = s.v.launch.setup.places
    return "swap-port" in p or "swap-port-shared" in p


@fact("swap.config_wrong", "bool", "groups and matrix together, a member in two groups, or an alias twice")
def _swap_config(s: Seen) -> bool:
    return any(
        k in s.v.launch.setup.places for k in ("swap-groups-and-matrix", "swap-member-twice", "swap-alias-twice")
    )


@fact("modelfile.no_from", "bool", "no FROM line")
def _from(s: Seen) -> bool:
    return "no-from" in s.v.launch.setup.places


@fact("modelfile.trailing_comment", "bool", "a parameter's value is followed by a comment")
def _comment(s: Seen) -> bool:
    return "trailing-comment" in s.v.launch.setup.places


@fact("docker.ollama_pull", "bool", "a RUN line pulls a model without a server")
def _pull(s: Seen) -> bool:
    return PULL in s.v.launch.setup.places


@fact("wrapper.variables", "bool", "variables that only wrapper images read, on the engine's own image")
def _wrapper(s: Seen) -> bool:
    env = s.v.launch.env
    names = {"MODEL_NAME", "QUANTIZATION", "TENSOR_PARALLEL_SIZE", "MAX_MODEL_LEN", "GPU_MEMORY_UTILIZATION"} & set(env)
    if not s.facts["image.official"]:
        return False
    used = " ".join(s.v.launch.argv)
    return bool(names) and not s.v.launch.argv and not any(n in used for n in names)
