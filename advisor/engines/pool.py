"""Engines that reserve a share of each device for a KV pool: vLLM, SGLang, TensorRT-LLM, LMDeploy, MAX, TGI.

    budget = fraction x physical memory, or fraction x what the weights leave
    pool   = budget - weights - activation peak - outside the allocator - CUDA graphs

Constants per engine and version: `memory:` in rules/engines/<engine>.yaml (pool_constants). Settings are in
pool_settings, bytes of a rank in pool_sizes, what the engine would refuse in pool_says.
"""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Basis, Deployment, DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import fitting, parallel, pool_says
from advisor.engines.base import Decided, get, integer
from advisor.engines.pool_constants import Constants, constants
from advisor.engines.pool_settings import Resolved, resolve
from advisor.engines.pool_sizes import Sized, cache_plans, heads, sizes
from advisor.machines.types import Device
from advisor.memory.adapters import prediction_params
from advisor.memory.layers import cache_layers
from advisor.memory.paged_cache import PagedCache
from advisor.record import Record
from advisor.units import MIB

# host memory of an engine process beside the GPUs, and of one that runs on the processor: MiB, assumed
HOST_BESIDE_MIB = (1024, 3072, 8192)
HOST_ALONE_MIB = (512, 2048, 6144)
# of offloaded weights: torch pins blocks of the next power of two (1.78x, 1.9x measured: vLLM issues 56410 and 58178)
PINNED_MORE = (0.0, 0.9, 1.0)


class Pool(Record, frozen=True, kw_only=True):
    """Bytes that one device leaves for the KV pool, and what one request of full length takes there."""

    low: int
    value: int
    high: int
    request: int


