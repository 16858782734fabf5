"""vllm-mlx: weights and a cache that grows with use; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import DecidedSetting

memory = plain.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    out = [DecidedSetting("max-num-seqs", deployment.sequences, "requests that run at once")]
    if deployment.sequences > 1:
        out.append(DecidedSetting("continuous-batching", True, "off by default, and requests would queue"))
    if deployment.served_name:
        out.append(DecidedSetting("served-model-name", deployment.served_name, "as asked"))
    return tuple(out)
