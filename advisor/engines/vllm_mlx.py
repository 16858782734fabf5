"""vllm-mlx: weights and a cache that grows with use; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting

memory = plain.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    out = [DecidedSetting(name="max-num-seqs", value=deployment.sequences, because="requests that run at once")]
    if deployment.sequences > 1:
        out.append(
            DecidedSetting(name="continuous-batching", value=True, because="off by default, and requests would queue")
        )
    if deployment.served_name:
        out.append(DecidedSetting(name="served-model-name", value=deployment.served_name, because="as asked"))
    return tuple(out)
