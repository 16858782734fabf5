"""Parameter counts of a model, rebuilt from its dimensions.

All results are elements (weights), not bytes. The arithmetic follows the module shapes of the reference
implementations (transformers 5.23.0 classes): a linear map a -> b holds a*b weights plus b when it has a bias.
"""

from __future__ import annotations

from advisor.models import types as t


def attention_params(group: t.AttentionGroup, hidden: int) -> int:
    """Parameters of one token mixer of `group` in a model of width `hidden`. The group's `n` is not applied."""
    if isinstance(group, t.Softmax):
        return _softmax(group, hidden)
    if isinstance(group, t.Mla):
        return _mla(group, hidden)
    if isinstance(group, t.Compressed):
        return _compressed(group, hidden)
    if isinstance(group, t.GatedDeltaNet):
        return _gated_deltanet(group, hidden)
    if isinstance(group, t.Kda):
        return _kda(group, hidden)
    if isinstance(group, t.Lightning):
        width = group.n_heads * group.head_dim  # q, k, v, gate and output maps, plus the output norm
        return 5 * hidden * width + width
    if isinstance(group, t.Mamba2):
        return _mamba2(group, hidden)
    if isinstance(group, t.Mamba1):
        return _mamba1(group, hidden)
    if isinstance(group, t.ShortConv):
        return 4 * hidden * hidden + hidden * group.conv_kernel  # in (3 wide), out, depthwise convolution
    if isinstance(group, t.Parallel):
        return sum(attention_params(part, hidden) for part in group.parts)
    assert isinstance(group, t.NoMixer)
    return 0


def _softmax(softmax: t.Softmax, hidden: int) -> int:
    v_dim = softmax.v_head_dim or softmax.head_dim
    query, key, value, out = (
        softmax.n_heads * softmax.head_dim,
        softmax.n_kv_heads * softmax.head_dim,
        softmax.n_kv_heads * v_dim,
        softmax.n_heads * v_dim,
    )
    if softmax.kv_shared:  # keys and values come from another layer
        key = value = 0
    total = hidden * (query + key + (0 if softmax.k_eq_v else value) + out)
    if softmax.qkv_bias:
        total += query + key + value
    if softmax.o_bias:
        total += hidden
    if softmax.gate == "elementwise":
        total += hidden * out
    elif softmax.gate == "headwise":
        total += hidden * softmax.n_heads
    if softmax.qk_norm == "head":
        total += softmax.head_dim * (1 if softmax.kv_shared else 2)
    elif softmax.qk_norm is not None:  # "full" and "per_head" both scale every element of q and k
        total += (softmax.n_heads + softmax.n_kv_heads) * softmax.head_dim
    if softmax.sinks:
        total += softmax.n_heads
    return total + softmax.extra


def _mla(mla: t.Mla, hidden: int) -> int:
    query = mla.n_heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    rank = mla.q_lora_rank
    total = hidden * rank + rank + rank * query if rank else hidden * query
    total += hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim) + mla.kv_lora_rank
    total += mla.kv_lora_rank * mla.n_heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    total += mla.n_heads * mla.v_head_dim * hidden
    if mla.gate == "elementwise":
        total += hidden * mla.n_heads * mla.v_head_dim
    if mla.indexer is not None and not mla.indexer.shared:
        ix = mla.indexer  # query from the low-rank query, one key with a layer norm, one weight per head
        total += (mla.q_lora_rank or hidden) * ix.heads * ix.dim + hidden * ix.dim + 2 * ix.dim + hidden * ix.heads
    return total + mla.extra


def _compressed(compressed: t.Compressed, hidden: int) -> int:
    rank, dim, ratio = compressed.q_lora_rank, compressed.head_dim, compressed.compress_ratio
    total = hidden * rank + rank + rank * compressed.n_heads * dim  # low-rank query
    total += hidden * dim + dim + compressed.n_heads  # one latent key-value head, its norm, sinks
    total += (
        compressed.o_lora_rank * compressed.n_heads * dim + compressed.o_groups * compressed.o_lora_rank * hidden
    )  # grouped low-rank output
    if ratio:
        wide = 2 if compressed.indexer else 1  # overlapping windows when an index selects from them
        total += 2 * hidden * wide * dim + ratio * wide * dim + dim
    if compressed.indexer:
        ix = compressed.indexer
        total += 4 * hidden * ix.dim + 2 * ratio * ix.dim + ix.dim + rank * ix.heads * ix.dim + hidden * ix.heads
    return total


