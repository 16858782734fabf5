"""Remembering what was worked out for a model. Models hold dicts and cannot be hashed, so identity is the key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
KEPT = 512  # entries; a full memo starts over
KEPT_LARGE = 24  # of answers as large as a model's whole tensor table


def by_identity(work: Callable[..., T], kept_at_most: int = KEPT) -> Callable[..., T]:
    """Memo for `work(subject, *hashable)`; the subject is kept alive with its answer, so its identity stays its own."""
    kept: dict[tuple[int, tuple[Hashable, ...]], tuple[object, T]] = {}

    @wraps(work)
    def remembered(subject: object, *rest: Hashable) -> T:
        key = (id(subject), rest)
        found = kept.get(key)
        if found is not None:
            return found[1]
        made = work(subject, *rest)
        if len(kept) >= kept_at_most:
            kept.clear()
        kept[key] = (subject, made)
        return made

    return remembered
