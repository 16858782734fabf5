"""Facts about probes, rollouts, pods, units and the files of llama-swap, Ollama and Docker."""

from __future__ import annotations

import re

from advisor.checks.facts.launch_facts import LaunchFacts, compare, define, fact
from advisor.checks.facts.model import weight_bytes
from advisor.checks.facts.setup import define_size
from advisor.checks.read.launch import AWAITED, SWAP_FILE, TAKEN_SERVICE_NAME, HealthProbe
from advisor.checks.resolve.arguments import find_launch_concept
from advisor.units import GIB

DOWNLOAD_BYTES_PER_SECOND = 0.2e9  # assumed: what rests on it is a warning


def _probes(facts: LaunchFacts, kind: str) -> list[HealthProbe]:
    return [p for p in facts.setup.probes if p.kind == kind]


def _budget_of(probe: HealthProbe, period: float) -> float:
    """Seconds until a probe gives up; `period` is the platform's own."""
    return (probe.delay or 0) + (probe.period or period) * (probe.failures or 3)


@fact("probe.budget_seconds", "time a probe leaves for loading before the container is restarted", "float")
def _budget(facts: LaunchFacts) -> float | None:
    probes = _probes(facts, "startup") or _probes(facts, "liveness")
    return min((_budget_of(p, 10) for p in probes), default=None)


def _ends_before_load(facts: LaunchFacts, budget: float | None) -> bool | None:
    """Whether a number of seconds is over before the weights are loaded; None for it = there is no such limit."""
    load = facts["load.seconds"]
    return False if budget is None else None if load is None else budget < load


define(
    "probe.too_short",
    "probes restart the container before the weights are loaded",
    lambda c: _ends_before_load(c, c["probe.budget_seconds"]),
)


@fact("download.seconds", "time to download the weights at 0.2 GB/s, where no volume keeps them; assumed", "float")
def _download(facts: LaunchFacts) -> float | None:
    size = facts["model.gib"]
    if facts["cache.mounted"] is not False or facts["model.hub_id"] is not True:
        return 0.0
    return None if size is None else round(float(size) * GIB / DOWNLOAD_BYTES_PER_SECOND)


@fact("probe.ends_download", "probes restart the container before the weights are downloaded and loaded")
def _ends_download(facts: LaunchFacts) -> bool | None:
    budget, load, fetch = (facts[x] for x in ("probe.budget_seconds", "load.seconds", "download.seconds"))
    if budget is None or not fetch:
        return False
    return None if load is None else load <= budget < load + fetch


@fact("probe.path_unknown", "a probe asks for a path the engine does not have")
def _path(facts: LaunchFacts) -> bool | None:
    known, image = facts.server, facts.known_image
    if known is None or not known.health or (image is not None and image.entry in ("opaque", "derived")):
        return None
    mine = facts["port.own"]
    paths = [
        p.path
        for p in facts.setup.probes
        if p.path is not None and (p.port is None or mine is None or not p.port.isdigit() or int(p.port) == mine)
    ]
    return any(
        "$" not in path and path.split("?")[0] not in known.health and not path.startswith("/v1/") for path in paths
    )


define(
    "probe.path", "the paths of the probes",
    lambda c: ", ".join(dict.fromkeys(p.path for p in c.setup.probes if p.path)), "str"
)  # fmt: skip
define(
    "probe.health", "the path to probe", lambda c: c.server.health[0] if c.server and c.server.health else None, "str"
)


@fact("healthcheck.too_short", "the health check gives up before the weights are loaded")
def _healthcheck(facts: LaunchFacts) -> bool | None:
    return _ends_before_load(facts, min((_budget_of(p, 30) for p in _probes(facts, "healthcheck")[:1]), default=None))


@fact("healthcheck.tool_missing", "a health check runs a program that the engine's image does not have")
def _tool_missing(facts: LaunchFacts) -> bool:
    lacks = facts.server.image_lacks if facts.server is not None and facts["image.official"] else ()
    called = {w for p in facts.setup.probes for w in re.findall(r"[\w.-]+", p.command or "")}
    return bool(called & set(lacks))


