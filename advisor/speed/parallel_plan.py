"""Where the parts of a deployment lie and how its devices work together, as far as speed depends on it.

Read from the engines' own settings and from the one memory estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import get_flag, get_integer, get_setting
from advisor.engines.llama_cpp.settings import read_constants, resolve_llama_settings
from advisor.memory import layers
from advisor.models.tensors import BLOCKS
from advisor.speed.efficiencies import EngineRules, find_generation, load_engine_rules
from advisor.speed.work import ModelWork, RequestLoad

if TYPE_CHECKING:  # engines with a pool alone need it
    from advisor.engines.pool.settings import PoolSettings

INTEGER = 7.0  # stands for 8-bit integers among the widths that products run in
SUMMED_AT_16 = 15.0  # stands for 16-bit products that are summed at 16 bit: half the integer rate, on all cards
BFLOAT = 16.5  # stands for bfloat16 where nothing narrower is taken
VECTOR = 32.0  # stands for units that are no matrix units
# split modes of llama.cpp in which all devices work on each layer: products of a layer whose results go around
ROW_PARTS = {"row": 7, "tensor": 2}
KV_BYTES = {"auto": 2.0, "f16": 2.0, "bf16": 2.0, "fp16": 2.0, "float16": 2.0, "bfloat16": 2.0, "fp8": 1.0}


class ParallelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the ranks share the work. Shares are parts of 1."""

    family: str
    devices: int
    server: bool = False  # narrow tensor cores, stages work side by side
    joins: bool = False  # prompts join decode passes
    pipelined: bool = False  # chunks of one prompt are under way on several stages at once
    scores_in_memory: bool = False  # no flash attention
    integer: bool = False  # products of quantised weights on integer units; of 16-bit weights summed at 16 bit
    unfolds_latent: bool = False  # makes the latent rows of a prompt (MLA) keys and values of heads
    prompts_for_caches: bool = False  # of a prompt, only what the caches need is computed
    replicas_wait: bool = False  # for each other's prompts
    wide_products: bool = False  # not on these: an old build widens the weights to 16 bit
    bfloat16: bool = False  # multiplies in the type of the checkpoint
    delta_layers: float = 0.0  # layers whose launches a gated delta net costs besides its own, in decoding
    vector_attention: bool = False  # no matrix units multiply for attention
    vector_tokens: int = 0  # tokens of a pass up to which products run without matrix units
    expert_tile: int = 1  # tokens of an expert are rounded up to whole tiles of so many
    tensor: int = 1  # ranks that split every layer
    parts: int = 2  # of a layer, after which ranks exchange
    splits_attention: bool = True  # ranks share the heads; else the first has all
    stages: int = 1  # groups of layers one after the other
    replicas: int = 1
    expert_ranks: int = 1
    experts_over_replicas: bool = False
    whole_experts: bool = False  # a rank holds some experts whole, not a slice of each
    shares: tuple[float, ...] = (1.0,)  # of the layers, per device
    host_dense: float = 0.0  # parts in host memory
    host_experts: float = 0.0
    host_cache: float = 0.0
    from_disk: float = 0.0  # part of all weights that memory does not hold
    key_bytes: float = 2.0  # per element of the cache
    value_bytes: float = 2.0
    issue_dense: float = 0.0  # seconds that the host takes to issue a layer of a decode step, where nothing is captured
    issue_experts: float = 0.0
    chunk: int = 512  # prompt tokens of a pass
    most_running: int = 10**9  # requests the engine admits
    pool_tokens: int | None = None  # tokens the cache holds, all replicas

    @property
    def layout(self) -> str:
        """How ranks split the model, in one word."""
        whole = "-experts" if self.whole_experts else ""
        return f"tp{self.tensor}-pp{self.stages}-dp{self.replicas}{whole}"

    def compute_bits(self, quantization: Quantization) -> float:
        """Width that the matrix products run in: servers use narrow tensor cores, others widen to 16 bit."""
        if self.integer:
            return SUMMED_AT_16 if self.wide_products or quantization.bits_nominal >= 16 else INTEGER
        if not self.server:
            return BFLOAT if self.bfloat16 else 16.0
        return {"FP8": 8.0, "NVFP4": 4.0, "MXFP4": 4.0}.get(quantization.id, 16.0)

    @property
    def attention_bits(self) -> float:
        """The same for attention's products, whatever the format of the weights."""
        return VECTOR if self.vector_attention else SUMMED_AT_16 if self.integer else BFLOAT if self.bfloat16 else 16.0

    def running(self, load: RequestLoad) -> tuple[float, bool]:
        """Requests that decode at once, and whether that is fewer than asked. A request is held at its mean length."""
        most = float(min(self.most_running * self.replicas, load.concurrency))
        if self.pool_tokens:
            length = load.depth + load.prompt + 0.6 * load.output
            most = min(most, max(float(self.replicas), self.pool_tokens / max(1.0, length)))
        return max(1.0, most), most < load.concurrency


