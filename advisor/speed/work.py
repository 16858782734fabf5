"""What a model's pass over tokens costs, before any hardware: bytes of weights, products, cache rows.

All ranks together; `steps` divides them. Weights that are only looked up (the input embedding) are not read by a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from pathlib import Path

from advisor.catalog.types import Quantization
from advisor.deployment import Deployment
from advisor.memory import gguf_tensors, gguf_weights, hf_weights
from advisor.memory.gguf_tensors import NoLayout, order
from advisor.memory.layers import cache_layers
from advisor.memory.memo import by_identity
from advisor.models import types as t
from advisor.record import Record

LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")


class Work(Record, frozen=True, kw_only=True):
    """One model in one weight format. Params are multiplied-in elements; bytes are read once per pass."""

    dense_bytes: float  # all but routed experts, output matrix included
    expert_bytes: float  # all routed experts
    dense_params: float  # without the output matrix
    head_params: float
    expert_params: float  # all routed experts
    experts: int  # routed experts of a layer; 0 = dense model
    top_k: int
    layers: int
    moe_layers: int
    hidden: int

    @property
    def active_share(self) -> float:
        """Part of the routed experts that one token goes through."""
        return self.top_k / self.experts if self.experts else 0.0


class Attention(Record, frozen=True, kw_only=True):
    """`n` layers that read the same cache rows. Elements per cached token; products per (query, cached token)."""

    n: int
    k: int
    v: int
    kv_heads: int
    latent: bool
    window: int | None
    per_tokens: int
    index: int
    most: int | None  # tokens a sparse index lets through
    products: float


def work(d: Deployment, q: Quantization) -> Work | None:
    """Costs of the deployment's model in its format; None where the layout is a stub."""
    if d.model.layout is None:
        return None
    if d.model_path and Path(d.model_path).is_file():
        return _summed(d.model, gguf_weights.from_file(Path(d.model_path)))
    return _of_model(d.model, q)


def _summed(model: t.Model, w: gguf_weights.GgufWeights) -> Work:
    """From a GGUF tensor table."""
    sizes = {x.name: x.file_bytes for x in w.weights if not x.mtp}
    return _work(model, [(x, 1, sizes.get(x.name, 0)) for x in gguf_tensors.tensors(model) if not x.mtp], w.tied)


@by_identity
def _of_model(model: t.Model, q: Quantization) -> Work:
    lay = model.layout
    assert lay is not None
    try:
        if q.family == "gguf":
            return _summed(model, gguf_weights.from_model(model, q.id))
        kept = re.compile(model.kept_16bit[q.id]) if q.id in model.kept_16bit else None
        tensors = [(x, 1) for x in gguf_tensors.tensors(model) if not x.mtp] if kept else gguf_tensors.counted(model)
        sizes = [
            (x, n, n * prod(x.ne) * (q.bits_nominal if hf_weights.covered(x, q) and not _in(kept, x) else 16) / 8)
            for x, n in tensors
        ]
        return _work(model, sizes, lay.tie_embeddings)
    except (NoLayout, KeyError):
        return _from_count(model, q)


def _in(kept: re.Pattern[str] | None, x: gguf_tensors.Tensor) -> bool:
    return kept is not None and kept.search(x.name) is not None


def _work(model: t.Model, tensors: Iterable[tuple[gguf_tensors.Tensor, int, float]], tied: bool) -> Work:
    """From tensors with how many there are of each and the bytes of all of them."""
    dense_bytes = expert_bytes = dense = head = experts = 0.0
    for x, count, size in tensors:
        n = prod(x.ne) * count
        if x.name in LOOKED_UP:
            if x.name == LOOKED_UP[0] and tied:
                dense_bytes += size
                head += n
        elif x.expert:
            expert_bytes += size
            experts += n
        else:
            dense_bytes += size
            if x.name == "output.weight":
                head += n
            elif len(x.ne) > 1:
                dense += n
    return _with_counts(model, dense_bytes, expert_bytes, dense, head, experts)


def _from_count(model: t.Model, q: Quantization) -> Work:
    """Parameters x bits, for layouts whose tensors are not known."""
    lay = model.layout
    assert lay is not None
    routed = sum(
        g.n * g.n_experts * (3 if g.act == "gated" else 2) * (g.latent or lay.hidden_size) * g.moe_intermediate
        for g in lay.ffn
        if isinstance(g, t.Moe)
    )
    routed = min(routed, model.params_total)
    head = lay.vocab_size * lay.hidden_size
    dense = max(0, (model.params_text or model.params_total) - routed - head * (1 if lay.tie_embeddings else 2))
    wide = 16 if q.covers in ("linear", "experts") else q.bits_nominal
    body = 16 if q.covers == "experts" else q.bits_nominal
    return _with_counts(
        model, (dense * body + head * wide) / 8, routed * q.bits_nominal / 8, float(dense), float(head), float(routed)
    )


