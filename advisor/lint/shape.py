"""All faults of plain data against its type, not only the first: keys, kinds of values, words of closed lists.

The types are those the program decodes with, so a new field needs no change here. An unknown key is always a fault,
also where the program would pass over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from advisor.lint.faults import Code, near

At = tuple["str | int", ...]
_LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType, inspect.CollectionType)
_SCALARS = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.NoneType, inspect.AnyType)
PATTERN = "pattern"  # what a type says of a regular expression (advisor/meanings.py)
_YAML_WORDS = "YAML reads a bare yes, no, on or off as true or false: quote it"


class Flaw(NamedTuple):
    """One fault of a value: where in it, which kind of fault, in words."""

    at: At
    code: Code
    problem: str
    near: tuple[str, ...] = ()


class Kept(list[Any]):
    """A list that lost items: `origin` is where those that are left stood before."""

    origin: tuple[int, ...] = ()


def flaws(value: Any, kind: Any) -> list[Flaw]:
    """Everything that keeps `value` from being a `kind`; empty when it is one."""
    if not (_strict(kind) and _converts(value, kind)):
        found = list(_flaws(value, _info(kind), ()))
        if found:
            return found
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as e:
            return [Flaw((), "wrong_value", str(e))]
    return [f for v in visits(value, kind) if (f := _pattern(v)) is not None] if _has_patterns(kind) else []


def pruned(value: Any, kind: Any) -> Any:
    """`value` without its faulty parts, so that it decodes; None when nothing of it does."""
    for _ in range(20):
        found = flaws(value, kind)
        if not found:
            return value
        places = {f.at for f in found}
        if () in places or value is None:
            return None
        value = _without(value, places, ())
    return None


def original(value: Any, at: At) -> At:
    """A path in a pruned value as it was before anything was taken out."""
    out: list[str | int] = []
    for part in at:
        here = value.origin[part] if isinstance(value, Kept) and isinstance(part, int) else part
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
        out = Kept(_without(value[i], places, (*at, i)) for i in left)
        out.origin = tuple(value.origin[i] for i in left) if isinstance(value, Kept) else tuple(left)
        return out
    return value


def _converts(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _pattern(v: Visit) -> Flaw | None:
    """What is wrong with a regular expression."""
    if not (isinstance(v.type, inspect.Metadata) and (v.type.extra or {}).get("is") == PATTERN):
        return None
    try:
        re.compile(v.value, re.IGNORECASE)
    except re.error as e:
        return Flaw(v.at, "pattern", f"{v.value!r} is no regular expression: {e}")
    return None


@lru_cache(maxsize=256)
def _has_patterns(kind: Any) -> bool:
    return any(isinstance(t, inspect.Metadata) and (t.extra or {}).get("is") == PATTERN for t in parts(kind))


@lru_cache(maxsize=256)
def _info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


@lru_cache(maxsize=256)
def _strict(kind: Any) -> bool:
    """Whether every struct in the type refuses unknown keys by itself."""
    return all(t.forbid_unknown_fields for t in parts(kind) if isinstance(t, inspect.StructType))


def parts(kind: Any) -> Iterator[inspect.Type]:
    """The type and every type inside it, structs once each."""
    stack, seen = [_info(kind)], set()
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
        elif isinstance(t, _LISTS):
            stack.append(t.item_type)
        elif isinstance(t, inspect.TupleType):
            stack += t.item_types


def bare(t: inspect.Type) -> inspect.Type:
    """The type without what is only said about it."""
    while isinstance(t, inspect.Metadata):
        t = t.type
    return t


class Visit(NamedTuple):
    """A part of a value with its type: a struct's mapping, or a text of which the type says what it stands for."""

    at: At
    type: inspect.Type
    value: Any


def visits(value: Any, kind: Any) -> list[Visit]:
    """Every struct and every text with a meaning in a sound value."""
    out: list[Visit] = []
    _visit(value, _info(kind), (), out)
    return out


