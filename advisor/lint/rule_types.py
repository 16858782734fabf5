"""Types of rule files as the linter walks them: what is inside a type, and the parts of a value with their types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import inspect

At = tuple["str | int", ...]
LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType, inspect.CollectionType)
_SCALARS = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.NoneType, inspect.AnyType)
# what types say of a regular expression, and of what no rule file has (advisor/meanings.py)
PATTERN, PUT_IN = "pattern", "put in"


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


def list_types(kind: Any) -> Iterator[inspect.Type]:
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
        elif isinstance(t, LISTS):
            stack.append(t.item_type)
        elif isinstance(t, inspect.TupleType):
            stack += t.item_types


def strip_annotations(t: inspect.Type) -> inspect.Type:
    """The type without what is only stated about it."""
    while isinstance(t, inspect.Metadata):
        t = t.type
    return t


class Visit(NamedTuple):
    """A part of a value with its type: a struct's mapping, or a text of which the type says what it stands for."""

    at: At
    type: inspect.Type
    value: Any


def list_visits(value: Any, kind: Any) -> list[Visit]:
    """Every struct and every text with a meaning in a sound value."""
    out: list[Visit] = []
    _visit(value, info(kind), (), out)
    return out


def _visit(value: Any, t: inspect.Type, at: At, out: list[Visit]) -> None:
    if isinstance(t, inspect.Metadata):
        out.append(Visit(at, t, value))
        t = strip_annotations(t)
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
    elif isinstance(t, LISTS) and isinstance(value, list):
        if not isinstance(t.item_type, _SCALARS):
            for i, inner in enumerate(value):
                _visit(inner, t.item_type, (*at, i), out)
    elif isinstance(t, inspect.TupleType) and isinstance(value, list):
        for i, (inner, kind) in enumerate(zip(value, t.item_types, strict=False)):
            _visit(inner, kind, (*at, i), out)


def accepts(t: inspect.Type, value: Any) -> bool:
    """Whether a value is of the outer kind that the type wants."""
    t = strip_annotations(t)
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
    if isinstance(t, (*LISTS, inspect.TupleType)):
        return isinstance(value, list)
    if isinstance(t, inspect.LiteralType):
        return value in t.values
    return True  # Any, and what rules do not use: the decoder itself has the last word
