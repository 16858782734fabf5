"""Engines that reserve a share of each device for a KV pool: vLLM, SGLang, TensorRT-LLM, LMDeploy, MAX, TGI.

    budget = fraction x physical memory, or fraction x what the weights leave
    pool   = budget - weights - activation peak - outside the allocator - CUDA graphs

Constants per engine and version: `memory:` in rules/engines/<engine>.yaml, each with its source.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Basis, Deployment, DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import Decided, flag, get, integer, number
from advisor.engines.versions import ByVersion, pick
from advisor.errors import BadInput
from advisor.memory import hf_weights, paged_cache
from advisor.memory.hf_weights import RankWeights
from advisor.memory.layers import cache_layers
from advisor.memory.paged_cache import PagedCache
from advisor.model.types import Dense, Full, Mla, Model, Moe, Parallel, Sliding
from advisor.near import near_matches
from advisor.record import Record
from advisor.units import gib

GIB = 2**30


class RangeGib(Record, frozen=True, kw_only=True):
    """A constant with bounds, GiB per device."""

    low: float
    value: float
    high: float
    source: str
    from_ranks: int = 1  # holds from so many tensor-parallel ranks on


class Tier(Record, frozen=True, kw_only=True):
    """A default that depends on the device's memory: holds from `from_gib` on."""

    from_gib: float
    batched_tokens: int
    sequences: int
    accelerators: tuple[str, ...] = ()  # only these; empty = all


class Activation(Record, frozen=True, kw_only=True):
    """Peak of the profiling run: `mlp` x batched tokens x widest MLP x 2 B / tp + `sampler_bytes` x sequences x vocabulary."""

    mlp: float
    sampler_bytes: float
    low: float  # multiples of the value
    high: float
    source: str


class Names(Record, frozen=True, kw_only=True):
    """The engine's own flag for each concept (all spellings)."""

    tp: tuple[str, ...] = ()
    pp: tuple[str, ...] = ()
    ep: tuple[str, ...] = ()
    fraction: tuple[str, ...] = ()
    sequences: tuple[str, ...] = ()
    batched_tokens: tuple[str, ...] = ()
    length: tuple[str, ...] = ()
    kv_type: tuple[str, ...] = ()
    eager: tuple[str, ...] = ()
    text_only: tuple[str, ...] = ()  # leaves the vision tower out


class Constants(Record, frozen=True, kw_only=True):
    """`memory:` of a pool engine."""

    fraction_of: Literal["total", "after_weights"]
    fraction: tuple[ByVersion, ...]
    names: Names
    kv_bytes: dict[str, float]  # accepted KV cache types -> bytes per element
    tiers: tuple[Tier, ...]
    activation: Activation
    graphs_gib: RangeGib
    outside_gib: tuple[RangeGib, ...]  # CUDA context, NCCL, libraries; by ranks
    planner: Literal["groups", "plain"]
    block: int = 16
    state_bytes: float = 2.0  # bytes per element of a recurrent state
    source: str


