"""llama.cpp's compute buffer: scratch of the largest graph, planned before any request.

The graph of one step is laid out layer by layer and placed as ggml's allocator places it, so that nothing is fitted:
see `layers` and `graph`. Equal to the byte with the planner of v0.5.0 (CUDA) for most architectures
(docs/accuracy.md); layers of a kind that is not laid out are sized like the dense layers next to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from advisor.decoding import Json
from advisor.memo import memoize_by_identity
from advisor.memory.ggml import round_up
from advisor.memory.ggml.graph import (
    ALIGNMENT,
    F16,
    F32,
    I32,
    NONE_BORROWED,
    BorrowedWeights,
    Step,
    StepShape,
    Tensor,
    UnknownLayer,
    change,
    compute,
    copy,
    count_peak,
    is_borrowed,
    multiply,
    view,
)
from advisor.memory.ggml.layers import (
    attend,
    attend_latent,
    feed_forward,
    has_kernel,
    mix_delta_net,
    mix_mamba1,
    mix_mamba2,
    mix_short_convolution,
    shape_expanded,
    shape_heads,
)
from advisor.memory.gguf_tensors import order_ffns, order_mixers
from advisor.models import types as t
from advisor.record import Record, Value

COPIES = 4  # of a step's inputs where several devices work on batches in turn
HOST_ALIGNMENT = 32
MOST_LAYERS = 24  # with borrowed weights: where more would be laid out, matrices of a kind are taken as equally large
Borrowed = tuple[BorrowedWeights, ...]  # of each layer; empty: none
# of a layer: which of the model's mixers, which feed-forward part, what it borrows
Kind = tuple[int, int, BorrowedWeights]
_MATRICES = BorrowedWeights.__struct_fields__[:-1]
_PLAIN = (t.Softmax, t.Mla, t.GatedDeltaNet, t.ShortConv)
Layer = tuple[t.AttentionGroup, t.FfnGroup, BorrowedWeights]
_MIXERS: dict[type, Callable[[Step, Tensor, Any], Tensor]] = {
    t.Mla: attend_latent,
    t.GatedDeltaNet: mix_delta_net,
    t.Mamba1: mix_mamba1,
    t.Mamba2: mix_mamba2,
    t.ShortConv: mix_short_convolution,
}


class Share(Value, frozen=True):
    """A device's share in a step: whether it begins and ends there, and batches that are under way at once."""

    begins: bool = True
    ends: bool = True
    copies: int = 1


WHOLE = Share()


class Scratch(Record, frozen=True, kw_only=True):
    """Bytes on one device and next to it in host memory; whether every kind of layer is known."""

    device: int
    host: int
    known: bool


def count_scratch(
    model: t.Model,
    shape: StepShape,
    begin: int = 0,
    end: int | None = None,
    borrowed: Borrowed = (),
    copies: int = 1,
) -> Scratch:
    """Scratch of the device on which the layers from `begin` to before `end` lie (None: all that follow).

    `copies`: of what is handed over, where several batches are under way at once.
    """
    if not shape.flash or not shape.plain or model.layout is None or borrowed:
        return _count(model, shape, begin, end, borrowed, copies)
    # the mask lies next to everything else for as long as the step lasts: count it separately, and keep the rest
    rest = _count(model, shape.without_cells(), begin, end, borrowed, copies)
    masks = [
        (round_up(F16 * shape.tokens * cells, ALIGNMENT), there) for cells, there in _masks(model, shape, begin, end)
    ]
    host, device = sum(size for size, _ in masks), copies * sum(size for size, there in masks if there)
    return Scratch(device=rest.device + device, host=rest.host + host, known=rest.known)


def _masks(model: t.Model, shape: StepShape, begin: int, end: int | None) -> list[tuple[int, bool]]:
    """Cells of each mask that the step needs, and whether the device with these layers needs it."""
    if model.layout is None or (
        model.gguf_architecture is not None
        and (model.gguf_architecture.encoder or not model.gguf_architecture.keeps_cache)
    ):
        return []
    lay = model.layout
    here = set(order_mixers(lay)[begin:end])
    parts = [(part, i in here) for i, group in enumerate(lay.attention) for part in t.list_parts(group)]
    there: dict[bool, bool] = {}  # of windowed layers or not -> whether a layer on the device reads this mask
    for part, held in parts:
        if isinstance(part, t.Softmax):
            heads = shape_heads(part, bool(shape.window_cells))
            window, own = heads.window, not shape.gpu or has_kernel(heads)
        elif isinstance(part, t.Mla):
            window, own = False, part.absorbed or not shape.gpu or has_kernel(shape_expanded(part))
        else:
            continue
        there[window] = there.get(window, False) or (own and held)
    return [(shape.window_cells if window else shape.cells, own) for window, own in there.items()]