@fact("healthcheck.awaited_missing", "another service waits for a health check, and neither file nor image has one")
def _awaited_missing(facts: LaunchFacts) -> bool:
    without = facts.server is not None and facts.server.image_checks_health is False and facts["image.official"]
    return AWAITED in facts.setup.places and without and not _probes(facts, "healthcheck")


@fact("rollout.deadline_short", "the rollout is called failed before the weights are loaded")
def _deadline(facts: LaunchFacts) -> bool | None:
    deployed = "kind:Deployment" in facts.setup.places
    return _ends_before_load(facts, facts.setup.progress_deadline or 600 if deployed else None)


define(
    "rollout.surges",
    "a rollout starts the new pod next to the old one, and both want the GPUs",
    lambda c: c.setup.rolling is True and bool(c.setup.gpu_count),
)


@fact("pod.untolerated", "GPUs are asked for, without toleration and without node selection")
def _untolerated(facts: LaunchFacts) -> bool:
    setup = facts.setup
    return setup.cluster and bool(setup.gpu_count) and setup.tolerates_gpu is False and setup.selects_node is False


@fact("pod.host_path", "the model comes from a host path, and the pod is bound to no node")
def _host_path(facts: LaunchFacts) -> bool:
    setup = facts.setup
    mounted = any(m.kind == "host" and not m.target.startswith("/dev") for m in setup.mounts)
    return mounted and setup.cluster and setup.selects_node is False


@fact("pod.service_named_vllm", "a Service called vllm sets VLLM_PORT in its pods")
def _service(facts: LaunchFacts) -> bool:
    setup = facts.setup
    return TAKEN_SERVICE_NAME in setup.places and setup.service_links is not False and "VLLM_PORT" not in facts.env


@fact("pod.nodes_mismatch", "pods x GPUs are not the ranks of the launch")
def _nodes(facts: LaunchFacts) -> bool | None:
    setup, n = facts.setup, facts["ranks"]
    if not setup.nodes or not setup.gpu_count or "kind:LeaderWorkerSet" not in setup.places:
        return False
    return None if facts.launch.unresolved or n is None else bool(n != setup.nodes * setup.gpu_count)


define("pod.scales_to_zero", "the least number of replicas is 0", lambda c: c.setup.min_replicas == 0)


@fact("pod.disk_small", "the volume for the model is smaller than the model (x 1.1)")
def _disk(facts: LaunchFacts) -> bool | None:
    have = facts.setup.disk_bytes
    return have is not None and compare(have, weight_bytes(facts), lambda have, need: have < need * 1.1)


define(
    "pod.claim_contended", "one node at a time may mount a claim, and several pods of the file do",
    lambda c: any(m.contended for m in c.setup.mounts)
)  # fmt: skip
define_size("pod.disk_gib", "size of the volume for the model, GiB", "disk_bytes", 1)


@fact("pod.storage_and_model", "a storage URI and another model in the arguments")
def _storage(facts: LaunchFacts) -> bool:
    word = facts.value("model", "model_id", "model-id")
    return bool(facts.setup.storage_uri) and word is not None and not word.startswith(("/mnt/models", "$"))


@fact("unit.no_network_order", "the unit does not wait for the network, or does not restart")
def _order(facts: LaunchFacts) -> bool:
    unit = facts.setup.unit
    ordered = "network-online.target" in unit.get("After", "") and "Restart" in unit
    return "present" in unit and bool(facts.launch.program) and not ordered


@fact("unit.no_device_access", "the unit's user or sandbox keeps it from the GPU")
def _access(facts: LaunchFacts) -> bool:
    u = facts.setup.unit
    hidden = u.get("PrivateDevices", "").lower() in ("yes", "true", "1")
    known = facts.server
    users, groups_needed = (known.service_users, known.device_groups) if known is not None else ((), ())
    user = u.get("User", "root") not in ("root", *users) or u.get("DynamicUser", "").lower() in ("yes", "true")
    groups = f"{u.get('SupplementaryGroups', '')} {u.get('Group', '')}"
    return hidden or (user and bool(groups_needed) and not set(groups_needed) & set(re.findall(r"\w+", groups)))


