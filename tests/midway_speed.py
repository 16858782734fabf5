"""The speed that tests ask for where the load does not matter."""

from __future__ import annotations

from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad


def estimate_midway_speed(
    deployment: Deployment, estimate: MemoryEstimate, session: Session, concurrency: int = 1
) -> SpeedEstimate | None:
    """Speed of `concurrency` requests whose prompt and output fill half of the estimate's context each.

    None where it is not known. Raises BadInput where a setting allows no answer.
    """
    half = max(1, estimate.context_length // 2)
    return estimate_speed(deployment, estimate, session, RequestLoad(concurrency=concurrency, prompt=half, output=half))
