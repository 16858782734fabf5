"""The architecture of one model family's checkpoint, as far as memory and speed depend on it.

Counts are elements (parameters), widths are elements per token. `None` is unknown.
"""

from collections.abc import Collection
from typing import Annotated, Literal

from advisor.meanings import PUT_IN, HubRepository, ModelType, Pattern, QuantizationName, SourceKey
from advisor.memo import MemoRecord
from advisor.record import Record

ModelKind = Literal["chat", "embedding", "reranker"]


class _Group(Record, frozen=True, kw_only=True, tag_field="kind"):
    """`n` layers that mix tokens in the same way."""

    n: int


class Indexer(Record, frozen=True, kw_only=True):
    """Sparse-attention index: `heads` query heads over one shared key of width `dim`."""

    heads: int
    dim: int
    top_k: int | None = None  # tokens that attention then looks at
    key_pool: int | None = None  # keys are pooled over so many tokens
    shared: bool = False  # reuses another layer's index


class NgramTable(Record, frozen=True, kw_only=True):
    """A table of embeddings of n-grams that a layer adds, behind a short convolution."""

    kernel: int
    kept: int  # elements of earlier rows that the convolution keeps of a sequence


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
    index: Indexer | None = None  # all of that index, where it is known
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
    extra: int = 0  # a gate for each head (Ling 3)

    def gate_width(self, hidden: int) -> int:
        """Columns of the gate's matrix; 0 where there is none."""
        return self.extra // hidden + (self.n_heads * self.v_head_dim if self.gate else 0)


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
    table: NgramTable | None = None


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


class WindowRule(Record, frozen=True, kw_only=True):
    """Which layers look back a limited number of tokens. A pattern that the file stores wins."""

    every: int | None = None  # one layer in so many is full, with 0 none; None: only the file can say which
    first: bool = False  # the full one is the first of its period, else the last
    size: int | None = None  # tokens, where the file gives no `attention.sliding_window`
    fixed_size: int | None = None  # tokens, whatever the file gives
    needs_size: bool = False  # without `attention.sliding_window` no layer has a window
    layers: int | None = None  # windows are used by models of so many layers only
    stored: bool = False  # the pattern stands in the file and nowhere else
    kind: Literal["sliding", "chunked", "symmetric"] = "sliding"


class TensorTraits(Record, frozen=True, kw_only=True):
    """How tensors are called and joined."""

    mixer_norms: tuple[str, ...] = ("attn_norm",)  # of layers that mix tokens
    ffn_norms: tuple[str, ...] = ("ffn_norm",)  # of layers with a feed-forward part
    final_norm: str = "output_norm"
    one_norm: bool = False  # a layer is one part with one norm
    fused_qkv: bool = False  # one matrix for query, key and value
    fused_gate_up: bool = False  # one matrix for gate and up
    gate_matrix: bool = False  # the gate of attention has a matrix of its own; else it comes with the query
    joined_decay: bool = False  # one matrix for both decays of a DeltaNet layer
    stored_experts: str | None = (
        None  # GGML type of routed experts in files that are called 16-bit: the checkpoint's own
    )
    biased_experts: bool = False
    biased_router: bool = False  # the router's bias is added to its logits, not to its choice
    layer_scale: bool = False  # a number that scales each layer's output
    embedding_norm: str | None = None  # a norm of the embedding
    bare_norms: tuple[str, ...] = ()  # norms whose name does not end in `.weight`
    shared_keeps_matrices: bool = (
        False  # layers that read another's cache have matrices for keys and values all the same
    )
    full_rope_factors: bool = False  # rotary factors of full layers, one tensor
    experts_beside_dense: bool = False  # experts and a dense part, each with norms of its own, and a scaled router
    prediction: bool = False  # converters keep the multi-token-prediction block


