"""How rates change with requests at once: the throughput-latency curve of a deployment, by the one speed model."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from advisor.catalog import Catalog
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.record import Record

MOST = 256  # requests at once that are shown
DOUBLINGS = 9


class LoadPoint(Record, frozen=True, kw_only=True):
    """One number of requests at once. `fits` is the memory's answer; `speed` is None where it cannot be modelled."""

    concurrency: int
    fits: bool | None
    speed: SpeedEstimate | None


def compute_load_curve(
    deployment: Deployment, length: int, estimate: Callable[[Deployment, int], MemoryEstimate], rules: Catalog
) -> tuple[LoadPoint, ...]:
    """1, 2, 4, ... requests at once and the asked number, up to the last whose memory may fit.

    Each request has a prompt of half of `length` and an answer of the other half. Empty where no rate can be modelled.
    """
    from advisor.speed.estimator import estimate_speed
    from advisor.speed.load import RequestLoad

    out = []
    for n in sorted({deployment.sequences, *(2**k for k in range(DOUBLINGS))}):
        here = msgspec.structs.replace(deployment, context_length=length, sequences=n)
        memory_estimate = estimate(here, length)
        if memory_estimate.fits is False and n != deployment.sequences:
            if n > deployment.sequences:
                break
            continue
        load = RequestLoad(concurrency=n, prompt=max(1, length // 2), output=max(1, length - length // 2))
        rates = estimate_speed(here, memory_estimate, rules, load)
        if rates is None or (n > MOST and n != deployment.sequences):
            break
        out.append(LoadPoint(concurrency=n, fits=memory_estimate.fits, speed=rates))
    return tuple(out)