def _visit(value: Any, t: inspect.Type, at: At, out: list[Visit]) -> None:
    if isinstance(t, inspect.Metadata):
        out.append(Visit(at, t, value))
        t = bare(t)
    if isinstance(t, _SCALARS) or value is None:
        return
    if isinstance(t, inspect.UnionType):
        options = [x for x in t.types if accepts(x, value)]
        tagged = [x for x in options if isinstance(x, inspect.StructType) and value.get(x.tag_field) == x.tag]
        for x in (tagged or options)[:1]:
            _visit(value, x, at, out)
    elif isinstance(t, inspect.StructType) and isinstance(value, dict):
        out.append(Visit(at, t, value))
        for field in t.fields:
            inner = value.get(field.encode_name)
            if inner is not None and not isinstance(field.type, _SCALARS):
                _visit(inner, field.type, (*at, field.encode_name), out)
    elif isinstance(t, inspect.DictType) and isinstance(value, dict):
        for key, inner in value.items():
            _visit(key, t.key_type, (*at, key), out)
            _visit(inner, t.value_type, (*at, key), out)
    elif isinstance(t, _LISTS) and isinstance(value, list):
        if not isinstance(t.item_type, _SCALARS):
            for i, inner in enumerate(value):
                _visit(inner, t.item_type, (*at, i), out)
    elif isinstance(t, inspect.TupleType) and isinstance(value, list):
        for i, (inner, kind) in enumerate(zip(value, t.item_types, strict=False)):
            _visit(inner, kind, (*at, i), out)


def _flaws(value: Any, t: inspect.Type, at: At) -> Iterator[Flaw]:
    t = bare(t)
    if isinstance(t, inspect.UnionType):
        yield from _union(value, t, at)
    elif isinstance(t, inspect.StructType) and isinstance(value, dict):
        yield from _struct(value, t, at)
    elif isinstance(t, inspect.DictType) and isinstance(value, dict):
        for key, inner in value.items():
            for flaw in _flaws(key, t.key_type, at):
                yield flaw._replace(at=(*at, key), problem=f"key {flaw.problem}")
            yield from _flaws(inner, t.value_type, (*at, key))
    elif isinstance(t, _LISTS) and isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _flaws(inner, t.item_type, (*at, i))
    elif isinstance(t, inspect.TupleType) and isinstance(value, list):
        if len(value) != len(t.item_types):
            yield Flaw(at, "wrong_value", f"has {len(value)} values; {len(t.item_types)} are wanted")
        for i, (inner, kind) in enumerate(zip(value, t.item_types, strict=False)):
            yield from _flaws(inner, kind, (*at, i))
    elif isinstance(t, inspect.LiteralType):
        if not any(v == value and isinstance(v, bool) is isinstance(value, bool) for v in t.values):
            words = [str(v) for v in t.values]
            said = f"{_plain(value)} is none of {', '.join(words)}"
            if isinstance(value, bool) and all(isinstance(v, str) for v in t.values):
                said += f" ({_YAML_WORDS})"
            yield Flaw(at, "wrong_value", said, _near(value, words))
    elif not accepts(t, value):
        yield Flaw(at, "wrong_value", f"{_shown(value)}; {_wanted(t)} is wanted{_hint(t, value)}")


def _struct(value: dict[str, Any], t: inspect.StructType, at: At) -> Iterator[Flaw]:
    fields = {f.encode_name: f for f in t.fields}
    known = {*fields, *([t.tag_field] if t.tag_field else [])}
    meant: set[str] = set()  # what misspelt keys stand for: they are not missing as well
    for key in value:
        if key not in known:
            hint = near(str(key), known)
            meant |= set(hint[:1])
            yield Flaw((*at, key), "unknown_key", f"`{key}` is not a key here", hint)
    for name, field in fields.items():
        if name in value:
            yield from _flaws(value[name], field.type, (*at, name))
        elif field.required and name not in meant:
            yield Flaw(at, "missing_key", f"`{name}` is missing")


