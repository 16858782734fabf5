"""Facts about what is around the process: container, pod, unit, network, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.check.docker_run import size
from advisor.check.facts import Seen, fact
from advisor.check.facts_args import value
from advisor.check.facts_model import weight_bytes
from advisor.check.launch import Mount, Probe
from advisor.check.recognise import Image, image_of
from advisor.units import GIB

_TOKENS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "HF_API_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "HF_TOKEN_PATH",
)
_FLOATING = re.compile(
    r"^(latest|nightly|main|dev|master|edge|stable|cuda\d*|server|server-[a-z]+\d*|full|light|rocm|vulkan|cpu|gpu|v?\d+|.*-latest|latest-.*|nightly-.*|.*nightly)$"
)


def _image(s: Seen) -> Image | None:
    ref = s.v.launch.setup.image
    return image_of(ref, s.know) if ref else None


def _mounted(s: Seen, path: str) -> Mount | None:
    """The mount that holds a path; None where no mount does."""
    plain = path.rstrip("/") or "/"
    for m in sorted(s.v.launch.setup.mounts, key=lambda m: -len(m.target)):
        t = m.target.rstrip("/")
        if plain == t or plain.startswith(t + "/"):
            return m
    return None


def _boolean(name: str, doc: str, read: str) -> None:
    fact(name, "bool", doc)(lambda s: bool(getattr(s.v.launch.setup, read)))


_boolean("setup.container", "runs in a container", "container")
_boolean("setup.cluster", "runs in a cluster", "cluster")
_boolean("setup.privileged", "the container is privileged", "privileged")
_boolean("setup.host_pid", "shares the host's process ids", "host_pid")
_boolean("setup.host_network", "uses the host's network", "host_network")
_boolean("setup.ipc_host", "shares the host's memory segments", "ipc_host")
_boolean("setup.gpu_fraction", "a fraction of a GPU is asked for", "gpu_fraction")
_boolean("setup.gpu_block_wrong", "the device block is not valid", "gpu_block")
_boolean("setup.storage_uri", "a storage URI names the model", "storage_uri")


@fact("setup.gpu_granted", "bool", "an accelerator is handed to the process")
def _granted(s: Seen) -> bool | None:
    return s.v.launch.setup.gpu_granted


@fact("setup.gpu_block", "str", "what is wrong with the device block")
def _block(s: Seen) -> str:
    return "; ".join(s.v.launch.setup.gpu_block)


@fact("setup.gpu_request_differs", "bool", "GPUs requested differ from GPUs in limits")
def _request(s: Seen) -> bool:
    x = s.v.launch.setup
    return x.cluster and x.gpu_requests is not None and x.gpu_requests != x.gpu_count


@fact("setup.exposed", "bool", "reachable from beyond the machine or cluster")
def _exposed(s: Seen) -> bool:
    return exposure(s) is not None


@fact("setup.exposure", "str", "how it is reachable")
def _exposure(s: Seen) -> str | None:
    return exposure(s)


def exposure(s: Seen) -> str | None:
    """How the server is reachable from beyond the machine or cluster; None where it is not."""
    setup, launch = s.v.launch.setup, s.v.launch
    if setup.container:
        return setup.exposed
    host = s.v.arguments.value("host", "server-name", "hostname")
    if launch.engine == "ollama":
        return f"OLLAMA_HOST={launch.env['OLLAMA_HOST']}" if s.facts["ollama.all_interfaces"] else None
    if host is not None and host in ("0.0.0.0", "::", "[::]", "*"):  # noqa: S104 - compared, not bound
        return f"--host {host}"
    return None


@fact("setup.loopback", "bool", "listens on loopback only")
def _loopback(s: Seen) -> bool | None:
    launch = s.v.launch
    host = s.v.arguments.value("host", "server-name", "hostname")
    known = s.know.recognition.servers.get(launch.engine)
    if host is not None:
        return None if host.unknown else host in ("127.0.0.1", "localhost", "::1")
    if s.v.arguments.open or launch.unresolved or known is None:
        return None
    image = _image(s)
    own = image is not None and image.entry is not None and image.entry.engine == launch.engine
    default = known.image_host if own and known.image_host else known.host
    return default in ("127.0.0.1", "localhost")


@fact("setup.published", "bool", "a port is published or a service points at it")
def _published(s: Seen) -> bool:
    return bool(s.v.launch.setup.ports) and not s.v.launch.setup.host_network


def own_port(s: Seen) -> int | None:
    """The port the server listens on: as asked, else the engine's own; None where it cannot be told."""
    launch = s.v.launch
    a = s.v.arguments.value("port", "server-port", "rest_port")
    if a is not None:
        return int(a) if a.isdigit() else None
    if launch.unresolved or s.v.arguments.open:
        return None
    if launch.engine == "ollama":
        m = re.search(r":(\d{2,5})$", launch.env.get("OLLAMA_HOST", ""))
        return int(m[1]) if m else 11434
    known = s.know.recognition.servers.get(launch.engine)
    if known is None or (launch.engine == "tgi" and "PORT" in launch.env):
        return None
    image = _image(s)
    inside = (
        image is not None
        and image.entry is not None
        and image.entry.engine == launch.engine
        and image.entry.entry != "derived"
    )
    if image is not None and image.entry is not None and image.entry.entry in ("derived", "opaque"):
        return None
    return known.image_port if inside and known.image_port else known.port