def _with_counts(
    model: t.Model, dense_bytes: float, expert_bytes: float, dense: float, head: float, experts: float
) -> Work:
    lay = model.layout
    assert lay is not None
    moe = [g for g in lay.ffn if isinstance(g, t.Moe)]
    widest = max(moe, key=lambda g: g.n, default=None)
    kinds = order(lay.ffn, lay.ffn_order, lay.n_layers)
    return Work(
        dense_bytes=dense_bytes,
        expert_bytes=expert_bytes,
        dense_params=dense,
        head_params=head,
        expert_params=experts,
        experts=widest.n_experts if widest else 0,
        top_k=widest.top_k if widest else 0,
        layers=lay.n_layers,
        moe_layers=sum(isinstance(lay.ffn[k], t.Moe) for k in kinds),
        hidden=lay.hidden_size,
    )


@by_identity
def attention(model: t.Model) -> tuple[Attention, ...]:
    """The layers that read a cache, like ones counted together."""
    lay = model.layout
    if lay is None:
        return ()
    n = lay.n_layers if lay.attention_order else max(lay.n_layers, sum(g.n for g in lay.attention))
    kinds = order(lay.attention, lay.attention_order, n)
    out: list[Attention] = []
    for k, g in enumerate(lay.attention):
        count = kinds.count(k)
        for part in g.parts if isinstance(g, t.Parallel) else (g,):
            out += _reads(part, count)
    return tuple(x for x in out if x.n)


def _reads(g: t.AttentionGroup, n: int) -> list[Attention]:
    if isinstance(g, (t.Full, t.Sliding, t.Chunked)):
        v = g.v_head_dim or g.head_dim
        return [
            Attention(
                n=n, k=g.n_kv_heads * g.head_dim, v=g.n_kv_heads * v, kv_heads=g.n_kv_heads, latent=False,
                window=None if isinstance(g, t.Full) else g.window, per_tokens=1, index=g.index_key_dim or 0, most=None,
                products=float(g.n_heads * (g.head_dim + v)),
            )
        ]  # fmt: skip
    if isinstance(g, t.Mla):
        sparse = g.indexer
        return [
            Attention(
                n=n, k=g.kv_lora_rank + g.qk_rope_head_dim, v=0, kv_heads=1, latent=True, window=None, per_tokens=1,
                index=sparse.dim if sparse and not sparse.shared else 0, most=sparse.top_k if sparse else None,
                products=float(g.n_heads * (2 * g.kv_lora_rank + g.qk_rope_head_dim)),
            )
        ]  # fmt: skip
    if isinstance(g, t.Compressed):
        row = Attention(
            n=n, k=g.head_dim, v=0, kv_heads=1, latent=True, window=g.window, per_tokens=1, index=0, most=None,
            products=float(2 * g.n_heads * g.head_dim),
        )  # fmt: skip
        if not g.compress_ratio:
            return [row]
        past = Attention(
            n=n, k=g.head_dim, v=0, kv_heads=1, latent=True, window=None, per_tokens=g.compress_ratio,
            index=g.indexer.dim if g.indexer and not g.indexer.shared else 0,
            most=g.indexer.top_k if g.indexer else None, products=float(2 * g.n_heads * g.head_dim),
        )  # fmt: skip
        return [row, past]
    return []


def cache_bytes(
    model: t.Model, depth: float, keys: float, values: float, ranks: int = 1, windows: bool = True
) -> float:
    """Bytes of the cache that one new token of one sequence at `depth` reads, on one of `ranks` tensor ranks.

    `keys`, `values` are bytes an element. Latent rows are not divided over ranks, heads are by at most their number.
    """
    total = 0.0
    for a in attention(model):
        tokens = min(depth, a.window) if a.window and windows else depth
        rows = tokens / a.per_tokens
        seen = min(rows, a.most) if a.most else rows
        share = 1 if a.latent else min(ranks, a.kv_heads)
        total += a.n * ((a.k * keys + a.v * values) * seen + a.index * keys * rows) / share
    return total


@by_identity
def state_bytes(model: t.Model) -> float:
    """Bytes of recurrent state that one step of one sequence reads and writes back (32-bit states)."""
    return float(sum(8 * x.state + 4 * x.conv for x in cache_layers(model)))


def pair_products(model: t.Model, tokens: float, before: float, windows: bool = True) -> float:
    """Multiply-adds of attention for `tokens` new tokens after `before` cached ones, causal."""
    total = 0.0
    for a in attention(model):
        mean = before + tokens / 2
        if a.window and windows:
            mean = min(mean, float(a.window))
        mean /= a.per_tokens
        if a.most:
            mean = min(mean, float(a.most))
        total += a.n * a.products * mean * tokens
    return total
