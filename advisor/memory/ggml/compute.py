"""llama.cpp's compute buffer: scratch of the largest graph, planned before any request.

The graph of one step is laid out layer by layer and placed as ggml's allocator places it, so that nothing is fitted:
see `layers` and `graph`. Equal to the byte with the planner of v0.5.0 (CUDA) for most architectures
(docs/accuracy.md); layers of a kind that is not laid out are sized like the dense layers next to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from msgspec.structs import replace

from advisor.memo import memoize_by_identity
from advisor.memory.ggml import HOST, round_up
from advisor.memory.ggml import layers as parts
from advisor.memory.ggml.graph import (
    ALIGNMENT,
    F16,
    F32,
    HOST_ALIGNMENT,
    I32,
    ON_DEVICE,
    PlacedLayer,
    Step,
    StepShape,
    Tensor,
    UnknownLayer,
    change,
    compute,
    copy,
    count_peak,
    read_shape,
    view,
)
from advisor.memory.gguf_tensors import order_ffns, order_mixers
from advisor.models import types as t
from advisor.models.types import GgufArchitecture
from advisor.record import Record

COPIES = 4  # of a step's inputs where several devices work on batches in turn
MOST_LAYERS = 24  # next to weights in host memory: beyond it layers of a kind are taken as equally large
Placed = tuple[PlacedLayer, ...]  # of each layer, and of what follows the last one; empty: all on one device
Kind = tuple[int, int, PlacedLayer]  # of a layer: which of the model's mixers, which feed-forward part, where
_PLAIN = (t.Softmax, t.Mla, t.GatedDeltaNet, t.ShortConv)
Layer = tuple[t.AttentionGroup, t.FfnGroup, PlacedLayer]
_MIXERS: dict[type, Callable[[Step, Tensor, Any], Tensor]] = {
    t.Mla: parts.attend_latent,
    t.GatedDeltaNet: parts.mix_delta_net,
    t.Mamba1: parts.mix_mamba1,
    t.Mamba2: parts.mix_mamba2,
    t.ShortConv: parts.mix_short_convolution,
}


class Scratch(Record, frozen=True, kw_only=True):
    """Bytes on one device and next to it in host memory; whether every kind of layer is known."""

    device: int
    host: int
    known: bool


def count_scratch(model: t.Model, shape: StepShape) -> Scratch:
    """Scratch where all layers lie on one device."""
    indexed = model.gguf_architecture is not None and model.gguf_architecture.index_cache is not None
    if not shape.flash or not shape.plain or model.layout is None or indexed:
        return _count(model, shape, choose_layers(model))
    # the mask lies next to everything else for as long as the step lasts: count it separately, and keep the rest
    rest = _count(model, shape.without_cells(), choose_layers(model))
    masks = [(round_up(F16 * shape.tokens * cells, ALIGNMENT), there) for cells, there in _masks(model, shape)]
    host, device = sum(size for size, _ in masks), sum(size for size, there in masks if there)
    return Scratch(device=rest.device + device, host=rest.host + host, known=rest.known)


def _masks(model: t.Model, shape: StepShape) -> list[tuple[int, bool]]:
    """Cells of each mask that the step needs, and whether the device needs it."""
    architecture = model.gguf_architecture
    if model.layout is None or (architecture is not None and (architecture.encoder or not architecture.keeps_cache)):
        return []
    there: dict[bool, bool] = {}  # of windowed layers or not -> whether the device reads this mask
    for part in model.layout.mixers:
        if isinstance(part, t.Softmax):
            heads = parts.shape_heads(part, bool(shape.window_cells))
            window, own = heads.window, not shape.gpu or parts.has_kernel(heads)
        elif isinstance(part, t.Mla):
            heads = parts.shape_absorbed(part) if part.absorbed else parts.shape_expanded(part)
            window, own = False, not shape.gpu or parts.has_kernel(heads)
        else:
            continue
        there[window] = there.get(window, False) or own
    return [(shape.window_cells if window else shape.cells, own) for window, own in there.items()]


@memoize_by_identity
def _count(model: t.Model, shape: StepShape, kinds: tuple[Kind, ...]) -> Scratch:
    lay = model.known_layout
    layers, known = _lay_out(model, kinds)
    tensors, inputs = build_step(model, shape, layers)
    sizes = sum(round_up(x.size, HOST_ALIGNMENT) for x in inputs)
    # next to them the tokens, and room for embeddings that come instead of tokens, with further rows for images
    deep = model.gguf_architecture.graph.deepstack if model.gguf_architecture is not None else 0
    row = F32 * shape.tokens * lay.hidden_size
    host = sizes + round_up(row * (1 + deep), HOST_ALIGNMENT) + round_up(F32 * shape.tokens, HOST_ALIGNMENT)
    peak = count_peak([*inputs, *tensors], ALIGNMENT if shape.gpu else HOST_ALIGNMENT)
    return Scratch(device=peak, host=host, known=known)


def _lay_out(model: t.Model, kinds: Sequence[Kind]) -> tuple[list[Layer], bool]:
    """The layers of these kinds, and whether each is of a kind that is laid out."""
    lay = model.known_layout
    laid_out = [_replace_unknown(lay.attention[i]) for i, _, _ in kinds]
    known = all(lay.attention[i] is x for (i, _, _), x in zip(kinds, laid_out, strict=True))
    return [(mixer, lay.ffn[j], place) for mixer, (_, j, place) in zip(laid_out, kinds, strict=True)], known


def share_scratch(
    model: t.Model, shape: StepShape, placed: Placed, devices: int, copies: int, only: int | None = None
) -> dict[int, int]:
    """Bytes of each device and of the host where layers lie in several places, or of `only` one of these. `copies`:
    batches under way at once."""
    # copies of what crosses in every layer add up
    crosses = model.known_layout.per_layer is not None or not parts.has_kernels(model) or any(x.lent for x in placed)
    adds_up = copies > 1 and crosses
    kinds, shape = choose_layers(model, placed, all_of_them=adds_up), replace(shape, scheduled=True)
    if adds_up or not _is_chain(model):
        return _share(model, shape, kinds, placed[-1], devices, copies)
    every = shape.cache_on_host or not parts.has_kernels(model)
    out = {}
    for place in (*range(devices), HOST) if only is None else (only,):
        near, output = _look_from(max(place, 0), kinds, placed[-1], every)
        out[place] = _share(model, shape, near, output, 3, copies)[min(place, 1)] if near else 0
    return out


@memoize_by_identity
def _is_chain(model: t.Model) -> bool:
    """Whether a layer takes from others only what the one before it gives, and its number says nothing of it."""
    architecture, lay = model.gguf_architecture or GgufArchitecture(), model.known_layout
    graph = architecture.graph
    linked = graph.hyper_streams or graph.deepstack or graph.no_rope_every or architecture.index_cache is not None
    return (
        not linked
        and lay.per_layer is None
        and not any(isinstance(x, t.NoMixer) or (isinstance(x, t.Softmax) and x.kv_shared) for x in lay.mixers)
    )


def _look_from(
    at: int, kinds: tuple[Kind, ...], output: PlacedLayer, every: bool
) -> tuple[tuple[Kind, ...], PlacedLayer]:
    """The layers on which the scratch of a device depends, those with an operation there and the ones next to them, and
    the output; other devices are one to it. The first, which borrows from the host, is looked at with it. `every`: all
    layers come to the host."""
    last, end = kinds[-1][2].place, len(kinds) - 1
    if at:
        names, rest = {HOST: HOST, at: 1}, 0
        own = [i for i, (_, _, layer) in enumerate(kinds) if _works_at(layer, at)]
        own += [end] if _works_at(output, at) else []
    else:  # what is handed over, other things to each kind of layer, is kept until the last device has it
        names, rest = {last: 2, HOST: HOST, 0: 0}, 1
        firsts = {kinds[i][0]: i for i in range(end, -1, -1)}
        own = [i for i, (_, _, x) in enumerate(kinds) if every or x.lent or x.place <= 0 or x.moved]
        own += [end, *firsts.values()]
    near = sorted({x for i in own for x in (i - 1, i, i + 1) if 0 <= x <= end})
    return (
        tuple((kinds[i][0], kinds[i][1], _rename(kinds[i][2], names, rest, not at)) for i in near),
        _rename(output, names, rest, not at),
    )


def _works_at(layer: PlacedLayer, place: int) -> bool:
    """Whether a device, or the host, does something of a layer."""
    return layer.place == place or any(at == place for _, at in layer.moved)


def _rename(layer: PlacedLayer, names: dict[int, int], rest: int, borrows: bool) -> PlacedLayer:
    """A layer with other numbers of the places; how large what lies in host memory is matters where it is borrowed."""
    place, lent, moved = names.get(layer.place, rest), layer.lent, layer.moved
    if place == layer.place and (borrows or not lent) and not moved:
        return layer
    return PlacedLayer(
        place=place,
        lent=lent if borrows else tuple((name, 1) for name, _ in lent),
        moved=tuple((name, names.get(at, rest)) for name, at in moved),
    )


@memoize_by_identity
def _share(
    model: t.Model, shape: StepShape, kinds: tuple[Kind, ...], output: PlacedLayer, devices: int, copies: int
) -> dict[int, int]:
    from advisor.memory.ggml.schedule import count_places

    tensors, inputs = build_step(model, shape, _lay_out(model, kinds)[0], output)
    return count_places(tensors, inputs, devices, copies)


@memoize_by_identity
def choose_layers(model: t.Model, placed: Placed = (), all_of_them: bool = False) -> tuple[Kind, ...]:
    """Layers in which every few that follow one another in the model do so, and the last: the peak lies in one.

    Three where layers are of at most two kinds, none of them of a Mamba, and in several places: over the catalogue more
    changed nothing. Eight for others.
    """
    lay = model.known_layout
    n, borrows = lay.n_layers, any(x.lent for x in placed)
    reach = 3 if borrows or (not placed and _is_plain(model)) else 8
    mixers, ffns = order_mixers(lay), order_ffns(lay)
    if all_of_them:
        return tuple(zip(mixers, ffns, placed[:n], strict=True))

    def choose(places: Placed) -> list[Kind]:
        return _choose(list(zip(mixers, ffns, places[:n], strict=True)), reach, even=bool(placed) and not borrows)

    chosen = choose(placed or (ON_DEVICE,) * n)
    if placed and len(chosen) > MOST_LAYERS:
        chosen = choose(_level(list(zip(mixers, ffns, placed[:n], strict=True))))
    return tuple(chosen)


def _choose(kinds: Sequence[Kind], reach: int, even: bool) -> list[Kind]:
    """`even`: an even number is left out, as what a layer gives lies where that of the last but one lay."""
    seen: set[tuple[Kind, ...]] = set()
    chosen: list[Kind] = []
    skipped = 0
    for i, kind in enumerate(kinds):
        before = tuple(kinds[max(0, i + 1 - reach) : i + 1])
        if before in seen and i < len(kinds) - 1:
            skipped += 1
            continue
        seen.add(before)
        chosen += [kinds[i - 1], kind] if even and skipped % 2 else [kind]
        skipped = 0
    return chosen


def _level(kinds: Sequence[Kind]) -> Placed:
    """Tensors in host memory of every layer as large as the largest of their name: the peak lies where these are."""
    most: dict[tuple[int, int, str], int] = {}
    for mixer, ffn, layer in kinds:
        for name, size in layer.lent:
            key = (mixer, ffn, name)
            most[key] = max(most.get(key, 0), size)
    return tuple(
        replace(layer, lent=tuple((name, most[mixer, ffn, name]) for name, _ in layer.lent))
        for mixer, ffn, layer in kinds
    )


@memoize_by_identity
def _is_plain(model: t.Model) -> bool:
    lay = model.known_layout
    kinds = set(zip(order_mixers(lay), order_ffns(lay), strict=True))
    return len(kinds) == 1


def _replace_unknown(mixer: t.AttentionGroup) -> t.AttentionGroup:
    """A token mixer of a kind that is laid out, about as wide as one that is not."""
    if isinstance(mixer, t.GatedDeltaNet) and mixer.k_dim != mixer.v_dim:
        return replace(mixer, k_dim=mixer.v_dim)
    if isinstance(mixer, (*_PLAIN, t.Mamba1, t.Mamba2, t.NoMixer, t.Parallel)):
        return mixer
    if isinstance(mixer, (t.Kda, t.Lightning)):
        heads, width, kernel = mixer.n_heads, mixer.head_dim, mixer.conv_kernel if isinstance(mixer, t.Kda) else 1
        return t.GatedDeltaNet(n=1, k_heads=heads, v_heads=heads, k_dim=width, v_dim=width, conv_kernel=kernel)
    return t.Full(n=1, n_heads=mixer.n_heads, n_kv_heads=mixer.n_kv_heads, head_dim=mixer.head_dim)


def build_step(
    model: t.Model, shape: StepShape, layers: Sequence[Layer], output: PlacedLayer = ON_DEVICE
) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors of a step in the engine's order, and what the host hands over. `output`: the place of what follows.

    Raises UnknownLayer for layers of a kind that is not laid out.
    """
    step = Step(model, shape)
    step.stand_in(layers[0][2])
    deepstack = step.traits.deepstack
    table = step.layout.per_layer
    own_rows = None if table is None else _look_up(step, "per layer", (table.width, step.layout.n_layers, step.tokens))
    early = table is not None and (step.place != HOST or table.laurel_rank > 0)  # as the planner's own graphs have it
    tensor = step.graph.expand(_embed(step)) if early else _embed(step)
    if step.traits.embedding_scaled:
        tensor = change(tensor)
    if step.traits.looks_up_positions:
        tensor = change(_look_up(step, "rows of positions", (step.hidden, step.tokens)), tensor)
    padded = compute((step.hidden * (1 + deepstack), step.tokens), tensor)
    tensor = view(padded, (step.hidden, step.tokens), "own") if deepstack else tensor
    each = None if own_rows is None else _embed_per_layer(step, tensor, own_rows)
    streams = table.streams if table is not None and table.laurel_rank else 0
    if streams:
        from advisor.memory.ggml import altup

        step.stand_in(output)  # what makes the residuals lies with the output matrix
        tensor = altup.stack(step, tensor, streams)
    elif step.traits.hyper_streams:
        from advisor.memory.ggml import hyper

        tensor = hyper.widen(step, tensor)
    for i, layer in enumerate(layers):
        step.stand_in(layer[2])
        if streams and each is not None and isinstance(layer[1], t.Dense):
            mix = partial(_mix, step, mixer=layer[0], number=i, residual=tensor)
            tensor = altup.add_altup_layer(step, tensor, layer[1], each, mix)
            continue
        add = _add_hyper_layer if step.traits.hyper_streams else _add_layer
        tensor = add(step, tensor, layer, i, last=i == len(layers) - 1)
        if i < deepstack:
            tensor = change(tensor, view(padded, (step.hidden, step.tokens), f"deep {i}"))
        if each is not None:
            tensor = _add_own_embedding(step, tensor, each)
        if step.names.layer_scale:
            tensor = step.weigh(change(tensor), "layer_output_scale", step.tokens, F32)
    step.stand_in(output)
    tensor = _pick(step, altup.unstack(step, tensor, streams)) if streams else tensor
    mixes = step.traits.hyper_streams
    tensor = hyper.mix_streams(step, tensor, "head", False)[0] if mixes else step.normalize(tensor)
    if step.traits.keeps_all_rows:
        tensor.output = True  # a prediction block may read it
        tensor = _pick(step, tensor)
    if not step.encodes:
        tensor = step.multiply(tensor, step.layout.vocab_size, "output")
    tensor.output = True
    step.graph.expand(tensor)
    return step.graph.tensors, list(step.inputs.values())


