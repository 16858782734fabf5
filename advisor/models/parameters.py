"""Parameter counts of a model, rebuilt from its dimensions.

All results are elements (weights), not bytes. The arithmetic follows the module shapes of the reference
implementations (transformers 5.23.0 classes): a linear map a -> b holds a*b weights plus b when it has a bias.
"""

from __future__ import annotations

from advisor.models.types import (
    AttentionGroup,
    Compressed,
    Dense,
    FfnGroup,
    GatedDeltaNet,
    Kda,
    Layout,
    Lightning,
    Mamba1,
    Mamba2,
    Mla,
    Model,
    Moe,
    NoFfn,
    NoMixer,
    Parallel,
    ShortConv,
    Softmax,
    Vision,
    Weights,
)


def attention_params(group: AttentionGroup, hidden: int) -> int:
    """Parameters of one token mixer of `group` in a model of width `hidden`. The group's `n` is not applied."""
    if isinstance(group, Softmax):
        return _softmax(group, hidden)
    if isinstance(group, Mla):
        return _mla(group, hidden)
    if isinstance(group, Compressed):
        return _compressed(group, hidden)
    if isinstance(group, GatedDeltaNet):
        return _gated_deltanet(group, hidden)
    if isinstance(group, Kda):
        return _kda(group, hidden)
    if isinstance(group, Lightning):
        width = group.n_heads * group.head_dim  # q, k, v, gate and output maps, plus the output norm
        return 5 * hidden * width + width
    if isinstance(group, Mamba2):
        return _mamba2(group, hidden)
    if isinstance(group, Mamba1):
        return _mamba1(group, hidden)
    if isinstance(group, ShortConv):
        return 4 * hidden * hidden + hidden * group.conv_kernel  # in (3 wide), out, depthwise convolution
    if isinstance(group, Parallel):
        return sum(attention_params(part, hidden) for part in group.parts)
    assert isinstance(group, NoMixer)
    return 0


def _softmax(g: Softmax, hidden: int) -> int:
    v_dim = g.v_head_dim or g.head_dim
    query, key, value, out = g.n_heads * g.head_dim, g.n_kv_heads * g.head_dim, g.n_kv_heads * v_dim, g.n_heads * v_dim
    if g.kv_shared:  # keys and values come from another layer
        key = value = 0
    total = hidden * (query + key + (0 if g.k_eq_v else value) + out)
    if g.qkv_bias:
        total += query + key + value
    if g.o_bias:
        total += hidden
    if g.gate == "elementwise":
        total += hidden * out
    elif g.gate == "headwise":
        total += hidden * g.n_heads
    if g.qk_norm == "head":
        total += g.head_dim * (1 if g.kv_shared else 2)
    elif g.qk_norm is not None:  # "full" and "per_head" both scale every element of q and k
        total += (g.n_heads + g.n_kv_heads) * g.head_dim
    if g.sinks:
        total += g.n_heads
    return total + g.extra


def _mla(g: Mla, hidden: int) -> int:
    query = g.n_heads * (g.qk_nope_head_dim + g.qk_rope_head_dim)
    rank = g.q_lora_rank
    total = hidden * rank + rank + rank * query if rank else hidden * query
    total += hidden * (g.kv_lora_rank + g.qk_rope_head_dim) + g.kv_lora_rank
    total += g.kv_lora_rank * g.n_heads * (g.qk_nope_head_dim + g.v_head_dim)
    total += g.n_heads * g.v_head_dim * hidden
    if g.gate == "elementwise":
        total += hidden * g.n_heads * g.v_head_dim
    if g.indexer is not None and not g.indexer.shared:
        ix = g.indexer  # query from the low-rank query, one key with a layer norm, one weight per head
        total += (g.q_lora_rank or hidden) * ix.heads * ix.dim + hidden * ix.dim + 2 * ix.dim + hidden * ix.heads
    return total + g.extra