@fact("port.own", "int", "the port the server listens on")
def _own(s: Seen) -> int | None:
    return own_port(s)


@fact("port.mismatch", "bool", "no published port leads to the one the server listens on")
def _mismatch(s: Seen) -> bool | None:
    inside = [p[2] for p in s.v.launch.setup.ports if p[2] is not None]
    if not inside or s.v.launch.setup.host_network or s.v.launch.kind == "helm":  # charts set ports of their own
        return False
    mine = own_port(s)
    if s.v.launch.setup.cluster:
        inside = [p[2] for p in s.v.launch.setup.ports[-1:] if p[2] is not None and p[1] is None]
        if len(s.v.launch.setup.ports) > 1:
            inside = [p[2] for p in s.v.launch.setup.ports if p[2] is not None]
    return None if mine is None else mine not in inside


@fact("port.published", "str", "container ports that are published")
def _ports(s: Seen) -> str:
    return ", ".join(str(p[2]) for p in s.v.launch.setup.ports if p[2] is not None)


@fact("shm.missing", "bool", "neither shared IPC nor a larger /dev/shm")
def _shm(s: Seen) -> bool | None:
    x = s.v.launch.setup
    if not x.container:
        return False
    if x.ipc_host or x.shm_bytes is not None or _mounted(s, "/dev/shm") is not None:  # noqa: S108 - a mount point
        return False
    return None if s.v.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml") else True


@fact("shm.small", "bool", "shared memory below 1 GiB a rank")
def _shm_small(s: Seen) -> bool | None:
    x, n = s.v.launch.setup, s.facts["ranks"]
    if x.ipc_host or x.shm_bytes is None:
        return False
    if n is not None and x.gpu_count:
        n = min(n, x.gpu_count)
    return None if n is None else n > 1 and x.shm_bytes < n * GIB


@fact("shm.gib", "float", "size of /dev/shm, GiB")
def _shm_gib(s: Seen) -> float | None:
    b = s.v.launch.setup.shm_bytes
    return b / GIB if b is not None else None


@fact("memory.limit_gib", "float", "memory limit of the container or unit, GiB")
def _limit(s: Seen) -> float | None:
    b = s.v.launch.setup.memory_limit
    return round(b / GIB, 2) if b is not None else None


@fact("memory.host_need_gib", "float", "host memory the launch needs at least: 8 GiB and the pools it asks for (x 1.9)")
def _host_need(s: Seen) -> float | None:
    offload = value(s, "cpu-offload-gb") or 0.0
    pool = value(s, "kv-offloading-size") or 0.0
    swap = value(s, "swap-space") or 0.0
    ranks, tp = s.facts["ranks"], s.facts["tp"]
    if ranks is None or tp is None:
        return None
    env = s.v.launch.env.get("LMCACHE_MAX_LOCAL_CPU_SIZE")
    lm = float(env) if env and re.fullmatch(r"\d+(\.\d+)?", env) else 0.0
    return float(8.0 + 1.9 * offload * ranks + 1.92 * pool + swap * tp + lm * ranks)


