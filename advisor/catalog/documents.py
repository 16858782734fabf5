"""Free rule documents (picks, speed, cards, workloads, shorthands) as typed values."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from advisor.catalog.store import Catalog
from advisor.errors import BadInput

T = TypeVar("T")


def typed(rules: Catalog, path: str, kind: type[T]) -> T:
    """A rule document as `kind`. Raises BadInput that names file and field when an overlay spoiled it."""
    try:
        return msgspec.convert(rules.document(path), kind)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/{path}: {e}") from None