@fact("swap.timeout", "llama-swap's health check timeout, seconds", "float")
def _timeout(facts: LaunchFacts) -> float | None:
    seconds = facts.setup.unit.get("healthCheckTimeout", "")
    return float(seconds) if seconds.isdigit() else None


@fact("swap.timeout_short", "llama-swap gives up before the model is loaded")
def _timeout_short(facts: LaunchFacts) -> bool | None:
    swapped = facts.launch.kind == SWAP_FILE
    return swapped and compare(facts["swap.timeout"], facts["load.seconds"], lambda t, load: t < load - 60)


@fact("wrapper.variables", "only variables that wrapper images read name the model, on the engine's own image")
def _wrapper(facts: LaunchFacts) -> bool:
    names = {*facts.knowledge.recognition.model_variables, "QUANTIZATION", "TENSOR_PARALLEL_SIZE", "MAX_MODEL_LEN"}
    return bool(facts["image.official"] and facts["args.no_model"] and names & set(facts.env))


define("setup.exposed", "reachable from beyond the machine or cluster", lambda c: exposure(c) is not None)


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


define("setup.exposure", "how it is reachable", exposure, "str")


@fact("setup.loopback", "listens on loopback only")
def _loopback(facts: LaunchFacts) -> bool | None:
    launch, known, image = facts.launch, facts.server, facts.known_image
    host = facts.concept_value("address")
    if host is not None:
        return None if host.unknown else host in ("127.0.0.1", "localhost", "::1")
    if facts.arguments.open or launch.unresolved or known is None:
        return None
    own = image is not None and image.engine == launch.engine
    default = known.image_host if own and known.image_host else known.host
    return default in ("127.0.0.1", "localhost")


define(
    "setup.published",
    "a port is published or a service points at it",
    lambda c: bool(c.setup.ports) and (not c.setup.host_network),
)


def own_port(facts: LaunchFacts) -> int | None:
    """The port the server listens on: as asked, else the engine's own; None where it cannot be determined."""
    launch, known, image = facts.launch, facts.server, facts.known_image
    word = facts.concept_value("port")
    if word is not None:
        return int(word) if word.isdigit() else None
    if launch.unresolved or facts.arguments.open:
        return None
    variable = address_variable(facts)
    if variable is not None:
        m = re.search(r":(\d{2,5})$", launch.env.get(variable, ""))
        return int(m[1]) if m else known.port if known is not None else None
    variables = find_launch_concept(launch.engine, "port", facts.knowledge).environment
    if known is None or any(n in launch.env for n in variables):
        return None
    if image is not None and image.entry in ("derived", "opaque"):
        return None
    own = image is not None and image.engine == launch.engine
    return known.image_port if own and known.image_port else known.port


define("port.own", "the port the server listens on", own_port, "int")


def _list_ports(facts: LaunchFacts) -> list[int]:
    """The ports of the container that are published, or that a service points at."""
    return [inside for _, _, inside in facts.setup.ports if inside is not None]


@fact("port.mismatch", "no published port leads to the one the server listens on")
def _mismatch(facts: LaunchFacts) -> bool | None:
    inside, mine = _list_ports(facts), facts["port.own"]
    if not inside or facts.setup.host_network or facts.launch.kind == "helm":  # charts set ports of their own
        return False
    return None if mine is None else mine not in inside


define(
    "port.published", "container ports that are published", lambda c: ", ".join(map(str, _list_ports(c))), "str"
)  # fmt: skip
define("fabric.rdma", "devices of an RDMA network are handed over", lambda c: bool(c.setup.fabric))
define(
    "fabric.efa",
    "network devices of AWS (EFA) are handed over",
    lambda c: any("/efa" in name for name in c.setup.fabric),
)
define(
    "fabric.locks_memory",
    "memory may be locked: IPC_LOCK, a memlock limit, or all privileges",
    lambda c: c.setup.locks_memory or c.setup.privileged,
)
define(
    "fabric.huge_pages",
    "huge pages are requested, or switched off for the network",
    lambda c: c.setup.huge_pages or "FI_EFA_USE_HUGE_PAGE" in c.env,
)
