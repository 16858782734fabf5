"""The largest draft head that a method of speculative decoding makes for a model: an upper bound where the checkpoint
itself is not known. Methods and their sources: rules/drafts.yaml.
"""

from typing import Literal

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.meanings import EngineId, QuantizationName
from advisor.models import types as t
from advisor.models.parameters import ffn_params
from advisor.record import Record

HEAD = 128  # width of a draft's heads; only the product with their number counts


class DraftMethod(Record, frozen=True, kw_only=True):
    """One method of rules/drafts.yaml."""

    names: tuple[str, ...]
    layers: int
    hidden_states: int
    feed_forward: Literal["dense", "own"]
    width: float = 1.0  # over the model's, with its own embedding
    keeps_cache: bool = True  # else it reads the model's
    tie_embeddings: bool = False
    source: tuple[str, ...]


class SmallModels(Record, frozen=True, kw_only=True):
    """Which small models draft for large ones."""

    share: float  # of the parameters of a token's pass, at most
    vocabulary_within: dict[EngineId, int]  # tokens by which vocabularies may differ; equal for other engines
    gguf: QuantizationName  # format of a draft's GGUF file
    source: tuple[str, ...]


class DraftsFile(Record, frozen=True, kw_only=True):
    """rules/drafts.yaml."""

    small_models: SmallModels
    feed_forward_width: int
    cache_rows: int
    methods: tuple[DraftMethod, ...]


def load_draft_rules(rules: Catalog) -> DraftsFile:
    """rules/drafts.yaml. Raises BadInput when an overlay spoiled it."""
    return decode_document(rules, "drafts.yaml", DraftsFile)


def find_method(name: str | None, draft: str, rules: Catalog) -> DraftMethod | None:
    """The method that a setting names, else the first whose name is part of the draft's; None where neither says."""
    known = load_draft_rules(rules).methods
    if name:
        plain = name.strip().lower().removeprefix("draft-")
        return next((m for m in known if plain in m.names), None)
    return next((m for m in known if any(n in draft.lower() for n in m.names)), None)


def largest_draft_model(model: t.Model, method: DraftMethod, rules: Catalog) -> t.Model | None:
    """A model no draft head of the method is larger than, weights and cache; None where the model's shape is not known.

    Embedding and output matrix are counted, though most drafts share the model's. Grouped-query models have drafts of
    the same kind; those with latent attention also have multi-head ones (Ling 3.0), so each head counts there.
    """
    lay = model.layout
    if lay is None or any(isinstance(g, t.Compressed) for g in lay.attention):
        return None
    most = load_draft_rules(rules)
    found = [_widths(g, most.cache_rows) for g in lay.attention]
    widths = [w for w in found if w is not None]
    if not widths:
        return None
    hidden = int(method.width * lay.hidden_size)
    heads = -(-max(lay.hidden_size, *(q for q, _ in widths)) // HEAD)
    kv_heads = min(heads, -(-max(kv for _, kv in widths) * most.cache_rows // HEAD))
    mixer = t.Full(n=method.layers, n_heads=heads, n_kv_heads=kv_heads, head_dim=HEAD, gate="elementwise",
                   kv_shared=not method.keeps_cache)  # fmt: skip
    # the first layer of EAGLE-3 reads embedding and state side by side, so its projections are twice as wide
    projected = method.hidden_states * lay.hidden_size * hidden + (heads + 2 * kv_heads) * HEAD * hidden
    return replace(
        model,
        id=f"the largest {method.names[0]} draft for {model.id}",
        aliases=(),
        architecture=None,
        model_type="llama",
        native_quant=None,
        layout=t.Layout(
            n_layers=method.layers,
            hidden_size=hidden,
            vocab_size=lay.vocab_size,
            tie_embeddings=method.tie_embeddings,
            attention=(mixer,),
            ffn=(_feed_forward(lay, method, hidden, projected, most.feed_forward_width),),
        ),
        vision=None,
        mtp=None,
        gguf=None,
        # every rank holds the projection whole; in one file with the layers it is counted there
        weights=t.Weights(extras=(t.ExtraWeights(params=projected, what="projection of the model's hidden states"),)),
        kept_16bit={},
    )


def _widths(group: t.AttentionGroup, rows: int) -> tuple[int, int] | None:
    """(elements of a token's queries, of its keys) in layers with a cache; None for those without."""
    if isinstance(group, (t.Full, t.Sliding, t.Chunked)):
        return group.n_heads * group.head_dim, group.n_kv_heads * max(group.head_dim, group.v_head_dim or 0)
    if isinstance(group, t.Mla):
        wide = group.n_heads * max(group.qk_nope_head_dim + group.qk_rope_head_dim, group.v_head_dim)
        return wide, group.n_heads * HEAD // rows
    if isinstance(group, t.Parallel):
        return next((w for p in group.parts if (w := _widths(p, rows)) is not None), None)
    return None


def _feed_forward(lay: t.Layout, method: DraftMethod, hidden: int, projected: int, width: int) -> t.FfnGroup:
    """The widest layer there may be; a dense one takes the projection in, spread over the layers."""
    own = max(lay.ffn, key=lambda g: ffn_params(g, lay.hidden_size))
    if method.feed_forward == "own" and isinstance(own, t.Moe):
        return replace(own, n=method.layers)
    dense = max((g.intermediate for g in lay.ffn if isinstance(g, t.Dense)), default=0)
    more = -(-projected // (3 * hidden * method.layers))
    return t.Dense(n=method.layers, intermediate=max(int(method.width * dense), width * hidden) + more)
