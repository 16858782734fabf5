"""Rules without what is faulty in them, so that the rest can be looked at, and where things stood before.

An entry (what has an `id`) that lacks a key is filled up, so that its other faults are reported as well.
"""

from __future__ import annotations

from typing import Any

from msgspec import inspect

from advisor.lint.rule_types import At, list_words, strip_annotations
from advisor.lint.shape import Flaw, MissingKey, find_flaws

ID = "id"
NUMBER = 1  # for a number that is not there


class ReducedList(list[Any]):
    """A list that lost items: `origin` is where those that are left stood before."""

    origin: tuple[int, ...] = ()


class CompletedEntry(dict[str, Any]):
    """An entry that was filled up: `stand_ins` are the keys that it lacks in the file."""

    stand_ins: frozenset[str] = frozenset()

    @property
    def is_guess(self) -> bool:
        """Whether a number stands in, so that nothing that is computed from it means anything."""
        return any(isinstance(self[k], (int, float)) for k in self.stand_ins)


def prune_flaws(value: Any, kind: Any) -> Any:
    """`value` without its faulty parts, so that it decodes; None when nothing of it does."""
    for _ in range(20):
        found = find_flaws(value, kind)
        if not found:
            return value
        value, found = _filled_up(value, found)
        places = {f.at for f in found}
        if () in places or value is None:
            return None
        value = _without(value, places, ())
    return None


def with_key(entry: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The entry with another value of one key."""
    made: dict[str, Any] = _replaced(entry, (key,), value)
    return made


def is_stand_in(value: Any, at: At) -> bool:
    """Whether a path leads through a key that was filled in: what is reported about it follows from its absence."""
    for part in at:
        if isinstance(value, CompletedEntry) and part in value.stand_ins:
            return True
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return False
    return False


def _filled_up(value: Any, found: list[Flaw]) -> tuple[Any, list[Flaw]]:
    """The value with entries filled up that lack keys, and the flaws that are left."""
    left: list[Flaw] = []
    for flaw in found:
        entry = value_at(value, flaw.at)
        known = {f.encode_name for f in flaw.missing.owner.fields} if flaw.missing is not None else set()
        if flaw.missing is None or ID not in known or not isinstance(entry, dict) or flaw.missing.name == ID:
            left.append(flaw)
            continue
        made = CompletedEntry(entry)
        made[flaw.missing.name] = _stand_in(flaw.missing, str(entry.get(ID)))
        made.stand_ins = getattr(entry, "stand_ins", frozenset()) | {flaw.missing.name}
        value = _replaced(value, flaw.at, made)
    return value, left


def _stand_in(missing: MissingKey, name: str) -> Any:
    """A value of the type of a missing key: the first word of a closed list, else the entry's own name."""
    return _any_value(missing.type, name)


def _any_value(t: inspect.Type, name: str) -> Any:
    words = list_words(t)
    if words:
        return words[0]
    t = strip_annotations(t)
    if isinstance(t, inspect.UnionType):
        return None if any(isinstance(x, inspect.NoneType) for x in t.types) else _any_value(t.types[0], name)
    if isinstance(t, inspect.StructType):
        return {f.encode_name: _any_value(f.type, name) for f in t.fields if f.required}
    if isinstance(t, inspect.StrType):
        return name
    if isinstance(t, inspect.BoolType):
        return False
    if isinstance(t, (inspect.IntType, inspect.FloatType)):
        return NUMBER
    return {} if isinstance(t, inspect.DictType) else []


def value_at(value: Any, at: At) -> Any:
    """What stands at a path; None where nothing does."""
    for part in at:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _replaced(value: Any, at: At, new: Any) -> Any:
    """The value with another one at a path."""
    if not at:
        return new
    made = _like(value, dict(value) if isinstance(value, dict) else list(value))
    made[at[0]] = _replaced(value[at[0]], at[1:], new)
    return made


def _like(value: Any, made: Any) -> Any:
    """A changed copy that knows what the first one knew of itself."""
    if isinstance(value, CompletedEntry):
        made = CompletedEntry(made)
        made.stand_ins = value.stand_ins
    elif isinstance(value, ReducedList):
        made = ReducedList(made)
        made.origin = value.origin
    return made


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
        return _like(value, {k: _without(v, places, (*at, k)) for k, v in value.items() if (*at, k) not in places})
    if isinstance(value, list):
        left = [i for i in range(len(value)) if (*at, i) not in places]
        out = ReducedList(_without(value[i], places, (*at, i)) for i in left)
        out.origin = tuple(value.origin[i] for i in left) if isinstance(value, ReducedList) else tuple(left)
        return out
    return value
