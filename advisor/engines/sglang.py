"""SGLang: a static share of each GPU holds weights and KV pool; its default follows from device and graph sizes."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import answers, fitting, pool
from advisor.engines.base import Decided, flag
from advisor.memory.hf_weights import is_mla

GIB = 2**30
# decode graph size by device memory (GiB from), and with tp >= 4; SGLang 0.5.23 memory hook
_GRAPHS = ((0, 8, 8), (20, 48, 160), (35, 32, 160), (60, 256, 512), (90, 256, 512), (160, 512, 512))


def static_fraction(total_bytes: int, chunk: int, ranks: int, tp: int, mla: bool) -> float:
    """SGLang's own default of mem_fraction_static, rounded down to two digits.

    reserved MiB = 512 + 1.5 max(chunk, 2048) + 128 ranks + 2 graph size (+ 1536 for MLA), at least 10240 from 60 GiB.

    Source: SGLang 0.5.23 memory hook.
    """
    gpu = total_bytes / GIB
    row = max((g for g in _GRAPHS if gpu >= g[0]), key=lambda g: g[0])
    reserved = 512 + 1.5 * max(chunk, 2048) + 128 * ranks + 2 * row[2 if tp >= 4 else 1] + (1536 if mla else 0)
    if gpu >= 60:
        reserved = max(reserved, 10240)
    return int(100 * (1 - reserved / (gpu * 1024))) / 100


def _fraction(d: Deployment, entry: Engine) -> float | None:
    totals = [x.total_bytes for x in fitting.devices(d) if x.total_bytes]
    if not totals:
        return None
    r = pool.resolve(d, entry, pool.constants(entry))
    return static_fraction(min(totals), r.batched_tokens, _tp_size(r) * r.pp, _tp_size(r), is_mla(d.model))


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
