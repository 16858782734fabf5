"""What a model's pass over tokens costs, before any hardware: bytes of weights, products, cache rows.

All ranks together; `steps` divides them. Weights that are only looked up (the input embedding) are not read by a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from pathlib import Path

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import Quantization
from advisor.deployment import Deployment
from advisor.memo import memoize_by_identity
from advisor.memory import gguf_tensors, gguf_weights, hf_weights
from advisor.memory.gguf_tensors import NoLayout, list_tensors, order_blocks, order_ffns, order_mixers
from advisor.memory.layers import cache_layers
from advisor.models import types as t
from advisor.record import Record, Value

LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")


class ModelWork(Record, frozen=True, kw_only=True):
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
    blocks: int  # mixers and feed-forward parts of all layers, and what else a layer launches
    other_mixers: int  # mixers that are recurrent or read latent rows: more launches than attention with heads
    hidden: int
    delta_mixers: int = 0  # of the other mixers, gated delta nets

    @property
    def weight_bits(self) -> float:
        """Bits a weight, mean over all."""
        params = self.dense_params + self.head_params + self.expert_params
        return 8 * (self.dense_bytes + self.expert_bytes) / params if params else 16.0

    @property
    def active_share(self) -> float:
        """Part of the routed experts that one token goes through."""
        return self.top_k / self.experts if self.experts else 0.0


def count_work(deployment: Deployment, quantization: Quantization) -> ModelWork | None:
    """Costs of the deployment's model in its format; None where the layout is a stub."""
    if deployment.model.layout is None:
        return None
    if deployment.model_path and Path(deployment.model_path).is_file():
        return _summed(deployment.model, gguf_weights.weights_from_file(Path(deployment.model_path)))
    return _count_of_model(deployment.model, quantization)


def _summed(model: t.Model, weights: gguf_weights.GgufWeights) -> ModelWork:
    """From a GGUF tensor table."""
    sizes = {x.name: x.file_bytes for x in weights.weights if not x.mtp}
    return _work(
        model, [(x, 1, sizes.get(x.name, 0)) for x in gguf_tensors.list_tensors(model) if not x.mtp], weights.tied
    )


@memoize_by_identity
def _count_of_model(model: t.Model, quantization: Quantization) -> ModelWork:
    lay = model.known_layout
    try:
        if quantization.family == "gguf":
            return _summed(model, gguf_weights.weights_from_model(model, quantization.id))
        quantization = hf_weights.as_stored(model, quantization)
        kept = re.compile(model.kept_16bit[quantization.id]) if quantization.id in model.kept_16bit else None
        tensors = (
            [(x, 1) for x in gguf_tensors.list_tensors(model) if not x.mtp]
            if kept
            else gguf_tensors.count_equal_tensors(model)
        )

        def size(tensor: gguf_tensors.GgufTensor, count: int) -> float:
            plain = not hf_weights.is_quantized(tensor, quantization) or (kept and kept.search(tensor.name))
            return count * prod(tensor.ne) * (16 if plain else quantization.bits_nominal) / 8

        return _work(model, [(x, n, size(x, n)) for x, n in tensors], lay.tie_embeddings)
    except (NoLayout, KeyError):
        return _from_count(model, quantization)


def _work(model: t.Model, tensors: Iterable[tuple[gguf_tensors.GgufTensor, int, float]], tied: bool) -> ModelWork:
    """From tensors with how many there are of each and the bytes of all of them."""
    dense_bytes = expert_bytes = dense = head = experts = 0.0
    for tensor, count, size in tensors:
        n = prod(tensor.ne) * count
        if tensor.name in LOOKED_UP:
            if tensor.name == LOOKED_UP[0] and tied and model.kind == "chat":  # others give no logits
                dense_bytes += size
                head += n
        elif tensor.expert:
            expert_bytes += size
            experts += n
        else:
            dense_bytes += size
            if tensor.name == "output.weight":
                head += n
            elif len(tensor.ne) > 1:
                dense += n
    return _with_counts(model, dense_bytes, expert_bytes, dense, head, experts)


def _from_count(model: t.Model, quantization: Quantization) -> ModelWork:
    """Parameters x bits, for layouts whose tensors are not known."""
    lay = model.known_layout
    routed = hf_weights.count_expert_params(model)
    head = lay.vocab_size * lay.hidden_size
    dense = max(0, (model.params_text or model.params_total) - routed - head * (1 if lay.tie_embeddings else 2))
    wide = 16 if quantization.covers in ("linear", "experts") else quantization.bits_nominal
    body = 16 if quantization.covers == "experts" else quantization.bits_nominal
    return _with_counts(
        model,
        (dense * body + head * wide) / 8,
        routed * quantization.bits_nominal / 8,
        float(dense),
        float(head),
        float(routed),
    )


