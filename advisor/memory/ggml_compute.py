"""llama.cpp's compute buffer: scratch of the largest graph, planned before any request.

The graph of one step is laid out layer by layer and placed as ggml's allocator places it, so that nothing is fitted:
see ggml_layers and ggml_graph. Equal to the byte with the planner of v0.5.0 (CUDA) for most architectures
(docs/accuracy.md); layers of a kind that is not laid out are sized like the dense layers beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.memo import memoize_by_identity
from advisor.memory.ggml_attention import has_kernel, shape_expanded, shape_heads
from advisor.memory.ggml_graph import ALIGNMENT, F32, count_peak
from advisor.memory.ggml_layers import Layer, build_step
from advisor.memory.ggml_step import F16, StepShape, UnknownLayer
from advisor.memory.gguf_tensors import layer_order
from advisor.models import types as t
from advisor.record import Record

MIB = 2**20
COPIES = 4  # of a step's inputs where several devices work on batches in turn
HOST_ALIGNMENT = 32


class Scratch(Record, frozen=True, kw_only=True):
    """Bytes on one device and beside it in host memory; whether every kind of layer is known."""

    device: int
    host: int
    handed: int  # of `device`: what the host hands over beside the embedding (positions, rows, masks)
    known: bool


def count_scratch(model: t.Model, shape: StepShape, begin: int = 0, end: int | None = None) -> Scratch:
    """Scratch of the device on which the layers from `begin` to before `end` lie (None: all that follow)."""
    if not shape.flash or shape.quantized_k or shape.quantized_v or model.layout is None:
        return _count(model, shape, begin, end)
    # the mask lies beside everything else for as long as the step lasts: count it apart, and keep the rest
    rest = _count(model, shape.without_cells(), begin, end)
    masks = [(_round_up(F16 * shape.tokens * cells, ALIGNMENT), there) for cells, there in _masks(model, shape)]
    host, device = sum(size for size, _ in masks), sum(size for size, there in masks if there)
    return Scratch(device=rest.device + device, host=rest.host + host, handed=rest.handed + device, known=rest.known)


def _masks(model: t.Model, shape: StepShape) -> list[tuple[int, bool]]:
    """Cells of each mask that the step needs, and whether the device needs it."""
    if model.layout is None or (model.gguf_architecture is not None and model.gguf_architecture.encoder):
        return []
    groups = model.layout.attention
    parts = [p for g in groups for p in (g.parts if isinstance(g, t.Parallel) else (g,))]
    there: dict[bool, bool] = {}  # of windowed layers or not -> whether a layer on the device reads this mask
    for part in parts:
        if isinstance(part, t.Softmax):
            heads = shape_heads(part, bool(shape.window_cells))
            window, own = heads.window, not shape.gpu or has_kernel(heads)
        elif isinstance(part, t.Mla):
            window, own = False, part.absorbed or not shape.gpu or has_kernel(shape_expanded(part))
        else:
            continue
        there[window] = there.get(window, False) or own
    return [(shape.window_cells if window else shape.cells, own) for window, own in there.items()]


@memoize_by_identity
def _count(model: t.Model, shape: StepShape, begin: int, end: int | None) -> Scratch:
    layers, known = choose_layers(model, begin, end), True
    try:
        tensors, inputs = build_step(model, shape, layers)
    except UnknownLayer:
        known = False
        tensors, inputs = build_step(model, shape, [_like(layer) for layer in layers])
    sizes = sum(_round_up(x.size, HOST_ALIGNMENT) for x in inputs)
    # beside them the tokens, and room for embeddings that come instead of tokens, with further rows for images
    deep = model.gguf_architecture.graph.deepstack if model.gguf_architecture is not None else 0
    row = F32 * shape.tokens * (model.layout.hidden_size if model.layout is not None else 0)
    host = sizes + _round_up(row * (1 + deep), HOST_ALIGNMENT) + _round_up(F32 * shape.tokens, HOST_ALIGNMENT)
    peak = count_peak(tensors, ALIGNMENT if shape.gpu else HOST_ALIGNMENT)
    return Scratch(device=peak, host=host, handed=sizes - row, known=known)


@memoize_by_identity
def choose_layers(model: t.Model, begin: int = 0, end: int | None = None) -> tuple[Layer, ...]:
    """Layers in which every eight that follow one another in the model do so, and the last: the peak lies in one."""
    lay = model.layout
    assert lay is not None
    n = lay.n_layers
    mixers, ffns = layer_order(lay.attention, lay.attention_order, n), layer_order(lay.ffn, lay.ffn_order, n)
    kinds = list(zip(mixers, ffns, strict=True))[begin:end]
    seen: set[tuple[tuple[int, int], ...]] = set()
    chosen = []
    for i, kind in enumerate(kinds):
        before = tuple(kinds[max(0, i - 7) : i + 1])
        if before not in seen or i == len(kinds) - 1:
            seen.add(before)
            chosen.append(kind)
    return tuple((lay.attention[i], lay.ffn[j]) for i, j in chosen)


def split_scratch(model: t.Model, shape: StepShape, places: Sequence[tuple[int, int]]) -> list[int]:
    """Bytes of each device where layers are shared out; `places` are the layers of each, from the first to the last.

    Several batches are under way at once, each with copies of its inputs. Source: planner rows with two and four GPUs
    (tests/data/llamacpp_rows.csv).
    """
    if len(places) == 1:
        return [count_scratch(model, shape).device]
    assert model.layout is not None
    row = F32 * shape.tokens * model.layout.hidden_size
    out = []
    for i, (begin, end) in enumerate(places):
        own = count_scratch(model, shape, begin, end)
        out.append(own.device + (COPIES - 1) * own.handed + COPIES * row * (2 if i else 1))
    return out


def _like(layer: Layer) -> Layer:
    """A layer of a kind that is laid out, about as wide as one that is not."""
    mixer, ffn = layer
    if isinstance(mixer, (t.Softmax, t.Mla, t.GatedDeltaNet, t.Mamba1, t.Mamba2, t.ShortConv, t.NoMixer, t.Parallel)):
        return layer
    if isinstance(mixer, (t.Kda, t.Lightning)):
        heads, width, kernel = mixer.n_heads, mixer.head_dim, mixer.conv_kernel if isinstance(mixer, t.Kda) else 1
        net = t.GatedDeltaNet(n=1, k_heads=heads, v_heads=heads, k_dim=width, v_dim=width, conv_kernel=kernel)
        return net, ffn
    return t.Full(n=1, n_heads=mixer.n_heads, n_kv_heads=mixer.n_kv_heads, head_dim=mixer.head_dim), ffn


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step


__all__ = ["Scratch", "choose_layers", "count_scratch", "split_scratch"]
