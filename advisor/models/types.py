"""The architecture of one model family's checkpoint, as far as memory and speed depend on it.

Counts are elements (parameters), widths are elements per token. `None` is unknown. The kinds of layers, which stand
in layer_types, are given on from here: who asks for a model's parts needs one module.
"""

from typing import Annotated, Literal

from advisor.decoding import convert
from advisor.meanings import PUT_IN, Pattern, QuantizationName, SourceKey
from advisor.memo import MemoRecord
from advisor.models.gguf_architecture import GgufArchitecture
from advisor.models.layer_types import AttentionGroup as AttentionGroup
from advisor.models.layer_types import Chunked as Chunked
from advisor.models.layer_types import Compressed as Compressed
from advisor.models.layer_types import Cross as Cross
from advisor.models.layer_types import Dense as Dense
from advisor.models.layer_types import Encoder as Encoder
from advisor.models.layer_types import FfnGroup as FfnGroup
from advisor.models.layer_types import Full as Full
from advisor.models.layer_types import GatedDeltaNet as GatedDeltaNet
from advisor.models.layer_types import Indexer as Indexer
from advisor.models.layer_types import Kda as Kda
from advisor.models.layer_types import Lightning as Lightning
from advisor.models.layer_types import Mamba1 as Mamba1
from advisor.models.layer_types import Mamba2 as Mamba2
from advisor.models.layer_types import Mla as Mla
from advisor.models.layer_types import Moe as Moe
from advisor.models.layer_types import NoFfn as NoFfn
from advisor.models.layer_types import NoMixer as NoMixer
from advisor.models.layer_types import Parallel as Parallel
from advisor.models.layer_types import ParallelPart as ParallelPart
from advisor.models.layer_types import ShortConv as ShortConv
from advisor.models.layer_types import SimpleGroup as SimpleGroup
from advisor.models.layer_types import Sliding as Sliding
from advisor.models.layer_types import Softmax as Softmax
from advisor.record import Record


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
    repository: str
    src: SourceKey
    bytes: int | None = None  # of the weight files, where a source states them
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


class Model(MemoRecord, frozen=True, kw_only=True):
    """One checkpoint. `layout` is None for stubs."""

    id: str  # hub id, or the path it was read from
    family: str
    kind: Literal["chat", "embedding", "reranker"] = "chat"
    aliases: tuple[str, ...] = ()
    architecture: str | None = None
    model_type: str | None = None
    own_code: bool = False  # of an architecture that nobody here knows, run by code next to the weights
    params_total: int
    params_active: int | None = None  # weights read per decoded token
    params_text: int | None = None
    params_stored: int | None = None
    max_context: int | None = None
    rope_factor: float | None = None  # of linear scaling: tables of rotations reach so many times farther
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
    gguf_repos: tuple[str, ...] = ()
    kept_16bit: dict[
        QuantizationName, Pattern
    ] = {}  # format -> pattern over GGUF tensor names that its checkpoint leaves at 16 bit
    quantized_repos: dict[QuantizationName, str] = {}  # "AWQ": repo, ... where one is known
    weight_blocks: dict[str, int] = {}  # repository -> side of the square blocks with one scale each; others: not known
    downloads: Annotated[tuple[Download, ...], PUT_IN] = ()  # of rules/downloads, the preferred first
    verified: bool = True
    unverified_fields: tuple[str, ...] = ()
    notes: str | None = None
    source: tuple[str, ...] = ()

    @property
    def is_moe(self) -> bool:
        """Whether any layer has routed experts."""
        return self.layout is not None and any(isinstance(g, Moe) for g in self.layout.ffn)


def decode_model(data: object) -> Model:
    """Plain dicts as a Model. Raises msgspec.ValidationError with the path of what is wrong."""
    return convert(data, Model)