def _with_counts(
    model: t.Model, dense_bytes: float, expert_bytes: float, dense: float, head: float, experts: float
) -> ModelWork:
    lay = model.known_layout
    moe = [g for g in lay.ffn if isinstance(g, t.Moe)]
    widest = max(moe, key=lambda g: g.n, default=None)
    return ModelWork(
        dense_bytes=dense_bytes,
        expert_bytes=expert_bytes,
        dense_params=dense,
        head_params=head,
        expert_params=experts,
        experts=widest.n_experts if widest else 0,
        top_k=widest.top_k if widest else 0,
        layers=lay.n_layers,
        moe_layers=sum(isinstance(lay.ffn[k], t.Moe) for k in order_ffns(lay)),
        blocks=_count_blocks(lay),
        other_mixers=sum(_is_other(x) for x in _mixers(lay)),
        delta_mixers=sum(isinstance(x, t.GatedDeltaNet) for x in _mixers(lay)),
        hidden=lay.hidden_size,
    )


def _is_other(mixer: t.AttentionGroup) -> bool:
    return not isinstance(mixer, (t.Full, t.Sliding, t.Chunked, t.ShortConv))


def _mixers(lay: t.Layout) -> list[t.AttentionGroup]:
    """Every mixer of every layer; layers that have none are left out."""
    parts = [part for k in order_blocks(lay) for part in t.list_parts(lay.attention[k])]
    return [x for x in parts if not isinstance(x, t.NoMixer)]


def _count_blocks(lay: t.Layout) -> int:
    """Mixers, feed-forward parts, embeddings of layers, and two more for several streams (AltUp: predict, correct)."""
    forward = [lay.ffn[k] for k in order_ffns(lay)]
    more = lay.n_layers * (1 + 2 * (lay.per_layer.streams > 1)) if lay.per_layer else 0
    return len(_mixers(lay)) + sum(not isinstance(x, t.NoFfn) for x in forward) + more


SCORE_BYTES = 16  # of a score: four times 32 bit


class AttentionCost(Record, frozen=True, kw_only=True):
    """`n` layers that read the same cache rows. Elements per cached token; products per (query, cached token)."""

    n: int
    k: int
    v: int = 0
    kv_heads: int = 1
    latent: bool = False
    window: int | None = None
    per_tokens: int = 1
    index: int = 0
    most: int | None = None  # tokens a sparse index lets through
    products: float
    unfolded: float | None = None  # products where latent rows are made keys and values of heads; None: they are not
    heads: int = 0  # queries' heads, where their scores are laid out in memory without flash attention


@memoize_by_identity
def attention_costs(model: t.Model, first: int | None = None) -> tuple[AttentionCost, ...]:
    """The layers that read a cache, like ones counted together; of the `first` layers alone where that is given."""
    lay = model.layout
    if lay is None:
        return ()
    kinds = order_blocks(lay)[:first]
    out = (
        x for k, group in enumerate(lay.attention) for part in t.list_parts(group) for x in _reads(part, kinds.count(k))
    )
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
                window=None if isinstance(group, t.Full) else group.window,
                index=group.index_key_dim or 0,
                products=float(group.n_heads * (group.head_dim + v)),
                heads=group.n_heads,
            )
        ]
    if not isinstance(group, (t.Mla, t.Compressed)):
        return []
    sparse, heads = group.indexer, group.n_heads
    index, most = sparse.dim if sparse and not sparse.shared else 0, sparse.top_k if sparse else None
    if isinstance(group, t.Mla):
        unfolded = heads * (group.qk_nope_head_dim + group.qk_rope_head_dim + group.v_head_dim)
        return [
            AttentionCost(
                n=n,
                k=group.kv_lora_rank + group.qk_rope_head_dim,
                latent=True,
                index=index,
                most=most,
                products=float(heads * (2 * group.kv_lora_rank + group.qk_rope_head_dim)),
                unfolded=None if sparse else float(unfolded),
                heads=heads,
            )
        ]
    width, products = group.head_dim, float(2 * heads * group.head_dim)
    row = AttentionCost(n=n, k=width, latent=True, window=group.window, products=products)
    if not group.compress_ratio:
        return [row]
    past = replace(row, window=None, per_tokens=group.compress_ratio, index=index, most=most)
    return [row, past]


