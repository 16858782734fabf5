"""LiteRT-LM: weights and a cache that grows with use; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import Decided

memory = plain.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """None: `litert-lm serve` takes host and port only; length and backend belong to the model and the request."""
    return ()