def _count(model: t.Model, shape: StepShape, begin: int, end: int | None, borrowed: Borrowed, copies: int) -> Scratch:
    ends = model.layout is None or end is None or end >= model.layout.n_layers
    share = Share(begins=not begin, ends=ends, copies=copies)
    return _place(model, shape, choose_layers(model, begin, end, borrowed), share)


@memoize_by_identity
def _place(model: t.Model, shape: StepShape, kinds: tuple[Kind, ...], share: Share) -> Scratch:
    lay = model.known_layout
    mixers = [lay.attention[i] for i, _, _ in kinds]
    laid_out = [_replace_unknown(mixer) for mixer in mixers]
    layers = [(mixer, lay.ffn[j], borrowed) for mixer, (_, j, borrowed) in zip(laid_out, kinds, strict=True)]
    known = all(a is b for a, b in zip(mixers, laid_out, strict=True))
    tensors, inputs = build_step(model, shape, layers, share)
    sizes = sum(round_up(x.size, HOST_ALIGNMENT) for x in inputs)
    # next to them the tokens, and room for embeddings that come instead of tokens, with further rows for images
    deep = model.gguf_architecture.graph.deepstack if model.gguf_architecture is not None else 0
    row = F32 * shape.tokens * lay.hidden_size
    host = sizes + round_up(row * (1 + deep), HOST_ALIGNMENT) + round_up(F32 * shape.tokens, HOST_ALIGNMENT)
    peak = count_peak(tensors, ALIGNMENT if shape.gpu else HOST_ALIGNMENT)
    return Scratch(device=peak, host=host, known=known)


@memoize_by_identity
def choose_layers(model: t.Model, begin: int = 0, end: int | None = None, borrowed: Borrowed = ()) -> tuple[Kind, ...]:
    """Layers in which every few that follow one another in the model do so, and the last: the peak lies in one.

    Three where layers are of at most two kinds, none of them of a Mamba, and with borrowed weights: over the catalogue
    more changed nothing. Eight for others.
    """
    lay = model.known_layout
    n, reach = lay.n_layers, 3 if borrowed or _is_plain(model) else 8
    mixers, ffns = order_mixers(lay), order_ffns(lay)

    def choose(own: Borrowed) -> list[Kind]:
        weights = (*own, *(NONE_BORROWED,) * (n - len(own)))
        return _choose(list(zip(mixers, ffns, weights, strict=True))[begin:end], reach)

    chosen = choose(borrowed[:n])
    if borrowed and len(chosen) > MOST_LAYERS:
        chosen = choose(_level(borrowed[:n], ffns))
    return tuple(chosen)


def _choose(kinds: Sequence[Kind], reach: int) -> list[Kind]:
    seen: set[tuple[Kind, ...]] = set()
    chosen = []
    for i, kind in enumerate(kinds):
        before = tuple(kinds[max(0, i + 1 - reach) : i + 1])
        if before not in seen or i == len(kinds) - 1:
            seen.add(before)
            chosen.append(kind)
    return chosen


def _level(borrowed: Borrowed, ffns: Sequence[int]) -> Borrowed:
    """Matrices of every layer as large as the largest of their kind: the peak lies where these are."""
    kinds = list(zip(ffns, borrowed, strict=False))
    most: dict[int, Json] = {}
    for ffn, own in kinds:
        known = most.setdefault(ffn, dict.fromkeys(_MATRICES, 0))
        for name in _MATRICES:
            known[name] = max(known[name], getattr(own, name))
    out = []
    for ffn, own in kinds:
        out.append(replace(own, **{n: size for n, size in most[ffn].items() if getattr(own, n)}))
    return tuple(out)


@memoize_by_identity
def _is_plain(model: t.Model) -> bool:
    lay = model.known_layout
    kinds = set(zip(order_mixers(lay), order_ffns(lay), strict=True))
    return len(kinds) <= 2 and all(isinstance(x, _PLAIN) for x in lay.attention)


def split_scratch(model: t.Model, shape: StepShape, places: Sequence[tuple[int, int]]) -> list[int]:
    """Bytes of each device where layers are shared out; `places` are the layers of each, from the first to the last.

    Several batches are under way at once, each with copies of its inputs, which lie next to everything else. Source:
    ggml_backend_sched_split_graph of llama.cpp b11434.
    """
    return [count_scratch(model, shape, begin, end, copies=COPIES).device for begin, end in places]


