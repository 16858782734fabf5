"""Layer-by-layer lists as groups: which kinds of layers there are and in which order they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from advisor.models.types import AttentionGroup, FfnGroup, Softmax

Group = TypeVar("Group", bound=AttentionGroup | FfnGroup)


def as_kind(layer: Softmax, kind: Callable[..., AttentionGroup], window: int | None) -> AttentionGroup:
    """The same attention as another kind of layer, which looks back `window` tokens."""
    fields = {f: getattr(layer, f) for f in layer.__struct_fields__ if f != "window"}
    return kind(**fields, window=window)


def group_layers(layers: Sequence[Group]) -> tuple[tuple[Group, ...], tuple[int, ...]]:
    """Groups with their counts, and the order as the shortest tuple of group indices that repeats over the layers.

    Every layer is a group value with `n` = 1; equal layers become one group, groups come in order of appearance.
    """
    index: dict[Group, int] = {}
    order = [index.setdefault(layer, len(index)) for layer in layers]
    counts = [0] * len(index)
    for i in order:
        counts[i] += 1
    groups = tuple(msgspec.structs.replace(g, n=c) for g, c in zip(index, counts, strict=True))
    return groups, tuple(order[: _period(order)])


def _period(order: Sequence[int]) -> int:
    """Length of the shortest prefix whose repetition gives `order` (the last repetition may be cut)."""
    if not order:
        return 0
    border = [0] * len(order)
    for i in range(1, len(order)):
        k = border[i - 1]
        while k and order[i] != order[k]:
            k = border[k - 1]
        border[i] = k + 1 if order[i] == order[k] else 0
    return len(order) - border[-1]
