"""Facts about probes, rollouts, pods, units and the files of llama-swap, Ollama and Docker."""

from __future__ import annotations

import re

from advisor.checks.facts.images import image_ref
from advisor.checks.facts.launch_facts import LaunchFacts, define, fact
from advisor.checks.facts.model import weight_bytes
from advisor.checks.read.launch import PULL, SWAP_FILE, TAKEN_SERVICE_NAME, HealthProbe
from advisor.checks.resolve.arguments import find_launch_concept
from advisor.units import GIB

DOWNLOAD_BYTES_PER_SECOND = 0.2e9  # assumed: what rests on it is a warning


def _probes(facts: LaunchFacts, *kinds: str) -> list[HealthProbe]:
    return [p for p in facts.setup.probes if p.kind in kinds]


def _budget_of(probe: HealthProbe) -> float:
    return (probe.delay or 0) + (probe.period or 10) * (probe.failures or 3)


@fact("probe.budget_seconds", "float", "time a probe leaves for loading before the container is restarted")
def _budget(facts: LaunchFacts) -> float | None:
    startup = _probes(facts, "startup")
    if startup:
        return min(map(_budget_of, startup))
    alive = _probes(facts, "liveness")
    return min(map(_budget_of, alive)) if alive else None


@fact("probe.too_short", "bool", "probes restart the container before the weights are loaded")
def _too_short(facts: LaunchFacts) -> bool | None:
    budget = facts["probe.budget_seconds"]
    if budget is None:
        return False
    load = facts["load.seconds"]
    return None if load is None else budget < load


@fact("download.seconds", "float", "time to download the weights at 0.2 GB/s, where no volume keeps them; assumed")
def _download(facts: LaunchFacts) -> float | None:
    size = facts["model.gib"]
    if facts["cache.mounted"] is not False or facts["model.hub_id"] is not True:
        return 0.0
    return None if size is None else round(float(size) * GIB / DOWNLOAD_BYTES_PER_SECOND)


@fact("probe.ends_download", "bool", "probes restart the container before the weights are downloaded and loaded")
def _ends_download(facts: LaunchFacts) -> bool | None:
    budget, load, fetch = (facts[x] for x in ("probe.budget_seconds", "load.seconds", "download.seconds"))
    if budget is None or not fetch:
        return False
    return None if load is None else load <= budget < load + fetch


@fact("probe.path_unknown", "bool", "a probe asks for a path the engine does not have")
def _path(facts: LaunchFacts) -> bool | None:
    known = facts.server
    if known is None or not known.health:
        return None
    image = image_ref(facts)
    if image is not None and image.entry is not None and image.entry.entry in ("opaque", "derived"):
        return None
    mine = own_port(facts)
    for probe in facts.setup.probes:
        if probe.port is not None and mine is not None and probe.port.isdigit() and int(probe.port) != mine:
            continue
        if (
            probe.path is not None
            and "$" not in probe.path
            and probe.path.split("?")[0] not in known.health
            and not probe.path.startswith("/v1/")
        ):
            return True
    return False


define(
    "probe.path",
    "str",
    "the paths of the probes",
    lambda c: ", ".join(dict.fromkeys(p.path for p in c.setup.probes if p.path)),
)
define(
    "probe.health", "str", "the path to probe", lambda c: c.server.health[0] if c.server and c.server.health else None
)


@fact("healthcheck.too_short", "bool", "the health check gives up before the weights are loaded")
def _healthcheck(facts: LaunchFacts) -> bool | None:
    found = _probes(facts, "healthcheck")
    if not found:
        return False
    load = facts["load.seconds"]
    probe = found[0]
    budget = (probe.delay or 0) + (probe.period or 30) * (probe.failures or 3)
    return None if load is None else budget < load


@fact("rollout.deadline_short", "bool", "the rollout is called failed before the weights are loaded")
def _deadline(facts: LaunchFacts) -> bool | None:
    if "kind:Deployment" not in facts.setup.places:
        return False
    load = facts["load.seconds"]
    return None if load is None else (facts.setup.progress_deadline or 600) < load


define(
    "rollout.surges",
    "bool",
    "a rollout starts the new pod next to the old one, and both want the GPUs",
    lambda c: c.setup.rolling is True and bool(c.setup.gpu_count),
)


@fact("pod.untolerated", "bool", "GPUs are asked for, without toleration and without node selection")
def _untolerated(facts: LaunchFacts) -> bool:
    setup = facts.setup
    return setup.cluster and bool(setup.gpu_count) and setup.tolerates_gpu is False and setup.selects_node is False


