"""Facts about what is around the process: devices, memory, images."""

from __future__ import annotations

import re

from advisor.checks.facts.arguments import flag_number
from advisor.checks.facts.model import weight_bytes
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.read.launch import Mount, find_holding_mount
from advisor.engines.pool import PINNED_MORE
from advisor.units import GIB

FACTS = FactTable()
SHOWN = 40  # characters of a key


def find_mount(context: FactContext, path: str) -> Mount | None:
    """The mount that holds a path; None where no mount does."""
    return find_holding_mount(context.setup.mounts, path)


def _boolean(name: str, doc: str, read: str) -> None:
    FACTS.define(name, "bool", doc, lambda c: bool(getattr(c.setup, read)))


_boolean("setup.container", "runs in a container", "container")
_boolean("setup.cluster", "runs in a cluster", "cluster")
_boolean("setup.privileged", "the container is privileged", "privileged")
_boolean("setup.host_pid", "shares the host's process ids", "host_pid")
_boolean("setup.host_network", "uses the host's network", "host_network")
_boolean("setup.ipc_host", "shares the host's memory segments", "ipc_host")
_boolean("setup.gpu_fraction", "a fraction of a GPU is asked for", "gpu_fraction")
_boolean("setup.gpu_block_wrong", "the device block is not valid", "gpu_block")
_boolean("setup.storage_uri", "a storage URI names the model", "storage_uri")
_boolean("setup.misspelt", "a key is misspelt", "misspelt_keys")
FACTS.define(
    "setup.misspelt_keys",
    "str",
    "keys that are misspelt, each with the one that is meant",
    lambda c: ", ".join((f"`{key[:SHOWN]}` (`{meant}`?)" for key, meant in c.setup.misspelt_keys)),
)
FACTS.define("setup.gpu_granted", "bool", "an accelerator is handed to the process", lambda c: c.setup.gpu_granted)
FACTS.define("setup.gpu_block", "str", "what is wrong with the device block", lambda c: "; ".join(c.setup.gpu_block))
FACTS.define(
    "setup.gpu_request_differs",
    "bool",
    "GPUs requested differ from GPUs in limits",
    lambda c: c.setup.cluster and c.setup.gpu_requests is not None and (c.setup.gpu_requests != c.setup.gpu_count),
)


@FACTS.add("shm.missing", "bool", "neither shared IPC nor a larger /dev/shm")
def _shm(context: FactContext) -> bool | None:
    setup = context.setup
    if not setup.container:
        return False
    if setup.ipc_host or setup.shm_bytes is not None or find_mount(context, "/dev/shm") is not None:  # noqa: S108 - a mount point
        return False
    return None if context.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml") else True


@FACTS.add("shm.small", "bool", "shared memory below 1 GiB a rank")
def _shm_small(context: FactContext) -> bool | None:
    setup, n = context.setup, context.facts["ranks"]
    if setup.ipc_host or setup.shm_bytes is None:
        return False
    if n is not None and setup.gpu_count:
        n = min(n, setup.gpu_count)
    return None if n is None else n > 1 and setup.shm_bytes < n * GIB


FACTS.define(
    "shm.gib",
    "float",
    "size of /dev/shm, GiB",
    lambda c: c.setup.shm_bytes / GIB if c.setup.shm_bytes is not None else None,
)
FACTS.define(
    "memory.limit_gib",
    "float",
    "memory limit of the container or unit, GiB",
    lambda c: round(c.setup.memory_limit / GIB, 2) if c.setup.memory_limit is not None else None,
)


@FACTS.add(
    "memory.host_need_gib", "float", "host memory the launch needs at least: 8 GiB and the pools it asks for (x 1.9)"
)
def _host_need(context: FactContext) -> float | None:
    offload = flag_number(context, "cpu-offload-gb") or 0.0
    pool = flag_number(context, "kv-offloading-size") or 0.0
    swap = flag_number(context, "swap-space") or 0.0
    ranks, tp = context.facts["ranks"], context.facts["tp"]
    if ranks is None or tp is None:
        return None
    env = context.env.get("LMCACHE_MAX_LOCAL_CPU_SIZE")
    lm = float(env) if env and re.fullmatch(r"\d+(\.\d+)?", env) else 0.0
    return float(8.0 + (1 + PINNED_MORE[1]) * offload * ranks + 1.92 * pool + swap * tp + lm * ranks)


@FACTS.add("memory.pools", "bool", "host memory pools are asked for")
def _pools(context: FactContext) -> bool:
    return bool(
        flag_number(context, "cpu-offload-gb")
        or flag_number(context, "kv-offloading-size")
        or "LMCACHE_MAX_LOCAL_CPU_SIZE" in context.env
    )


@FACTS.add("memory.limit_below_need", "bool", "the memory limit is below what host pools need")
def _limit_below_need(context: FactContext) -> bool | None:
    limit, need = context.facts["memory.limit_gib"], context.facts["memory.host_need_gib"]
    if limit is None or not context.facts["memory.pools"]:
        return False
    return None if need is None else limit < need


