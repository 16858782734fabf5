"""What attention and recurrent mixers cost a pass: rows of the cache, states, products, scores. All ranks together."""

from __future__ import annotations

from advisor.memo import memoize_by_identity
from advisor.memory.gguf_tensors import layer_order
from advisor.memory.layers import cache_layers
from advisor.models import types as t
from advisor.record import Record

SCORE_BYTES = 16  # of a score: four times 32 bit


class AttentionCost(Record, frozen=True, kw_only=True):
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
    unfolded: float | None = None  # products where latent rows are made keys and values of heads; None: they are not
    heads: int = 0  # queries' heads, where their scores are laid out in memory without flash attention


@memoize_by_identity
def attention_costs(model: t.Model, first: int | None = None) -> tuple[AttentionCost, ...]:
    """The layers that read a cache, like ones counted together; of the `first` layers alone where that is given."""
    lay = model.layout
    if lay is None:
        return ()
    n = lay.n_layers if lay.attention_order else max(lay.n_layers, sum(g.n for g in lay.attention))
    kinds = layer_order(lay.attention, lay.attention_order, n)[:first]
    out: list[AttentionCost] = []
    for k, full in enumerate(lay.attention):
        count = kinds.count(k)
        for part in full.parts if isinstance(full, t.Parallel) else (full,):
            out += _reads(part, count)
    return tuple(x for x in out if x.n)


def _reads(group: t.AttentionGroup, n: int) -> list[AttentionCost]:
    if isinstance(group, (t.Full, t.Sliding, t.Chunked)):
        v = group.v_head_dim or group.head_dim
        return [
            AttentionCost(
                n=n,
                k=group.n_kv_heads * group.head_dim,
                v=group.n_kv_heads * v,
                kv_heads=group.n_kv_heads,
                latent=False,
                window=None if isinstance(group, t.Full) else group.window,
                per_tokens=1,
                index=group.index_key_dim or 0,
                most=None,
                products=float(group.n_heads * (group.head_dim + v)),
                heads=group.n_heads,
            )
        ]
    if isinstance(group, t.Mla):
        sparse = group.indexer
        return [
            AttentionCost(
                n=n,
                k=group.kv_lora_rank + group.qk_rope_head_dim,
                v=0,
                kv_heads=1,
                latent=True,
                window=None,
                per_tokens=1,
                index=sparse.dim if sparse and not sparse.shared else 0,
                most=sparse.top_k if sparse else None,
                products=float(group.n_heads * (2 * group.kv_lora_rank + group.qk_rope_head_dim)),
                unfolded=None
                if sparse
                else float(group.n_heads * (group.qk_nope_head_dim + group.qk_rope_head_dim + group.v_head_dim)),
                heads=group.n_heads,
            )
        ]
    if isinstance(group, t.Compressed):
        row = AttentionCost(
            n=n, k=group.head_dim, v=0, kv_heads=1, latent=True, window=group.window, per_tokens=1, index=0, most=None,
            products=float(2 * group.n_heads * group.head_dim),
        )  # fmt: skip
        if not group.compress_ratio:
            return [row]
        past = AttentionCost(
            n=n, k=group.head_dim, v=0, kv_heads=1, latent=True, window=None, per_tokens=group.compress_ratio,
            index=group.indexer.dim if group.indexer and not group.indexer.shared else 0,
            most=group.indexer.top_k if group.indexer else None, products=float(2 * group.n_heads * group.head_dim),
        )  # fmt: skip
        return [row, past]
    return []


@memoize_by_identity
def cache_bytes(
    model: t.Model, depth: float, keys: float, values: float, ranks: int = 1, windows: bool = True
) -> float:
    """Bytes of the cache that one new token of one sequence at `depth` reads, on one of `ranks` tensor ranks.

    `keys`, `values` are bytes an element. Latent rows are not divided over ranks, heads are by at most their number.
    """
    total = 0.0
    for attention_cost in attention_costs(model):
        rows, seen = _count_rows(attention_cost, depth, windows)
        share = 1 if attention_cost.latent else min(ranks, attention_cost.kv_heads)
        total += (
            attention_cost.n
            * ((attention_cost.k * keys + attention_cost.v * values) * seen + attention_cost.index * keys * rows)
            / share
        )
    return total


@memoize_by_identity
def latent_bytes(model: t.Model, depth: float, width: float) -> float:
    """The part of `cache_bytes` that is latent rows (MLA), which no two ranks share out; `width` bytes an element."""
    latent = [x for x in attention_costs(model) if x.latent]
    return sum(x.n * x.k * width * _count_rows(x, depth)[1] for x in latent)


def _count_rows(layers: AttentionCost, depth: float, windows: bool = True) -> tuple[float, float]:
    """Cached rows at a depth, and how many of them a new token reads."""
    rows = (min(depth, layers.window) if layers.window and windows else depth) / layers.per_tokens
    return rows, min(rows, layers.most) if layers.most else rows


@memoize_by_identity
def state_bytes(model: t.Model) -> float:
    """Bytes of recurrent state that one step of one sequence reads and writes back (32-bit states)."""
    return float(sum(8 * x.state + 4 * x.conv for x in cache_layers(model)))


@memoize_by_identity
def score_bytes(model: t.Model, tokens: float, before: float, windows: bool = True) -> float:
    """Bytes of attention scores that `tokens` new tokens after `before` cached ones write and read back.

    Without flash attention they lie in memory, 32 bit: written by the product with the keys, read and written by the
    softmax, read by the product with the values. Every cell of the cache up to the last token counts.
    """
    total = 0.0
    for attention_cost in attention_costs(model):
        cells = before + tokens
        if attention_cost.window and windows:
            cells = min(cells, attention_cost.window + tokens)
        total += attention_cost.n * attention_cost.heads * cells * tokens
    return SCORE_BYTES * total


@memoize_by_identity
def pair_products(
    model: t.Model,
    tokens: float,
    before: float,
    windows: bool = True,
    unfolded: bool = False,
    first: int | None = None,
) -> float:
    """Multiply-adds of attention for `tokens` new tokens after `before` cached ones, causal.

    `unfolded`: latent rows (MLA) are made keys and values of heads first, as servers do for prompts. `first`: of so
    many layers, None = of all.
    """
    total = 0.0
    for attention_cost in attention_costs(model, first):
        mean = before + tokens / 2
        if attention_cost.window and windows:
            mean = min(mean, float(attention_cost.window))
        mean /= attention_cost.per_tokens
        if attention_cost.most:
            mean = min(mean, float(attention_cost.most))
        each = attention_cost.unfolded if unfolded and attention_cost.unfolded else attention_cost.products
        total += attention_cost.n * each * mean * tokens
    return total
