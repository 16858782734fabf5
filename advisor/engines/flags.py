"""What an engine calls things, read from its own rules (`memory:` in rules/engines/<engine>.yaml)."""

from __future__ import annotations

from typing import Literal

from advisor.catalog.types import Engine

Concept = Literal["tp", "pp", "fraction", "sequences"]


def own_flag(entry: Engine, concept: Concept) -> str | None:
    """The engine's flag for a concept of pool engines; None where it has none."""
    names = entry.memory.get("names")
    spellings = names.get(concept) if isinstance(names, dict) else None
    return str(spellings[0]) if isinstance(spellings, (list, tuple)) and spellings else None


def takes_share_of_device(entry: Engine) -> bool:
    """Whether the engine's fraction is one of the whole device, not of what the weights leave."""
    return entry.memory.get("fraction_of") == "total"


def smaller_caches(entry: Engine) -> tuple[str, ...]:
    """KV cache types below 16 bits worth trying, the best first."""
    kinds = entry.memory.get("smaller_kv", ())
    return tuple(str(k) for k in kinds) if isinstance(kinds, (list, tuple)) else ()