def constants(entry: Engine) -> Constants:
    """The engine's memory constants. Raises BadInput when an overlay spoiled them."""
    try:
        return msgspec.convert(entry.memory, Constants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None


class Resolved(Record, frozen=True, kw_only=True):
    """The settings the engine would run with."""

    tp: int
    pp: int
    ep: int
    fraction: float
    sequences: int  # the engine's own limit of running requests
    batched_tokens: int
    length: int  # longest request
    kv_type: str
    kv_bytes: float
    eager: bool
    text_only: bool
    length_given: bool


def resolve(d: Deployment, entry: Engine, c: Constants, fraction: float | None = None) -> Resolved:
    """Settings with defaults filled in. Raises BadInput naming the flag that cannot be."""
    s, n = d.settings, c.names
    tp = integer(s, *n.tp, least=1) or 1 if n.tp else 1
    pp = integer(s, *n.pp, least=1) or 1 if n.pp else 1
    ep = integer(s, *n.ep, least=1) if n.ep and not isinstance(get(s, *n.ep), bool) else None
    share = number(s, *n.fraction) if n.fraction else None
    if share is not None and not 0 < share <= 1:
        raise BadInput(f"setting {n.fraction[0]}: {share} is not between 0 and 1")
    length = _length(d, n)
    tier = _tier(d, c)
    return Resolved(
        tp=tp,
        pp=pp,
        ep=ep or 1,
        fraction=share or fraction or pick(c.fraction, d.engine_version or entry.version).number,
        sequences=(integer(s, *n.sequences, least=1) if n.sequences else None) or tier.sequences,
        batched_tokens=(integer(s, *n.batched_tokens, least=1) if n.batched_tokens else None) or tier.batched_tokens,
        length=length,
        kv_type=(kv := _kv_type(d, c)),
        kv_bytes=c.kv_bytes[kv],
        eager=bool(flag(s, *n.eager)) if n.eager else False,
        text_only=bool(flag(s, *n.text_only)) if n.text_only else False,
        length_given=d.context_length is not None or (bool(n.length) and get(s, *n.length) is not None),
    )


def _length(d: Deployment, n: Names) -> int:
    asked = get(d.settings, *n.length) if n.length else None
    if asked is not None and str(asked) not in ("auto", "-1", "0"):
        return integer(d.settings, *n.length, least=1) or 0
    length = d.context_length or d.model.max_context
    if not length:
        raise BadInput(f"context length: give --context, the trained context of {d.model.id} is not known")
    return length


def _kv_type(d: Deployment, c: Constants) -> str:
    asked = get(d.settings, *c.names.kv_type) if c.names.kv_type else None
    kind = str(asked if asked is not None else d.kv_cache_type.k).lower()
    if kind == "f16":
        kind = "float16"
    if kind == "bf16":
        kind = "bfloat16"
    if kind not in c.kv_bytes:
        known = sorted(c.kv_bytes)
        raise BadInput(f"KV cache type {kind!r} is not one {d.engine} has.", near_matches(kind, known) or known)
    return kind


def _tier(d: Deployment, c: Constants) -> Tier:
    ds = fitting.devices(d)
    total = min((x.total_bytes or 0 for x in ds), default=0) / GIB
    ids = {x.accelerator for x in ds}
    fitting_tiers = [t for t in c.tiers if total >= t.from_gib and (not t.accelerators or ids & set(t.accelerators))]
    return max(fitting_tiers, key=lambda t: (t.from_gib, bool(t.accelerators)), default=c.tiers[0])


def widest_mlp(model: Model) -> int:
    """Widest intermediate of one token's feed-forward pass: dense width, or active experts."""
    assert model.layout is not None
    best = 0
    for g in model.layout.ffn:
        if isinstance(g, Dense):
            best = max(best, g.intermediate)
        elif isinstance(g, Moe):
            best = max(best, g.top_k * g.moe_intermediate + g.shared_intermediate)
    return best


def heads(model: Model) -> int | None:
    """Query heads that tensor parallelism has to divide."""
    if model.layout is None:
        return model.stub.n_heads if model.stub else None
    counts = [
        p.n_heads
        for g in model.layout.attention
        for p in (g.parts if isinstance(g, Parallel) else (g,))
        if isinstance(p, (Full, Sliding, Mla))
    ]
    return min(counts, default=None)


class Sized(Record, frozen=True, kw_only=True):
    """Bytes of one rank before the cache."""

    weights: RankWeights
    activation: tuple[int, int, int]  # low, value, high
    overhead: tuple[int, int, int]


def sizes(d: Deployment, r: Resolved, c: Constants, q: Quantization) -> Sized:
    """Weights, activation peak and overhead of every rank."""
    model = msgspec.structs.replace(d.model, vision=None) if r.text_only else d.model
    w = hf_weights.per_rank(model, q, r.tp, r.pp, r.ep)
    lay = d.model.layout
    a = c.activation
    if lay is None:
        value = 0.03 * w.stages[0]
    else:
        mlp = a.mlp * r.batched_tokens * widest_mlp(d.model) * 2 / r.tp
        value = mlp + a.sampler_bytes * r.sequences * lay.vocab_size
    outside = max((x for x in c.outside_gib if r.tp * r.pp >= x.from_ranks), key=lambda x: x.from_ranks)
    g = c.graphs_gib
    parts = [(outside.low, outside.value, outside.high)]
    if not r.eager:
        parts.append((g.low, g.value, g.high))
    total = [int(sum(p[k] for p in parts) * GIB) for k in range(3)]
    return Sized(
        weights=w,
        activation=(int(value * a.low), int(value), int(value * a.high)),
        overhead=(total[0], total[1], total[2]),
    )


def cache_plan(d: Deployment, r: Resolved, c: Constants) -> PagedCache:
    """KV cache of one rank (of the first pipeline stage: stages hold n/pp layers each)."""
    layers = cache_layers(d.model)
    if not layers:
        raise BadInput(f"{d.model.id}: the layer layout is not in the catalogue, so its KV cache cannot be told")
    if r.pp > 1:
        layers = [x for i, x in enumerate(layers) if hf_weights.stage_of(i, len(layers), r.pp) == 0]
    specs = paged_cache.specs(layers, r.kv_bytes, r.tp, _state_bytes(d.model, c), 2.0)
    if c.planner == "plain":
        specs = [msgspec.structs.replace(s, kind="full") if s.kind == "window" else s for s in specs]
    return paged_cache.plan(specs, c.block)


def _state_bytes(model: Model, c: Constants) -> float:
    # checkpoints that name mamba_ssm_dtype float32 keep their state in it (models facts)
    return 4.0 if model.model_type in FP32_STATE else c.state_bytes


FP32_STATE = {"qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "nemotron_h"}


def memory(d: Deployment, entry: Engine, q: Quantization, fraction: float | None = None) -> MemoryEstimate:
    """Where every byte goes, what the pool holds, and whether the asked requests fit into it."""
    c = constants(entry)
    r = resolve(d, entry, c, fraction)
    if d.model.kind != "chat" and d.model.layout is not None and not any(x.attends for x in cache_layers(d.model)):
        return _encoder(d, r, c, q)
    s, cache = sizes(d, r, c, q), cache_plan(d, r, c)
    attention, state = cache.request(r.length, r.batched_tokens)
    need = d.sequences * attention
    states = d.sequences * state
    devices = fitting.devices(d)
    used = devices[: r.tp * r.pp]
    refusals = list(_refusals(d, r, len(devices)))
    rows = [
        _row(d, c, r, s, k, (x.name, x.total_bytes, x.free_bytes), need, states)
        for k, x in enumerate(used)
    ]  # fmt: skip
    pools = [_pool(row, c, r, s) for row in rows]
    host = fitting.host_row(d, 0, 0, 0, 0, overhead_mib=(1024, 3072, 8192))
    if not devices:
        rows, pools = [], []
        host = fitting.host_row(d, sum(s.weights.stages), need, states, s.activation[1], overhead_mib=(512, 2048, 6144))
    verdict = fitting.verdict(rows, host, needs_host=not devices)
    fits = False if refusals else verdict.fits
    low = [p[0] for p in pools if p is not None]
    one = attention + state
    message = _message(r, one, cache, s, low, pools, q)
    basis: dict[str, Basis] = {
        "weights": "modelled" if s.weights.modelled else "exact" if q.family in ("none", "hf") else "modelled",
        "kv_cache": "exact" if c.planner == "groups" else "modelled",
        "recurrent_state": "exact" if c.planner == "groups" else "modelled",
        "compute": "measured" if entry.id == "vllm" else "assumed",
        "overhead": "measured" if entry.id == "vllm" else "assumed",
    }
    room = min((p[1] for p in pools if p is not None), default=None)
    return MemoryEstimate(
        fits=fits,
        devices=tuple(rows),
        host=host,
        kv_cache=KvCache(
            bytes_per_token=cache.row,
            available_bytes=room,
            available_low_bytes=min(low, default=None),
            available_high_bytes=min((p[2] for p in pools if p is not None), default=None),
            tokens=None if room is None or not cache.row else max(0, room) // cache.row,
            max_sequences=None if room is None or not one else min(r.sequences, max(0, room) // one),
        ),
        context_length=r.length,
        sequences=d.sequences,
        basis=basis,
        not_modelled=("multimodal profiling of image inputs",) if d.model.vision else (),
        warnings=(*refusals, *verdict.warnings, *_length_warning(d, r)),
        short=verdict.short,
        message=message if fits is False else None,
    )


def _row(
    d: Deployment, c: Constants, r: Resolved, s: Sized, rank: int, device: tuple[str, int | None, int | None], need: int, state: int
) -> DeviceMemory:
    name, total, free = device
    weights = s.weights.stages[rank // r.tp]
    if total is None:
        room = None
    elif c.fraction_of == "total":
        room = int(total * r.fraction)
        if free is not None and free < room:
            room = free  # the engine refuses to start in this case; the row shows what is there
    else:
        left = (free if free is not None else total) - weights - s.activation[1] - s.overhead[1]
        room = weights + s.activation[1] + s.overhead[1] + int(max(0, left) * r.fraction)
    base = weights + need + state
    return DeviceMemory(
        name=name,
        capacity_bytes=total,
        budget_bytes=room,
        weights_bytes=weights,
        kv_cache_bytes=need,
        recurrent_state_bytes=state,
        compute_bytes=s.activation[1],
        overhead_bytes=s.overhead[1],
        total_bytes=base + s.activation[1] + s.overhead[1],
        low_bytes=base + s.activation[0] + s.overhead[0],
        high_bytes=base + s.activation[2] + s.overhead[2],
    )


def _pool(row: DeviceMemory, c: Constants, r: Resolved, s: Sized) -> tuple[int, int, int] | None:
    """(low, value, high) bytes of the pool on a device."""
    if row.budget_bytes is None or row.weights_bytes is None:
        return None
    rest = row.budget_bytes - row.weights_bytes
    low, value, high = (rest - s.activation[k] - s.overhead[k] for k in (2, 1, 0))
    return low, value, high


def _refusals(d: Deployment, r: Resolved, n_devices: int) -> list[str]:
    out = []
    h = heads(d.model)
    if r.tp > 1 and h is not None and h % r.tp:
        out.append(f"total number of attention heads ({h}) must be divisible by tensor parallel size ({r.tp})")
    if d.machine is not None and n_devices and r.tp * r.pp > n_devices * d.machine.nodes:
        out.append(f"tensor parallel {r.tp} x pipeline parallel {r.pp} needs {r.tp * r.pp} devices, {n_devices} are there")
    if d.model.max_context and r.length > d.model.max_context and r.length_given:
        out.append(f"{r.length} tokens are more than {d.model.id} was trained for ({d.model.max_context})")
    return out


def _length_warning(d: Deployment, r: Resolved) -> list[str]:
    if r.length_given:
        return []
    return [f"no context length given: {r.length} tokens, the model's trained context"]


def _message(
    r: Resolved, one: int, cache: PagedCache, s: Sized, low: list[int], pools: list[tuple[int, int, int] | None], q: Quantization
) -> str | None:
    """The engine's own words when one request does not fit, with the length that would."""
    rooms = [p[1] for p in pools if p is not None]
    if not rooms or one <= min(rooms):
        return None
    room = min(rooms)
    if room <= 0:
        return "No available memory for the cache blocks. Try increasing the memory fraction or a smaller quantization."
    fits = largest_length(cache, room, r.batched_tokens, r.length)
    return (
        f"To serve at least one request with the model's max seq len ({r.length}), ({gib(one)} KV cache is needed, which is larger "
        f"than the available KV cache memory ({gib(room)}). Based on the available memory, the estimated maximum model length is {fits}."
    )


def largest_length(cache: PagedCache, room: int, batched_tokens: int, at_most: int) -> int:
    """Longest request, tokens, whose cache fits into `room` bytes; 0 when none does."""
    low, high = 0, at_most
    while low < high:
        mid = (low + high + 1) // 2
        low, high = (mid, high) if sum(cache.request(mid, batched_tokens)) <= room else (low, mid - 1)
    return low


def _encoder(d: Deployment, r: Resolved, c: Constants, q: Quantization) -> MemoryEstimate:
    """Embedding models and rerankers: no cache at all."""
    s = sizes(d, r, c, q)
    rows = [
        _row(d, c, r, s, k, (x.name, x.total_bytes, x.free_bytes), 0, 0)
        for k, x in enumerate(fitting.devices(d)[: r.tp * r.pp])
    ]  # fmt: skip
    host = fitting.host_row(d, 0, 0, 0, 0, overhead_mib=(1024, 3072, 8192))
    if not rows:
        host = fitting.host_row(d, sum(s.weights.stages), 0, 0, s.activation[1], overhead_mib=(512, 2048, 6144))
    verdict = fitting.verdict(rows, host, needs_host=not rows)
    return MemoryEstimate(
        fits=verdict.fits,
        devices=tuple(rows),
        host=host,
        kv_cache=KvCache(bytes_per_token=0),
        context_length=r.length,
        sequences=d.sequences,
        basis={"weights": "exact", "kv_cache": "exact", "recurrent_state": "exact", "compute": "assumed", "overhead": "assumed"},
        warnings=verdict.warnings,
        short=verdict.short,
    )


def common_settings(d: Deployment, entry: Engine, length: str, sequences: str, fraction: str, tp: str) -> tuple[Decided, ...]:
    """The settings every pool engine should be given, under the engine's own names."""
    r = resolve(d, entry, constants(entry))
    out = [
        Decided(name=length, value=r.length, because="longest request, prompt and output together"),
        Decided(name=sequences, value=d.sequences, because="requests that run at once"),
        Decided(name=fraction, value=r.fraction, because="written out, so that a later default cannot break the estimate"),
    ]
    if r.tp > 1:
        out.append(Decided(name=tp, value=r.tp, because="splits every layer over the GPUs; divides the heads"))
    return tuple(out)