def _embed(step: Step) -> Tensor:
    """Rows of the embedding: looked up in host memory, where the table lies, and handed over to a GPU."""
    shape = (step.hidden, step.tokens)
    if step.shape.gpu and not step.shape.scheduled:
        return step.get_input("embedding", F32 * step.hidden * step.tokens, shape)
    tokens = step.get_input("tokens", F32 * step.tokens)
    step.get_input("embeddings instead", F32 * step.hidden * (1 + step.traits.deepstack) * step.tokens)
    out = compute(shape, tokens)
    out.place = HOST
    return out


def _embed_per_layer(step: Step, tensor: Tensor, looked_up: Tensor) -> Tensor:
    """The parts of a second embedding that the layers add, all of them at once. `looked_up`: its rows."""
    width, layers, n = shape = read_shape(looked_up)
    looked_up = step.graph.expand(change(looked_up)) if step.graph.tensors else looked_up  # scaled with the embedding
    projected = change(step.multiply(tensor, width * layers, "per_layer_model_proj"))
    joined = change(change(step.normalize(view(projected, shape)), looked_up))
    return copy(view(joined, (width, n, layers), "permuted"), (width, n, layers))


def _look_up(step: Step, name: str, shape: tuple[int, ...]) -> Tensor:
    """Rows of a further table, which lies in host memory."""
    if not step.shape.scheduled:
        return step.get_input(name, F32 * prod(shape), shape)
    out = compute(shape, step.get_input("tokens", F32 * step.tokens))
    out.place = HOST
    return out