def _compressed(g: Compressed, hidden: int) -> int:
    rank, dim, ratio = g.q_lora_rank, g.head_dim, g.compress_ratio
    total = hidden * rank + rank + rank * g.n_heads * dim  # low-rank query
    total += hidden * dim + dim + g.n_heads  # one latent key-value head, its norm, sinks
    total += g.o_lora_rank * g.n_heads * dim + g.o_groups * g.o_lora_rank * hidden  # grouped low-rank output
    if ratio:
        wide = 2 if g.indexer else 1  # overlapping windows when an index selects from them
        total += 2 * hidden * wide * dim + ratio * wide * dim + dim
    if g.indexer:
        ix = g.indexer
        total += 4 * hidden * ix.dim + 2 * ratio * ix.dim + ix.dim + rank * ix.heads * ix.dim + hidden * ix.heads
    return total


def _gated_deltanet(g: GatedDeltaNet, hidden: int) -> int:
    key, value = g.k_heads * g.k_dim, g.v_heads * g.v_dim
    projections = hidden * (2 * key + 2 * value) + hidden * 2 * g.v_heads  # q, k, v, gate; beta and decay
    convolution = (2 * key + value) * g.conv_kernel
    return projections + convolution + 2 * g.v_heads + g.v_dim + value * hidden


def _kda(g: Kda, hidden: int) -> int:
    width = g.n_heads * g.head_dim
    low_rank = hidden * g.head_dim + g.head_dim * width
    total = 3 * (hidden * width + width * g.conv_kernel)  # q, k, v, each with its convolution
    total += g.n_heads + width  # decay per head and its bias
    total += hidden * g.n_heads + g.head_dim + width * hidden  # beta, output norm, output
    total += low_rank  # decay gate
    total += hidden * width if g.full_rank_gate else low_rank  # output gate
    return total + g.extra


def _mamba2(g: Mamba2, hidden: int) -> int:
    inner = g.heads * g.head_dim
    conv = inner + 2 * g.groups * g.state
    total = hidden * (inner + conv + g.heads) + conv * g.conv_kernel
    total += 3 * g.heads + inner * hidden  # A, D and step bias per head
    if g.conv_bias:
        total += conv
    if g.gated_norm:
        total += inner
    return total


def _mamba1(g: Mamba1, hidden: int) -> int:
    total = hidden * 2 * g.inner + g.inner * (g.conv_kernel + 1)
    total += g.inner * (g.dt_rank + 2 * g.state) + g.dt_rank * g.inner + g.inner
    total += g.inner * g.state + g.inner + g.inner * hidden  # A, D, output
    if g.bcdt_norm:
        total += g.dt_rank + 2 * g.state
    return total


def mlp_params(hidden: int, intermediate: int, act: str = "gated", bias: bool = False) -> int:
    """One feed-forward block: gate, up and down when gated, else up and down."""
    wide = 2 if act == "gated" else 1
    total = (wide + 1) * hidden * intermediate
    return total + (wide * intermediate + hidden if bias else 0)


def ffn_params(group: FfnGroup, hidden: int, active: bool = False) -> int:
    """Parameters of one feed-forward layer of `group`; `active` counts only the experts one token uses."""
    if isinstance(group, NoFfn):
        return 0
    if isinstance(group, Dense):
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


def expert_params(group: Moe, hidden: int) -> int:
    """Parameters of one routed expert."""
    return mlp_params(group.latent or hidden, group.moe_intermediate, group.act, group.bias)


def norm_params(layout: Layout, weights: Weights) -> int:
    """All layer norms and the final norm."""
    count = layout.n_layers * weights.norms_per_layer + (0 if weights.no_final_norm else 1)
    return count * layout.hidden_size * (2 if weights.norm_bias else 1)


def layer_params(
    attention: AttentionGroup, ffn: FfnGroup, hidden: int, weights: Weights | None = None, active: bool = False
) -> int:
    """One layer: token mixer, feed-forward part and norms."""
    w = weights or Weights()
    norms = w.norms_per_layer * hidden * (2 if w.norm_bias else 1)
    return attention_params(attention, hidden) + ffn_params(ffn, hidden, active) + norms


