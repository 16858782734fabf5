"""All faults of plain data against its type, not only the first: keys, kinds of values, words of closed lists.

The types are those the program decodes with, so a new field needs no change here. An unknown key is always a fault,
also where the program would pass over it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from advisor.decoding import convert
from advisor.near import near_matches
from advisor.record import Value

_YAML_WORDS = "YAML reads a bare yes, no, on or off as true or false: quote it"
At = tuple["str | int", ...]
_SCALARS = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.NoneType, inspect.AnyType)
# what values types ask for: in words, and whether a value is one
_MAPPING = "a mapping of keys to values", lambda v: isinstance(v, dict)
_LIST = "a list", lambda v: isinstance(v, list)
_KINDS: dict[type[inspect.Type], tuple[str, Callable[[object], bool]]] = {
    inspect.StrType: ("text", lambda v: isinstance(v, str)),
    inspect.BoolType: ("true or false", lambda v: isinstance(v, bool)),
    inspect.IntType: ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    inspect.FloatType: ("a number", lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)),
    inspect.NoneType: ("nothing", lambda v: v is None),
    inspect.StructType: _MAPPING,
    inspect.DictType: _MAPPING,
    inspect.TupleType: _LIST,
    inspect.ListType: _LIST,
    inspect.VarTupleType: _LIST,
    inspect.SetType: _LIST,
    inspect.FrozenSetType: _LIST,
    inspect.CollectionType: _LIST,
}
# what types say of a regular expression, and of what no rule file has (advisor/meanings.py)
PATTERN, PUT_IN = "pattern", "put in"
ID = "id"


class MissingKey(Value, frozen=True):
    """A key that a struct needs, and the type of its value."""

    name: str
    type: inspect.Type
    of_entry: bool  # whether the struct has an `id`


class Flaw(Value, frozen=True):
    """One fault of a value: where in it, which kind of fault, in words."""

    at: At
    code: Literal["unknown_key", "missing_key", "wrong_value", "pattern"]
    problem: str
    near: tuple[str, ...] = ()
    missing: MissingKey | None = None


class Visit(NamedTuple):
    """A part of a value with its type: a struct's mapping, or a text of which the type says what it stands for."""

    at: At
    type: inspect.Type
    value: Any  # of the kind that the type says


def find_flaws(value: object, kind: type) -> list[Flaw]:
    """Everything that keeps `value` from being a `kind`; empty when it is one."""
    if not (_strict(kind) and _converts(value, kind)):
        found = list(_flaws(value, info(kind), ()))
        if found:
            return found
        if not any(says(t, PUT_IN) for t in list_types(kind)):
            try:
                convert(value, kind)
            except msgspec.ValidationError as e:
                return [Flaw((), "wrong_value", str(e))]
    return [flaw for v in list_visits(value, kind) for flaw in _meaning(v)] if _has_meanings(kind) else []


def _converts(value: object, kind: type) -> bool:
    try:
        convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _meaning(visit: Visit) -> Iterator[Flaw]:
    """What is wrong with a text that the decoder takes: a regular expression, a word of a closed list."""
    if not isinstance(visit.type, inspect.Metadata) or not isinstance(visit.value, str):
        return
    if says(visit.type, PATTERN):
        try:
            re.compile(visit.value, re.IGNORECASE)
        except re.error as e:
            yield Flaw(visit.at, "pattern", f"{visit.value!r} is not a regular expression: {e}")
    words = (visit.type.extra or {}).get("words", ())
    if words and visit.value not in words:
        problem = f"{_plain(visit.value)} is not one of {', '.join(words)}"
        yield Flaw(visit.at, "wrong_value", problem, near_matches(visit.value, words, n=2))


@lru_cache(maxsize=256)
def _has_meanings(kind: type) -> bool:
    return any(says(t, PATTERN) or "words" in (getattr(t, "extra", None) or {}) for t in list_types(kind))


@lru_cache(maxsize=256)
def _strict(kind: type) -> bool:
    """Whether every struct in the type refuses by itself what rule files may not have."""
    found = list(list_types(kind))
    return all(t.forbid_unknown_fields for t in found if isinstance(t, inspect.StructType)) and not any(
        says(t, PUT_IN) for t in found
    )


def _flaws(value: object, t: inspect.Type, at: At) -> Iterator[Flaw]:
    yield from _meaning(Visit(at, t, value))
    t = strip_annotations(t)
    if isinstance(value, (list, dict)) and len(value) < (getattr(t, "min_length", None) or 0):
        yield Flaw(at, "wrong_value", "at least one row is expected")
    elif isinstance(t, inspect.UnionType):
        yield from _union(value, t, at)
    elif isinstance(t, inspect.LiteralType):
        yield from _literal(value, t, at)
    elif not accepts(t, value):
        yield Flaw(at, "wrong_value", f"{_shown(value)}; {_wanted(t)} is expected{_hint(t, value)}")
    else:
        yield from _own_flaws(value, t, at)
        for key, inner, kind in _children(value, t):
            yield from _flaws(inner, kind, (*at, key))


