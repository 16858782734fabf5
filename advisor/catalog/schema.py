"""Turning plain data into typed entries, and saying what is wrong with the data: file, line, place, near match."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from advisor.decoding import convert
from advisor.errors import BadFile

At = tuple["str | int", ...]


def validate_entry(data: object, kind: type, path: Path, at: At) -> None:
    """Raise BadFile with the line when `data`, found at `at` in the file, is no valid `kind`."""
    try:
        convert(data, kind)
    except msgspec.ValidationError as e:
        problem, inner = _split(str(e), data, kind)
        raise make_fault(path, at + inner, _reworded(problem), _wrong_word(problem, kind)) from None


def make_fault(path: Path, at: At, problem: str, near: Iterable[str] = ()) -> BadFile:
    """A BadFile for the value at `at`: line in the file, place in the document, problem, near matches."""
    error = BadFile(path, (f"{format_place(at)}: " if at else "") + problem, find_line(path, at))
    error.near = tuple(near)
    return error


def format_place(at: At) -> str:
    """A place in a document as people write it: models[3].layout.attention[0]."""
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def find_line(path: Path, at: At) -> int | None:
    """The line of the value at `at`, or of the nearest thing around it; None when the file cannot be read."""
    from advisor.files import compose_yaml, read_text

    try:
        node = compose_yaml(read_text(path), path)
    except BadFile:
        return None
    if node is None:
        return None
    line: int = node.start_mark.line + 1
    for part in at:
        child = None
        if isinstance(part, int) and isinstance(node.value, list) and part < len(node.value):
            child = node.value[part]
            if isinstance(child, tuple):  # a mapping node holds pairs
                return line
        elif isinstance(part, str) and isinstance(node.value, list):
            for pair in node.value:
                if isinstance(pair, tuple) and str(pair[0].value) == part:
                    line = pair[0].start_mark.line + 1
                    child = pair[1]
        if child is None:
            return line
        node = child
        if isinstance(part, int):
            line = node.start_mark.line + 1
    return line


def find_duplicate_key(path: Path, root: Any) -> BadFile | None:
    """The first key that one mapping of a node tree (`files.compose_yaml`) holds twice: YAML keeps the last without a
    word."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node is None or not isinstance(node.value, list):
            continue
        seen: set[str] = set()
        for child in node.value:
            if not isinstance(child, tuple):
                stack.append(child)
                continue
            key = str(child[0].value)
            if key in seen:
                return BadFile(path, f"`{key}` stands twice in one mapping", child[0].start_mark.line + 1)
            seen.add(key)
            stack.append(child[1])
    return None


def _split(message: str, data: object, kind: type) -> tuple[str, At]:
    """msgspec's message as problem and path; a key it hides (`[...]`) is found by trying each one."""
    m = re.match(r"(?s)(.*) - at `(.*)`$", message)
    problem, place = (m[1], m[2]) if m else (message, "$")
    if place.startswith("key in"):
        return problem, ()
    at: list[str | int] = []
    value: Any = data
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", place):
        if name:
            part: str | int = name
        elif index == "...":
            part = _guilty(data, kind, at, value)
        else:
            part = int(index)
        at.append(part)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
    unknown = re.search(r"unknown field `([^`]+)`", problem)
    if unknown:
        at.append(unknown[1])
    return problem, tuple(at)


def _guilty(data: object, kind: type, at: list[str | int], mapping: dict[str, Any]) -> str:
    """The key of `mapping` (at `at` in `data`) whose value makes the conversion fail."""
    for key, value in mapping.items():
        try:
            convert(_replaced(data, at, {key: value}), kind)
        except msgspec.ValidationError:
            return key
    return next(iter(mapping))


def _replaced(data: Any, at: list[str | int], value: object) -> Any:
    if not at:
        return value
    copy: Any = data.copy()
    copy[at[0]] = _replaced(data[at[0]], at[1:], value)
    return copy


def _reworded(problem: str) -> str:
    text = problem[0].lower() + problem[1:]
    if "got `bool`" in problem and "`str`" in problem:
        text += " (YAML reads a bare yes or no as true or false: quote it)"
    return text


def _wrong_word(problem: str, kind: type) -> tuple[str, ...]:
    """Near matches for an unknown field, tag or word of a closed list."""
    m = re.search(r"unknown field `([^`]+)`|[Ii]nvalid (?:enum )?value '([^']+)'", problem)
    if not m:
        return ()
    from advisor.near import near_matches

    fields, words = _vocabulary(kind)
    return near_matches(m[1] or m[2], sorted(fields if m[1] else words), n=1)


@lru_cache(maxsize=16)
def _vocabulary(kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """Field names, and tags and literal words, of a type and all types inside it."""
    import msgspec.inspect as inspect

    fields: set[str] = set()
    words: set[str] = set()
    stack: list[Any] = [inspect.type_info(kind)]
    seen: set[type] = set()
    while stack:
        t = stack.pop()
        if isinstance(t, inspect.StructType):
            if t.cls in seen:
                continue
            seen.add(t.cls)
            fields.update(f.encode_name for f in t.fields)
            stack.extend(f.type for f in t.fields)
            if isinstance(t.tag, str):
                words.add(t.tag)
                fields.add(t.tag_field or "type")
        elif isinstance(t, inspect.LiteralType):
            words.update(str(v) for v in t.values)
        elif isinstance(t, inspect.UnionType):
            stack.extend(t.types)
        elif isinstance(t, inspect.DictType):
            stack.append(t.value_type)
        elif isinstance(t, inspect.VarTupleType):
            stack.append(t.item_type)
    return frozenset(fields), frozenset(words)
