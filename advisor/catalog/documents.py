"""Free rule documents (picks, speed, cards, workloads, shorthands) as typed values."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar, cast

import msgspec

from advisor.catalog.store import Catalog
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity

T = TypeVar("T")


def decode_document(rules: Catalog, path: str, kind: type[T]) -> T:
    """A rule document as `kind`, made once: do not change what it holds.

    Raises BadInput that names file and field when an overlay spoiled it.
    """
    return cast("T", _typed(rules, path, cast("Hashable", kind)))


@memoize_by_identity
def _typed(rules: Catalog, path: str, kind: Any) -> object:
    try:
        return rules.read_document(path, kind)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/{path}: {e}") from None
