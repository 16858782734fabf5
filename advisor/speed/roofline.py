"""Decode rate at the context a deployment is sized for: what `recommend` ranks and prints."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.speed.estimator import speed
from advisor.speed.steps import Load

OUTPUT = 128  # tokens


def decode(d: Deployment, m: MemoryEstimate, rules: Catalog, concurrency: int = 1) -> SpeedEstimate | None:
    """Speed with the estimate's context half filled, `concurrency` requests at once. None where it is not known."""
    prompt = max(1, m.context_length // 2 - OUTPUT // 2)
    return speed(d, m, rules, Load(concurrency=concurrency, prompt=prompt, output=OUTPUT))
