"""Rules without what is faulty in them, so that the rest can be looked at, and where things stood before."""

from __future__ import annotations

from typing import Any

from advisor.lint.rule_types import At
from advisor.lint.shape import find_flaws


class ReducedList(list[Any]):
    """A list that lost items: `origin` is where those that are left stood before."""

    origin: tuple[int, ...] = ()


def prune_flaws(value: Any, kind: Any) -> Any:
    """`value` without its faulty parts, so that it decodes; None when nothing of it does."""
    for _ in range(20):
        found = find_flaws(value, kind)
        if not found:
            return value
        places = {f.at for f in found}
        if () in places or value is None:
            return None
        value = _without(value, places, ())
    return None


def find_original_place(value: Any, at: At) -> At:
    """A path in a pruned value as it was before anything was taken out."""
    out: list[str | int] = []
    for part in at:
        here = value.origin[part] if isinstance(value, ReducedList) and isinstance(part, int) else part
        out.append(here)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
    return tuple(out)


def _without(value: Any, places: set[At], at: At) -> Any:
    if isinstance(value, dict):
        return {k: _without(v, places, (*at, k)) for k, v in value.items() if (*at, k) not in places}
    if isinstance(value, list):
        left = [i for i in range(len(value)) if (*at, i) not in places]
        out = ReducedList(_without(value[i], places, (*at, i)) for i in left)
        out.origin = tuple(value.origin[i] for i in left) if isinstance(value, ReducedList) else tuple(left)
        return out
    return value
