"""What an architecture name of a GGUF file says: names of tensors, layers with a window, how layers are put together.

The table is rules/gguf.yaml; it is llama.cpp's reading of these files, and that of the engines built on it.
"""

from collections.abc import Collection
from typing import Literal

from advisor.meanings import ModelType
from advisor.record import Record


class WindowRule(Record, frozen=True, kw_only=True):
    """Which layers look back a limited number of tokens. A pattern that the file stores wins."""

    every: int | None = None  # one layer in so many is full; None: only the file can say which
    first: bool = False  # the full one is the first of its period, else the last
    size: int | None = None  # tokens, where the file gives no `attention.sliding_window`
    fixed_size: int | None = None  # tokens, whatever the file gives
    needs_size: bool = False  # without `attention.sliding_window` no layer has a window
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
    layer_norm: bool = False  # norms that subtract the mean, and cannot work in place
    positions: int = 1  # numbers that tell the position of a token
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
    weights_first: bool = False  # experts see inputs that are weighted already
    keeps_all_rows: bool = False  # the last layer computes all tokens, not only those whose logits are needed
    residual_first: bool = False  # sums begin with what the layer was given
    whole: bool = True  # every part that takes scratch is followed; else scratch is near, not exact


class GgufArchitecture(Record, frozen=True, kw_only=True):
    """One architecture. The defaults hold for most."""

    model_types: tuple[ModelType, ...] = ()  # of the checkpoints that become it
    only_with: tuple[str, ...] = ()  # kinds of layers that such a checkpoint must have
    never_with: tuple[str, ...] = ()  # and must not have
    windows: WindowRule | None = None  # None: llama.cpp does not use a window, whatever the checkpoint has
    listed: bool = True  # False: read from a file's tensors, as it stands in no table
    encoder: bool = False  # every token sees all, and the output is no logits
    keeps_cache: bool = True
    # `type` of its 80-layer models, for which llama-quantize has rules of its own: all, or those with grouped queries
    size_class: Literal["70B", "70B-grouped"] | None = None
    own_caches: int | None = None  # layers with a cache of their own; those after them read an earlier one's
    tensors: TensorTraits = TensorTraits()
    graph: GraphTraits = GraphTraits()


class GgufArchitectures(Record, frozen=True, kw_only=True):
    """`rules/gguf.yaml`."""

    source: str
    architectures: dict[str, GgufArchitecture]


def find_architecture(
    table: GgufArchitectures, model_type: str | None, kinds: Collection[str]
) -> tuple[str, GgufArchitecture] | None:
    """The architecture that checkpoints of a type become; `kinds` are the tags of their layers. None: not known."""
    for name, architecture in table.architectures.items():
        if model_type in architecture.model_types:
            wanted, barred = set(architecture.only_with), set(architecture.never_with)
            if wanted <= set(kinds) and not barred & set(kinds):
                return name, architecture
    return None
