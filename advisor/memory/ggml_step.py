"""One step of llama.cpp as a graph in the making: what it depends on, its inputs, and the operations all layers share.

Source: src/llama-graph.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from msgspec import structs

from advisor.memory.ggml import BLOCKS, row_bytes
from advisor.memory.ggml_graph import F32, Graph, Tensor, compute
from advisor.models import types as t
from advisor.models.gguf_architecture import GgufArchitecture
from advisor.record import Record

F16, I32, I64 = 2, 4, 8


class StepShape(Record, frozen=True, kw_only=True, cache_hash=True):
    """What the graph of one step depends on, next to the model."""

    tokens: int  # of the step, a multiple of `sequences`
    sequences: int  # that share the step
    outputs: int  # tokens whose logits are needed
    cells: int  # of the cache, per stream
    window_cells: int  # of windowed layers; 0 without
    streams: int  # caches of their own
    flash: bool
    gpu: bool = True  # kernels of a GPU: some are fused, and a quantised cache is expanded for them
    key_type: str = "F16"  # of the cache
    value_type: str = "F16"

    @property
    def quantized_k(self) -> bool:
        """Whether keys are kept in blocks."""
        return BLOCKS[self.key_type][0] > 1

    @property
    def quantized_v(self) -> bool:
        """Whether values are kept in blocks."""
        return BLOCKS[self.value_type][0] > 1

    def without_cells(self) -> StepShape:
        """The same step over an empty cache."""
        return structs.replace(self, cells=0, window_cells=min(self.window_cells, 1))


class BorrowedWeights(Record, frozen=True, kw_only=True, cache_hash=True):
    """Matrices and biases of a layer's feed-forward part that lie in host memory and are copied for one operation each.

    Bytes; `whole`: all of the layer lies there, its cache as well.
    """

    gate: int = 0
    up: int = 0
    down: int = 0
    gate_bias: int = 0
    up_bias: int = 0
    down_bias: int = 0
    whole: bool = False


NONE_BORROWED = BorrowedWeights()


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
        self.borrowed = NONE_BORROWED  # of the layer that is being built
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
        """The tokens whose logits are needed."""
        return self.get_input("output rows", I32 * self.shape.outputs)

    def borrow_cache(self, key_width: int, value_width: int, cells: int) -> tuple[Tensor, ...]:
        """Copies of a layer's keys and values that lie in host memory; widths: elements of a row."""
        if not self.borrowed.whole:
            return ()
        sides = ((self.shape.key_type, key_width), (self.shape.value_type, value_width))
        return tuple(x for kind, n in sides for x in borrow(row_bytes(kind, n) * cells * self.shape.streams))

    def normalize(self, tensor: Tensor, weighted: bool = True) -> Tensor:
        """A norm, and the product with its weights."""
        shape = read_shape(tensor)
        normed = compute(shape, tensor, in_place=not self.traits.layer_norm)
        return compute(shape, normed, in_place=True) if weighted else normed


def borrow(size: int) -> tuple[Tensor, ...]:
    """The copy of a matrix that lies elsewhere, made where an operation wants it and gone behind it."""
    return (Tensor(size, _BORROWED),) if size else ()


def is_borrowed(tensor: Tensor) -> bool:
    """Whether a tensor is such a copy."""
    return tensor.layout is _BORROWED  # as `borrow` made it


_BORROWED = ("borrowed weights",)


def softmax_parts(group: t.AttentionGroup) -> list[t.Softmax]:
    """The parts of a token mixer that keep keys and values."""
    parts = group.parts if isinstance(group, t.Parallel) else (group,)
    return [p for p in parts if isinstance(p, t.Softmax)]


def read_shape(tensor: Tensor) -> tuple[int, ...]:
    """Elements per dimension."""
    layout = tensor.layout  # a name, if there is one, stands last
    return layout if not isinstance(layout[-1], str) else layout[:-1]  # type: ignore[return-value]  # the rest are numbers


def multiply(tensor: Tensor, width: int, borrowed: int = 0) -> Tensor:
    """The product with a weight matrix, of so many bytes where it is borrowed: `width` elements a token."""
    return compute((width, *read_shape(tensor)[1:]), tensor, *borrow(borrowed))


def change(tensor: Tensor, *others: Tensor) -> Tensor:
    """Element by element (sum, product, activation), in place where nothing else reads the tensor."""
    return compute(read_shape(tensor), tensor, *others, in_place=True)


def copy(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same elements in order, as a tensor of their own."""
    return compute(shape, tensor)


__all__ = [
    "F16", "F32", "NONE_BORROWED", "BorrowedWeights", "Step", "StepShape", "UnknownLayer", "borrow", "change", "copy",
    "is_borrowed", "multiply", "read_shape", "softmax_parts",
]  # fmt: skip
