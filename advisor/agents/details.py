"""Parts of a whole answer, found by a JSON pointer and given in pieces."""

from __future__ import annotations

from typing import Any

from advisor.agents.short_answers import LIMIT, KeptAnswers, measure
from advisor.decoding import Json
from advisor.errors import BadInput, UnknownName
from advisor.near import near_matches

ROOM = LIMIT - 700  # of a piece, next to what is reported about it


def read_details(kept: KeptAnswers, handle: str, pointer: str = "", start: int = 0) -> Json:
    """The part of a kept answer at `pointer` (RFC 6901): its value where it is short, else its keys with their sizes,
    or the items of a list from `start`. Raises UnknownName, BadInput."""
    if handle not in kept.answers:
        raise UnknownName("handle", handle, near_matches(handle, kept.answers), "Ask again for a new answer.")
    value = kept.answers[handle]
    for step in _steps(pointer):
        value = _step(value, step, pointer)
    if start < 0:
        raise BadInput(f"start: {start} is below 0")
    found: Json = {"handle": handle, "pointer": pointer}
    if measure(value) <= ROOM and not start:
        return {**found, "value": value}
    if isinstance(value, dict):
        return {**found, "keys": _list_keys(value)}
    if isinstance(value, list):
        return found | _items(value, pointer, start)
    text = str(value)
    piece = text[start : start + ROOM // 4]
    end = start + len(piece)
    return {**found, "value": piece, "next": end if end < len(text) else None}


def _list_keys(value: Json) -> dict[str, int]:
    """The first keys of an object, each with its size."""
    return {k: measure(v) for k, v in list(value.items())[:80]}


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise BadInput(f"pointer: {pointer[:40]!r} does not begin with `/`")
    return [s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]]


def _step(value: Any, step: str, pointer: str) -> Any:
    if isinstance(value, dict):
        if step in value:
            return value[step]
        raise UnknownName("key", step, near_matches(step, value) or tuple(value)[:8])
    if isinstance(value, list):
        if step.isdecimal() and len(step) < 7 and int(step) < len(value):
            return value[int(step)]
        raise BadInput(f"pointer: {pointer[:80]}: {step[:20]!r} is no place of a list of {len(value)}")
    raise BadInput(f"pointer: {pointer[:80]}: there is nothing below a single value")


def _items(value: list[Any], pointer: str, start: int) -> Json:
    out: list[Any] = []
    size = 0
    for item in value[start:]:
        size += measure(item) + 1
        if size > ROOM:
            break
        out.append(item)
    end = start + len(out)
    if not out and start < len(value):  # one item is too long for a piece: what it has
        item = value[start]
        keys = _list_keys(item) if isinstance(item, dict) else measure(item)
        return {"pointer": f"{pointer}/{start}", "keys": keys, "of": len(value)}
    return {"items": out, "of": len(value), "next": end if end < len(value) else None}
