"""SGLang: a static share of each GPU holds weights and KV pool; its default follows from device and graph sizes."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import fitting, pool
from advisor.engines.base import DecidedSetting, get_flag, list_decided, own_defaults
from advisor.memory.layers import is_mla
from advisor.units import MIB


class ReservedMib(msgspec.Struct, frozen=True):
    """What the share of weights and KV pool leaves of a device by default, MiB."""

    base: float
    per_chunk_token: float
    chunk_tokens_at_least: int
    per_tp_times_pp: float
    per_decode_graph_bs: float
    mla_prefill_graphs: float
    at_least: float
    at_least_above_gpu_mib: float


class StaticShare(msgspec.Struct, frozen=True):
    """`defaults.mem_fraction_static`."""

    reserved_mib: ReservedMib


class SglangDefaults(msgspec.Struct, frozen=True):
    """What of `defaults` in rules/engines/sglang.yaml decides memory use."""

    mem_fraction_static: StaticShare


def static_fraction(entry: Engine, total_bytes: int, chunk: int, ranks: int, tp: int, mla: bool) -> float:
    """SGLang's own default of mem_fraction_static, rounded down to two digits.

    reserved = base + a part per token of a chunk, per rank and per captured sequence (+ a part for MLA), with a least
    value on large devices; MiB. Source: SGLang 0.5.23 memory hook.
    """
    gpu, mib = total_bytes / MIB, own_defaults(entry, SglangDefaults).mem_fraction_static.reserved_mib
    tiers = (t for t in pool.read_constants(entry).tiers if gpu >= 1024 * t.from_gib)
    tier = max(tiers, key=lambda t: t.from_gib)  # the captured batch is as large as the default of running requests
    graph = (tier.sequences_tp4 if tp >= 4 else None) or tier.sequences
    reserved = mib.base + mib.per_chunk_token * max(chunk, mib.chunk_tokens_at_least) + mib.per_tp_times_pp * ranks
    reserved += mib.per_decode_graph_bs * graph + (mib.mla_prefill_graphs if mla else 0)
    if gpu >= mib.at_least_above_gpu_mib:
        reserved = max(reserved, mib.at_least)
    return int(100 * (1 - reserved / gpu)) / 100


def _fraction(deployment: Deployment, entry: Engine) -> float | None:
    totals = [x.total_bytes for x in fitting.used_devices(deployment) if x.total_bytes]
    if not totals:
        return None
    settings = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry))
    tp = _tp_size(settings)
    return static_fraction(entry, min(totals), settings.batched_tokens, tp * settings.pp, tp, is_mla(deployment.model))


def _tp_size(settings: pool.PoolSettings) -> int:
    """`--tp-size`: with attention data parallelism the replicas are part of it."""
    return max(settings.tp, settings.ep) if settings.dp > 1 else settings.tp


def memory(deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
    """Where every byte goes; the static share is SGLang's own default unless it is set."""
    return pool.memory(deployment, entry, quantization, _fraction(deployment, entry))


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    settings = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry), _fraction(deployment, entry))
    ranks = _tp_size(settings)
    several = ranks > 1 or fitting.has_several_devices(deployment)
    attention = bool(get_flag(deployment.settings, "enable-dp-attention"))
    requests = pool.admitted_requests(deployment, pool.read_constants(entry))
    rows = (
        (True, "context-length", settings.length, "longest request, prompt and output together"),
        (True, "max-running-requests", requests, "requests that run at once"),
        (True, "chunked-prefill-size", settings.batched_tokens,
         "prompt tokens of one step; decides the working memory and differs between devices"),
        (True, "mem-fraction-static", settings.fraction,
         "weights and KV pool; the rest is left for activations and graphs, as SGLang's own rule does"),
        (several, "tp-size", ranks, fitting.explain_ranks(ranks)),
        (settings.dp > 1, "dp-size", settings.dp, "replicas, each with a cache of its own"),
        (attention, "enable-dp-attention", True, "as asked: replicas share the ranks"),
        (bool(deployment.served_name), "served-model-name", deployment.served_name or "", "as asked"),
        (settings.kv_bytes < 2, "kv-cache-dtype", settings.kv_type, "halves the KV cache"),
    )  # fmt: skip
    return tuple(list_decided(rows))
