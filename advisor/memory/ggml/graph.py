"""A compute graph as ggml builds it, and the bytes that ggml's graph allocator reserves for it.

Only sizes matter here: a tensor is its bytes, its layout and its operands. Weights and caches lie in buffers of their
own and do not appear. Source of the rules (order of nodes, reuse in place, best fit): ggml.c and ggml-alloc.c as of
llama.cpp b11434; compared with the planner of v0.5.0 (docs/accuracy.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf, prod

from msgspec.structs import replace

from advisor.memory.ggml import HOST
from advisor.models import types as t
from advisor.models.tensors import BLOCKS, row_bytes
from advisor.models.types import GgufArchitecture
from advisor.record import Record

ALIGNMENT, HOST_ALIGNMENT = 128, 32  # of CUDA buffers and in host memory, bytes
F32 = 4
F16, I32, I64 = 2, 4, 8
Layout = tuple[int | str, ...]
KEEP: Layout = ("keep",)  # of a note that tensors are held until here


class Tensor:
    """A tensor of the graph; what the allocator notes about it is kept here as well."""

    __slots__ = (
        "children", "held", "in_place", "kernel", "layout", "offset", "operands", "output", "place", "size", "taken",
        "views", "whole",
    )  # fmt: skip

    def __init__(
        self,
        size: int,
        layout: Layout,
        operands: Sequence[Tensor] = (),
        in_place: bool = False,
        whole: Tensor | None = None,
        output: bool = False,
    ) -> None:
        self.size = size  # bytes; 0: no memory of its own
        self.layout = layout  # equal for tensors of one type, shape and stride
        self.operands = operands
        self.in_place = in_place  # the operation may overwrite an operand
        self.whole = whole  # the tensor that a view shows a part of
        self.output = output  # read after the step: never freed
        self.place: int | None = None  # of what it is tied to, weights or a cache; None: where its neighbours are
        self.kernel = True  # a GPU can compute it
        self.taken = self.held = False
        self.children = self.views = self.offset = 0


def compute(shape: Sequence[int], *operands: Tensor, in_place: bool = False, extra: int = 0) -> Tensor:
    """The result of an operation: F32 elements of `shape`, and `extra` bytes that its kernel keeps behind them."""
    return Tensor(F32 * prod(shape) + extra, tuple(shape), operands, in_place)


def view(tensor: Tensor, shape: Sequence[int], part: str = "") -> Tensor:
    """Another look at a tensor; `part` names one that is not the whole of it, or in another order."""
    layout: Layout = (*shape, part) if part else tuple(shape)
    return Tensor(0, layout, (tensor,), False, tensor.whole or tensor)


class Graph:
    """Tensors in the order in which the engine computes them."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []

    def expand(self, tensor: Tensor) -> Tensor:
        """Add a tensor and all it is made of, operands first."""
        if not tensor.taken:
            tensor.taken = True
            for operand in tensor.operands:
                if not operand.taken:
                    self.expand(operand)
            self.tensors.append(tensor)
        return tensor

    def keep(self, *tensors: Tensor) -> None:
        """Hold tensors until here: kernels that a backend fuses read them to the end."""
        self.tensors.append(Tensor(0, KEEP, tensors))


def count_peak(tensors: Sequence[Tensor], alignment: int = ALIGNMENT) -> int:
    """Bytes of the buffer in which the allocator places all tensors of a graph."""
    space = Space(alignment)
    reserve(tensors, defaultdict(lambda: space))
    return space.peak


def reserve(tensors: Sequence[Tensor], spaces: Mapping[int | None, Space]) -> None:
    """Place all tensors of a graph, each in the space of its place."""
    for tensor in tensors:
        if tensor.whole is not None:
            tensor.whole.views += 1
        for operand in tensor.operands:
            operand.children += 1
    for tensor in tensors:
        if tensor.size and not tensor.held:
            if not tensor.in_place or not _replace(tensor, spaces[tensor.place]):
                tensor.offset = spaces[tensor.place].take(tensor.size)
            tensor.held = True
        for operand in tensor.operands:
            operand.children -= 1
            if not operand.children and not operand.views:
                if operand.whole is not None:
                    _leave(operand.whole, spaces)
                elif operand.held and not operand.output:  # the usual case, without a call
                    spaces[operand.place].free(operand.offset, operand.size)
                    operand.held = False