@fact("pod.host_path", "bool", "the model comes from a host path, and the pod is bound to no node")
def _host_path(facts: LaunchFacts) -> bool:
    setup = facts.setup
    return (
        setup.cluster
        and setup.selects_node is False
        and any(m.kind == "host" and not m.target.startswith("/dev") for m in setup.mounts)
    )


@fact("pod.service_named_vllm", "bool", "a Service called vllm sets VLLM_PORT in its pods")
def _service(facts: LaunchFacts) -> bool:
    return (
        TAKEN_SERVICE_NAME in facts.setup.places
        and facts.setup.service_links is not False
        and "VLLM_PORT" not in facts.env
    )


@fact("pod.nodes_mismatch", "bool", "pods x GPUs are not the ranks of the launch")
def _nodes(facts: LaunchFacts) -> bool | None:
    setup, n = facts.setup, facts["ranks"]
    if not setup.nodes or not setup.gpu_count or "kind:LeaderWorkerSet" not in setup.places:
        return False
    if facts.launch.unresolved or n is None:
        return None
    return bool(n != setup.nodes * setup.gpu_count)


define("pod.scales_to_zero", "bool", "the least number of replicas is 0", lambda c: c.setup.min_replicas == 0)


@fact("pod.disk_small", "bool", "the volume for the model is smaller than the model (x 1.1)")
def _disk(facts: LaunchFacts) -> bool | None:
    have, need = facts.setup.disk_bytes, weight_bytes(facts)
    if have is None:
        return False
    return None if need is None else have < need * 1.1


define(
    "pod.disk_gib",
    "float",
    "size of the volume for the model, GiB",
    lambda c: round(c.setup.disk_bytes / GIB, 1) if c.setup.disk_bytes is not None else None,
)


@fact("pod.storage_and_model", "bool", "a storage URI and another model in the arguments")
def _storage(facts: LaunchFacts) -> bool:
    word = facts.arguments.value("model", "model_id", "model-id")
    return bool(facts.setup.storage_uri) and word is not None and not word.startswith(("/mnt/models", "$"))


define("unit.present", "bool", "a systemd unit", lambda c: "present" in c.setup.unit)


@fact("unit.no_network_order", "bool", "the unit does not wait for the network, or does not restart")
def _order(facts: LaunchFacts) -> bool:
    u = facts.setup.unit
    return (
        "present" in u
        and bool(facts.launch.program)
        and ("network-online.target" not in u.get("After", "") or "Restart" not in u)
    )


@fact("unit.no_device_access", "bool", "the unit's user or sandbox keeps it from the GPU")
def _access(facts: LaunchFacts) -> bool:
    u = facts.setup.unit
    hidden = u.get("PrivateDevices", "").lower() in ("yes", "true", "1")
    known = facts.server
    users, groups_needed = (known.service_users, known.device_groups) if known is not None else ((), ())
    user = u.get("User", "root") not in ("root", *users) or u.get("DynamicUser", "").lower() in ("yes", "true")
    groups = f"{u.get('SupplementaryGroups', '')} {u.get('Group', '')}"
    return hidden or (user and bool(groups_needed) and not set(groups_needed) & set(re.findall(r"\w+", groups)))


@fact("swap.timeout", "float", "llama-swap's health check timeout, seconds")
def _timeout(facts: LaunchFacts) -> float | None:
    t = facts.setup.unit.get("healthCheckTimeout")
    return float(t) if t and t.isdigit() else None


@fact("swap.timeout_short", "bool", "llama-swap gives up before the model is loaded")
def _timeout_short(facts: LaunchFacts) -> bool | None:
    if facts.launch.kind != SWAP_FILE:
        return False
    t, load = facts["swap.timeout"], facts["load.seconds"]
    return None if t is None or load is None else t < load - 60


define(
    "swap.port_fixed",
    "bool",
    "a fixed port that the proxy does not know, or two models on one",
    lambda c: "swap-port" in c.setup.places or "swap-port-shared" in c.setup.places,
)


@fact("swap.config_wrong", "bool", "groups and matrix together, a member in two groups, or an alias twice")
def _swap_config(facts: LaunchFacts) -> bool:
    return any(k in facts.setup.places for k in ("swap-groups-and-matrix", "swap-member-twice", "swap-alias-twice"))


define("modelfile.no_from", "bool", "no FROM line", lambda c: "no-from" in c.setup.places)
define(
    "modelfile.trailing_comment",
    "bool",
    "a parameter's value is followed by a comment",
    lambda c: "trailing-comment" in c.setup.places,
)
define("docker.ollama_pull", "bool", "a RUN line pulls a model without a server", lambda c: PULL in c.setup.places)


