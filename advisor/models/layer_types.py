"""Kinds of layers: how a layer mixes tokens, and its feed-forward part.

Counts are elements (parameters), widths are elements per token. `None` is unknown.
"""

from typing import Literal

from advisor.record import Record


class _Group(Record, frozen=True, kw_only=True, tag_field="kind"):
    """`n` layers that mix tokens in the same way."""

    n: int


class Softmax(_Group, frozen=True, kw_only=True):
    """Attention with a cache of keys and values (GQA, MQA, MHA)."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    v_head_dim: int | None = None  # None = head_dim
    window: int | None = None  # tokens a sliding or chunked layer looks back
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["head", "full", "per_head"] | None = None
    gate: Literal["elementwise", "headwise"] | None = None
    kv_shared: bool = False  # reads another layer's cache and keeps none
    k_eq_v: bool = False  # V reuses K's projection; both are still cached
    sinks: bool = False
    index_key_dim: int | None = None  # one shared index key per token (block-sparse attention)
    extra: int = 0  # further parameters per layer


class Full(Softmax, frozen=True, kw_only=True, tag="full"):
    """Every token attends to all before it."""


class Sliding(Softmax, frozen=True, kw_only=True, tag="sliding"):
    """Attends to the last `window` tokens."""


class Chunked(Softmax, frozen=True, kw_only=True, tag="chunked"):
    """Attends inside its own chunk of `window` tokens."""


class Encoder(Softmax, frozen=True, kw_only=True, tag="encoder"):
    """Bidirectional: no cache."""


class Cross(Softmax, frozen=True, kw_only=True, tag="cross"):
    """Attends to image tokens; caches them, not the text."""


class Indexer(Record, frozen=True, kw_only=True):
    """Sparse-attention index: `heads` query heads over one shared key of width `dim`."""

    heads: int
    dim: int
    top_k: int | None = None  # tokens that attention then looks at
    key_pool: int | None = None  # keys are pooled over so many tokens
    shared: bool = False  # reuses another layer's index


class Mla(_Group, frozen=True, kw_only=True, tag="mla"):
    """Multi-head latent attention: one latent row of kv_lora_rank + qk_rope_head_dim per token."""

    n_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    indexer: Indexer | None = None
    gate: Literal["elementwise"] | None = None
    absorbed: bool = True  # False: a GGUF file from before; keys and values of every head are cached
    extra: int = 0


class Compressed(_Group, frozen=True, kw_only=True, tag="compressed"):
    """DeepSeek V4: a window of latent rows plus compressed past."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_groups: int
    o_lora_rank: int
    window: int
    compress_ratio: int = 0
    indexer: Indexer | None = None


class GatedDeltaNet(_Group, frozen=True, kw_only=True, tag="gated_deltanet"):
    """Linear attention with a fixed state of v_heads x k_dim x v_dim."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int


class Kda(_Group, frozen=True, kw_only=True, tag="kda"):
    """Kimi delta attention: state of n_heads x head_dim x head_dim."""

    n_heads: int
    head_dim: int
    conv_kernel: int
    full_rank_gate: bool = False
    extra: int = 0


class Lightning(_Group, frozen=True, kw_only=True, tag="lightning"):
    """Lightning attention: state of n_heads x head_dim x head_dim, no convolution."""

    n_heads: int
    head_dim: int


class Mamba2(_Group, frozen=True, kw_only=True, tag="mamba2"):
    """Mamba-2: state of heads x head_dim x state, conv over inner + 2 groups x state."""

    heads: int
    head_dim: int
    state: int
    groups: int
    conv_kernel: int
    conv_bias: bool = True
    gated_norm: bool = True


class Mamba1(_Group, frozen=True, kw_only=True, tag="mamba1"):
    """Mamba: state of inner x state."""

    inner: int
    state: int
    dt_rank: int
    conv_kernel: int
    bcdt_norm: bool = False


class ShortConv(_Group, frozen=True, kw_only=True, tag="shortconv"):
    """Gated short convolution; keeps conv_kernel - 1 rows."""

    conv_kernel: int


class NoMixer(_Group, frozen=True, kw_only=True, tag="none"):
    """Layers without a token mixer."""


ParallelPart = Full | Sliding | Mamba2
SimpleGroup = (
    Full
    | Sliding
    | Chunked
    | Encoder
    | Cross
    | Mla
    | Compressed
    | GatedDeltaNet
    | Kda
    | Lightning
    | Mamba2
    | Mamba1
    | ShortConv
    | NoMixer
)


class Parallel(_Group, frozen=True, kw_only=True, tag="parallel"):
    """Every layer runs its parts side by side (attention and Mamba in Falcon-H1). The parts' own `n` is 1."""

    parts: tuple[ParallelPart, ...]


AttentionGroup = SimpleGroup | Parallel


class Dense(_Group, frozen=True, kw_only=True, tag="dense"):
    """Feed-forward layers. `act` gated = gate, up and down; plain = up and down."""

    intermediate: int
    act: Literal["gated", "plain"] = "gated"
    bias: bool = False
    extra: int = 0


class Moe(_Group, frozen=True, kw_only=True, tag="moe"):
    """Mixture-of-experts feed-forward layers."""

    n_experts: int
    top_k: int
    moe_intermediate: int
    n_shared: int = 0
    shared_intermediate: int = 0  # total width of the shared experts
    shared_gate: bool = False
    parallel_dense: int = 0  # width of a dense MLP next to the experts
    latent: int | None = None  # experts work in this width
    router_width: int | None = None
    router_bias: bool = False
    act: Literal["gated", "plain"] = "gated"
    bias: bool = False
    extra: int = 0


class NoFfn(_Group, frozen=True, kw_only=True, tag="none"):
    """Layers without a feed-forward part."""


FfnGroup = Dense | Moe | NoFfn