def _gated_deltanet(net: t.GatedDeltaNet, hidden: int) -> int:
    key, value = net.k_heads * net.k_dim, net.v_heads * net.v_dim
    projections = hidden * (2 * key + 2 * value) + hidden * 2 * net.v_heads  # q, k, v, gate; beta and decay
    convolution = (2 * key + value) * net.conv_kernel
    return projections + convolution + 2 * net.v_heads + net.v_dim + value * hidden


def _kda(kda: t.Kda, hidden: int) -> int:
    width = kda.n_heads * kda.head_dim
    low_rank = hidden * kda.head_dim + kda.head_dim * width
    total = 3 * (hidden * width + width * kda.conv_kernel)  # q, k, v, each with its convolution
    total += kda.n_heads + width  # decay per head and its bias
    total += hidden * kda.n_heads + kda.head_dim + width * hidden  # beta, output norm, output
    total += low_rank  # decay gate
    total += hidden * width if kda.full_rank_gate else low_rank  # output gate
    return total + kda.extra


def _mamba2(mamba2: t.Mamba2, hidden: int) -> int:
    inner = mamba2.heads * mamba2.head_dim
    conv = inner + 2 * mamba2.groups * mamba2.state
    total = hidden * (inner + conv + mamba2.heads) + conv * mamba2.conv_kernel
    total += 3 * mamba2.heads + inner * hidden  # A, D and step bias per head
    if mamba2.conv_bias:
        total += conv
    if mamba2.gated_norm:
        total += inner
    return total


def _mamba1(mamba1: t.Mamba1, hidden: int) -> int:
    total = hidden * 2 * mamba1.inner + mamba1.inner * (mamba1.conv_kernel + 1)
    total += mamba1.inner * (mamba1.dt_rank + 2 * mamba1.state) + mamba1.dt_rank * mamba1.inner + mamba1.inner
    total += mamba1.inner * mamba1.state + mamba1.inner + mamba1.inner * hidden  # A, D, output
    if mamba1.bcdt_norm:
        total += mamba1.dt_rank + 2 * mamba1.state
    return total


def mlp_params(hidden: int, intermediate: int, act: str = "gated", bias: bool = False) -> int:
    """One feed-forward block: gate, up and down when gated, else up and down."""
    wide = 2 if act == "gated" else 1
    total = (wide + 1) * hidden * intermediate
    return total + (wide * intermediate + hidden if bias else 0)


def ffn_params(group: t.FfnGroup, hidden: int, active: bool = False) -> int:
    """Parameters of one feed-forward layer of `group`; `active` counts only the experts one token uses."""
    if isinstance(group, t.NoFfn):
        return 0
    if isinstance(group, t.Dense):
        return mlp_params(hidden, group.intermediate, group.act, group.bias) + group.extra
    experts = group.top_k if active else group.n_experts
    total = experts * expert_params(group, hidden)
    router = group.router_width or group.n_experts
    total += hidden * router + (router if group.router_bias else 0)
    if group.latent:
        total += 2 * hidden * group.latent  # into the experts' width and back
    if group.shared_intermediate:
        total += mlp_params(hidden, group.shared_intermediate, group.act)
        if group.shared_gate:
            total += hidden
    if group.parallel_dense:
        total += mlp_params(hidden, group.parallel_dense)
    return total + group.extra


def expert_params(group: t.Moe, hidden: int) -> int:
    """Parameters of one routed expert."""
    return mlp_params(group.latent or hidden, group.moe_intermediate, group.act, group.bias)


def norm_params(layout: t.Layout, weights: t.Weights) -> int:
    """All layer norms and the final norm."""
    count = layout.n_layers * weights.norms_per_layer + (0 if weights.no_final_norm else 1)
    return count * layout.hidden_size * (2 if weights.norm_bias else 1)


def embedding_params(layout: t.Layout) -> int:
    """The token embedding (the output matrix is as large when it is not tied)."""
    return layout.vocab_size * layout.hidden_size