@fact("wrapper.variables", "bool", "variables that only wrapper images read, on the engine's own image")
def _wrapper(facts: LaunchFacts) -> bool:
    env = facts.env
    names = {"MODEL_NAME", "QUANTIZATION", "TENSOR_PARALLEL_SIZE", "MAX_MODEL_LEN", "GPU_MEMORY_UTILIZATION"} & set(env)
    if not facts["image.official"]:
        return False
    used = " ".join(facts.launch.argv)
    return bool(names) and not facts.launch.argv and not any(n in used for n in names)


define("setup.exposed", "bool", "reachable from beyond the machine or cluster", lambda c: exposure(c) is not None)


def address_variable(facts: LaunchFacts) -> str | None:
    """The variable by which the launch's server is given host and port together; None for servers with flags."""
    entry = facts.engine
    return entry.start.address if entry is not None and entry.start is not None else None


def exposure(facts: LaunchFacts) -> str | None:
    """How the server is reachable from beyond the machine or cluster; None where it is not."""
    setup, launch = facts.setup, facts.launch
    if setup.container:
        return setup.exposed
    host = facts.concept_value("address")
    variable = address_variable(facts)
    if variable is not None:
        return f"{variable}={launch.env[variable]}" if facts["ollama.all_interfaces"] else None
    if host is not None and host in ("0.0.0.0", "::", "[::]", "*"):  # noqa: S104 - compared, not bound
        return f"--host {host}"
    return None


define("setup.exposure", "str", "how it is reachable", exposure)


@fact("setup.loopback", "bool", "listens on loopback only")
def _loopback(facts: LaunchFacts) -> bool | None:
    launch = facts.launch
    host = facts.concept_value("address")
    known = facts.knowledge.server(launch.engine)
    if host is not None:
        return None if host.unknown else host in ("127.0.0.1", "localhost", "::1")
    if facts.arguments.open or launch.unresolved or known is None:
        return None
    image = image_ref(facts)
    own = image is not None and image.entry is not None and image.entry.engine == launch.engine
    default = known.image_host if own and known.image_host else known.host
    return default in ("127.0.0.1", "localhost")


define(
    "setup.published",
    "bool",
    "a port is published or a service points at it",
    lambda c: bool(c.setup.ports) and (not c.setup.host_network),
)


def own_port(facts: LaunchFacts) -> int | None:
    """The port the server listens on: as asked, else the engine's own; None where it cannot be determined."""
    launch = facts.launch
    word = facts.concept_value("port")
    if word is not None:
        return int(word) if word.isdigit() else None
    if launch.unresolved or facts.arguments.open:
        return None
    known = facts.knowledge.server(launch.engine)
    variable = address_variable(facts)
    if variable is not None:
        m = re.search(r":(\d{2,5})$", launch.env.get(variable, ""))
        return int(m[1]) if m else known.port if known is not None else None
    variables = find_launch_concept(launch.engine, "port", facts.knowledge).environment
    if known is None or any(n in launch.env for n in variables):
        return None
    image = image_ref(facts)
    inside = (
        image is not None
        and image.entry is not None
        and image.entry.engine == launch.engine
        and image.entry.entry != "derived"
    )
    if image is not None and image.entry is not None and image.entry.entry in ("derived", "opaque"):
        return None
    return known.image_port if inside and known.image_port else known.port


define("port.own", "int", "the port the server listens on", own_port)


@fact("port.mismatch", "bool", "no published port leads to the one the server listens on")
def _mismatch(facts: LaunchFacts) -> bool | None:
    inside = [p[2] for p in facts.setup.ports if p[2] is not None]
    if not inside or facts.setup.host_network or facts.launch.kind == "helm":  # charts set ports of their own
        return False
    mine = own_port(facts)
    if facts.setup.cluster:
        inside = [p[2] for p in facts.setup.ports[-1:] if p[2] is not None and p[1] is None]
        if len(facts.setup.ports) > 1:
            inside = [p[2] for p in facts.setup.ports if p[2] is not None]
    return None if mine is None else mine not in inside


define(
    "port.published",
    "str",
    "container ports that are published",
    lambda c: ", ".join(str(p[2]) for p in c.setup.ports if p[2] is not None),
)
define("fabric.rdma", "bool", "devices of an RDMA network are handed over", lambda c: bool(c.setup.fabric))
define(
    "fabric.efa",
    "bool",
    "network devices of AWS (EFA) are handed over",
    lambda c: any("/efa" in name for name in c.setup.fabric),
)
define(
    "fabric.locks_memory",
    "bool",
    "memory may be locked: IPC_LOCK, a memlock limit, or all privileges",
    lambda c: c.setup.locks_memory or c.setup.privileged,
)
define(
    "fabric.huge_pages",
    "bool",
    "huge pages are requested, or switched off for the network",
    lambda c: c.setup.huge_pages or "FI_EFA_USE_HUGE_PAGE" in c.env,
)