def embedding_params(layout: Layout) -> int:
    """The token embedding (the output matrix is as large when it is not tied)."""
    return layout.vocab_size * layout.hidden_size


def text_params(model: Model, active: bool = False) -> int:
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


def active_params(model: Model) -> int:
    """Weights read per decoded token: `text_params(active)` without an input embedding of its own (one row is read).

    Vision and MTP are not in it. Raises ValueError for a model without a layer layout.
    """
    layout = _layout(model)
    total = text_params(model, active=True)
    return total if layout.tie_embeddings else total - embedding_params(layout)


def mtp_params(model: Model) -> int | None:
    """Multi-token-prediction layers; 0 when the model has none, None when their size is not known."""
    if model.mtp is None or model.mtp.layers == 0:
        return 0
    return None if model.mtp.per_layer is None else model.mtp.layers * model.mtp.per_layer


def stored_params(model: Model) -> int:
    """What the published checkpoint holds: text, and the tied copy, MTP layers, tower and others it stores too.

    A part whose size is not known is left out. Raises ValueError without a layer layout.
    """
    total = text_params(model)
    weights = model.weights
    if weights.stored_tied_copy and _layout(model).tie_embeddings:
        total += embedding_params(_layout(model))
    if weights.stored_mtp:
        total += mtp_params(model) or 0
    total += weights.stored_other
    if model.vision is not None:
        rebuilt = vision_params(model.vision)
        total += model.vision.params if rebuilt is None else rebuilt
    return total


def vision_params(v: Vision) -> int | None:
    """Vision tower and projector rebuilt from dimensions; None when only the size is known (`residual` and kinds
    whose shape is not recorded)."""
    if v.hidden is None or v.layers is None or v.intermediate is None or v.out is None:
        return None
    h, wide, out = v.hidden, v.intermediate, v.out
    square = 4 * (h * h + h)  # four h x h maps with bias: q, k, v and output
    plain_mlp = 2 * h * wide + wide + h
    merged = 4 * h  # 2 x 2 patches side by side
    merger = merged * merged + merged + merged * out + out
    patch14, patch16 = 3 * 14 * 14 * h, 3 * 16 * 16 * h
    if v.kind == "qwen2_vl":
        return 2 * patch14 + v.layers * (4 * h + square + plain_mlp) + 2 * h + merger
    if v.kind == "qwen2_5_vl":
        return 2 * patch14 + v.layers * (2 * h + square + 3 * h * wide + 2 * wide + h) + h + merger
    if v.kind == "qwen3_vl":
        tower = 2 * patch16 + h + 2304 * h + v.layers * (4 * h + square + plain_mlp) + 2 * h + merger
        return tower + (v.deepstack or 0) * (2 * merged + merger)
    if v.kind == "siglip" and v.positions is not None:
        return patch14 + h + v.positions * h + v.layers * (4 * h + square + plain_mlp) + 2 * h + h * out + h
    if v.kind == "pixtral":
        tower = patch14 + h + v.layers * (2 * h + 4 * h * h + 3 * h * wide) + h
        return tower + 4 * h * h + h * out + out * out
    if v.kind == "moonvit":
        tower = patch14 + h + 64 * 64 * h + v.layers * (4 * h + square + plain_mlp) + 4 * h
        return tower + merger
    if v.kind == "gemma4_unified":  # no tower: patch embedding and projections only
        patch = 48 * 48 * 3
        return 2 * patch + patch * h + h + 2 * h + 1120 * 2 * h + 2 * h + h * out + 640 * out
    if v.kind == "llama4" and v.positions is not None:
        tower = patch14 + h + v.positions * h + 4 * h + v.layers * (4 * h + square + plain_mlp)
        return tower + wide * 4096 + 4096 * 4096 + 4096 * out
    return None


def _layout(model: Model) -> Layout:
    if model.layout is None:
        raise ValueError(f"{model.id}: no layer layout is known")
    return model.layout
