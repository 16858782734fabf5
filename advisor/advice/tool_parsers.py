"""The parser that an engine needs to find tool calls in a model's text."""

from __future__ import annotations

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.models.types import Model


class _Parsers(msgspec.Struct, frozen=True):
    source: str
    as_of: str
    vllm: dict[str, str]
    by_id: dict[str, dict[str, str]]


def tool_parser(engine: str, model: Model, rules: Catalog) -> str | None:
    """Name of the parser (rules/tool-parsers.yaml); None where none is known, and for engines that need none."""
    if engine != "vllm":
        return None
    parsers = typed(rules, "tool-parsers.yaml", _Parsers)
    special = parsers.by_id.get(engine, {})
    best = max((start for start in special if model.id.startswith(start)), key=len, default=None)
    if best is not None:
        return special[best]
    return parsers.vllm.get(model.model_type or "")