@memoize_by_identity
def cache_bytes(model: t.Model, depth: float, keys: float, values: float, ranks: int = 1) -> float:
    """Bytes of the cache that one new token of one sequence at `depth` reads, on one of `ranks` tensor ranks.

    `keys`, `values` are bytes an element. Latent rows are not divided over ranks, heads are by at most their number.
    """
    total = 0.0
    for cost in attention_costs(model):
        rows, seen = _count_rows(cost, depth)
        share = 1 if cost.latent else min(ranks, cost.kv_heads)
        total += cost.n * ((cost.k * keys + cost.v * values) * seen + cost.index * keys * rows) / share
    return total


@memoize_by_identity
def latent_bytes(model: t.Model, depth: float, width: float) -> float:
    """The part of `cache_bytes` that is latent rows (MLA), which no two ranks share out; `width` bytes an element."""
    latent = [x for x in attention_costs(model) if x.latent]
    return sum(x.n * x.k * width * _count_rows(x, depth)[1] for x in latent)


def _count_rows(layers: AttentionCost, depth: float) -> tuple[float, float]:
    """Cached rows at a depth, and how many of them a new token reads."""
    rows = (min(depth, layers.window) if layers.window else depth) / layers.per_tokens
    return rows, min(rows, layers.most) if layers.most else rows


@memoize_by_identity
def state_bytes(model: t.Model) -> float:
    """Bytes of recurrent state that one step of one sequence reads and writes back (32-bit states)."""
    return float(sum(8 * x.state + 4 * x.conv for x in cache_layers(model)))


@memoize_by_identity
def score_bytes(model: t.Model, tokens: float, before: float) -> float:
    """Bytes of attention scores that `tokens` new tokens after `before` cached ones write and read back.

    Without flash attention they lie in memory, 32 bit: written by the product with the keys, read and written by the
    softmax, read by the product with the values. Every cell of the cache up to the last token counts.
    """
    total = 0.0
    for cost in attention_costs(model):
        cells = before + tokens
        if cost.window:
            cells = min(cells, cost.window + tokens)
        total += cost.n * cost.heads * cells * tokens
    return SCORE_BYTES * total


@memoize_by_identity
def pair_products(
    model: t.Model,
    tokens: float,
    before: float,
    unfolded: bool = False,
    first: int | None = None,
) -> float:
    """Multiply-adds of attention for `tokens` new tokens after `before` cached ones, causal.

    `unfolded`: latent rows (MLA) are made keys and values of heads first, as servers do for prompts. `first`: of so
    many layers, None = of all.
    """
    total = 0.0
    for cost in attention_costs(model, first):
        mean = before + tokens / 2
        if cost.window:
            mean = min(mean, float(cost.window))
        mean /= cost.per_tokens
        if cost.most:
            mean = min(mean, float(cost.most))
        each = cost.unfolded if unfolded and cost.unfolded else cost.products
        total += cost.n * each * mean * tokens
    return total


class PromptLayers(Value, frozen=True):
    """The layers up to the last one with a cache of its own."""

    count: int
    share: float  # of the layers' parameters


@memoize_by_identity
def count_prompt_layers(model: t.Model) -> PromptLayers | None:
    """Layers that a prompt goes through where an engine computes only what the cache needs; None where every layer is
    needed, or the tensors of the layers are not known.

    Layers that read the cache of others and keep none stand last (Gemma 3n, Gemma 4 E2B and E4B).
    """
    lay = model.layout
    if lay is None or not any(isinstance(g, t.Softmax) and g.kv_shared for g in lay.attention):
        return None
    order = order_mixers(lay)
    kept = [i for i, k in enumerate(order) if not getattr(lay.attention[k], "kv_shared", False)]
    if not kept or kept[-1] + 1 >= len(order):
        return None
    try:
        sizes = [(x.layer, prod(x.ne)) for x in list_tensors(model) if x.layer is not None and not x.mtp]
    except (NoLayout, KeyError):
        return None
    whole = sum(n for _, n in sizes)
    part = sum(n for layer, n in sizes if layer <= kept[-1])
    return PromptLayers(kept[-1] + 1, part / whole) if whole else None


class RequestLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests look like. Tokens; `depth` are in the cache before the prompt."""

    concurrency: int = 1
    prompt: int = 512
    output: int = 128
    depth: int = 0
    use_case: str = ""  # what is written: decides how well it is guessed (speculative decoding)
