"""The compute graph of one step of llama.cpp: layers of a model on one device, and the logits.

Source: the architectures in src/models/ of llama.cpp b11434; compared with the planner of v0.5.0 over the catalogue
(docs/accuracy.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.memory.ggml_attention import attend, attend_latent
from advisor.memory.ggml_feed_forward import feed_forward
from advisor.memory.ggml_graph import F32, Tensor, compute, view
from advisor.memory.ggml_states import mix_delta_net, mix_mamba1, mix_mamba2, mix_short_convolution
from advisor.memory.ggml_step import BorrowedWeights, Step, StepShape, UnknownLayer, change, copy, is_borrowed, multiply
from advisor.models import types as t
from advisor.record import Value

Layer = tuple[t.AttentionGroup, t.FfnGroup, BorrowedWeights]


class Share(Value, frozen=True):
    """A device's share in a step: whether it begins and ends there, and batches that are under way at once."""

    begins: bool = True
    ends: bool = True
    copies: int = 1


WHOLE = Share()


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
    elsewhere = None
    for i, layer in enumerate(layers):
        normed = None if i or share.begins or not _norms_first(step) else _take_over(step, "normed")
        tensor = _add_layer(step, tensor, layer, i, last=share.ends and i == len(layers) - 1, normed=normed)
        elsewhere = tensor if step.borrowed.whole else elsewhere
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
        return _hand_over(inputs, step.graph.tensors, elsewhere), inputs
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


def _hand_over(inputs: Sequence[Tensor], tensors: Sequence[Tensor], elsewhere: Tensor | None) -> list[Tensor]:
    """Inputs before the part of the graph that reads them first.

    Each borrowed matrix begins a new part, and each operation does up to `elsewhere`, what the last layer gives that
    lies in host memory. Source: ggml_backend_sched_split_graph of llama.cpp b11434.
    """
    if not any(is_borrowed(x) for x in tensors):
        return [*inputs, *tensors]
    parts, alone = [list[Tensor]()], elsewhere is not None
    for tensor in tensors:
        if is_borrowed(tensor) or (alone and not (parts[-1] and is_borrowed(parts[-1][-1]))):
            parts.append([])
        parts[-1].append(tensor)
        alone = alone and tensor is not elsewhere
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
    return compute((step.hidden, step.shape.outputs), tensor, step.get_output_rows())


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
    if block == "parallel" and mixed is not None:
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
    if isinstance(mixer, t.Mla):
        return attend_latent(step, tensor, mixer)
    if isinstance(mixer, t.GatedDeltaNet):
        step.graph.expand(tensor)
        return mix_delta_net(step, tensor, mixer)
    if isinstance(mixer, t.Mamba1):
        return mix_mamba1(step, tensor, mixer)
    if isinstance(mixer, t.Mamba2):
        return mix_mamba2(step, tensor, mixer)
    if isinstance(mixer, t.ShortConv):
        return mix_short_convolution(step, tensor, mixer)
    raise UnknownLayer(type(mixer).__name__)