class GraphTraits(Record, frozen=True, kw_only=True):
    """How layers are put together in the compute graph."""

    # norms before a part (pre), after it (post), both (sandwich), of its sum with the residual (sum); or attention and
    # feed-forward part side by side behind one norm (parallel)
    block: Literal["pre", "post", "sandwich", "sum", "parallel"] = "pre"
    parallel_by_file: bool = False  # the file's key says whether the parts stand side by side
    second_norm: bool = False  # of parts side by side: the feed-forward part has a norm of its own
    layer_norm: bool = False  # norms that subtract the mean, and cannot work in place
    positions: int = 1  # numbers that tell the position of a token
    positions_by_file: bool = False  # four where the file's key has sections for rows and columns, else one
    deepstack: int = 0  # further rows of the embedding, for images
    rope: Literal["all", "windows", "none"] = "all"  # layers that rotate queries and keys
    no_rope_every: int = 0  # one layer in so many does not rotate, the last of its period
    norm_after_rope: bool = False
    scaled_queries: bool = False  # layers without rotation scale their queries by position
    scores_capped: bool = False
    values_normed: bool = False
    router: Literal["softmax", "sigmoid", "after"] | None = None  # None: sigmoid with a bias, else softmax
    routes_normed: bool = True  # weights of the chosen experts sum to one
    routes_scaled: bool = False
    routes_by_file: tuple[Literal["norm", "scale", "gate"], ...] = ()  # what of these the file's keys say
    weights_first: bool = False  # experts see inputs that are weighted already
    keeps_all_rows: bool = False  # the last layer computes all tokens, not only those whose logits are needed
    residual_first: bool = False  # sums begin with what the layer was given
    looks_up_positions: bool = False  # rows of a table of positions are added to the embedding
    embedding_scaled: bool = False  # where the first layer lies, not where the table is
    hyper_streams: int = 0  # residuals side by side (hyper-connections); 0: one, without mixing
    hyper_rank: int = 0  # of what mixes them
    flash: bool = True  # the engine has flash attention for it
    whole: bool = True  # every part that takes scratch is followed; else scratch is near, not exact


class GgufArchitecture(Record, frozen=True, kw_only=True):
    """One architecture. The defaults hold for most."""

    model_types: tuple[ModelType, ...] = ()  # of the checkpoints that become it
    only_with: tuple[str, ...] = ()  # kinds of layers that such a checkpoint must have
    never_with: tuple[str, ...] = ()  # and must not have
    windows: WindowRule | None = None  # None: llama.cpp does not use a window, whatever the checkpoint has
    listed: bool = True  # False: read from a file's tensors, as it stands in no table
    encoder: bool = False  # every token sees all, and the output is no logits
    keeps_cache: bool = True  # else every token of a step sees all others, as in encoders and diffusion models
    head: bool = True  # a matrix that gives logits is loaded, its own or the token embedding again
    # `type` of its 80-layer models, for which llama-quantize has rules of its own: all, or those with grouped queries
    size_class: Literal["70B", "70B-grouped"] | None = None
    index_cache: Literal["keys", "keys and values"] | None = (
        None  # of sparse attention next to the cache; None: not known
    )
    compared: bool = True  # its caches and states with the engine's own plan; False: parts of them are not followed
    own_caches: int | None = None  # layers with a cache of their own; those after them read an earlier one's
    tensors: TensorTraits = TensorTraits()
    graph: GraphTraits = GraphTraits()


class GgufArchitectures(Record, frozen=True, kw_only=True):
    """`rules/gguf.yaml`."""

    source: str
    architectures: dict[str, GgufArchitecture]


class Vision(Record, frozen=True, kw_only=True):
    """Vision (or audio) tower with projector. `params` is its size; dims where they are known."""

    kind: str  # siglip, pixtral, qwen2_vl, ... ; residual = only its size is known
    params: int
    hidden: int | None = None
    layers: int | None = None
    intermediate: int | None = None
    positions: int | None = None
    out: int | None = None
    deepstack: int | None = None
    what: str | None = None


class Mtp(Record, frozen=True, kw_only=True):
    """Multi-token-prediction layers; not loaded unless speculation asks for them."""

    layers: int
    per_layer: int | None = None


class ExtraWeights(Record, frozen=True, kw_only=True):
    """Further weights outside the layers."""

    params: int
    what: str | None = None
    name: str | None = None  # of the tensor in a GGUF file, one row of the hidden size each
    not_active: bool = False
    quantized_bits: float = 16  # of it in safetensors checkpoints of fewer bits than 16


