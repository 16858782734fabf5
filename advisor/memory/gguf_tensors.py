"""The tensors of a GGUF file, from a model's architecture: names and shapes as llama.cpp's converter writes them.

Used when there is no file to read. A file's own tensor table always wins.
Source: llama.cpp v0.5.0 model loader (shapes it checks on load); counts checked against llamacpp_memory.csv.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.memo import KEPT_LARGE, memoize_by_identity
from advisor.memory.gguf_shapes import NoLayout as NoLayout
from advisor.memory.gguf_shapes import Shape, layer_shapes, read_tensor_traits
from advisor.models import types as t
from advisor.record import Record


class GgufTensor(Record, frozen=True, kw_only=True):
    """One tensor: GGUF name, elements per dimension (row first) and its layer (None outside the layers)."""

    name: str
    ne: tuple[int, ...]
    layer: int | None = None
    part: str = ""  # the name without its layer; empty: outside the layers
    mtp: bool = False  # part of a multi-token-prediction block, which is not loaded by default

    @property
    def expert(self) -> bool:
        """Whether the tensor holds routed experts (what `--cpu-moe` keeps on the host)."""
        return "_exps." in self.name


def layer_order(
    groups: tuple[t.AttentionGroup, ...] | tuple[t.FfnGroup, ...], given: tuple[int, ...], n: int
) -> list[int]:
    """Index of the group of every layer. Where no order is known, groups follow one another."""
    if given:
        return [given[i % len(given)] for i in range(n)]
    flat = [k for k, g in enumerate(groups) for _ in range(g.n)]
    return flat[:n] + [len(groups) - 1] * (n - len(flat))


def list_tensors(model: t.Model) -> tuple[GgufTensor, ...]:
    """All tensors of the text model's GGUF file. Raises NoLayout when a part of the architecture is not known."""
    return _remembered(model)


def count_equal_tensors(model: t.Model) -> tuple[tuple[GgufTensor, int], ...]:
    """The tensors without the prediction block; equal ones of several layers once, with their number."""
    return _counted(model)


def _count(model: t.Model) -> tuple[tuple[GgufTensor, int], ...]:
    first: dict[tuple[str, tuple[int, ...], bool, bool], GgufTensor] = {}
    numbers: dict[tuple[str, tuple[int, ...], bool, bool], int] = {}
    for tensor in list_tensors(model):
        if tensor.mtp:
            continue
        name = tensor.part or tensor.name
        key = (name, tensor.ne, tensor.expert, tensor.layer is None)
        first.setdefault(key, tensor)
        numbers[key] = numbers.get(key, 0) + 1
    return tuple((x, numbers[key]) for key, x in first.items())


def _all_tensors(model: t.Model) -> tuple[GgufTensor, ...]:
    model = as_gguf(model)
    lay = model.layout
    if lay is None:
        raise NoLayout(f"the layers of {model.id} are not known")
    if not lay.attention_order and sum(g.n for g in lay.attention) > lay.n_layers:
        raise NoLayout(f"the tensors of {model.id}, with more than one block of attention a layer, are not known")
    d, vocab = lay.hidden_size, lay.vocab_size
    traits = read_tensor_traits(model)
    out = [GgufTensor(name="token_embd.weight", ne=(d, vocab))]
    for norm in (traits.final_norm, traits.embedding_norm):
        if norm:
            out.append(GgufTensor(name=f"{norm}.weight", ne=(d,)))
            if model.weights.norm_bias:
                out.append(GgufTensor(name=f"{norm}.bias", ne=(d,)))
    if not lay.tie_embeddings:
        out.append(GgufTensor(name="output.weight", ne=(d, vocab)))
    if model.weights.lm_head_bias:
        out.append(GgufTensor(name="output.bias", ne=(vocab,)))
    out += _rope_factors(model)
    mixers = layer_order(lay.attention, lay.attention_order, lay.n_layers)
    ffns = layer_order(lay.ffn, lay.ffn_order, lay.n_layers)
    kinds: dict[tuple[int, int], tuple[Shape, ...]] = {}
    for i in range(lay.n_layers):
        kind = (mixers[i], ffns[i])
        if kind not in kinds:
            kinds[kind] = tuple(layer_shapes(model, lay.attention[kind[0]], lay.ffn[kind[1]]))
        out += [_in_layer(i, x) for x in kinds[kind]]
    out += _mtp(model, lay)
    return tuple(out)


_remembered = memoize_by_identity(_all_tensors, KEPT_LARGE)
_counted = memoize_by_identity(_count, KEPT_LARGE)


def as_gguf(model: t.Model) -> t.Model:
    """The model with the dims of its GGUF conversion, where these differ from the checkpoint's own."""
    return model if model.gguf is None or model.layout is None else _converted(model)


@memoize_by_identity
def _converted(model: t.Model) -> t.Model:
    gguf_detail, lay = model.gguf, model.layout
    assert gguf_detail is not None
    assert lay is not None
    groups = (
        tuple(_gated(x, gguf_detail.gated_norm) for x in lay.attention)
        if gguf_detail.gated_norm is not None
        else lay.attention
    )
    lay = msgspec.structs.replace(lay, vocab_size=gguf_detail.vocab_size or lay.vocab_size, attention=groups)
    return msgspec.structs.replace(model, layout=lay)