def _leave(whole: Tensor, spaces: Mapping[int | None, Space]) -> None:
    """Nothing reads a view of this tensor any more."""
    whole.views -= 1
    if whole.views or whole.children:
        return
    if whole.held and not whole.output:
        spaces[whole.place].free(whole.offset, whole.size)
        whole.held = False


def _replace(tensor: Tensor, space: Space) -> bool:
    """Overwrite the first operand that nothing else reads, if there is one."""
    layout = tensor.layout
    for operand in tensor.operands:
        # a view counts as memory of somebody else and is never overwritten
        if operand.held and operand.children == 1 and not operand.views and not operand.output:
            if operand.layout != layout:
                continue
            tensor.offset, operand.held = operand.offset, False
            if operand.size != tensor.size:
                rest = space.round_up(operand.size) - space.round_up(tensor.size)
                if rest > 0:
                    space.free(tensor.offset + space.round_up(tensor.size), rest)
            return True
    return False


class Space:
    """Free blocks by address; the last one has no end."""

    def __init__(self, alignment: int) -> None:
        self.alignment, self.peak = alignment, 0
        self.blocks: list[tuple[int, float]] = [(0, inf)]  # offset, size

    def round_up(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def take(self, size: int) -> int:
        """Offset of a block in the smallest space that holds it; the endless one only where no other does."""
        size, blocks = -(-size // self.alignment) * self.alignment, self.blocks
        best = last = len(blocks) - 1
        best_size = inf
        for i in range(last):
            free = blocks[i][1]
            if size <= free <= best_size:
                best, best_size = i, free
        offset, free = blocks[best]
        if free == size:
            del blocks[best]
        else:
            blocks[best] = (offset + size, free - size)
        if best == last and offset + size > self.peak:
            self.peak = offset + size
        return offset

    def free(self, offset: int, size: int) -> None:
        """Give a block back; it joins its neighbours."""
        blocks = self.blocks
        end: float = offset + -(-size // self.alignment) * self.alignment
        at = bisect_right(blocks, (offset, inf))
        if at < len(blocks) and blocks[at][0] == end:
            end += blocks[at][1]
            del blocks[at]
        if at and blocks[at - 1][0] + blocks[at - 1][1] == offset:
            at -= 1
            offset = blocks[at][0]
            del blocks[at]
        blocks.insert(at, (offset, end - offset))


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
    scheduled: bool = False  # places exchange what they compute, else all is done in one
    cache_on_host: bool = False  # caches stay in host memory, wherever their layer lies

    @property
    def quantized_k(self) -> bool:
        """Whether keys are kept in blocks."""
        return BLOCKS[self.key_type][0] > 1

    @property
    def quantized_v(self) -> bool:
        """Whether values are kept in blocks."""
        return BLOCKS[self.value_type][0] > 1

    @property
    def plain(self) -> bool:
        """Whether kernels take keys and values as they are kept."""
        return self.key_type == self.value_type == "F16"

    def count_expanded(self, key_width: int, value_width: int) -> int:
        """Elements of a row that a GPU's kernel wants in F16 and that are kept otherwise (ggml-cuda/fattn.cu,
        ggml_cuda_flash_attn_ext_get_alloc_size); those in F32 the graph itself turns into F16."""
        kept = ("F16", "F32")
        return self.gpu * ((self.key_type not in kept) * key_width + (self.value_type not in kept) * value_width)

    def without_cells(self) -> StepShape:
        """The same step over an empty cache."""
        return replace(self, cells=0, window_cells=min(self.window_cells, 1))


class PlacedLayer(Record, frozen=True, kw_only=True, cache_hash=True):
    """Where a layer lies, and what of it lies in host memory: (name without the layer, bytes on a device)."""

    place: int = 0
    lent: tuple[tuple[str, int], ...] = ()
    moved: tuple[tuple[str, int], ...] = ()  # tensors on another device: (name, device)


ON_DEVICE = PlacedLayer()
OFFLOADED = 32  # rows from which on a GPU computes what has its weights in host memory (ggml-cuda.cu, offload_op)


class HeadShape(Record, frozen=True, kw_only=True):
    """Heads of one layer; widths are elements."""

    queries: int
    keys: int
    key_width: int
    value_width: int
    window: bool


class UnknownLayer(Exception):
    """A kind of layer whose operations are not laid out here."""


class Step:
    """The graph of one step, being built."""

    def __init__(self, model: t.Model, shape: StepShape) -> None:
        lay, architecture = model.known_layout, model.gguf_architecture or GgufArchitecture()
        self.graph, self.model, self.layout, self.shape = Graph(), model, lay, shape
        self.traits, self.names, self.encodes = architecture.graph, architecture.tensors, architecture.encoder
        # llama.cpp chooses blocks where every sequence has a cache of its own, else it attends to all cells
        self.indexed = architecture.index_cache is not None
        self.blocks = architecture.index_cache == "keys and values" and shape.streams == shape.sequences
        self.sees_all = architecture.encoder or not architecture.keeps_cache
        self.hidden, self.tokens = lay.hidden_size, shape.tokens
        self.inputs: dict[str, Tensor] = {}
        self.caches: dict[tuple[str, int], int] = {}  # places of the last ones, by side and cells
        self.wide_masks: dict[int, Tensor] = {}  # in F32, made once for all layers; by stream
        self.ranked: Tensor | None = None  # cells that the last layer's index chose
        self.blank: Tensor | None = None  # rows of zeros for masks
        self.stand_in(ON_DEVICE)
        widths = [x.n_kv_heads * (x.v_head_dim or x.head_dim) for x in lay.mixers if isinstance(x, t.Softmax)]
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

    def stand_in(self, layer: PlacedLayer) -> None:
        """What follows belongs to this layer."""
        self.place, self.lent, self.moved = layer.place, dict(layer.lent), dict(layer.moved)

    def weigh(self, out: Tensor, name: str, rows: int, small: int = 0) -> Tensor:
        """An operation with a weight, of `small` bytes where its name is not looked up: done where the weight lies, but
        on the first GPU for many rows of weights in host memory, which are copied for it."""
        size = self.lent.get(name) or (small if self.place == HOST else 0)
        out.place = self.moved.get(name, max(self.place, 0))
        if size:
            out.place = 0 if rows >= OFFLOADED else HOST
            lent = (_make_outside(size, BORROWED, HOST),)  # of a product the first operand, else the last
            out.operands = (*out.operands, *lent) if small else (*lent, *out.operands)
        return out

    def multiply(self, tensor: Tensor, width: int, name: str) -> Tensor:
        """The product with a weight matrix: `width` elements a token."""
        shape = (width, *read_shape(tensor)[1:])
        return self.weigh(compute(shape, tensor), name, shape[1])

    def store(self, *operands: Tensor) -> Tensor:
        """Rows written into a cache."""
        out = Tensor(0, ("store",), operands)
        out.place = self.cache_place
        return out

    @property
    def cache_place(self) -> int:
        """Where caches and states of the layer lie."""
        return HOST if self.shape.cache_on_host else self.place

    def read_cache(self, side: str, width: int, cells: int, shared: bool = False) -> tuple[Tensor, ...]:
        """A layer's keys or values (`side`), `width` elements a row; `shared`: those of the layer before that has such
        rows of so many cells."""
        key, kind = (side, cells), self.shape.value_type if side == "values" else self.shape.key_type
        if not shared or key not in self.caches:
            self.caches[key] = self.cache_place
        return self.read_kept(row_bytes(kind, width) * cells * self.shape.streams, self.caches[key])

    def read_kept(self, size: int, place: int | None = None) -> tuple[Tensor, ...]:
        """What is kept from step to step (None: with the layer); it takes scratch where it is copied elsewhere."""
        at = self.cache_place if place is None else place
        return (_make_outside(size, ("kept",), at),) if self.shape.scheduled else ()

    def normalize(self, tensor: Tensor, weighted: bool = True) -> Tensor:
        """A norm, and the product with its weights."""
        shape = read_shape(tensor)
        normed = compute(shape, tensor, in_place=not self.traits.layer_norm)
        if not weighted:
            return normed
        return self.weigh(compute(shape, normed, in_place=True), "", prod(shape[1:]), F32 * shape[0])


def _make_outside(size: int, layout: Layout, place: int) -> Tensor:
    """A tensor in a buffer of its own."""
    out = Tensor(size, layout)
    out.place, out.taken = place, True
    return out


BORROWED = ("borrowed weights",)


def read_shape(tensor: Tensor) -> tuple[int, ...]:
    """Elements per dimension."""
    layout = tensor.layout  # a name, if there is one, stands last
    return layout if not isinstance(layout[-1], str) else layout[:-1]  # type: ignore[return-value]  # the rest are numbers


def change(tensor: Tensor, *others: Tensor) -> Tensor:
    """Element by element (sum, product, activation), in place where nothing else reads the tensor."""
    return compute(read_shape(tensor), tensor, *others, in_place=True)


def copy(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same elements in order, as a tensor of their own."""
    return compute(shape, tensor)
