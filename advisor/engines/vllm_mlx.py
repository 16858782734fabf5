"""vllm-mlx: weights and a cache that grows with use; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import plain
from advisor.engines.base import Decided

memory = plain.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    out = [Decided(name="max-num-seqs", value=d.sequences, because="requests that run at once")]
    if d.sequences > 1:
        out.append(Decided(name="continuous-batching", value=True, because="off by default, and requests would queue"))
    if d.served_name:
        out.append(Decided(name="served-model-name", value=d.served_name, because="as asked"))
    return tuple(out)
