"""acmeserve: memory as engines that grow with use have it; requests at once are told as a number of lanes."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting

memory = plain.memory
read_constants = plain.read_constants


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """Length and lanes, of which acmeserve starts an even number."""
    lanes = deployment.sequences + deployment.sequences % 2
    return (
        DecidedSetting(name="longest", value=deployment.context_length or 4096, because="prompt and answer"),
        DecidedSetting(name="lanes", value=lanes, because="requests at once; an even number"),
    )
