"""Free rule documents (picks, speed, cards, workloads, shorthands) as typed values."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from advisor.catalog.store import Catalog
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity

T = TypeVar("T")


@memoize_by_identity
def decode_document(rules: Catalog, path: str, kind: type[T]) -> T:
    """A rule document as `kind`, made once: do not change what it holds.

    Raises BadInput that names file and field when an overlay spoiled it.
    """
    try:
        return rules.read_document(path, kind)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/{path}: {e}") from None
