"""MLC-LLM: weights and a cache that grows with use; its memory settings live inside one flag, `--overrides`."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import Decided

memory = plain.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The overrides a launch should carry: length and requests at once."""
    length = d.context_length or d.model.max_context
    parts = [f"max_num_sequence={d.sequences}", *([f"context_window_size={length}"] if length else [])]
    return (
        Decided(name="mode", value="server", because="the cache is sized by the overrides, not by a preset"),
        Decided(name="overrides", value=";".join(parts), because="requests at once; prompt and output of one"),
    )
