"""TensorRT LLM: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import pool
from advisor.engines.base import Decided

memory = pool.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    return pool.common_settings(d, entry, tensor_parallel="tp_size", pipeline_parallel="pp_size")
