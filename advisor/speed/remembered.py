"""Rule documents that every estimate needs, decoded once per catalogue."""

from __future__ import annotations

from typing import Any, TypeVar

from advisor.catalog import Catalog
from advisor.catalog.documents import typed

T = TypeVar("T")
KEPT = 16
_DECODED: dict[tuple[int, str], tuple[Catalog, Any]] = {}


def remembered(rules: Catalog, path: str, kind: type[T]) -> T:
    """The document as `kind`. Raises BadInput when an overlay spoiled it."""
    found = _DECODED.get((id(rules), path))
    if found is None or found[0] is not rules:
        if len(_DECODED) >= KEPT:
            _DECODED.clear()
        found = _DECODED[id(rules), path] = (rules, typed(rules, path, kind))
    made: T = found[1]
    return made
