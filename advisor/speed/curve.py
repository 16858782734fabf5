"""Throughput against latency: one deployment at many concurrencies, and the most requests that keep within targets.

Memory follows concurrency (slots of llama.cpp), so each point has an estimate of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.record import Record
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad

MemoryEstimator = Callable[[Deployment], MemoryEstimate]
LEVELS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MOST = 4096


class CurvePoint(Record, frozen=True, kw_only=True):
    """One concurrency. `fits` is the memory estimate's verdict."""

    concurrency: int
    fits: bool | None
    speed: SpeedEstimate | None


def compute_point(
    deployment: Deployment, memory: MemoryEstimator, session: Session, load: RequestLoad, concurrency: int
) -> CurvePoint:
    """The deployment with `concurrency` requests at once, sized for them. Raises BadInput as `memory` does."""
    sized = replace(deployment, sequences=concurrency)
    estimate = memory(sized)
    at = RequestLoad(concurrency=concurrency, prompt=load.prompt, output=load.output, depth=load.depth)
    return CurvePoint(concurrency=concurrency, fits=estimate.fits, speed=estimate_speed(sized, estimate, session, at))


def compute_curve(
    deployment: Deployment, memory: MemoryEstimator, session: Session, load: RequestLoad, levels: Sequence[int] = LEVELS
) -> tuple[CurvePoint, ...]:
    """Points at these concurrencies, up to the first that does not fit."""
    out = []
    for n in levels:
        curve_point = compute_point(deployment, memory, session, load, n)
        out.append(curve_point)
        if curve_point.fits is False:
            break
    return tuple(out)


def find_most_concurrent(
    deployment: Deployment,
    memory: MemoryEstimator,
    session: Session,
    load: RequestLoad,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    sure: bool = False,
) -> int | None:
    """Most requests at once within the targets (seconds), none of them waiting for a place; 0 when not even one does.

    `sure` wants the upper bounds within the targets, not the values. None where speed or fit is not known.
    """

    def holds(n: int) -> bool | None:
        point = compute_point(deployment, memory, session, load, n)
        if point.speed is None or not point.fits:
            return False if point.fits is False else None
        if point.speed.limited:
            return False
        pairs = ((ttft_s, point.speed.ttft_s), (tpot_s, point.speed.tpot_s))
        named = [(most, time) for most, time in pairs if most is not None]
        if any(time is None for _, time in named):
            return None
        return all((time.high if sure else time.value) <= most for most, time in named if time is not None)

    first = holds(1)
    if not first:
        return None if first is None else 0
    low, high = 1, 2
    while high <= MOST and holds(high):
        low, high = high, 2 * high
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
