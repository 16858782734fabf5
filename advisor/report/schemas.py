"""The JSON Schemas that come with the package (`advisor/schemas`), which `python -m tools.pages` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import advisor
from advisor.decoding import Json, decode_json
from advisor.record import Answer, Record


class ErrorBody(Record, frozen=True, kw_only=True):
    """What is wrong: a stable code, one line, near matches of a name."""

    code: str
    message: str
    near: list[str]


class ErrorAnswer(Answer, frozen=True, kw_only=True):
    """The answer of any command with --json at exit status 2, and of a bad line of `advise estimate`."""

    error: ErrorBody
    id: Any = None


def read_schema(name: str) -> Json:
    """The JSON Schema (2020-12) of an answer ("recommend"), or of a kind of rule file ("rules/guide")."""
    return decode_json((Path(advisor.__file__).parent / "schemas" / f"{name}.json").read_bytes(), Json)
