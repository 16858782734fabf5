"""Remembering what was worked out for a model. Models hold dicts and cannot be hashed, so identity is the key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

from advisor.model.types import Model

T = TypeVar("T")
KEPT = 512  # entries; a full memo starts over


def per_model(work: Callable[..., T]) -> Callable[..., T]:
    """Memo for `work(model, *hashable)`; the model is kept alive with its answer, so its identity stays its own."""
    kept: dict[tuple[int, tuple[Hashable, ...]], tuple[Model, T]] = {}

    @wraps(work)
    def remembered(model: Model, *rest: Hashable) -> T:
        key = (id(model), rest)
        found = kept.get(key)
        if found is not None:
            return found[1]
        made = work(model, *rest)
        if len(kept) >= KEPT:
            kept.clear()
        kept[key] = (model, made)
        return made

    return remembered