def _own_flaws(value: object, t: inspect.Type, at: At) -> Iterator[Flaw]:
    """What is wrong with a mapping's keys or a list's length."""
    if isinstance(t, inspect.StructType) and isinstance(value, dict):
        yield from _keys(value, t, at)
    elif isinstance(t, inspect.DictType) and isinstance(value, dict):
        for key in value:
            for flaw in _flaws(key, t.key_type, at):
                yield replace(flaw, at=(*at, key), problem=f"key {flaw.problem}")
    elif isinstance(t, inspect.TupleType) and isinstance(value, list) and len(value) != len(t.item_types):
        yield Flaw(at, "wrong_value", f"has {len(value)} values; {len(t.item_types)} are expected")


def _children(value: object, t: inspect.Type) -> Iterator[tuple[str | int, object, inspect.Type]]:
    """What stands inside a value that its type accepts: key or position, value, type."""
    if isinstance(t, inspect.StructType) and isinstance(value, dict):
        for field in t.fields:
            if field.encode_name in value and not says(field.type, PUT_IN):
                yield field.encode_name, value[field.encode_name], field.type
    elif isinstance(t, inspect.DictType) and isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner, t.value_type
    elif isinstance(t, (inspect.CollectionType, inspect.TupleType)) and isinstance(value, list):
        kinds = t.item_types if isinstance(t, inspect.TupleType) else itertools.repeat(t.item_type)
        for i, (inner, kind) in enumerate(zip(value, kinds, strict=False)):
            yield i, inner, kind


def _literal(value: object, t: inspect.LiteralType, at: At) -> Iterator[Flaw]:
    if not any(v == value and isinstance(v, bool) is isinstance(value, bool) for v in t.values):
        words = [str(v) for v in t.values]
        problem = f"{_plain(value)} is not one of {', '.join(words)}"
        if isinstance(value, bool) and all(isinstance(v, str) for v in t.values):
            problem += f" ({_YAML_WORDS})"
        yield Flaw(at, "wrong_value", problem, near_matches(str(value), words, n=2))


def _keys(value: dict[str, object], t: inspect.StructType, at: At) -> Iterator[Flaw]:
    """Keys that the struct does not have, and those that it lacks."""
    fields = {f.encode_name: f for f in t.fields if not says(f.type, PUT_IN)}
    known = {*fields, *([t.tag_field] if t.tag_field else [])}
    meant: set[str] = set()  # what misspelt keys stand for: they are not missing as well
    for key in value:
        if key not in known:
            hint = near_matches(str(key), known, n=2)
            meant |= set(hint[:1])
            yield Flaw((*at, key), "unknown_key", f"`{key}` is not a key here", hint)
    for name, field in fields.items():
        if name not in value and field.required and name not in meant:
            form = _form(field.type)
            problem = f"`{name}` is missing" + (f": {form}" if form else "")
            yield Flaw(at, "missing_key", problem, missing=MissingKey(name, field.type, ID in fields))


def _form(t: inspect.Type) -> str:
    """What a value may be, where its type is a closed list of words or a mapping that must hold some; else nothing."""
    words = list_words(t)
    if words:
        return f"one of {', '.join(words)}"
    t = strip_annotations(t)
    if not isinstance(t, inspect.StructType):
        return ""
    inner = {f.encode_name: list_words(f.type) for f in t.fields if f.required}
    keys = [f"{name}: {' | '.join(listed)}" if listed else f"{name}: ..." for name, listed in inner.items()]
    return "{" + ", ".join(keys) + "}" if keys else ""


def _union(value: object, t: inspect.UnionType, at: At) -> Iterator[Flaw]:
    options = [x for x in t.types if not isinstance(x, inspect.NoneType)]
    if value is None and len(options) < len(t.types):
        return
    tagged = [x for x in options if isinstance(x, inspect.StructType) and x.tag_field]
    if isinstance(value, dict) and tagged:
        field = tagged[0].tag_field or ""
        words = [str(x.tag) for x in tagged]
        chosen = next((x for x in tagged if x.tag == value.get(field)), None)
        if chosen is not None:
            yield from _flaws(value, chosen, at)
        elif field in value:
            problem = f"{_plain(value[field])} is not one of {', '.join(words)}"
            yield Flaw((*at, field), "wrong_value", problem, near_matches(str(value[field]), words, n=2))
        else:
            yield Flaw(at, "missing_key", f"`{field}` is missing: one of {', '.join(words)}")
        return
    fitting = [x for x in options if accepts(x, value)]
    if len(options) == 1 or len(fitting) == 1:
        yield from _flaws(value, fitting[0] if len(fitting) == 1 else options[0], at)
    elif not fitting:
        kinds = " or ".join(dict.fromkeys(_wanted(x) for x in options))
        yield Flaw(at, "wrong_value", f"{_shown(value)}; {kinds} is expected")


