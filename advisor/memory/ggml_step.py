"""One step of llama.cpp as a graph in the making: what it depends on, its inputs, and the operations all layers share.

Source: src/llama-graph.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from msgspec import structs

from advisor.memory.ggml_graph import F32, Graph, Tensor, compute
from advisor.models import types as t
from advisor.models.gguf_architecture import GgufArchitecture
from advisor.record import Record

F16, I32, I64 = 2, 4, 8


class StepShape(Record, frozen=True, kw_only=True):
    """What the graph of one step depends on, beside the model."""

    tokens: int  # of the step, a multiple of `sequences`
    sequences: int  # that share the step
    outputs: int  # tokens whose logits are wanted
    cells: int  # of the cache, per stream
    window_cells: int  # of windowed layers; 0 without
    streams: int  # caches of their own
    flash: bool
    gpu: bool = True  # kernels of a GPU: some are fused, and a quantised cache is expanded for them
    quantized_k: bool = False
    quantized_v: bool = False

    def without_cells(self) -> StepShape:
        """The same step over an empty cache."""
        return structs.replace(self, cells=0, window_cells=min(self.window_cells, 1))


class UnknownLayer(Exception):
    """A kind of layer whose operations are not laid out here."""


class Step:
    """The graph of one step, being built."""

    def __init__(self, model: t.Model, shape: StepShape) -> None:
        lay, architecture = model.layout, model.gguf_architecture or GgufArchitecture()
        assert lay is not None
        self.graph, self.model, self.layout, self.shape = Graph(), model, lay, shape
        self.traits, self.names, self.encodes = architecture.graph, architecture.tensors, architecture.encoder
        self.hidden, self.tokens = lay.hidden_size, shape.tokens
        self.inputs: dict[str, Tensor] = {}
        widths = [x.n_kv_heads * (x.v_head_dim or x.head_dim) for g in lay.attention for x in softmax_parts(g)]
        widths += [g.n_heads * g.v_head_dim for g in lay.attention if isinstance(g, t.Mla) and not g.absorbed]
        self.widest_values = max(widths, default=0)  # elements of the widest row of values

    def get_input(self, name: str, size: int, layout: tuple[int, ...] = ()) -> Tensor:
        """What the host hands over, copied to the device before the step begins."""
        if name not in self.inputs:
            self.inputs[name] = Tensor(size, layout or (name,))
            self.inputs[name].taken = True
        return self.inputs[name]

    def get_positions(self) -> Tensor:
        """Positions of the tokens."""
        return self.get_input("positions", I32 * self.tokens * self.traits.positions)

    def get_key_rows(self, window: bool) -> Tensor:
        """Where the step's keys go in the cache."""
        return self.get_input(f"key rows {window}", I64 * self.tokens)

    def get_value_rows(self, window: bool) -> Tensor:
        """Where its values go; without flash attention they are stored transposed, element by element."""
        width = 1 if self.shape.flash else self.widest_values
        return self.get_input(f"value rows {window}", I64 * self.tokens * width)

    def get_mask(self, window: bool) -> Tensor:
        """Which cells a token sees."""
        shape = self.shape
        cells = 0 if not shape.cells else shape.window_cells if window else shape.cells
        return self.get_input(f"mask {window}", (F16 if shape.flash else F32) * cells * self.tokens)

    def get_output_rows(self) -> Tensor:
        """The tokens whose logits are wanted."""
        return self.get_input("output rows", I32 * self.shape.outputs)

    def normalize(self, tensor: Tensor, weighted: bool = True) -> Tensor:
        """A norm, and the product with its weights."""
        shape = read_shape(tensor)
        normed = compute(shape, tensor, in_place=not self.traits.layer_norm)
        return compute(shape, normed, in_place=True) if weighted else normed


def softmax_parts(group: t.AttentionGroup) -> list[t.Softmax]:
    """The parts of a token mixer that keep keys and values."""
    parts = group.parts if isinstance(group, t.Parallel) else (group,)
    return [p for p in parts if isinstance(p, t.Softmax)]


def read_shape(tensor: Tensor) -> tuple[int, ...]:
    """Elements per dimension."""
    return tuple(n for n in tensor.layout if isinstance(n, int))


def multiply(tensor: Tensor, width: int) -> Tensor:
    """The product with a weight matrix: `width` elements a token."""
    return compute((width, *read_shape(tensor)[1:]), tensor)


def change(tensor: Tensor, *others: Tensor) -> Tensor:
    """Element by element (sum, product, activation), in place where nothing else reads the tensor."""
    return compute(read_shape(tensor), tensor, *others, in_place=True)


def copy(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same elements in order, as a tensor of their own."""
    return compute(shape, tensor)


__all__ = [
    "F16", "F32", "Step", "StepShape", "UnknownLayer", "change", "copy", "multiply", "read_shape", "softmax_parts",
]  # fmt: skip
