"""LiteRT-LM: weights and a cache that grows with use; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting

memory = plain.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """None: `litert-lm serve` takes host and port only; length and backend belong to the model and the request."""
    return ()
