"""Compiled rules as they lie in the user's cache: an index in one line, then the parts, each as JSON.

A start reads few of the parts, and JSON has to be gone through to find where a part ends: the index says it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from advisor.catalog.compiled_types import CompiledRules
from advisor.decoding import decode_json
from advisor.record import Record

Places = dict[str, tuple[int, int]]  # name of a part -> where it begins and ends after the index


class _Index(Record, frozen=True, kw_only=True):
    format: int
    content: str
    stamp: str
    length: int  # bytes after the index
    sections: Places
    models: Places
    documents: Places


def pack_rules(rules: CompiledRules) -> bytes:
    """The rules, which have their stamp, as the bytes of a cache file."""
    parts: list[bytes] = []
    end = 0

    def place(named: Mapping[str, msgspec.Raw]) -> Places:
        nonlocal end
        found: Places = {}
        for name, raw in named.items():
            parts.append(bytes(raw))
            found[name] = (end, end := end + len(parts[-1]))
        return found

    fields = {f: getattr(rules, f) for f in rules.__struct_fields__}
    index = _Index(
        format=rules.format,
        content=rules.content,
        stamp=rules.stamp or "",
        sections=place({f: value for f, value in fields.items() if isinstance(value, msgspec.Raw)}),
        models=place(rules.models),
        documents=place(rules.documents),
        length=end,
    )
    return b"".join((msgspec.json.encode(index), b"\n", *parts))


def unpack_rules(data: bytes) -> CompiledRules | None:
    """The rules of a cache file; None where it is none, or not whole."""
    start = data.find(b"\n") + 1
    try:
        index = decode_json(data[:start], _Index)
    except (msgspec.MsgspecError, ValueError):
        return None
    rest = memoryview(data)[start:]  # its pieces are no copies
    if len(rest) != index.length:
        return None

    def cut(places: Places) -> dict[str, msgspec.Raw]:
        return {name: msgspec.Raw(rest[begin:end]) for name, (begin, end) in places.items()}

    try:
        return CompiledRules(
            format=index.format,
            content=index.content,
            stamp=index.stamp,
            models=cut(index.models),
            documents=cut(index.documents),
            **cut(index.sections),
        )
    except TypeError:  # sections of another format
        return None
