"""LiteRT-LM: weights and a cache that grows with use; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.engines import plain

memory = plain.memory
settings = plain.settings
