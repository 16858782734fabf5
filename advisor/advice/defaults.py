"""Defaults of workloads and the formats that are tried: rules/workloads.yaml."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed


class Orders(msgspec.Struct, frozen=True):
    """The file's content."""

    source: str
    as_of: str
    context: dict[str, int]
    unified_memory_share: float
    gguf: dict[str, Any]
    hf: list[str]
    mlx: list[str]
    exl3: list[str]
    mlc: list[str]
    openvino: list[str]
    litert: list[str]


def orders(rules: Catalog) -> Orders:
    """The defaults from the rules. Raises BadInput when an overlay spoiled them."""
    return typed(rules, "workloads.yaml", Orders)
