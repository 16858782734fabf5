"""MLC-LLM: weights and a cache that grows with use; its memory settings live inside one flag, `--overrides`."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting

memory = plain.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The overrides a launch should carry: length and requests at once."""
    length = deployment.context_length or deployment.model.max_context
    parts = [f"max_num_sequence={deployment.sequences}", *([f"context_window_size={length}"] if length else [])]
    return (
        DecidedSetting("mode", "server", "the cache is sized by the overrides, not by a preset"),
        DecidedSetting("overrides", ";".join(parts), "requests at once; prompt and output of one"),
    )
