"""TensorRT LLM: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import pool
from advisor.engines.base import Decided

memory = pool.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    return pool.common_settings(
        d,
        entry,
        length="max_seq_len",
        sequences="max_batch_size",
        fraction="free_gpu_memory_fraction",
        tp="tp_size",
        pp="pp_size",
    )
