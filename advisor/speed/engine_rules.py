"""rules/speed-engines.yaml: how families of engines split a model, how much of a draft is accepted."""

from __future__ import annotations

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document


class DraftAcceptance(msgspec.Struct, frozen=True):
    """Tokens drafted a round by default, and the share of them that the model accepts."""

    tokens: int
    low: float
    value: float
    high: float
    source: str


class EngineRules(msgspec.Struct, frozen=True):
    """rules/speed-engines.yaml."""

    source: str
    as_of: str
    tensor_split: tuple[str, ...]
    speculation: dict[str, DraftAcceptance]


def load_engine_rules(rules: Catalog) -> EngineRules:
    """The document. Raises BadInput when an overlay spoiled it."""
    return decode_document(rules, "speed-engines.yaml", EngineRules)
