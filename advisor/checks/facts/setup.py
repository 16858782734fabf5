"""Facts about what is around the process: devices, memory, images."""

from __future__ import annotations

import re
from operator import gt, lt
from posixpath import normpath

from advisor.checks.facts.arguments import flag_number
from advisor.checks.facts.launch_facts import LaunchFacts, compare, define, fact
from advisor.checks.facts.model import weight_bytes
from advisor.checks.read.accelerators import find_device_kind
from advisor.checks.read.launch import Mount, find_holding_mount
from advisor.engines.pool import PINNED_MORE
from advisor.units import GIB

_OTHER_HOME = re.compile(r"(?i)working_?dir|workdir|(?<!\S)-w[ =]|(?<!\S)cd ")
SHOWN = 40  # characters of a key
_POD_KINDS = frozenset(
    map(
        "kind:{}".format,
        ["Pod", "Deployment", "StatefulSet", "Job", "ReplicaSet", "DaemonSet", "LeaderWorkerSet", "CronJob"],
    )
)


def find_mount(facts: LaunchFacts, path: str) -> Mount | None:
    """The mount that holds a path; None where no mount does."""
    return find_holding_mount(facts.setup.mounts, path)


def find_path_inside(facts: LaunchFacts, path: str) -> str | None:
    """Where a path lies in a container of the engine's own image: a relative one in the folder that the image starts
    in. None where that is not known, or the file sets another."""
    if path.startswith("/"):
        return path
    home = facts.knowledge.recognition.image_homes.get(facts.launch.engine)
    return None if home is None or _OTHER_HOME.search(facts.source) else normpath(f"{home}/{path}")


def _boolean(name: str, doc: str, read: str) -> None:
    define(name, doc, lambda c: bool(getattr(c.setup, read)))


_boolean("setup.container", "runs in a container", "container")
_boolean("setup.cluster", "runs in a cluster", "cluster")
_boolean("setup.privileged", "the container is privileged", "privileged")
_boolean("setup.host_pid", "shares the host's process ids", "host_pid")
_boolean("setup.host_network", "uses the host's network", "host_network")
_boolean("setup.gpu_fraction", "a fraction of a GPU is asked for", "gpu_fraction")
_boolean("setup.gpu_block_wrong", "the device block is not valid", "gpu_block")
_boolean("setup.storage_uri", "a storage URI names the model", "storage_uri")
_boolean("setup.misspelt", "a key is misspelt", "misspelt_keys")
define(
    "setup.misspelt_keys", "keys that are misspelt, each with the one that is meant",
    lambda c: ", ".join((f"`{key[:SHOWN]}` (`{meant}`?)" for key, meant in c.setup.misspelt_keys)), "str"
)  # fmt: skip
define("setup.gpu_granted", "an accelerator is handed to the process", lambda c: c.setup.gpu_granted)
define("setup.gpu_block", "what is wrong with the device block", lambda c: "; ".join(c.setup.gpu_block), "str")
define(
    "setup.gpu_request_differs",
    "GPUs requested differ from GPUs in limits",
    lambda c: c.setup.cluster and c.setup.gpu_requests is not None and (c.setup.gpu_requests != c.setup.gpu_count),
)


define(
    "devices.kind", "what the devices that the file asks for are: gpu, mig, tpu, neuron, npu",
    lambda c: find_device_kind(c.setup.gpu_resource), "str"
)  # fmt: skip


@fact("shm.missing", "neither shared IPC nor a larger /dev/shm")
def _shm(facts: LaunchFacts) -> bool | None:
    setup = facts.setup
    if not setup.container:
        return False
    if setup.ipc_host or setup.shm_bytes is not None or find_mount(facts, "/dev/shm") is not None:  # noqa: S108 - a mount point
        return False
    shares = facts["devices.kind"] in ("gpu", "mig")  # by NCCL; what others need of it is not known
    return None if not shares or facts.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml") else True


@fact("shm.small", "shared memory below 1 GiB a rank")
def _shm_small(facts: LaunchFacts) -> bool | None:
    setup, n = facts.setup, facts["ranks"]
    if setup.ipc_host or setup.shm_bytes is None:
        return False
    if n is not None and setup.gpu_count:
        n = min(n, setup.gpu_count)
    return None if n is None else n > 1 and setup.shm_bytes < n * GIB


def define_size(name: str, doc: str, read: str, digits: int) -> None:
    """Writes a number of bytes of the setup down as a fact, in GiB."""

    def compute(facts: LaunchFacts) -> float | None:
        size = getattr(facts.setup, read)
        return None if size is None else round(size / GIB, digits)

    define(name, doc, compute, "float")


define_size("shm.gib", "size of /dev/shm, GiB", "shm_bytes", 3)
define_size("memory.limit_gib", "memory limit of the container or unit, GiB", "memory_limit", 2)


def _offloaded(facts: LaunchFacts) -> float | None:
    """GiB of the host that weights take which are kept there (x 1.9): as many as are asked for, and as there are."""
    asked, ranks, size = flag_number(facts, "cpu-offload-gb"), facts["ranks"], weight_bytes(facts)
    if not asked:
        return 0.0
    return None if ranks is None or size is None else min(asked * ranks, size / GIB) * (1 + PINNED_MORE[1])