def text_params(model: t.Model, active: bool = False) -> int:
    """Text backbone, tied embeddings counted once, without MTP layers.

    `active` counts only the experts one token uses and leaves out extras that are looked up, not multiplied.
    Raises ValueError for a model without a layer layout.
    """
    layout = _layout(model)
    total = embedding_params(layout) * (1 if layout.tie_embeddings else 2)
    if model.weights.lm_head_bias:
        total += layout.vocab_size
    total += norm_params(layout, model.weights)
    total += sum(g.n * attention_params(g, layout.hidden_size) for g in layout.attention)
    total += sum(g.n * ffn_params(g, layout.hidden_size, active) for g in layout.ffn)
    return total + sum(e.params for e in model.weights.extras if not (active and e.not_active))


def active_params(model: t.Model) -> int:
    """Weights read per decoded token: `text_params(active)` without an input embedding of its own (one row is read).

    t.Vision and MTP are not in it. Raises ValueError for a model without a layer layout.
    """
    total, layout = text_params(model, active=True), _layout(model)
    return total if layout.tie_embeddings else total - embedding_params(layout)


def mtp_params(model: t.Model) -> int | None:
    """Multi-token-prediction layers; 0 when the model has none, None when their size is not known."""
    if model.mtp is None or model.mtp.layers == 0:
        return 0
    return None if model.mtp.per_layer is None else model.mtp.layers * model.mtp.per_layer


def stored_params(model: t.Model) -> int:
    """What the published checkpoint holds: text, and the tied copy, MTP layers, tower and others it stores too.

    A part whose size is not known is left out. Raises ValueError without a layer layout.
    """
    total = text_params(model)
    weights, layout = model.weights, _layout(model)
    total += embedding_params(layout) if weights.stored_tied_copy and layout.tie_embeddings else 0
    if weights.stored_mtp:
        total += mtp_params(model) or 0
    total += weights.stored_other
    if model.vision is not None:
        rebuilt = vision_params(model.vision)
        total += model.vision.params if rebuilt is None else rebuilt
    return total


def vision_params(vision: t.Vision) -> int | None:
    """Vision tower and projector rebuilt from dimensions; None when only the size is known (`residual` and kinds
    whose shape is not recorded)."""
    if vision.hidden is None or vision.layers is None or vision.intermediate is None or vision.out is None:
        return None
    h, wide, out = vision.hidden, vision.intermediate, vision.out
    square = 4 * (h * h + h)  # four h x h maps with bias: q, k, v and output
    plain_mlp = 2 * h * wide + wide + h
    merged = 4 * h  # 2 x 2 patches side by side
    merger = merged * merged + merged + merged * out + out
    patch14, patch16 = 3 * 14 * 14 * h, 3 * 16 * 16 * h
    if vision.kind == "qwen2_vl":
        return 2 * patch14 + vision.layers * (4 * h + square + plain_mlp) + 2 * h + merger
    if vision.kind == "qwen2_5_vl":
        return 2 * patch14 + vision.layers * (2 * h + square + 3 * h * wide + 2 * wide + h) + h + merger
    if vision.kind == "qwen3_vl":
        tower = 2 * patch16 + h + 2304 * h + vision.layers * (4 * h + square + plain_mlp) + 2 * h + merger
        return tower + (vision.deepstack or 0) * (2 * merged + merger)
    if vision.kind == "siglip" and vision.positions is not None:
        return patch14 + h + vision.positions * h + vision.layers * (4 * h + square + plain_mlp) + 2 * h + h * out + h
    if vision.kind == "pixtral":
        tower = patch14 + h + vision.layers * (2 * h + 4 * h * h + 3 * h * wide) + h
        return tower + 4 * h * h + h * out + out * out
    if vision.kind == "moonvit":
        tower = patch14 + h + 64 * 64 * h + vision.layers * (4 * h + square + plain_mlp) + 4 * h
        return tower + merger
    if vision.kind == "gemma4_unified":  # no tower: patch embedding and projections only
        patch = 48 * 48 * 3
        return 2 * patch + patch * h + h + 2 * h + 1120 * 2 * h + 2 * h + h * out + 640 * out
    if vision.kind == "llama4" and vision.positions is not None:
        tower = patch14 + h + vision.positions * h + 4 * h + vision.layers * (4 * h + square + plain_mlp)
        return tower + wide * 4096 + 4096 * 4096 + 4096 * out
    return None


def _layout(model: t.Model) -> t.Layout:
    if model.layout is None:
        raise ValueError(f"{model.id}: no layer layout is known")
    return model.layout
