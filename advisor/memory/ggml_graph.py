"""A compute graph as ggml builds it, and the bytes that ggml's graph allocator reserves for it.

Only sizes matter here: a tensor is its bytes, its layout and its operands. Weights and caches lie in buffers of their
own and do not appear. Source of the rules (order of nodes, reuse in place, best fit): ggml.c and ggml-alloc.c as of
llama.cpp b11434; compared with the planner of v0.5.0 (docs/accuracy.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf, prod

ALIGNMENT = 128  # of CUDA buffers, bytes
F32 = 4

Layout = tuple[int | str, ...]


class Tensor:
    """A tensor of the graph; what the allocator notes about it is kept here as well."""

    __slots__ = (
        "children", "held", "in_place", "layout", "offset", "operands", "output", "size", "taken", "views", "whole",
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
        self.taken = self.held = False
        self.children = self.views = self.offset = 0


def compute(shape: Sequence[int], *operands: Tensor, in_place: bool = False, extra: int = 0) -> Tensor:
    """The result of an operation: F32 elements of `shape`, and `extra` bytes that its kernel keeps behind them."""
    return Tensor(F32 * prod(shape) + extra, tuple(shape), operands, in_place)


def view(tensor: Tensor, shape: Sequence[int], part: str = "") -> Tensor:
    """Another look at a tensor; `part` names one that is not the whole of it, or in another order."""
    layout: Layout = (*shape, part) if part else tuple(shape)
    return Tensor(0, layout, (tensor,), False, tensor.whole or tensor)


def store(*operands: Tensor) -> Tensor:
    """Rows written into a cache."""
    return Tensor(0, ("store",), operands)


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
        self.tensors.append(Tensor(0, ("keep",), tensors))


def count_peak(tensors: Sequence[Tensor], alignment: int = ALIGNMENT) -> int:
    """Bytes of the buffer in which the allocator places all tensors of a graph."""
    for tensor in tensors:
        if tensor.whole is not None:
            tensor.whole.views += 1
        for operand in tensor.operands:
            operand.children += 1
    space = _Space(alignment)
    for tensor in tensors:
        if tensor.size and not tensor.held:
            _place(tensor, space)
        for operand in tensor.operands:
            operand.children -= 1
            if not operand.children and not operand.views:
                if operand.whole is not None:
                    _leave(operand.whole, space)
                elif operand.held and not operand.output:  # the usual case, without a call
                    space.free(operand.offset, operand.size)
                    operand.held = False
    return space.peak


def _leave(whole: Tensor, space: _Space) -> None:
    """Nothing reads a view of this tensor any more."""
    whole.views -= 1
    if whole.views or whole.children:
        return
    if whole.held and not whole.output:
        space.free(whole.offset, whole.size)
        whole.held = False


def _place(tensor: Tensor, space: _Space) -> None:
    tensor.held = True
    if tensor.in_place:
        for operand in tensor.operands:
            # a view counts as memory of somebody else and is never overwritten
            if not operand.held or operand.output or operand.layout != tensor.layout:
                continue
            if operand.children == 1 and not operand.views:
                tensor.offset, operand.held = operand.offset, False
                rest = space.round_up(operand.size) - space.round_up(tensor.size)
                if rest > 0:
                    space.free(tensor.offset + space.round_up(tensor.size), rest)
                return
    tensor.offset = space.take(tensor.size)


class _Space:
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