def plan_ranks(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, work: ModelWork, rules: Catalog
) -> ParallelPlan:
    """How the deployment's ranks share the work; `entry` is the engine that runs underneath.

    Raises BadInput as the memory estimate does.
    """
    named = rules.engines()[deployment.engine].speed.family or entry.speed.family
    if "fraction_of" in entry.memory:  # engines whose memory behaves alike share their work alike
        plan = _server(deployment, estimate, entry, named or "server")
    elif "device_overhead_mib" in entry.memory:
        plan = _ggml(deployment, estimate, entry, work, named or "ggml")
    else:
        plan = _undivided(deployment, estimate, named or entry.id, load_engine_rules(rules))
    on_disk = (estimate.disk.weights_bytes or 0) if estimate.disk is not None else 0
    rows = (*estimate.devices, estimate.host) if estimate.host is not None else estimate.devices
    whole = sum(x.weights_bytes or 0 for x in rows) + on_disk
    return replace(
        plan,
        from_disk=on_disk / whole if whole else 0.0,
        prompts_for_caches=entry.speed.prompts_for_caches,
        replicas_wait=entry.speed.replicas_wait and plan.experts_over_replicas and work.experts > 0,
    )


def _server(deployment: Deployment, estimate: MemoryEstimate, entry: Engine, family: str) -> ParallelPlan:
    from advisor.engines import pool

    settings = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry))
    tp, dp, tokens = settings.tp, settings.dp, estimate.kv_cache.tokens
    # TensorRT-LLM: every rank attends for its own requests
    if settings.dp == 1 and get_flag(deployment.settings, "enable_attention_dp"):
        tp, dp = 1, settings.tp
        tokens = tokens * dp if tokens and layers.is_mla(deployment.model) else tokens
    kv_bytes = _cache_bytes(deployment, entry, settings)
    tokens = int(tokens * settings.kv_bytes / kv_bytes) if tokens else tokens
    host = _share_on_host(estimate) if estimate.devices and settings.cpu_offload else 0.0
    if tokens == 0:  # in the middle of its bounds it does not start; where it does, it holds one request
        tokens = estimate.context_length
    alone = not fitting.used_devices(deployment)
    eager = entry.speed.eager_layer if settings.eager and not alone else None
    return ParallelPlan(
        family=family,
        server=True,
        issue_dense=eager.dense / 1000 if eager else 0.0,
        issue_experts=eager.experts / 1000 if eager else 0.0,
        unfolds_latent=True,
        expert_tile=_expert_tile(deployment, entry),
        joins=_joins(deployment, entry),
        devices=settings.ranks,
        tensor=tp,
        stages=settings.pp,
        replicas=dp,
        expert_ranks=max(settings.ep, settings.tp),
        experts_over_replicas=max(settings.ep, settings.tp) > tp,
        whole_experts=_whole_experts(deployment, entry, settings),
        shares=tuple(n / sum(settings.partition) for n in settings.partition) or (1 / settings.pp,) * settings.pp,
        host_dense=1.0 if alone else host,
        host_experts=1.0 if alone else host,
        host_cache=1.0 if alone else 0.0,
        key_bytes=kv_bytes,
        value_bytes=kv_bytes,
        chunk=max(16, settings.batched_tokens),
        most_running=settings.sequences
        if settings.sequences_given
        else max(settings.sequences, entry.speed.admits or 0),
        pool_tokens=tokens,
    )


def _joins(deployment: Deployment, entry: Engine) -> bool:
    """Whether prompts share passes with decoding."""
    generation = find_generation(entry, deployment.engine_version)
    own = entry.speed.own_prompt_passes or (generation is not None and generation.own_prompt_passes)
    return not own or get_flag(deployment.settings, "enable-mixed-chunk") is True


def _cache_bytes(deployment: Deployment, entry: Engine, settings: PoolSettings) -> float:
    """Bytes of a cache element as the engine runs: where no type is set, what the usual checkpoint asks for.

    Memory keeps to the model's own width, so that what is called to fit does so with every checkpoint.
    """
    asked, model, name = entry.speed.checkpoint_cache, deployment.model, deployment.quantization
    if asked is None or settings.kv_type != "auto" or name not in asked.types:
        return settings.kv_bytes
    own = (model.native_quant or "").upper().startswith(name)
    other = model.quantized_repos.get(name, asked.publisher).split("/")[0] != asked.publisher
    from advisor.engines.pool.settings import read_constants as read_pool_constants

    kinds = read_pool_constants(entry).kv_bytes
    return settings.kv_bytes if own or other else kinds[asked.types[name]]


def _whole_experts(deployment: Deployment, entry: Engine, settings: PoolSettings) -> bool:
    """Whether expert parallelism is on, or replicas that are split by attention only share the experts."""
    concepts = entry.concepts
    value = get_setting(deployment.settings, *concepts.expert_parallel_switch.flags, *concepts.expert_parallel.flags)
    return (value is not None and str(value).lower() not in ("0", "1", "false")) and max(settings.ep, settings.tp) > 1