@fact("memory.host_need_gib", "host memory the launch needs at least: 8 GiB and the pools it asks for (x 1.9)", "float")
def _host_need(facts: LaunchFacts) -> float | None:
    offload = _offloaded(facts)
    pool = flag_number(facts, "kv-offloading-size") or 0.0
    swap = flag_number(facts, "swap-space") or 0.0
    ranks, tp = facts["ranks"], facts["tp"]
    if ranks is None or tp is None or offload is None:
        return None
    env = facts.env.get("LMCACHE_MAX_LOCAL_CPU_SIZE")
    lm = float(env) if env and re.fullmatch(r"\d+(\.\d+)?", env) else 0.0
    return float(8.0 + offload + 1.92 * pool + swap * tp + lm * ranks)


@fact("memory.pools", "host memory pools are asked for")
def _pools(facts: LaunchFacts) -> bool:
    return bool(
        flag_number(facts, "cpu-offload-gb")
        or flag_number(facts, "kv-offloading-size")
        or "LMCACHE_MAX_LOCAL_CPU_SIZE" in facts.env
    )


@fact("memory.limit_below_need", "the memory limit is below what host pools need")
def _limit_below_need(facts: LaunchFacts) -> bool | None:
    limit = facts["memory.limit_gib"]
    return limit is not None and facts["memory.pools"] and compare(limit, facts["memory.host_need_gib"], lt)


@fact("memory.shm_exceeds_limit", "memory-backed mounts and the process exceed the memory limit")
def _shm_limit(facts: LaunchFacts) -> bool | None:
    limit = facts.setup.memory_limit
    sizes = [m.size_bytes for m in facts.setup.mounts if m.kind == "memory" and m.size_bytes]
    if limit is None or not sizes:
        return False
    return sum(sizes) + 4 * GIB > limit


@fact("memory.limit_small", "a memory limit below 8 GiB")
def _small(facts: LaunchFacts) -> bool:
    limit, weights = facts.setup.memory_limit, weight_bytes(facts)
    return limit is not None and limit < 8 * GIB and (weights is None or weights >= 2 * GIB)


@fact("memory.prompt_cache_exceeds", "llama-server's prompt cache of 8 GiB does not fit into the memory limit")
def _cache_ram(facts: LaunchFacts) -> bool | None:
    limit = facts.setup.memory_limit
    if limit is None or facts.last("cache-ram") is not None or "LLAMA_ARG_CACHE_RAM" in facts.env:
        return False
    return limit < 8 * GIB


@fact("cpu.small", "CPU limit below 2 and one for each GPU")
def _cpu(facts: LaunchFacts) -> bool | None:
    limit, n = facts.setup.cpu_limit, facts.setup.gpu_count
    return False if limit is None or not n else limit < 2 + n


@fact("offload.exceeds_host", "weights offloaded to the host (x 1.9) exceed its memory")
def _offload(facts: LaunchFacts) -> bool | None:
    need = _offloaded(facts)
    return need != 0 and compare(need, facts["host.memory_gib"], gt)


@fact("devices.visible_conflict", "visible devices name indices that the container does not have, or one twice")
def _visible(facts: LaunchFacts) -> bool:
    mask = facts.env.get("CUDA_VISIBLE_DEVICES")
    if mask is None or mask.unknown or not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", mask):
        return False
    ids = [int(x) for x in mask.split(",")]
    have = facts.setup.gpu_count if facts.setup.container else None
    return len(set(ids)) < len(ids) or (have is not None and max(ids) >= have)


@fact("devices.mig", "the devices are MIG slices")
def _mig(facts: LaunchFacts) -> bool | None:
    if facts["devices.kind"] == "mig":
        return not re.search(r"/mig-7g", facts.setup.gpu_resource or "")  # seven of seven parts are the whole card
    return facts["gpu.mig"] if facts.checked.machine is not None else False


@fact("devices.overridden", "visible devices are set in a pod that the device plugin serves")
def _overridden(facts: LaunchFacts) -> bool:
    env, setup = facts.env, facts.setup
    visible = "CUDA_VISIBLE_DEVICES" in env or env.get("NVIDIA_VISIBLE_DEVICES") == "all"
    return visible and setup.cluster and bool(setup.gpu_count)


define(
    "setup.standard_pod",
    "the containers stand in a pod of Kubernetes' own kinds, not in a resource that fills them in",
    lambda c: not _POD_KINDS.isdisjoint(c.setup.places),
)


define("setup.hardware_named", "the file names the accelerator", lambda c: c.setup.hardware is not None)
define("setup.restart_always", "restart: always", lambda c: c.setup.restart == "always")


@fact("setup.ray_short", "the worker groups have fewer GPUs than the launch asks for")
def _ray_short(facts: LaunchFacts) -> bool | None:
    have, n = facts.setup.gpu_count, facts.judged.ranks
    return False if have is None else None if n is None else have < n


@fact("model.native_family", "a family that the engines have had native for long")
def _native(facts: LaunchFacts) -> bool | None:
    family = facts["model.family"]
    return None if family is None else family in facts.knowledge.recognition.native_families