def count_borrowed(model: t.Model, shape: StepShape, borrowed: Borrowed) -> int:
    """Scratch of the first device for matrices in host memory that belong to layers of other devices: a matrix is
    fetched while the one before it is in use. Learned from the planner's rows (tests/data/llamacpp_fit.csv)."""
    most = max((max(x.gate + x.up, x.up + x.down) for x in borrowed), default=0)
    return most + F32 * shape.tokens * model.known_layout.hidden_size if most else 0


def _replace_unknown(mixer: t.AttentionGroup) -> t.AttentionGroup:
    """A token mixer of a kind that is laid out, about as wide as one that is not."""
    if isinstance(mixer, (*_PLAIN, t.Mamba1, t.Mamba2, t.NoMixer, t.Parallel)):
        return mixer
    if isinstance(mixer, (t.Kda, t.Lightning)):
        heads, width, kernel = mixer.n_heads, mixer.head_dim, mixer.conv_kernel if isinstance(mixer, t.Kda) else 1
        return t.GatedDeltaNet(n=1, k_heads=heads, v_heads=heads, k_dim=width, v_dim=width, conv_kernel=kernel)
    return t.Full(n=1, n_heads=mixer.n_heads, n_kv_heads=mixer.n_kv_heads, head_dim=mixer.head_dim)


