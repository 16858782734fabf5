"""Plain data without its faulty parts, so that the rest can be judged; what was taken out and filled in is known."""

from __future__ import annotations

from typing import Any

from msgspec import inspect

from advisor.catalog.flaws import ID, At, Flaw, find_flaws, list_words, strip_annotations
from advisor.decoding import Json
from advisor.yaml_places import value_at

NUMBER = 1  # for a number that is not there


class ReducedList(list[Any]):
    """A list that lost items: `origin` is where those that are left stood before."""

    origin: tuple[int, ...] = ()


class CompletedEntry(Json):
    """An entry that was filled up: `stand_ins` are the keys that it lacks in the file."""

    stand_ins: frozenset[str] = frozenset()

    @property
    def is_guess(self) -> bool:
        """Whether a number stands in, so that nothing that is computed from it means anything."""
        return any(isinstance(self[k], (int, float)) for k in self.stand_ins)


def prune_flaws(value: object, kind: type) -> Any:
    """`value` without its faulty parts, so that it decodes; None when nothing of it does."""
    for _ in range(20):
        found = find_flaws(value, kind)
        if not found:
            return value
        value, found = _filled_up(value, found)
        places = {f.at for f in found}
        if () in places or value is None:
            return None
        value = _remove(value, places, ())
    return None


def with_key(entry: Json, key: str, value: object) -> Json:
    """The entry with another value of one key."""
    made: Json = _replaced(entry, (key,), value)
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


def _filled_up(value: object, found: list[Flaw]) -> tuple[object, list[Flaw]]:
    """The value with entries filled up that lack keys, and the flaws that are left."""
    left: list[Flaw] = []
    for flaw in found:
        entry, missing = value_at(value, *flaw.at), flaw.missing
        if missing is None or not missing.of_entry or not isinstance(entry, dict) or missing.name == ID:
            left.append(flaw)
            continue
        made = CompletedEntry(entry)
        made[missing.name] = _any_value(missing.type, str(entry.get(ID)))
        made.stand_ins = getattr(entry, "stand_ins", frozenset()) | {missing.name}
        value = _replaced(value, flaw.at, made)
    return value, left


def _any_value(t: inspect.Type, name: str) -> object:
    """A value of a type: the first word of a closed list, else the entry's own name."""
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


def _replaced(value: Any, at: At, new: object) -> Any:
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


def _remove(value: Any, places: set[At], at: At) -> Any:
    if isinstance(value, dict):
        return _like(value, {k: _remove(v, places, (*at, k)) for k, v in value.items() if (*at, k) not in places})
    if isinstance(value, list):
        left = [i for i in range(len(value)) if (*at, i) not in places]
        out = ReducedList(_remove(value[i], places, (*at, i)) for i in left)
        out.origin = tuple(value.origin[i] for i in left) if isinstance(value, ReducedList) else tuple(left)
        return out
    return value