@fact("memory.pools", "bool", "host memory pools are asked for")
def _pools(s: Seen) -> bool:
    return bool(
        value(s, "cpu-offload-gb") or value(s, "kv-offloading-size") or "LMCACHE_MAX_LOCAL_CPU_SIZE" in s.v.launch.env
    )


@fact("memory.limit_below_need", "bool", "the memory limit is below what host pools need")
def _below(s: Seen) -> bool | None:
    limit, need = s.facts["memory.limit_gib"], s.facts["memory.host_need_gib"]
    if limit is None or not s.facts["memory.pools"]:
        return False
    return None if need is None else limit < need


@fact("memory.shm_exceeds_limit", "bool", "memory-backed mounts and the process exceed the memory limit")
def _shm_limit(s: Seen) -> bool | None:
    limit = s.v.launch.setup.memory_limit
    sizes = [m.size_bytes for m in s.v.launch.setup.mounts if m.kind == "memory" and m.size_bytes]
    if limit is None or not sizes:
        return False
    return sum(sizes) + 4 * GIB > limit


@fact("memory.limit_small", "bool", "a memory limit below 8 GiB")
def _small(s: Seen) -> bool:
    limit = s.v.launch.setup.memory_limit
    size_ = weight_bytes(s)
    if size_ is not None and size_ < 2 * GIB:
        return False
    return limit is not None and limit < 8 * GIB


@fact("memory.prompt_cache_exceeds", "bool", "llama-server's prompt cache of 8 GiB does not fit into the memory limit")
def _cache_ram(s: Seen) -> bool | None:
    limit = s.v.launch.setup.memory_limit
    if limit is None:
        return False
    if s.v.arguments.last("cache-ram") is not None or "LLAMA_ARG_CACHE_RAM" in s.v.launch.env:
        return False
    return limit < 8 * GIB


@fact("cpu.small", "bool", "CPU limit below 2 and one for each GPU")
def _cpu(s: Seen) -> bool | None:
    limit, n = s.v.launch.setup.cpu_limit, s.v.launch.setup.gpu_count
    return False if limit is None or not n else limit < 2 + n


@fact("offload.exceeds_host", "bool", "weights offloaded to the host (x 1.9) exceed its memory")
def _offload(s: Seen) -> bool | None:
    gb = value(s, "cpu-offload-gb")
    if not gb:
        return False
    have, n = s.facts["host.memory_gib"], s.facts["ranks"]
    return None if have is None or n is None else gb * n * 1.9 > have


@fact("image.floating", "bool", "the image's tag moves")
def _floating(s: Seen) -> bool | None:
    x = _image(s)
    if x is None or x.digest:
        return False
    if x.tag is None:
        return True
    return None if "$" in x.tag else _FLOATING.match(x.tag) is not None


@fact("image.name", "str", "the image")
def _image_name(s: Seen) -> str | None:
    return s.v.launch.setup.image


@fact("image.repository", "str", "the image without tag")
def _repository(s: Seen) -> str | None:
    x = _image(s)
    return x.name if x else None


@fact("image.tag", "str", "the image's tag")
def _tag(s: Seen) -> str | None:
    x = _image(s)
    return x.tag if x else None


@fact("image.official", "bool", "an image of the engine's own makers")
def _official(s: Seen) -> bool:
    x = _image(s)
    return x is not None and x.entry is not None and x.entry.tag == "version"


@fact("image.cpu_only", "bool", "an image without any GPU support")
def _cpu_only(s: Seen) -> bool:
    x = _image(s)
    if x is None:
        return False
    if s.v.launch.engine == "llama.cpp" and x.entry is not None and x.entry.tag == "version":
        return re.fullmatch(r"(server|full|light)(-b\d+)?", x.tag or "") is not None
    return re.search(r"(^|[-_/])cpu([-_]|$)", f"{x.name}:{x.tag}".replace(":", "-")) is not None