class Weights(Record, frozen=True, kw_only=True):
    """What else the checkpoint stores."""

    norms_per_layer: int = 2
    norm_bias: bool = False
    no_final_norm: bool = False
    lm_head_bias: bool = False
    stored_tied_copy: bool = False
    stored_mtp: bool = False
    stored_other: int = 0
    extras: tuple[ExtraWeights, ...] = ()


class PublishedSize(Record, frozen=True, kw_only=True):
    """Size of a published file or repository."""

    source: str
    bytes: int | None = None
    gb: float | None = None
    gib: float | None = None
    file: str | None = None
    repo: str | None = None
    tag: str | None = None
    with_mmproj: bool = False


class Download(Record, frozen=True, kw_only=True):
    """A repository of a quantized copy (rules/downloads)."""

    format: QuantizationName | None = None
    gguf: bool = False  # GGUF files of several types, in place of one format
    types: tuple[QuantizationName, ...] = ()  # of its files, where a source lists them; empty: the usual ones
    repository: HubRepository
    src: SourceKey
    bytes: int | None = None  # of the weight files, where a source states them
    loaded_gib: float | None = None  # weights of all ranks together, as a start-up log says
    block: int | None = None  # side of the square blocks with one scale each
    group_size: int | None = None  # weights that share one scale
    notes: str | None = None


class GgufDetail(Record, frozen=True, kw_only=True):
    """Where the GGUF conversion of a checkpoint differs from its own dims."""

    source: str
    vocab_size: int | None = None
    gated_norm: bool | None = None  # whether Mamba's gated norm is in the file


class Stub(Record, frozen=True, kw_only=True):
    """Scraped dims of a model whose layer layout is not known: names and parameters only, no KV arithmetic."""

    n_layers: int | None = None
    hidden_size: int | None = None
    n_heads: int | None = None
    n_kv_heads: int | None = None
    head_dim: int | None = None
    n_experts: int | None = None
    top_k: int | None = None


class PerLayerEmbedding(Record, frozen=True, kw_only=True):
    """A second token embedding, a part of which goes into every layer (Gemma 3n and 4)."""

    width: int  # elements per token and layer
    rows: int  # of the table
    streams: int = 1  # parallel hidden states (AltUp)
    laurel_rank: int = 0  # low-rank residual next to attention


class Layout(Record, frozen=True, kw_only=True):
    """Layers of the text backbone.

    `attention_order` / `ffn_order` give, layer by layer, the index into `attention` / `ffn`; a shorter tuple repeats.
    Empty = the order is not known (group by group then).
    """

    n_layers: int
    hidden_size: int
    vocab_size: int
    tie_embeddings: bool
    attention: tuple[AttentionGroup, ...]
    ffn: tuple[FfnGroup, ...]
    attention_order: tuple[int, ...] = ()
    ffn_order: tuple[int, ...] = ()
    per_layer: PerLayerEmbedding | None = None

    @property
    def mixers(self) -> list[AttentionGroup]:
        """The kinds of token mixers, parallel ones part by part."""
        return [part for group in self.attention for part in list_parts(group)]


def list_parts(group: AttentionGroup) -> tuple[AttentionGroup, ...]:
    """The token mixers that work side by side in a layer: one, but for parallel ones."""
    return group.parts if isinstance(group, Parallel) else (group,)


class LongerContext(Record, frozen=True, kw_only=True):
    """What a publisher documents for lengths above the trained one: a factor of YaRN over the original length."""

    factor: float
    original: int  # tokens that the rotations were trained for
    theta: int  # base of the rotations
    source: str

    @property
    def tokens(self) -> int:
        """The longest context with it."""
        return int(self.factor * self.original)


