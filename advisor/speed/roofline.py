"""Speed at the context a deployment is sized for: what `recommend` ranks and prints where no load is stated."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.speed.estimator import estimate_speed
from advisor.speed.load import RequestLoad


def estimate_midway_speed(
    deployment: Deployment, estimate: MemoryEstimate, rules: Catalog, concurrency: int = 1
) -> SpeedEstimate | None:
    """Speed of `concurrency` requests whose prompt and output fill half of the estimate's context each.

    None where it is not known. Raises BadInput where a setting allows no answer.
    """
    half = max(1, estimate.context_length // 2)
    return estimate_speed(deployment, estimate, rules, RequestLoad(concurrency=concurrency, prompt=half, output=half))