def _ggml(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, work: ModelWork, family: str
) -> ParallelPlan:
    keys = str(get_setting(deployment.settings, "cache-type-k", "ctk") or deployment.kv_cache_type.k).upper()
    values = str(get_setting(deployment.settings, "cache-type-v", "ctv") or deployment.kv_cache_type.v).upper()
    k, v = (BLOCKS.get("F16" if x == "AUTO" else x, (1, 2)) for x in (keys, values))
    usual = read_constants(entry).usual
    ubatch = get_integer(deployment.settings, *entry.concepts.batched_tokens.flags, least=1) or usual.ubatch_size
    rows = [x.weights_bytes or 0 for x in estimate.devices]
    on = sum(rows)
    alone = not rows or not on
    cached = [x.kv_cache_bytes or 0 for x in estimate.devices]
    host_kv = (estimate.host.kv_cache_bytes or 0) if estimate.host else 0
    dense = experts = 0.0
    if alone:
        dense = experts = 1.0
    else:
        missing = max(0.0, work.dense_bytes + work.expert_bytes - on)
        # layers that lie there whole have their caches with them; without those, experts are what is missing
        state = (estimate.host.recurrent_state_bytes or 0) if estimate.host else 0
        if work.expert_bytes and not host_kv and not state:
            experts = min(1.0, missing / work.expert_bytes)
        elif missing > 0.02 * (work.dense_bytes + work.expert_bytes):
            dense = experts = missing / (work.dense_bytes + work.expert_bytes)
    both = host_kv + sum(cached)
    settings = resolve_llama_settings(deployment, usual)
    generation = find_generation(entry, deployment.engine_version)
    together = str(settings.split) in ROW_PARTS and len(rows) > 1
    return ParallelPlan(
        family=family,
        pipelined=not together and not (dense or experts or host_kv),
        scores_in_memory=not settings.flash,
        delta_layers=generation.delta_layers if generation else 0.0,
        integer=True,
        wide_products=_wide_products(deployment, entry),
        vector_attention=any(d.vendor in entry.speed.vector_attention for d in fitting.used_devices(deployment)),
        vector_tokens=entry.speed.vector_tokens,
        expert_tile=_expert_tile(deployment, entry),
        devices=max(1, len(rows)),
        tensor=len(rows) if together else 1,
        expert_ranks=len(rows) if together else 1,
        parts=ROW_PARTS.get(str(settings.split), 2),
        splits_attention=settings.split != "row",
        stages=1 if together else max(1, len(rows)),
        shares=tuple(x / on for x in rows) if on else (1.0,),
        host_dense=dense,
        host_experts=experts,
        host_cache=1.0 if alone else host_kv / both if both else 0.0,
        key_bytes=k[1] / k[0],
        value_bytes=v[1] / v[0],
        chunk=ubatch,
        most_running=max(estimate.sequences, settings.slots) if settings.unified else estimate.sequences,
        pool_tokens=settings.ctx_size if settings.unified else None,
    )


def _expert_tile(deployment: Deployment, entry: Engine) -> int:
    """Tokens of an expert that its kernels work on together, on the deployment's devices."""
    devices = fitting.used_devices(deployment)
    tiles = entry.speed.expert_tiles
    return tiles.get(devices[0].vendor, tiles.get("other", 1)) if devices else 1


def _wide_products(deployment: Deployment, entry: Engine) -> bool:
    """Whether this build multiplies quantized weights at 16 bit."""
    generation = find_generation(entry, deployment.engine_version)
    devices = fitting.used_devices(deployment)
    return generation is not None and generation.wide_products and any(d.vendor == "nvidia" for d in devices)


def _share_on_host(estimate: MemoryEstimate) -> float:
    """Part of the weights that lies in host memory."""
    host = (estimate.host.weights_bytes or 0) if estimate.host else 0
    whole = sum(x.weights_bytes or 0 for x in estimate.devices) + host
    return host / whole if whole else 0.0


def _undivided(deployment: Deployment, estimate: MemoryEstimate, family: str, known: EngineRules) -> ParallelPlan:
    n = max(1, len(estimate.devices))
    alone = not estimate.devices
    off = 1.0 if alone else _share_on_host(estimate)
    element = KV_BYTES.get(deployment.kv_cache_type.k, 2.0)
    split = family in known.tensor_split and n > 1
    return ParallelPlan(
        family=family,
        devices=n,
        bfloat16=family in known.bfloat16,
        tensor=n if split else 1,
        stages=1 if split else n,
        expert_ranks=n if split else 1,
        shares=(1 / n,) * n,
        host_dense=off,
        host_experts=off,
        host_cache=1.0 if alone else 0.0,
        key_bytes=element,
        value_bytes=element,
        chunk=512,
    )
