"""MAX: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import pool
from advisor.engines.base import Decided

memory = pool.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason. MAX names its devices, it does not count them."""
    common = pool.common_settings(d, entry)
    return tuple(_named(x) if x.name == "devices" else x for x in common)


def _named(x: Decided) -> Decided:
    return msgspec.structs.replace(x, value="gpu:" + ",".join(str(i) for i in range(int(x.value))))