def _union(value: Any, t: inspect.UnionType, at: At) -> Iterator[Flaw]:
    options = [x for x in t.types if not isinstance(x, inspect.NoneType)]
    if value is None and len(options) < len(t.types):
        return
    tagged = [x for x in options if isinstance(x, inspect.StructType) and x.tag_field]
    if isinstance(value, dict) and tagged:
        field = tagged[0].tag_field or ""
        words = [str(x.tag) for x in tagged]
        chosen = next((x for x in tagged if x.tag == value.get(field)), None)
        if chosen is not None:
            yield from _struct(value, chosen, at)
        elif field in value:
            said = f"{_plain(value[field])} is none of {', '.join(words)}"
            yield Flaw((*at, field), "wrong_value", said, _near(value[field], words))
        else:
            yield Flaw(at, "missing_key", f"`{field}` is missing: one of {', '.join(words)}")
        return
    fitting = [x for x in options if accepts(x, value)]
    if len(options) == 1 or len(fitting) == 1:
        yield from _flaws(value, fitting[0] if len(fitting) == 1 else options[0], at)
    elif not fitting:
        wanted = " or ".join(dict.fromkeys(_wanted(x) for x in options))
        yield Flaw(at, "wrong_value", f"{_shown(value)}; {wanted} is wanted")


def accepts(t: inspect.Type, value: Any) -> bool:
    """Whether a value is of the outer kind that the type wants."""
    t = bare(t)
    if isinstance(t, inspect.StrType):
        return isinstance(value, str)
    if isinstance(t, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(t, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(t, inspect.FloatType):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(t, inspect.NoneType):
        return value is None
    if isinstance(t, (inspect.StructType, inspect.DictType)):
        return isinstance(value, dict)
    if isinstance(t, (*_LISTS, inspect.TupleType)):
        return isinstance(value, list)
    if isinstance(t, inspect.LiteralType):
        return value in t.values
    return True  # Any, and what rules do not use: the decoder itself has the last word


def _wanted(t: inspect.Type) -> str:
    t = bare(t)
    words: dict[type, str] = {
        inspect.StrType: "text",
        inspect.BoolType: "true or false",
        inspect.IntType: "a whole number",
        inspect.FloatType: "a number",
        inspect.NoneType: "nothing",
        inspect.StructType: "a mapping of keys to values",
        inspect.DictType: "a mapping of keys to values",
        inspect.TupleType: "a list",
    }
    if isinstance(t, _LISTS):
        return "a list"
    if isinstance(t, inspect.LiteralType):
        return "one of " + ", ".join(str(v) for v in t.values)
    return words.get(type(t), "another value")


def _shown(value: Any) -> str:
    """A value and its kind, in a few words."""
    if value is None:
        return "nothing stands here"
    if isinstance(value, dict):
        return "is a mapping"
    if isinstance(value, list):
        return "is a list"
    kind = "text" if isinstance(value, str) else "true or false" if isinstance(value, bool) else "a number"
    return f"{_plain(value)} is {kind}"


def _plain(value: Any) -> str:
    """A value as it would stand in a sentence."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _hint(t: inspect.Type, value: Any) -> str:
    if isinstance(t, inspect.StrType) and isinstance(value, bool):
        return f" ({_YAML_WORDS})"
    if isinstance(t, inspect.StrType) and isinstance(value, (int, float)):
        return f" (quote it: '{value}')"
    if isinstance(t, (inspect.IntType, inspect.FloatType)) and re.fullmatch(r"[\d.]+e[+-]?\d+", str(value), re.I):
        return " (YAML reads 1e9 as text: write 1.0e+9, or all digits)"
    return ""


def _near(value: Any, words: list[str]) -> tuple[str, ...]:
    return near(str(value), words)
