"""MAX: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import pool
from advisor.engines.base import DecidedSetting

memory = pool.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason. MAX names its devices, it does not count them."""
    common = pool.common_settings(deployment, entry)
    return tuple(
        replace(x, value=f"gpu:{','.join(map(str, range(int(x.value))))}") if x.name == "devices" else x for x in common
    )