def memory(d: Deployment, entry: Engine, q: Quantization, fraction: float | None = None) -> MemoryEstimate:
    """Where every byte goes, what the pool holds, and whether the asked requests fit into it.

    `fraction` replaces the default share of the device where an engine computes it. Raises BadInput where a setting or
    the model's layout allows no answer.
    """
    c = constants(entry)
    r = resolve(d, entry, c, fraction)
    s = sizes(d, r, c, q)
    plans = _no_cache(r) if keeps_nothing(d) else cache_plans(d, r, c)
    devices = fitting.devices(d)
    used = devices[: r.ranks]
    requests = [p.request(r.length, r.batched_tokens) for p in plans]
    each = -(-d.sequences // r.dp)  # sequences of one replica
    made: dict[tuple[int, int], tuple[DeviceMemory, Pool | None]] = {}  # ranks of a stage on equal devices are alike
    both = []
    for k, (x, like) in enumerate(zip(used, fitting.kinds(devices), strict=False)):
        stage = _stage(k, r)
        kind = (stage, like)
        if kind not in made:
            row = _row(c, r, s, stage, x, [each * b for b in requests[stage]])
            made[kind] = row, _pool(c, r, s, x, row, sum(requests[stage]))
        both.append(made[kind])
    rows = [row for row, _ in both]
    pools = [p for _, p in both if p is not None]
    host = _host(d, r, s, requests, alone=not devices)
    verdict = fitting.verdict(rows, host, needs_host=not devices or r.cpu_offload > 0, d=d)
    refusals = pool_says.refusals(
        d, r, c, devices, parallel.refusals(entry, d.model, r.tp, parallel.launch_of(d, entry))
    )
    too_many = pool_says.states(r, c, plans, min(p.low for p in pools), min(p.high for p in pools)) if pools else None
    if too_many is not None:
        refusals.append(too_many[1])
    sure = [x for x in refusals if too_many is None or too_many[0] or x != too_many[1]]
    fits = False if sure else None if refusals and verdict.fits else verdict.fits
    return MemoryEstimate(
        fits=fits,
        devices=tuple(rows),
        host=host,
        kv_cache=_kv_cache(r, plans, pools),
        context_length=r.length,
        sequences=d.sequences,
        basis=_basis(entry, c, s, q, r.kv_packed is not None),
        not_modelled=_left_out(d, r, c),
        warnings=(*refusals, *verdict.warnings, *pool_says.notes(d, r, used)),
        short=verdict.short,
        message=pool_says.too_long(r, plans, requests, [p.value for p in pools]) if fits is False else None,
    )


def _left_out(d: Deployment, r: Resolved, c: Constants) -> tuple[str, ...]:
    """What the estimate does not count."""
    out = []
    if d.model.vision and c.images_gib is None:
        out.append("multimodal profiling of image inputs")
    if r.lora_slots and r.lora_rank is None:
        out.append("LoRA adapters, whose rank is not said")
    elif r.lora_slots and c.lora is not None and not c.lora.experts and d.model.is_moe:
        out.append("LoRA buffers of routed experts")
    if c.names.speculative and get(d.settings, *c.names.speculative) is not None:
        if not r.prediction:
            if d.draft is None:
                out.append("the draft model of speculative decoding")
        elif prediction_params(d.model) is None:
            out.append("the prediction block, whose size is not known")
    return tuple(out)


def keeps_nothing(d: Deployment) -> bool:
    """Whether the model is an encoder (embeddings, reranking): no layer keeps anything between tokens."""
    layers = cache_layers(d.model)
    return d.model.kind != "chat" and bool(layers) and not any(x.attends or x.recurrent for x in layers)


def _no_cache(r: Resolved) -> tuple[PagedCache, ...]:
    return (PagedCache(groups=(), row=0, state_real=0),) * r.pp


def _stage(rank: int, r: Resolved) -> int:
    """Pipeline stage of a device: stages follow one another, within each replica."""
    return rank // r.tp % r.pp


def on_device(r: Resolved, s: Sized, stage: int) -> int:
    """Weights of a rank that lie on its device, bytes: all but what is offloaded; embedding and output always stay."""
    whole = s.weights.stages[stage]
    return max(whole - r.cpu_offload, min(whole, s.weights.outside[stage]))


def _row(c: Constants, r: Resolved, s: Sized, stage: int, x: Device, request: list[int]) -> DeviceMemory:
    weights = on_device(r, s, stage)
    base = weights + sum(request)
    return DeviceMemory(
        name=x.name,
        capacity_bytes=x.total_bytes,
        budget_bytes=_budget(c, r, s, x, weights, sum(request)),
        weights_bytes=weights,
        kv_cache_bytes=request[0],
        recurrent_state_bytes=request[1],
        compute_bytes=s.activation[1],
        overhead_bytes=s.overhead[1],
        total_bytes=base + s.activation[1] + s.overhead[1],
        low_bytes=base + s.activation[0] + s.overhead[0] - int((1 - s.weights_range[0]) * weights),
        high_bytes=base + s.activation[2] + s.overhead[2] + int((s.weights_range[1] - 1) * weights),
    )


def _budget(c: Constants, r: Resolved, s: Sized, x: Device, weights: int, request: int) -> int | None:
    """What the engine may use of a device, bytes; None when its size is not known.

    Source of `after_weights`: the documentation of LMDeploy's cache-max-entry-count and TensorRT-LLM's
    free_gpu_memory_fraction, which are shares of what is left after the weights.
    """
    free = _free(x)
    total = fitting.allocatable(x)
    if free is None or total is None:
        return None
    if c.fraction_of == "total":
        return min(int(total * r.fraction), free)
    # the share is of what the weights (and the context) leave; the activation peak lives in the rest
    least = r.fraction * (free - s.weights_range[1] * weights - s.overhead[2])
    if request <= least:  # the pool holds the requests for sure: what is left to judge is the whole device
        return free
    left = free - weights - s.overhead[1]
    return min(free, weights + s.activation[1] + s.overhead[1] + int(left * r.fraction)) if left > 0 else free


def _free(x: Device) -> int | None:
    """What of the device can be allocated now, bytes."""
    total = fitting.allocatable(x)
    if total is None:
        return None
    return total if x.free_bytes is None else min(x.free_bytes, total)


def _pool(c: Constants, r: Resolved, s: Sized, x: Device, row: DeviceMemory, request: int) -> Pool | None:
    if row.budget_bytes is None or row.weights_bytes is None:
        return None
    w = row.weights_bytes
    weights = (int(w * s.weights_range[0]), w, int(w * s.weights_range[1]))
    free = _free(x)
    if c.fraction_of != "total" and free is not None:
        low, value, high = (int(r.fraction * (free - weights[k] - s.overhead[k])) for k in (2, 1, 0))
        return Pool(low=low, value=value, high=high, request=request)
    low, value, high = (row.budget_bytes - weights[k] - s.activation[k] - s.overhead[k] for k in (2, 1, 0))
    return Pool(low=low, value=value, high=high, request=request)


def _host(d: Deployment, r: Resolved, s: Sized, requests: list[tuple[int, int]], alone: bool) -> DeviceMemory:
    """Host memory: beside GPUs only the process itself, without GPUs everything."""
    if not alone:
        offloaded = sum(s.weights.stages[k] - on_device(r, s, k) for k in range(r.pp)) * r.tp * r.dp
        pinned = [x + share * offloaded / MIB for x, share in zip(HOST_BESIDE_MIB, PINNED_MORE, strict=True)]
        return fitting.host_row(d, offloaded, 0, 0, 0, overhead_mib=(pinned[0], pinned[1], pinned[2]))
    every = r.tp * r.dp  # ranks of each stage
    each = -(-d.sequences // r.dp)
    cache, state = (sum(b[k] for b in requests) * each * every for k in (0, 1))
    weights = sum(s.weights.stages) * every
    return fitting.host_row(d, weights, cache, state, s.activation[1] * r.ranks, overhead_mib=HOST_ALONE_MIB)


def _kv_cache(r: Resolved, plans: tuple[PagedCache, ...], pools: list[Pool]) -> KvCache:
    """Growth and pool per device; what all replicas hold together."""
    row = max(p.row for p in plans)
    tightest = min(pools, key=lambda p: p.value, default=None)
    if tightest is None:
        return KvCache(bytes_per_token=row)
    room = max(0, tightest.value)
    held = min((max(0, p.value) // p.request for p in pools if p.request), default=None)
    return KvCache(
        bytes_per_token=row,
        available_bytes=tightest.value,
        available_low_bytes=min(p.low for p in pools),
        available_high_bytes=min(p.high for p in pools),
        tokens=r.dp * (room // row) if row else None,
        max_sequences=None if held is None else r.dp * min(r.sequences, held),
    )


def _basis(entry: Engine, c: Constants, s: Sized, q: Quantization, packed: bool) -> dict[str, Basis]:
    sure = not s.weights.modelled and q.family in ("none", "hf")
    cache: Basis = "exact" if c.planner == "groups" and not packed else "modelled"
    rest: Basis = "measured" if entry.id == "vllm" else "assumed"
    return {
        "weights": "exact" if sure else "modelled",
        "kv_cache": cache,
        "recurrent_state": cache,
        "compute": rest,
        "overhead": rest,
    }


def common_settings(
    d: Deployment, entry: Engine, *, length: str, sequences: str, fraction: str, tp: str, pp: str = ""
) -> tuple[Decided, ...]:
    """The settings every pool engine should be given, under the engine's own names."""
    r = resolve(d, entry, constants(entry))
    out = [
        Decided(name=length, value=r.length, because="longest request, prompt and output together"),
        Decided(name=sequences, value=admitted(d, constants(entry)), because="requests that run at once"),
        Decided(
            name=fraction, value=r.fraction, because="written out, so that a later default cannot break the estimate"
        ),
    ]
    if r.tp > 1 or fitting.several(d):
        out.append(Decided(name=tp, value=r.tp, because=fitting.why_so_many(r.tp)))
    if r.pp > 1 and pp:
        out.append(Decided(name=pp, value=r.pp, because="stages of layers over groups of GPUs"))
    return tuple(out)


__all__ = ["Resolved", "common_settings", "constants", "heads", "keeps_nothing", "memory", "resolve"]


def admitted(d: Deployment, c: Constants) -> int:
    """Requests the server should admit at once: as set, else those the deployment is sized for."""
    return integer(d.settings, *c.names.sequences, least=1) or d.sequences if c.names.sequences else d.sequences