def _wanted(t: inspect.Type) -> str:
    t = strip_annotations(t)
    if isinstance(t, inspect.LiteralType):
        return "one of " + ", ".join(str(v) for v in t.values)
    return _KINDS[type(t)][0] if type(t) in _KINDS else "another value"


def _shown(value: object) -> str:
    """A value and its kind, in a few words."""
    if value is None:
        return "nothing is given here"
    if isinstance(value, dict):
        return "is a mapping"
    if isinstance(value, list):
        return "is a list"
    kind = "text" if isinstance(value, str) else "true or false" if isinstance(value, bool) else "a number"
    return f"{_plain(value)} is {kind}"


def _plain(value: object) -> str:
    """A value as it would stand in a sentence."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _hint(t: inspect.Type, value: object) -> str:
    if isinstance(t, inspect.StrType) and isinstance(value, bool):
        return f" ({_YAML_WORDS})"
    if isinstance(t, inspect.StrType) and isinstance(value, (int, float)):
        return f" (quote it: '{value}')"
    if isinstance(t, (inspect.IntType, inspect.FloatType)) and re.fullmatch(r"[\d.]+e[+-]?\d+", str(value), re.I):
        return " (YAML reads 1e9 as text: write 1.0e+9, or all digits)"
    return ""


@lru_cache(maxsize=256)
def info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def says(t: inspect.Type, word: str) -> bool:
    """Whether a type says that of itself (advisor/meanings.py)."""
    return isinstance(t, inspect.Metadata) and (t.extra or {}).get("is") == word


def list_words(t: inspect.Type) -> tuple[str, ...]:
    """The words of the closed list that a type is held to, whether it says so itself or of a text; empty = any."""
    if isinstance(t, inspect.Metadata):
        return tuple((t.extra or {}).get("words", ())) or list_words(t.type)
    if isinstance(t, inspect.UnionType):
        return tuple(w for x in t.types if not isinstance(x, inspect.NoneType) for w in list_words(x))
    return tuple(str(v) for v in t.values) if isinstance(t, inspect.LiteralType) else ()


def list_types(kind: type) -> Iterator[inspect.Type]:
    """The type and every type inside it, structs once each."""
    stack, seen = [info(kind)], set()
    while stack:
        t = stack.pop()
        yield t
        if isinstance(t, inspect.StructType):
            if t.cls not in seen:
                seen.add(t.cls)
                stack += [f.type for f in t.fields]
        elif isinstance(t, inspect.Metadata):
            stack.append(t.type)
        elif isinstance(t, inspect.UnionType):
            stack += t.types
        elif isinstance(t, inspect.DictType):
            stack += [t.key_type, t.value_type]
        elif isinstance(t, inspect.CollectionType):
            stack.append(t.item_type)
        elif isinstance(t, inspect.TupleType):
            stack += t.item_types


def strip_annotations(t: inspect.Type) -> inspect.Type:
    """The type without what is only stated about it."""
    while isinstance(t, inspect.Metadata):
        t = t.type
    return t


def list_visits(value: object, kind: type) -> list[Visit]:
    """Every struct and every text with a meaning in a sound value."""
    out: list[Visit] = []
    _visit(value, info(kind), (), out)
    return out


def _visit(value: object, t: inspect.Type, at: At, out: list[Visit]) -> None:
    if isinstance(t, inspect.Metadata):
        out.append(Visit(at, t, value))
        t = strip_annotations(t)
    if isinstance(t, inspect.UnionType):
        options = [x for x in t.types if accepts(x, value)]
        tags = value if isinstance(value, dict) else {}
        tagged = [x for x in options if isinstance(x, inspect.StructType) and tags.get(x.tag_field, x) == x.tag]
        for x in (tagged or options)[:1]:
            _visit(value, x, at, out)
    if value is None or isinstance(t, (inspect.UnionType, *_SCALARS)):
        return
    if isinstance(t, inspect.StructType) and isinstance(value, dict):
        out.append(Visit(at, t, value))
    elif isinstance(t, inspect.DictType) and isinstance(value, dict) and not isinstance(t.key_type, _SCALARS):
        for key in value:
            _visit(key, t.key_type, (*at, key), out)
    for key, inner, kind in _children(value, t):
        if not isinstance(kind, _SCALARS):
            _visit(inner, kind, (*at, key), out)


def accepts(t: inspect.Type, value: object) -> bool:
    """Whether a value is of the outer kind that the type asks for."""
    t = strip_annotations(t)
    if isinstance(t, inspect.LiteralType):
        return value in t.values
    # Any, and what rules do not use: the decoder itself has the last word
    return type(t) not in _KINDS or _KINDS[type(t)][1](value)
