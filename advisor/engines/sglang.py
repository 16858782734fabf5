"""SGLang: a static share of each GPU holds weights and KV pool; its default follows from device and graph sizes."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import answers, fitting, pool
from advisor.engines.base import Decided, flag, own_defaults
from advisor.memory.hf_weights import is_mla

MIB = 2**20


class Reserved(msgspec.Struct, frozen=True):
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

    reserved_mib: Reserved


class Usual(msgspec.Struct, frozen=True):
    """What of `defaults` in rules/engines/sglang.yaml decides memory use."""

    mem_fraction_static: StaticShare


def static_fraction(entry: Engine, total_bytes: int, chunk: int, ranks: int, tp: int, mla: bool) -> float:
    """SGLang's own default of mem_fraction_static, rounded down to two digits.

    reserved = base + a part per token of a chunk, per rank and per captured sequence (+ a part for MLA), with a least
    value on large devices; MiB. Source: SGLang 0.5.23 memory hook.
    """
    gpu, x = total_bytes / MIB, own_defaults(entry, Usual).mem_fraction_static.reserved_mib
    tiers = (t for t in pool.constants(entry).tiers if gpu >= 1024 * t.from_gib)
    tier = max(tiers, key=lambda t: t.from_gib)  # the captured batch is as large as the default of running requests
    graph = (tier.sequences_tp4 if tp >= 4 else None) or tier.sequences
    reserved = x.base + x.per_chunk_token * max(chunk, x.chunk_tokens_at_least) + x.per_tp_times_pp * ranks
    reserved += x.per_decode_graph_bs * graph + (x.mla_prefill_graphs if mla else 0)
    if gpu >= x.at_least_above_gpu_mib:
        reserved = max(reserved, x.at_least)
    return int(100 * (1 - reserved / gpu)) / 100


def _fraction(d: Deployment, entry: Engine) -> float | None:
    totals = [x.total_bytes for x in fitting.devices(d) if x.total_bytes]
    if not totals:
        return None
    r = pool.resolve(d, entry, pool.constants(entry))
    return static_fraction(entry, min(totals), r.batched_tokens, _tp_size(r) * r.pp, _tp_size(r), is_mla(d.model))


def _tp_size(r: pool.Resolved) -> int:
    """`--tp-size`: with attention data parallelism the replicas are part of it."""
    return max(r.tp, r.ep) if r.dp > 1 else r.tp


def memory(d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
    """Where every byte goes; the static share is SGLang's own default unless it is set."""
    return pool.memory(d, entry, q, _fraction(d, entry))


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    r = pool.resolve(d, entry, pool.constants(entry), _fraction(d, entry))
    out = [
        Decided(name="context-length", value=r.length, because="longest request, prompt and output together"),
        Decided(
            name="max-running-requests",
            value=pool.admitted(d, pool.constants(entry)),
            because="requests that run at once",
        ),
        Decided(
            name="chunked-prefill-size",
            value=r.batched_tokens,
            because="prompt tokens of one step; decides the working memory and differs between devices",
        ),
        Decided(
            name="mem-fraction-static",
            value=r.fraction,
            because="weights and KV pool; the rest is left for activations and graphs, as SGLang's own rule does",
        ),
    ]
    if _tp_size(r) > 1 or fitting.several(d):
        out.append(Decided(name="tp-size", value=_tp_size(r), because=fitting.why_so_many(_tp_size(r))))
    if r.dp > 1:
        out.append(Decided(name="dp-size", value=r.dp, because="replicas, each with a cache of its own"))
    if flag(d.settings, "enable-dp-attention"):
        out.append(Decided(name="enable-dp-attention", value=True, because="as asked: replicas share the ranks"))
    if d.served_name:
        out.append(Decided(name="served-model-name", value=d.served_name, because="as asked"))
    if r.kv_bytes < 2:
        out.append(Decided(name="kv-cache-dtype", value=r.kv_type, because="halves the KV cache"))
    out += answers.settings(d, entry)
    return tuple(out)