def _gated(group: t.AttentionGroup, norm: bool) -> t.AttentionGroup:
    if isinstance(group, t.Mamba2):
        return msgspec.structs.replace(group, gated_norm=norm)
    if isinstance(group, t.Parallel):
        parts = tuple(
            msgspec.structs.replace(p, gated_norm=norm) if isinstance(p, t.Mamba2) else p for p in group.parts
        )
        return msgspec.structs.replace(group, parts=parts)
    return group


def _in_layer(i: int, shape: Shape, mtp: bool = False) -> GgufTensor:
    return GgufTensor(name=f"blk.{i}.{shape[0]}", ne=shape[1], layer=i, part=shape[0], mtp=mtp)


def _rope_factors(model: t.Model) -> Iterator[GgufTensor]:
    """Llama 3.1 and later keep their rotary scaling as one small tensor in the file."""
    lay = model.layout
    assert lay is not None
    first = lay.attention[0]
    if model.architecture == "LlamaForCausalLM" and model.family.startswith(("llama-3.1", "llama-3.2", "llama-3.3")):
        assert isinstance(first, t.Full)
        yield GgufTensor(name="rope_freqs.weight", ne=(first.head_dim // 2,))
    elif read_tensor_traits(model).full_rope_factors:
        full = next((x for x in lay.attention if isinstance(x, t.Full)), None)
        if full is not None:
            yield GgufTensor(name="rope_freqs.weight", ne=(full.head_dim // 2,))


def _mtp(model: t.Model, lay: t.Layout) -> Iterator[GgufTensor]:
    """The multi-token-prediction block that converters append; it stays on disk unless speculation loads it."""
    if model.mtp is None or not model.mtp.layers or not read_tensor_traits(model).prediction:
        return
    d = lay.hidden_size
    for k in range(model.mtp.layers):
        i = lay.n_layers + k
        for shape in layer_shapes(model, lay.attention[-1], lay.ffn[-1]):
            yield _in_layer(i, shape, mtp=True)
        for name, ne in (
            ("nextn.eh_proj.weight", (2 * d, d)),
            ("nextn.embed_tokens.weight", (d, lay.vocab_size)),
            ("nextn.enorm.weight", (d,)),
            ("nextn.hnorm.weight", (d,)),
            ("nextn.shared_head_head.weight", (d, lay.vocab_size)),
            ("nextn.shared_head_norm.weight", (d,)),
        ):
            yield _in_layer(i, (name, ne), mtp=True)


def list_file_tensors(model: t.Model) -> tuple[GgufTensor, ...]:
    """All tensors of the model's GGUF file: those of `list_tensors`, and embeddings that only some layers read."""
    return _in_file(model)


def _all_in_file(model: t.Model) -> tuple[GgufTensor, ...]:
    return (*list_tensors(model), *_named(model), *_per_layer(as_gguf(model)))


_in_file = memoize_by_identity(_all_in_file, KEPT_LARGE)


def _named(model: t.Model) -> Iterator[GgufTensor]:
    """Further tables with a row for each position or kind of token; the file has no more positions than are trained."""
    hidden = model.layout.hidden_size if model.layout is not None else 1
    for table in model.weights.extras:
        if table.name is not None:
            rows = table.params // hidden
            yield GgufTensor(name=table.name, ne=(hidden, min(rows, model.max_context or rows)))


def _per_layer(model: t.Model) -> Iterator[GgufTensor]:
    """Embeddings per layer with what brings them into the layers (Gemma 3n and 4); AltUp's and Laurel's matrices."""
    lay = model.layout
    if lay is None or lay.per_layer is None:
        return
    table, d, n = lay.per_layer, lay.hidden_size, lay.n_layers
    yield GgufTensor(name="per_layer_token_embd.weight", ne=(table.width * n, table.rows))
    yield GgufTensor(name="per_layer_model_proj.weight", ne=(d, table.width * n))
    yield GgufTensor(name="per_layer_proj_norm.weight", ne=(table.width,))
    each: list[Shape] = [
        ("inp_gate.weight", (d, table.width)),
        ("proj.weight", (table.width, d)),
        ("post_norm.weight", (d,)),
    ]
    if table.streams > 1:
        more = table.streams - 1
        yield GgufTensor(name="altup_proj.weight", ne=(d, d, more))
        yield GgufTensor(name="altup_unembd_proj.weight", ne=(d, d, more))
        each += [
            ("altup_correct_coef.weight", (table.streams, table.streams)),
            ("altup_correct_scale.weight", (d,)),
            ("altup_predict_coef.weight", (table.streams, table.streams**2)),
            ("altup_router.weight", (d, table.streams)),
            ("altup_router_norm.weight", (d,)),
        ]
    if table.laurel_rank:
        rank = table.laurel_rank
        each += [("laurel_l.weight", (d, rank)), ("laurel_r.weight", (rank, d)), ("laurel_post_norm.weight", (d,))]
    for i in range(n):
        yield from (_in_layer(i, shape) for shape in each)