def build_step(
    model: t.Model, shape: StepShape, layers: Sequence[Layer], share: Share = WHOLE
) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors of a device's share in one step, in the engine's order, and those of them that are handed over.

    Raises UnknownLayer for layers of a kind that is not laid out.
    """
    step = Step(model, shape)
    deepstack = step.traits.deepstack
    tensor = _embed(step) if share.begins else _take_over(step, "residual")
    padded = compute((step.hidden * (1 + deepstack), step.tokens), tensor)
    tensor = view(padded, (step.hidden, step.tokens), "own") if deepstack and share.begins else tensor
    each = _embed_per_layer(step, tensor)
    last_on_host = None
    for i, layer in enumerate(layers):
        normed = None if i or share.begins or not _norms_first(step) else _take_over(step, "normed")
        tensor = _add_layer(step, tensor, layer, i, last=share.ends and i == len(layers) - 1, normed=normed)
        last_on_host = tensor if step.borrowed.whole else last_on_host
        if i < deepstack and share.begins:
            tensor = change(tensor, view(padded, (step.hidden, step.tokens), f"deep {i}"))
        if each is not None:
            tensor = _add_own_embedding(step, tensor, each)
        if step.names.layer_scale:
            tensor = change(tensor)
    if not share.ends and _norms_first(step):  # the next layer's norm has no weights: it is computed here
        step.graph.expand(step.normalize(tensor, weighted=False)).output = True
    if share.ends:
        tensor = step.normalize(tensor)
        if step.traits.keeps_all_rows:
            tensor = _pick(step, tensor)
        if not step.encodes:
            tensor = multiply(tensor, step.layout.vocab_size)
    tensor.output = True
    step.graph.expand(tensor)
    inputs = list(step.inputs.values())
    if share.copies == 1:
        return _hand_over(inputs, step.graph.tensors, last_on_host), inputs
    for tensor in inputs:
        tensor.output = True  # of a batch that may still be under way: never overwritten
    copies = [Tensor(x.size, x.layout, output=True) for x in inputs for _ in range(share.copies - 1)]
    return [*inputs, *copies, *step.graph.tensors], inputs


def _norms_first(step: Step) -> bool:
    """Whether layers begin with a norm."""
    return step.traits.block not in ("post", "sum")


def _take_over(step: Step, name: str) -> Tensor:
    """What the device before gives."""
    return step.get_input(name, F32 * step.hidden * step.tokens, (step.hidden, step.tokens))


def _hand_over(inputs: Sequence[Tensor], tensors: Sequence[Tensor], last_on_host: Tensor | None) -> list[Tensor]:
    """Inputs before the part of the graph that reads them first.

    Each borrowed matrix begins a new part, and each operation does up to `last_on_host`, what the last layer gives that
    lies in host memory. Source: ggml_backend_sched_split_graph of llama.cpp b11434.
    """
    if not any(is_borrowed(x) for x in tensors):
        return [*inputs, *tensors]
    parts, alone = [list[Tensor]()], last_on_host is not None
    for tensor in tensors:
        if is_borrowed(tensor) or (alone and not (parts[-1] and is_borrowed(parts[-1][-1]))):
            parts.append([])
        parts[-1].append(tensor)
        alone = alone and tensor is not last_on_host
    first, read = dict[int, list[Tensor]](), set[int]()  # inputs by the part that reads them first
    own = {id(x): x for x in inputs}
    for i, part in enumerate(parts):
        new = {id(x) for tensor in part for x in tensor.operands if id(x) in own} - read
        if new:
            first[i] = [x for x in inputs if id(x) in new]
            read |= new
    out = list[Tensor]()
    for i, part in enumerate(parts):
        begin = int(bool(part) and is_borrowed(part[0]))
        out += [*part[:begin], *first.get(i, ()), *part[begin:]]
    return out + [x for x in inputs if id(x) not in read]


def _embed(step: Step) -> Tensor:
    """Rows of the embedding: looked up in host memory, where the table lies, and handed over to a GPU."""
    shape = (step.hidden, step.tokens)
    if step.shape.gpu:
        return step.get_input("embedding", F32 * step.hidden * step.tokens, shape)
    tokens = step.get_input("tokens", F32 * step.tokens)
    step.get_input("embeddings instead", F32 * step.hidden * (1 + step.traits.deepstack) * step.tokens)
    return compute(shape, tokens)


def _embed_per_layer(step: Step, tensor: Tensor) -> Tensor | None:
    """The parts of a second embedding that the layers add, all of them at once."""
    table = step.layout.per_layer
    if table is None:
        return None
    n, layers = step.tokens, step.layout.n_layers
    shape = (table.width, layers, n)
    looked_up = step.get_input("per layer", F32 * table.width * layers * n, shape)
    projected = change(multiply(tensor, table.width * layers))
    joined = change(change(step.normalize(view(projected, shape)), looked_up))
    return copy(view(joined, (table.width, n, layers), "permuted"), (table.width, n, layers))


def _add_own_embedding(step: Step, tensor: Tensor, each: Tensor) -> Tensor:
    table = step.layout.per_layer
    assert table is not None
    shape = (table.width, step.tokens)
    gate = change(change(multiply(tensor, table.width)), view(each, shape, "own"))
    return change(tensor, step.normalize(multiply(gate, step.hidden)))


def _pick(step: Step, tensor: Tensor) -> Tensor:
    """The rows whose logits are needed."""
    rows = step.shape.outputs
    return compute((step.hidden, rows), tensor, step.get_input("output rows", I32 * rows))


def _sum(step: Step, tensor: Tensor, residual: Tensor) -> Tensor:
    return change(residual, tensor) if step.traits.residual_first else change(tensor, residual)


def _add_layer(
    step: Step, tensor: Tensor, layer: Layer, number: int, last: bool, normed: Tensor | None = None
) -> Tensor:
    mixer, ffn, step.borrowed = layer
    block = step.traits.block
    before, after = _norms_first(step), block in ("post", "sandwich")
    residual = tensor
    if before:  # of a norm that the device before has computed, the product with the weights is left
        tensor = step.normalize(tensor) if normed is None else change(normed)
    normed = tensor
    mixed = None if isinstance(mixer, t.NoMixer) else _mix(step, normed, mixer, number, residual)
    if last and not step.traits.keeps_all_rows:
        mixed = None if mixed is None else _pick(step, mixed)
        residual = _pick(step, residual)
        normed = _pick(step, normed) if block == "parallel" else normed
    if block == "parallel" and mixed is not None and not isinstance(ffn, t.NoFfn):
        return change(change(feed_forward(step, normed, ffn), residual), mixed)
    tensor = residual
    if mixed is not None:
        tensor = _sum(step, step.normalize(mixed) if after else mixed, residual)
        tensor = step.normalize(tensor) if block == "sum" else tensor
    if isinstance(ffn, t.NoFfn):
        return tensor
    out = feed_forward(step, step.normalize(tensor) if before else tensor, ffn)
    tensor = _sum(step, step.normalize(out) if after else out, tensor)
    return step.normalize(tensor) if block == "sum" else tensor


def _mix(step: Step, tensor: Tensor, mixer: t.AttentionGroup, number: int, residual: Tensor) -> Tensor:
    if isinstance(mixer, t.Parallel):
        first, *others = mixer.parts
        mixed = _mix(step, tensor, first, number, residual)
        for part in others:  # each part norms the layer's input again
            mixed = change(mixed, _mix(step, step.normalize(residual), part, number, residual))
        return mixed
    if isinstance(mixer, t.Softmax):
        return attend(step, tensor, mixer, number)
    if type(mixer) not in _MIXERS:
        raise UnknownLayer(type(mixer).__name__)
    return _MIXERS[type(mixer)](step, tensor, mixer)