def _add_own_embedding(step: Step, tensor: Tensor, each: Tensor) -> Tensor:
    table = step.layout.per_layer
    assert table is not None
    shape = (table.width, step.tokens)
    gate = change(change(step.multiply(tensor, table.width, "inp_gate")), view(each, shape, "slice"))
    return change(tensor, step.normalize(step.multiply(gate, step.hidden, "proj")))


def _pick(step: Step, tensor: Tensor) -> Tensor:
    """The rows whose logits are needed."""
    rows = step.shape.outputs
    return compute((step.hidden, rows), tensor, step.get_input("output rows", I32 * rows))


def _sum(step: Step, tensor: Tensor, residual: Tensor) -> Tensor:
    return change(residual, tensor) if step.traits.residual_first else change(tensor, residual)


def _add_layer(step: Step, tensor: Tensor, layer: Layer, number: int, last: bool) -> Tensor:
    mixer, ffn, _ = layer
    block = step.traits.block
    before, after = block not in ("post", "sum"), block in ("post", "sandwich")
    residual = tensor
    normed = tensor = step.normalize(tensor) if before else tensor
    mixed = None if isinstance(mixer, t.NoMixer) else _mix(step, normed, mixer, number, residual)
    if last and not step.traits.keeps_all_rows:
        mixed = None if mixed is None else _pick(step, mixed)
        residual = _pick(step, residual)
        normed = _pick(step, normed) if block == "parallel" and not step.traits.second_norm else normed
    if block == "parallel" and mixed is not None and not isinstance(ffn, t.NoFfn):
        normed = step.normalize(residual) if step.traits.second_norm else normed
        return change(change(parts.feed_forward(step, normed, ffn), residual), mixed)
    tensor = residual
    if mixed is not None:
        tensor = _sum(step, step.normalize(mixed) if after else mixed, residual)
        tensor = step.normalize(tensor) if block == "sum" else tensor
    if isinstance(ffn, t.NoFfn):
        return tensor
    out = parts.feed_forward(step, step.normalize(tensor) if before else tensor, ffn)
    tensor = _sum(step, step.normalize(out) if after else out, tensor)
    return step.normalize(tensor) if block == "sum" else tensor


