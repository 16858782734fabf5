"""Throughput against latency: one deployment at many concurrencies, and the most requests that keep within targets.

Memory follows concurrency (slots of llama.cpp), so each point has an estimate of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Interval, MemoryEstimate, SpeedEstimate
from advisor.record import Record
from advisor.speed.estimator import speed
from advisor.speed.load import Load

Memory = Callable[[Deployment], MemoryEstimate]
LEVELS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MOST = 4096


class Point(Record, frozen=True, kw_only=True):
    """One concurrency. `fits` is the memory estimate's verdict."""

    concurrency: int
    fits: bool | None
    speed: SpeedEstimate | None


def point(d: Deployment, memory: Memory, rules: Catalog, load: Load, concurrency: int) -> Point:
    """The deployment with `concurrency` requests at once, sized for them. Raises BadInput as `memory` does."""
    sized = msgspec.structs.replace(d, sequences=concurrency)
    m = memory(sized)
    at = Load(concurrency=concurrency, prompt=load.prompt, output=load.output, depth=load.depth)
    return Point(concurrency=concurrency, fits=m.fits, speed=speed(sized, m, rules, at))


def curve(
    d: Deployment, memory: Memory, rules: Catalog, load: Load, levels: Sequence[int] = LEVELS
) -> tuple[Point, ...]:
    """Points at these concurrencies, up to the first that does not fit."""
    out = []
    for n in levels:
        p = point(d, memory, rules, load, n)
        out.append(p)
        if p.fits is False:
            break
    return tuple(out)


def most_concurrent(
    d: Deployment,
    memory: Memory,
    rules: Catalog,
    load: Load,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    sure: bool = False,
) -> int | None:
    """Most requests at once within the targets (seconds), none of them waiting for a place; 0 when not even one does.

    `sure` wants the upper bounds within the targets, not the values. None where speed or fit is not known.
    """

    def holds(n: int) -> bool | None:
        p = point(d, memory, rules, load, n)
        if p.speed is None or p.fits is None:
            return False if p.fits is False else None
        if not p.fits or p.speed.limited:
            return False
        pairs: tuple[tuple[float | None, Interval | None], ...] = (
            (ttft_s, p.speed.ttft_s),
            (tpot_s, p.speed.tpot_s),
        )
        if any(target is not None and found is None for target, found in pairs):
            return None
        return all(
            target is None or found is None or (found.high if sure else found.value) <= target
            for target, found in pairs
        )

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
