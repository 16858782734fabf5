"""TGI (migration source only): a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import pool
from advisor.engines.base import Decided

memory = pool.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    common = pool.common_settings(d, entry)
    length = pool.resolve(d, entry, pool.constants(entry)).length
    return (
        *common,
        Decided(name="max-input-tokens", value=max(1, length - 1), because="longest prompt; an answer needs one token"),
    )
