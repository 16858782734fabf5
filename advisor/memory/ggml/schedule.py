"""Which place computes each operation of a step, what is copied from one place to another, and the scratch of each.

Source: ggml_backend_sched_split_graph (ggml-backend.cpp) and ggml_gallocr_alloc_graph_impl (ggml-alloc.c) of llama.cpp
b11434; compared with the planner of v0.5.0 on random files and launches (docs/accuracy.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from advisor.memory.ggml import HOST
from advisor.memory.ggml.graph import ALIGNMENT, BORROWED, F32, HOST_ALIGNMENT, KEEP, Space, Tensor, read_shape, reserve


def count_places(tensors: Sequence[Tensor], inputs: Sequence[Tensor], devices: int, copies: int) -> dict[int, int]:
    """Bytes of scratch of each device and of the host. `inputs`: what the host hands over; `copies`: batches that are
    under way at once, each with copies of its own of what is handed over and what crosses."""
    for tensor in inputs:
        tensor.place, tensor.output = HOST, copies > 1
    _assign([x for x in tensors if x.whole is None and x.layout != KEEP])
    ordered, crossing = _split(tensors, copies)
    first = [*inputs, *_repeat(inputs, copies - 1)]
    if copies > 1:  # never overwritten by a later batch
        first += [*crossing, *_repeat(crossing, copies - 1)]
    spaces: dict[int | None, Space] = {i: Space(ALIGNMENT) for i in range(devices)}
    spaces[HOST] = Space(HOST_ALIGNMENT)
    reserve([*first, *ordered], spaces | {None: spaces[HOST]})
    return {place: space.peak for place, space in spaces.items() if place is not None}


def _repeat(tensors: Iterable[Tensor], times: int) -> list[Tensor]:
    return [_twin(x, x.place, True) for x in tensors for _ in range(times)]


def _twin(tensor: Tensor, place: int | None, output: bool) -> Tensor:
    out = Tensor(_span(tensor), tensor.layout, output=output)
    out.place = place
    return out


def _span(tensor: Tensor) -> int:
    """Bytes from a tensor's first element to its last: a view of a part of every row spans them all."""
    if tensor.whole is None:
        return tensor.size
    own, rows = prod(read_shape(tensor)), read_shape(tensor.whole)
    if not rows:  # of what the host hands over
        return min(F32 * own, tensor.whole.size)
    row, *others = rows
    apart = isinstance(tensor.layout[-1], str) and tensor.layout[-1] != "slice" and own % prod(others) == 0
    return F32 * (row * prod(others) - row + own // prod(others)) if apart else F32 * own


def _assign(nodes: Sequence[Tensor]) -> None:
    """Operations without weights go where their neighbours are, to GPUs first."""
    backwards = nodes[::-1]
    for order, to_host in ((nodes, False), (backwards, False), (nodes, True), (backwards, True)):
        _spread(order, to_host)
    for node in nodes:
        if node.place is None:  # no GPU has a kernel
            node.place = HOST


def _spread(nodes: Sequence[Tensor], to_host: bool) -> None:
    current: int | None = None
    for node in nodes:
        if node.place is not None:
            current = node.place if to_host or node.place != HOST else None
        elif current is not None and (node.kernel or current == HOST):
            node.place = current


def _split(tensors: Sequence[Tensor], copies: int) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors with what is copied before the part of the graph that needs it first, and these copies."""
    out: list[Tensor] = []
    part: list[Tensor] = []
    needed: list[Tensor] = []  # by this part
    twins: dict[tuple[int, int | None], Tensor] = {}
    place: int | None = None
    for tensor in tensors:
        if tensor.whole is None and tensor.layout != KEEP:  # neither a view nor a note of what is kept
            if tensor.place != place or (needed and place != HOST and _borrows(tensor)):
                out += needed
                out += part
                part, needed, place = [], [], tensor.place
            for operand in tensor.operands:
                if (operand.whole or operand).place != place:
                    _fetch(tensor, twins, needed, copies > 1)
                    break
        part.append(tensor)
    return out + needed + part, list(twins.values())


def _borrows(tensor: Tensor) -> bool:
    """Whether it has a weight that lies in host memory: of a product the first operand, else the last."""
    operands = tensor.operands
    return bool(operands) and (operands[0].layout is BORROWED or operands[-1].layout is BORROWED)


def _fetch(tensor: Tensor, twins: dict[tuple[int, int | None], Tensor], needed: list[Tensor], output: bool) -> None:
    """Copies of the operands that lie elsewhere take their place; a copy's source is held until it is made."""
    own = []
    for operand in tensor.operands:
        if (operand.whole or operand).place == tensor.place:
            own.append(operand)
            continue
        key = (id(operand), tensor.place)
        if key not in twins:
            twins[key] = _twin(operand, tensor.place, output)
            needed += [Tensor(0, KEEP, (operand,)), twins[key]]
        own.append(twins[key])
    tensor.operands = own