def _add_hyper_layer(step: Step, wide: Tensor, layer: Layer, number: int, last: bool) -> Tensor:
    """A layer whose parts read one stream mixed out of several, and give to all of them."""
    from advisor.memory.ggml.hyper import add_table, mix_streams, scatter

    mixer, ffn, _ = layer
    if isinstance(mixer, t.GatedDeltaNet) and mixer.table is not None:
        wide = add_table(step, wide, mixer.table.kernel)
    stream, inject = mix_streams(step, wide, "attn")
    step.graph.expand(stream)
    mixed = _mix(step, stream, mixer, number, stream)
    assert inject is not None
    if last:
        mixed, inject = _pick(step, mixed), compute((inject.layout[0], step.shape.outputs), inject)  # type: ignore[arg-type]
        wide = compute((step.hidden, step.traits.hyper_streams, step.shape.outputs), wide)
    wide = scatter(step, wide, mixed, inject)
    stream, inject = mix_streams(step, wide, "ffn")
    assert inject is not None
    return scatter(step, wide, parts.feed_forward(step, stream, ffn), inject)


def _mix(step: Step, tensor: Tensor, mixer: t.AttentionGroup, number: int, residual: Tensor) -> Tensor:
    if isinstance(mixer, t.Parallel):
        first, *others = mixer.parts
        mixed = _mix(step, tensor, first, number, residual)
        for part in others:  # each part norms the layer's input again
            mixed = change(mixed, _mix(step, step.normalize(residual), part, number, residual))
        return mixed
    if isinstance(mixer, t.Softmax):
        return parts.attend(step, tensor, mixer, number)
    if type(mixer) not in _MIXERS:
        raise UnknownLayer(type(mixer).__name__)
    return _MIXERS[type(mixer)](step, tensor, mixer)
