"""The base of all plain data in advisor: frozen structs that become JSON without further code."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA_VERSION = 1  # of all JSON output; it grows where a field goes or changes its meaning


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
