"""Typed tables loaded from the rules: engines, accelerators, models, weight formats, prices.

    from advisor.catalog import catalog
    catalog().find_model("llama3.1:8b")

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.catalog.compiled_rules import ModelRow as ModelRow
    from advisor.catalog.roots import rule_roots as rule_roots
    from advisor.catalog.store import Catalog as Catalog
    from advisor.catalog.store import catalog as catalog

_WHERE = {
    "Catalog": "advisor.catalog.store",
    "catalog": "advisor.catalog.store",
    "ModelRow": "advisor.catalog.compiled_rules",
    "rule_roots": "advisor.catalog.roots",
}

__all__ = ["Catalog", "ModelRow", "catalog", "rule_roots"]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
