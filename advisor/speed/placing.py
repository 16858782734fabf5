"""Where the parts of a deployment lie and how its devices work together, as far as speed depends on it.

Read from the engines' own settings and from the one memory estimate.
"""

from __future__ import annotations

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import fitting, pool_constants, pool_settings
from advisor.engines.base import flag, get, integer
from advisor.engines.llama_cpp_plan import constants
from advisor.memory import hf_weights
from advisor.memory.ggml import BLOCKS
from advisor.speed.engine_rules import EngineRules, engine_rules
from advisor.speed.load import Load
from advisor.speed.work import Work

INTEGER = 7.0  # stands for 8-bit integers among the widths that products run in
KV_BYTES = {"auto": 2.0, "f16": 2.0, "bf16": 2.0, "fp16": 2.0, "float16": 2.0, "bfloat16": 2.0, "fp8": 1.0}


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """How the ranks share the work. Shares are parts of 1."""

    family: str
    devices: int
    server: bool = False  # prompts join decode passes, narrow tensor cores, stages work side by side
    integer: bool = False  # products of quantised weights on integer units
    tensor: int = 1  # ranks that split every layer
    stages: int = 1  # groups of layers one after the other
    replicas: int = 1
    expert_ranks: int = 1
    experts_over_replicas: bool = False
    whole_experts: bool = False  # a rank holds some experts whole, not a slice of each
    shares: tuple[float, ...] = (1.0,)  # of the layers, per device
    host_dense: float = 0.0  # parts in host memory
    host_experts: float = 0.0
    host_cache: float = 0.0
    key_bytes: float = 2.0  # per element of the cache
    value_bytes: float = 2.0
    chunk: int = 512  # prompt tokens of a pass
    most_running: int = 10**9  # requests the engine admits
    pool_tokens: int | None = None  # tokens the cache holds, all replicas
    pool_sequences: int | None = None

    def compute_bits(self, q: Quantization) -> float:
        """Width that the matrix products run in: servers use narrow tensor cores, others widen to 16 bit."""
        if self.integer:
            return INTEGER
        if not self.server:
            return 16.0
        return {"FP8": 8.0, "NVFP4": 4.0, "MXFP4": 4.0}.get(q.id, 16.0)

    def running(self, load: Load) -> tuple[float, bool]:
        """Requests that decode at once, and whether that is fewer than asked. A request is held at its mean length."""
        most = float(min(self.most_running * self.replicas, load.concurrency))
        if self.pool_tokens:
            length = load.depth + load.prompt + 0.6 * load.output
            most = min(most, max(float(self.replicas), self.pool_tokens / max(1.0, length)))
        return max(1.0, most), most < load.concurrency


def placed(d: Deployment, m: MemoryEstimate, entry: Engine, w: Work, rules: Catalog) -> Placed:
    """How the deployment's ranks share the work; `entry` is the engine that runs underneath.

    Raises BadInput as the memory estimate does.
    """
    known = engine_rules(rules)
    named = rules.engines()[d.engine].speed.family or entry.speed.family
    if "fraction_of" in entry.memory:
        return _server(d, m, entry, named or "server")
    if "compute_width" in entry.memory:
        return _ggml(d, m, entry, w, named or "ggml")
    return _plain(d, m, named or entry.id, known)