class Model(MemoRecord, frozen=True, kw_only=True):
    """One checkpoint. `layout` is None for stubs."""

    id: str  # hub id, or the path it was read from
    family: str
    kind: ModelKind = "chat"
    aliases: tuple[str, ...] = ()
    architecture: str | None = None
    model_type: str | None = None
    own_code: bool = False  # of an architecture that nobody here knows, run by code next to the weights
    params_total: int
    params_active: int | None = None  # weights read per decoded token
    params_text: int | None = None
    params_stored: int | None = None
    max_context: int | None = None
    rope_factor: float | None = None  # of linear or dynamic scaling: tables of rotations reach so many times farther
    dual_chunk: bool = False  # its config.json asks for dual chunk attention
    longer: LongerContext | None = None  # what the publisher documents for more
    dtype: str = "bfloat16"
    native_quant: str | None = None
    scale_group: int | None = None  # weights that share a 16-bit scale in its own integer format
    layout: Layout | None = None
    stub: Stub | None = None
    vision: Vision | None = None
    mtp: Mtp | None = None
    weights: Weights = Weights()
    license: str | None = None
    release_date: str | None = None
    gated: bool | None = None
    published: dict[str, PublishedSize] = {}  # "safetensors", "gguf:Q4_K_M", "mlx:4bit", "ollama", ...
    gguf: GgufDetail | None = None
    gguf_name: str | None = None  # architecture of its GGUF file, and what rules/gguf.yaml says of it
    gguf_architecture: GgufArchitecture | None = None
    gguf_repos: tuple[HubRepository, ...] = ()
    kept_16bit: dict[
        QuantizationName, Pattern
    ] = {}  # format -> pattern over GGUF tensor names that its checkpoint leaves at 16 bit
    quantized_repos: dict[QuantizationName, HubRepository] = {}  # "AWQ": repo, ... where one is known
    padded_ffn: dict[QuantizationName, int] = {}  # width of the feed-forward layers in copies of a format, where wider
    weight_blocks: dict[str, int] = {}  # repository -> side of the square blocks with one scale each; others: not known
    downloads: Annotated[tuple[Download, ...], PUT_IN] = ()  # of rules/downloads, the preferred first
    verified: bool = True
    guessed: Annotated[str | None, PUT_IN] = None  # why its layers are a guess: a configuration of an unknown class
    unverified_fields: tuple[str, ...] = ()
    notes: str | None = None
    source: tuple[str, ...] = ()

    @property
    def known_layout(self) -> Layout:
        """The layout, where the caller knows that there is one: it must not be None."""
        assert self.layout is not None
        return self.layout

    @property
    def scaled_context(self) -> int | None:
        """Tokens up to which engines serve it as it is: linear and dynamic scaling reach farther than `max_context`,
        but for Gemma 3 (vLLM 0.33.0, config/model.py). None where that is not known or not verified."""
        if self.max_context is None or "max_context" in self.unverified_fields:
            return None
        inside = "gemma3" in (self.model_type or "")  # which counts it already
        return int(self.max_context * (1 if inside else self.rope_factor or 1))

    @property
    def has_fp4_experts(self) -> bool:
        """Whether the publisher's 8-bit checkpoint has routed experts of four bits."""
        return "experts fp4" in (self.native_quant or "")

    @property
    def is_moe(self) -> bool:
        """Whether any layer has routed experts."""
        return self.layout is not None and any(isinstance(g, Moe) for g in self.layout.ffn)


def find_architecture(
    table: GgufArchitectures, model_type: str | None, kinds: Collection[str]
) -> tuple[str, GgufArchitecture] | None:
    """The architecture that checkpoints of a type become; `kinds` are the tags of their layers. None: not known."""
    for name, architecture in table.architectures.items():
        if model_type in architecture.model_types:
            required, excluded = set(architecture.only_with), set(architecture.never_with)
            if required <= set(kinds) and not excluded & set(kinds):
                return name, architecture
    return None


# how a checkpoint's own quantization starts -> weight format
NATIVE = {"mxfp4": "MXFP4", "int4": "INT4", "fp8": "FP8", "awq": "AWQ", "gptq": "GPTQ", "nvfp4": "NVFP4"}


def native_format(model: Model) -> str | None:
    """The weight format a checkpoint was published in; None for a plain 16- or 32-bit one."""
    native = (model.native_quant or "").lower()
    return next((name for word, name in NATIVE.items() if native.startswith(word)), None)