@fact("image.vendor", "str", "the vendor whose accelerators the image is for")
def _vendor(s: Seen) -> str | None:
    x = _image(s)
    if x is None or x.entry is None:
        return None
    words = f"{x.name}:{x.tag or ''}".lower()
    for word, vendor in (
        ("rocm", "amd"),
        ("gaudi", "habana"),
        ("hpu", "habana"),
        ("xpu", "intel"),
        ("intel", "intel"),
        ("tpu", "google"),
        ("neuron", "aws"),
        ("cpu", "none"),
        ("vulkan", "any"),
        ("npu", "other"),
        ("musa", "other"),
    ):
        if word in words:
            return vendor
    return (
        "nvidia"
        if x.entry.tag == "version" and x.entry.engine not in ("ollama", "llama.cpp")
        else "nvidia"
        if "cuda" in words
        else None
    )


@fact("image.wrong_vendor", "bool", "the image is for another vendor's accelerators than the hardware's")
def _wrong(s: Seen) -> bool | None:
    mine, have = s.facts["image.vendor"], s.facts["gpu.vendor"]
    if mine in (None, "any", "other"):
        return False
    if have is None:
        return None
    return mine != have and have not in ("mixed", "none") and mine != "none"


@fact("image.doubled", "bool", "the arguments repeat the program that the image starts by itself")
def _doubled(s: Seen) -> bool:
    return "doubled" in s.v.launch.setup.places


@fact("image.cuda", "version", "CUDA the image's tag names")
def _cuda(s: Seen) -> str | None:
    x = _image(s)
    m = re.search(r"cu(?:da)?[-_.]?(1[1-9])\.?(\d)?", (x.tag or "") if x else "")
    return f"{m[1]}.{m[2] or 0}" if m else None


@fact("image.driver_too_old", "bool", "the image's CUDA is newer than the driver supports")
def _driver(s: Seen) -> bool | None:
    from advisor.engines.versions import key

    mine, have = s.facts["image.cuda"], s.facts["driver.cuda"]
    if mine is None:
        return False
    return None if have is None else key(mine)[0] > key(have)[0]


@fact("image.arch_too_new", "bool", "the GPU's architecture is newer or older than the image's kernels")
def _arch(s: Seen) -> bool | None:
    version, have = s.v.launch.version, s.facts["gpu.compute_capability"]
    if s.v.launch.engine not in ("vllm", "sglang") or version is None:
        return False if version is not None else None
    if have is None:
        return None
    from advisor.engines.versions import key

    v = key(version)
    if s.v.launch.engine == "vllm":
        return (have >= 10.0 and v < (0, 9)) or (have < 7.5 and v >= (0, 12)) or have < 7.0
    return (have >= 10.0 and v < (0, 4, 7)) or (have < 7.5 and v >= (0, 5, 20))


@fact("hub.token", "bool", "a hub token is handed over")
def _token(s: Seen) -> bool | None:
    env = s.v.launch.env
    if s.v.launch.setup.cluster and s.facts["setup.standard_pod"] is not True:
        return None  # the operator or chart hands it over
    if any(k in env and env[k] != "" for k in _TOKENS) or s.v.arguments.last("hf-token") is not None:
        return True
    if "envFrom" in s.v.launch.setup.places:
        return None
    home = next((str(env[k]) for k in ("HF_HOME",) if k in env), "/root/.cache/huggingface")
    if _mounted(s, home) is not None or not s.v.launch.setup.container:
        return None  # a login may be there
    return (
        None
        if s.v.launch.unresolved
        or s.v.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml", "template")
        or not (s.v.launch.argv or s.v.launch.env)
        else False
    )


