"""All faults of plain data against its type, not only the first: keys, kinds of values, words of closed lists.

The types are those the program decodes with, so a new field needs no change here. An unknown key is always a fault,
also where the program would pass over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from advisor.decoding import convert
from advisor.lint.faults import Code, nearest_names
from advisor.lint.rule_types import (
    LISTS,
    PATTERN,
    PUT_IN,
    At,
    Visit,
    accepts,
    info,
    list_types,
    list_visits,
    list_words,
    says,
    strip_annotations,
)
from advisor.record import Value

_YAML_WORDS = "YAML reads a bare yes, no, on or off as true or false: quote it"


class MissingKey(Value, frozen=True):
    """A key that a struct wants, and the type of its value."""

    name: str
    type: inspect.Type
    owner: inspect.StructType


class Flaw(Value, frozen=True):
    """One fault of a value: where in it, which kind of fault, in words."""

    at: At
    code: Code
    problem: str
    near: tuple[str, ...] = ()
    missing: MissingKey | None = None


def find_flaws(value: Any, kind: Any) -> list[Flaw]:
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


def _converts(value: Any, kind: Any) -> bool:
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
            yield Flaw(visit.at, "pattern", f"{visit.value!r} is no regular expression: {e}")
    words = (visit.type.extra or {}).get("words", ())
    if words and visit.value not in words:
        said = f"{_plain(visit.value)} is none of {', '.join(words)}"
        yield Flaw(visit.at, "wrong_value", said, _near(visit.value, list(words)))


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


def _flaws(value: Any, t: inspect.Type, at: At) -> Iterator[Flaw]:
    yield from _meaning(Visit(at, t, value))
    t = strip_annotations(t)
    if isinstance(value, (list, dict)) and len(value) < (getattr(t, "min_length", None) or 0):
        yield Flaw(at, "wrong_value", "at least one row is expected")
    elif isinstance(t, inspect.UnionType):
        yield from _union(value, t, at)
    elif isinstance(t, inspect.StructType) and isinstance(value, dict):
        yield from _struct(value, t, at)
    elif isinstance(t, inspect.DictType) and isinstance(value, dict):
        for key, inner in value.items():
            for flaw in _flaws(key, t.key_type, at):
                yield replace(flaw, at=(*at, key), problem=f"key {flaw.problem}")
            yield from _flaws(inner, t.value_type, (*at, key))
    elif isinstance(t, LISTS) and isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _flaws(inner, t.item_type, (*at, i))
    elif isinstance(t, inspect.TupleType) and isinstance(value, list):
        if len(value) != len(t.item_types):
            yield Flaw(at, "wrong_value", f"has {len(value)} values; {len(t.item_types)} are expected")
        for i, (inner, kind) in enumerate(zip(value, t.item_types, strict=False)):
            yield from _flaws(inner, kind, (*at, i))
    elif isinstance(t, inspect.LiteralType):
        yield from _literal(value, t, at)
    elif not accepts(t, value):
        yield Flaw(at, "wrong_value", f"{_shown(value)}; {_wanted(t)} is expected{_hint(t, value)}")


def _literal(value: Any, t: inspect.LiteralType, at: At) -> Iterator[Flaw]:
    if not any(v == value and isinstance(v, bool) is isinstance(value, bool) for v in t.values):
        words = [str(v) for v in t.values]
        said = f"{_plain(value)} is none of {', '.join(words)}"
        if isinstance(value, bool) and all(isinstance(v, str) for v in t.values):
            said += f" ({_YAML_WORDS})"
        yield Flaw(at, "wrong_value", said, _near(value, words))


def _struct(value: dict[str, Any], t: inspect.StructType, at: At) -> Iterator[Flaw]:
    fields = {f.encode_name: f for f in t.fields if not says(f.type, PUT_IN)}
    known = {*fields, *([t.tag_field] if t.tag_field else [])}
    meant: set[str] = set()  # what misspelt keys stand for: they are not missing as well
    for key in value:
        if key not in known:
            hint = nearest_names(str(key), known)
            meant |= set(hint[:1])
            yield Flaw((*at, key), "unknown_key", f"`{key}` is not a key here", hint)
    for name, field in fields.items():
        if name in value:
            yield from _flaws(value[name], field.type, (*at, name))
        elif field.required and name not in meant:
            form = _form(field.type)
            said = f"`{name}` is missing" + (f": {form}" if form else "")
            yield Flaw(at, "missing_key", said, missing=MissingKey(name, field.type, t))


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
        yield Flaw(at, "wrong_value", f"{_shown(value)}; {wanted} is expected")


def _wanted(t: inspect.Type) -> str:
    t = strip_annotations(t)
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
    if isinstance(t, LISTS):
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
    return nearest_names(str(value), words)