@FACTS.add("memory.shm_exceeds_limit", "bool", "memory-backed mounts and the process exceed the memory limit")
def _shm_limit(context: FactContext) -> bool | None:
    limit = context.setup.memory_limit
    sizes = [m.size_bytes for m in context.setup.mounts if m.kind == "memory" and m.size_bytes]
    if limit is None or not sizes:
        return False
    return sum(sizes) + 4 * GIB > limit


@FACTS.add("memory.limit_small", "bool", "a memory limit below 8 GiB")
def _small(context: FactContext) -> bool:
    limit = context.setup.memory_limit
    size_ = weight_bytes(context)
    if size_ is not None and size_ < 2 * GIB:
        return False
    return limit is not None and limit < 8 * GIB


@FACTS.add(
    "memory.prompt_cache_exceeds", "bool", "llama-server's prompt cache of 8 GiB does not fit into the memory limit"
)
def _cache_ram(context: FactContext) -> bool | None:
    limit = context.setup.memory_limit
    if limit is None:
        return False
    if context.arguments.last("cache-ram") is not None or "LLAMA_ARG_CACHE_RAM" in context.env:
        return False
    return limit < 8 * GIB


@FACTS.add("cpu.small", "bool", "CPU limit below 2 and one for each GPU")
def _cpu(context: FactContext) -> bool | None:
    limit, n = context.setup.cpu_limit, context.setup.gpu_count
    return False if limit is None or not n else limit < 2 + n


@FACTS.add("offload.exceeds_host", "bool", "weights offloaded to the host (x 1.9) exceed its memory")
def _offload(context: FactContext) -> bool | None:
    gb = flag_number(context, "cpu-offload-gb")
    if not gb:
        return False
    have, n = context.facts["host.memory_gib"], context.facts["ranks"]
    return None if have is None or n is None else gb * n * (1 + PINNED_MORE[1]) > have


FACTS.define(
    "setup.one_string",
    "bool",
    "the program and all its arguments are one word, which no file is called",
    lambda c: "command" in c.setup.places,
)


@FACTS.add(
    "devices.visible_conflict", "bool", "visible devices name indices that the container does not have, or one twice"
)
def _visible(context: FactContext) -> bool:
    mask = context.env.get("CUDA_VISIBLE_DEVICES")
    if mask is None or mask.unknown or not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", mask):
        return False
    ids = [int(x) for x in mask.split(",")]
    have = context.setup.gpu_count if context.setup.container else None
    return len(set(ids)) < len(ids) or (have is not None and max(ids) >= have)


FACTS.define(
    "devices.visible_mig",
    "bool",
    "visible devices name a MIG slice or GPU by its id",
    lambda c: re.match("\\s*(MIG-|GPU-)", c.env.get("CUDA_VISIBLE_DEVICES", "")) is not None,
)


@FACTS.add("devices.mig", "bool", "the devices are MIG slices")
def _mig(context: FactContext) -> bool | None:
    if "mig-" in (context.setup.gpu_resource or ""):
        return True
    return context.facts["gpu.mig"] if context.checked.machine is not None else False


@FACTS.add("devices.overridden", "bool", "visible devices are set in a pod that the device plugin serves")
def _overridden(context: FactContext) -> bool:
    env = context.env
    return (
        context.setup.cluster
        and bool(context.setup.gpu_count)
        and ("CUDA_VISIBLE_DEVICES" in env or env.get("NVIDIA_VISIBLE_DEVICES") == "all")
    )


@FACTS.add(
    "setup.standard_pod",
    "bool",
    "the containers stand in a pod of Kubernetes' own kinds, not in a resource that fills them in",
)
def _standard(context: FactContext) -> bool:
    kinds = {p.partition(":")[2] for p in context.setup.places if p.startswith("kind:")}
    return bool(
        kinds & {"Pod", "Deployment", "StatefulSet", "Job", "ReplicaSet", "DaemonSet", "LeaderWorkerSet", "CronJob"}
    )


FACTS.define("setup.hardware_named", "bool", "the file names the accelerator", lambda c: c.setup.hardware is not None)
FACTS.define("setup.restart_always", "bool", "restart: always", lambda c: c.setup.restart == "always")
FACTS.define("setup.ray", "bool", "a Ray cluster runs the launch", lambda c: "ray" in c.setup.places)


@FACTS.add("setup.ray_short", "bool", "the worker groups have fewer GPUs than the launch asks for")
def _ray_short(context: FactContext) -> bool | None:
    have, n = context.setup.gpu_count, context.checked.judged.ranks
    return False if have is None else None if n is None else have < n


@FACTS.add("model.native_family", "bool", "a family that the engines have had native for long")
def _native(context: FactContext) -> bool | None:
    family = context.facts["model.family"]
    if family is None:
        return None
    return str(family) in context.knowledge.recognition.native_families