def _server(d: Deployment, m: MemoryEstimate, entry: Engine, family: str) -> Placed:
    r = pool_settings.resolve(d, entry, pool_constants.constants(entry))
    tp, dp, tokens = r.tp, r.dp, m.kv_cache.tokens
    if r.dp == 1 and flag(d.settings, "enable_attention_dp"):  # TensorRT-LLM: every rank attends for its own requests
        tp, dp = 1, r.tp
        tokens = tokens * dp if tokens and hf_weights.is_mla(d.model) else tokens
    host = 0.0
    if m.host and m.devices and r.cpu_offload:
        whole = sum(x.weights_bytes or 0 for x in m.devices) + (m.host.weights_bytes or 0)
        host = (m.host.weights_bytes or 0) / whole if whole else 0.0
    alone = not fitting.devices(d)
    return Placed(
        family=family,
        server=True,
        devices=r.ranks,
        tensor=tp,
        stages=r.pp,
        replicas=dp,
        expert_ranks=max(r.ep, r.tp),
        experts_over_replicas=max(r.ep, r.tp) > tp,
        whole_experts=_whole_experts(d, entry, r),
        shares=(1 / r.pp,) * r.pp,
        host_dense=1.0 if alone else host,
        host_experts=1.0 if alone else host,
        host_cache=1.0 if alone else 0.0,
        key_bytes=r.kv_bytes,
        value_bytes=r.kv_bytes,
        chunk=max(16, r.batched_tokens),
        most_running=r.sequences if r.sequences_given else max(r.sequences, entry.speed.admits or 0),
        pool_tokens=tokens,
    )


def _whole_experts(d: Deployment, entry: Engine, r: pool_settings.Resolved) -> bool:
    """Whether expert parallelism is on, or replicas that are split by attention only share the experts."""
    c = entry.concepts
    value = get(d.settings, *c.expert_parallel_switch.flags, *c.expert_parallel.flags)
    return (value is not None and str(value).lower() not in ("0", "1", "false")) and max(r.ep, r.tp) > 1


def _ggml(d: Deployment, m: MemoryEstimate, entry: Engine, w: Work, family: str) -> Placed:
    keys = str(get(d.settings, "cache-type-k", "ctk") or d.kv_cache_type.k).upper()
    values = str(get(d.settings, "cache-type-v", "ctv") or d.kv_cache_type.v).upper()
    k, v = (BLOCKS.get("F16" if x == "AUTO" else x, (1, 2)) for x in (keys, values))
    ubatch = integer(d.settings, *entry.concepts.batched_tokens.flags, least=1) or constants(entry).usual.ubatch_size
    rows = [x.weights_bytes or 0 for x in m.devices]
    on = sum(rows)
    alone = not rows or not on
    cached = [x.kv_cache_bytes or 0 for x in m.devices]
    host_kv = (m.host.kv_cache_bytes or 0) if m.host else 0
    dense = experts = 0.0
    if alone:
        dense = experts = 1.0
    else:
        missing = max(0.0, w.dense_bytes + w.expert_bytes - on)
        kept = (*entry.concepts.experts_on_host.flags, *entry.concepts.experts_on_host_layers.flags)
        if any(x in d.settings for x in kept) and w.expert_bytes:
            experts = min(1.0, missing / w.expert_bytes)
        elif missing > 0.02 * (w.dense_bytes + w.expert_bytes):
            dense = experts = missing / (w.dense_bytes + w.expert_bytes)
    both = host_kv + sum(cached)
    return Placed(
        family=family,
        integer=True,
        devices=max(1, len(rows)),
        stages=max(1, len(rows)),
        shares=tuple(x / on for x in rows) if on else (1.0,),
        host_dense=dense,
        host_experts=experts,
        host_cache=1.0 if alone else host_kv / both if both else 0.0,
        key_bytes=k[1] / k[0],
        value_bytes=v[1] / v[0],
        chunk=ubatch,
        most_running=m.sequences,
    )


def _plain(d: Deployment, m: MemoryEstimate, family: str, known: EngineRules) -> Placed:
    n = max(1, len(m.devices))
    on = sum(x.weights_bytes or 0 for x in m.devices)
    host = (m.host.weights_bytes or 0) if m.host else 0
    alone = not m.devices
    off = 1.0 if alone else host / (on + host) if on + host else 0.0
    element = KV_BYTES.get(d.kv_cache_type.k, 2.0)
    split = family in known.tensor_split and n > 1
    return Placed(
        family=family,
        devices=n,
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


__all__ = ["INTEGER", "Placed", "placed"]
