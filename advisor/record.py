"""The base of all plain data in advisor: frozen structs that become JSON without further code."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

import msgspec

SCHEMA_VERSION: Final = 1  # of all JSON output; it grows where a field goes or changes its meaning
T = TypeVar("T")
M = TypeVar("M", bound="RecordWithInner")
Names = tuple[str, ...]


def pick_fields(source: object, *names: str) -> dict[str, Any]:
    """Some attributes of a value by name: fields that another kind of value has, too."""
    return {name: getattr(source, name) for name in names}


class Value(msgspec.Struct, frozen=True):
    """An immutable value that one part of the program hands another; fields by position or by name.

    Made ten times faster than a named tuple's class, which counts: a command defines a hundred. It may hold functions
    and lists, and so be part of a cycle: the garbage collector looks into it.
    """


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An immutable value. Fields are keyword-only; unknown fields are refused when read from YAML or JSON.

    What cannot change cannot be part of a cycle made later, so the garbage collector need not visit it. A module of
    records that every start decodes has no `from __future__ import annotations`: text has to be compiled first.
    """

    def to_dict(self) -> dict[str, Any]:
        """The value as plain dicts, lists and scalars (every field present, unknown = None)."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return data


class RecordWithInner(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """A record that keeps what it was made from: no part of its JSON and its equality; absent where it was read."""

    def keep(self: M, inner: object) -> M:
        """The record itself, which now keeps `inner`."""
        vars(self)["inner"] = inner
        return self

    def read_inner(self, kind: type[T]) -> T:
        """What it was made from. Raises LookupError where it was read from JSON."""
        inner = vars(self)["inner"]
        assert isinstance(inner, kind)
        return inner

    def with_fields(self: M, **changes: object) -> M:
        """A copy with other values in these fields, which keeps what this one keeps."""
        copy = msgspec.structs.replace(self, **changes)
        vars(copy).update(vars(self))
        return copy


class Answer(RecordWithInner, frozen=True, kw_only=True):
    """The whole answer of a command: its fields are those of the JSON that the command prints."""

    schema_version: Literal[1] = SCHEMA_VERSION