@fact("hub.offline", "bool", "the hub is switched off")
def _offline(s: Seen) -> bool:
    env = s.v.launch.env
    return any(env.get(k, "").lower() in ("1", "true", "yes", "on") for k in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cache_paths(s: Seen) -> Iterator[str]:
    """Where the engine keeps what it downloads: as set, else its image's own place."""
    env = s.v.launch.env
    set_ = [
        str(env[k])
        for k in (
            "HF_HUB_CACHE",
            "HUGGINGFACE_HUB_CACHE",
            "HF_HOME",
            "TRANSFORMERS_CACHE",
            "OLLAMA_MODELS",
            "LLAMA_CACHE",
            "NIM_CACHE_PATH",
        )
        if k in env
    ]
    a = s.v.arguments.value("download-dir", "huggingface-hub-cache")
    if a is not None:
        set_.insert(0, str(a))
    if set_:
        yield from set_
        return
    known = s.know.recognition.servers.get(s.v.launch.engine)
    yield from (known.cache if known else ())


@fact("cache.mounted", "bool", "the download cache is on a volume")
def _cache(s: Seen) -> bool | None:
    if not s.v.launch.setup.container or s.v.launch.kind in (
        "dockerfile",
        "recipe",
        "srt-slurm",
        "yaml",
        "template",
        "infernet",
    ):
        return None
    paths = [p for p in cache_paths(s) if "$" not in p]
    if not paths:
        return None
    for p in paths:
        if _mounted(s, p) is not None or any(m.target.startswith(p.rstrip("/") + "/") for m in s.v.launch.setup.mounts):
            return True
    return any(
        m.target.rstrip("/") in ("/root/.cache", "/root", "/home") or m.target.startswith(("/home/", "/root/.cache"))
        for m in s.v.launch.setup.mounts
    )


@fact("cache.wrong_path", "bool", "a volume named like a model cache is mounted where the engine keeps nothing")
def _wrong_path(s: Seen) -> bool | None:
    if s.facts["cache.mounted"] is not False:
        return False
    local = s.facts["model.local"]
    return local is not True and any(
        re.search(r"hf|hugging|cache|model", f"{m.source or ''}{m.target}", re.I)
        and m.kind in ("volume", "bind", "pvc")
        for m in s.v.launch.setup.mounts
    )


@fact("model.path_not_mounted", "bool", "the model's path is on no volume of the container")
def _not_mounted(s: Seen) -> bool | None:
    m = s.v.reading.model
    setup = s.v.launch.setup
    if m is None or m.unknown:
        return None
    if (
        not setup.container
        or not m.startswith("/")
        or s.v.launch.kind in ("dockerfile", "srt-slurm", "recipe", "yaml", "infernet")
    ):
        return False
    image = _image(s)
    if image is None or image.entry is None or image.entry.tag != "version" or setup.storage_uri:
        return False
    if setup.cluster and s.facts["setup.standard_pod"] is not True:
        return False
    return _mounted(s, m) is None


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
    known = s.know.recognition.servers.get(s.v.launch.engine)
    if known is None or not known.health:
        return None
    image = _image(s)
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
    known = s.know.recognition.servers.get(s.v.launch.engine)
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
        "service:vllm" in s.v.launch.setup.places
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


@fact("devices.visible_conflict", "bool", "visible devices name indices that the container does not have, or one twice")
def _visible(s: Seen) -> bool:
    mask = s.v.launch.env.get("CUDA_VISIBLE_DEVICES")
    if mask is None or mask.unknown or not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", mask):
        return False
    ids = [int(x) for x in mask.split(",")]
    have = s.v.launch.setup.gpu_count if s.v.launch.setup.container else None
    return len(set(ids)) < len(ids) or (have is not None and max(ids) >= have)


@fact("devices.visible_mig", "bool", "visible devices name a MIG slice or GPU by its id")
def _mig_uuid(s: Seen) -> bool:
    return re.match(r"\s*(MIG-|GPU-)", s.v.launch.env.get("CUDA_VISIBLE_DEVICES", "")) is not None


@fact("devices.mig", "bool", "the devices are MIG slices")
def _mig(s: Seen) -> bool | None:
    if "mig-" in (s.v.launch.setup.gpu_resource or ""):
        return True
    return s.facts["gpu.mig"] if s.v.machine is not None else False


@fact("devices.overridden", "bool", "visible devices are set in a pod that the device plugin serves")
def _overridden(s: Seen) -> bool:
    env = s.v.launch.env
    return (
        s.v.launch.setup.cluster
        and bool(s.v.launch.setup.gpu_count)
        and ("CUDA_VISIBLE_DEVICES" in env or env.get("NVIDIA_VISIBLE_DEVICES") == "all")
    )


@fact("gpu.shared_overcommit", "bool", "launches of this file on the same GPU ask for more than it has")
def _shared(s: Seen) -> bool | None:
    mine = s.v.launch.setup.gpu_ids
    if not mine or s.v.launch.engine not in ("vllm", "sglang"):
        return False
    total = 0.0
    for v in s.siblings:
        if v.launch.setup.gpu_ids and set(v.launch.setup.gpu_ids) & set(mine) and v.launch.engine in ("vllm", "sglang"):
            a = v.arguments.value("gpu-memory-utilization", "mem-fraction-static")
            total += (
                float(a)
                if a is not None and re.fullmatch(r"0?\.\d+|1(\.0+)?", a)
                else 0.92
                if v.launch.engine == "vllm"
                else 0.85
            )
    return total > 1.0


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
    user = u.get("User", "root") not in ("root", "ollama") or u.get("DynamicUser", "").lower() in ("yes", "true")
    groups = f"{u.get('SupplementaryGroups', '')} {u.get('Group', '')}"
    return hidden or (
        user and s.v.launch.engine in ("llama.cpp", "ollama") and not re.search(r"\b(render|video)\b", groups)
    )


@fact("swap.timeout", "float", "llama-swap's health check timeout, seconds")
def _timeout(s: Seen) -> float | None:
    t = s.v.launch.setup.unit.get("healthCheckTimeout")
    return float(t) if t and t.isdigit() else None


@fact("swap.timeout_short", "bool", "llama-swap gives up before the model is loaded")
def _timeout_short(s: Seen) -> bool | None:
    if s.v.launch.kind != "llama-swap":
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
    return "ollama-pull" in s.v.launch.setup.places


@fact("wrapper.variables", "bool", "variables that only wrapper images read, on the engine's own image")
def _wrapper(s: Seen) -> bool:
    env = s.v.launch.env
    names = {"MODEL_NAME", "QUANTIZATION", "TENSOR_PARALLEL_SIZE", "MAX_MODEL_LEN", "GPU_MEMORY_UTILIZATION"} & set(env)
    if not s.facts["image.official"] or s.v.launch.engine not in ("vllm", "sglang"):
        return False
    used = " ".join(s.v.launch.argv)
    return bool(names) and not s.v.launch.argv and not any(n in used for n in names)


_ = size


@fact(
    "setup.standard_pod",
    "bool",
    "the containers stand in a pod of Kubernetes' own kinds, not in a resource that fills them in",
)
def _standard(s: Seen) -> bool:
    kinds = {p.partition(":")[2] for p in s.v.launch.setup.places if p.startswith("kind:")}
    return bool(
        kinds & {"Pod", "Deployment", "StatefulSet", "Job", "ReplicaSet", "DaemonSet", "LeaderWorkerSet", "CronJob"}
    )


@fact("setup.hardware_named", "bool", "the file names the accelerator")
def _named(s: Seen) -> bool:
    return s.v.launch.setup.hardware is not None


@fact("setup.restart_always", "bool", "restart: always")
def _restart(s: Seen) -> bool:
    return s.v.launch.setup.restart == "always"


@fact("setup.ray", "bool", "a Ray cluster runs the launch")
def _ray(s: Seen) -> bool:
    return "ray" in s.v.launch.setup.places


@fact("setup.ray_short", "bool", "the worker groups have fewer GPUs than the launch asks for")
def _ray_short(s: Seen) -> bool | None:
    have, n = s.v.launch.setup.gpu_count, s.v.judged.ranks
    return False if have is None else None if n is None else have < n


@fact("model.native_family", "bool", "a family that the engines have had native for long")
def _native(s: Seen) -> bool | None:
    family = s.facts["model.family"]
    if family is None:
        return None
    return str(family) in (
        "qwen2",
        "qwen2.5",
        "qwen2.5-coder",
        "qwen3",
        "llama-2",
        "llama-3",
        "llama-3.1",
        "llama-3.2",
        "llama-3.3",
        "mistral",
        "mixtral",
        "gemma-2",
        "gemma-3",
        "gpt-oss",
        "granite",
    )
