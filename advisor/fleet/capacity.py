"""How much one replica serves within its targets: requests a second, or users at once.

A replica serves P requests at once where they surely find room and where their times are within the targets. Arrivals
are independent, so their number varies: with N in the mean, N + z sqrt(N) are there in a busy moment (z of 99 %, as in
the planner), and P has to be as many. The rate that the replica takes is what N requests at once are answered a second,
over the planner's spare factor. It does not depend on how many other replicas there are, so capacities add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Literal

import msgspec

from advisor.deployment import Interval, SpeedEstimate
from advisor.planning.objective import Targets
from advisor.planning.traffic import P95_OF_NORMAL, P99_OF_NORMAL, TokenSpread, Traffic
from advisor.record import Value

Confidence = Literal["likely", "safe"]
CONFIDENCES: tuple[Confidence, Confidence] = ("likely", "safe")
SpeedOf = Callable[[int, bool], SpeedEstimate | None]  # (users, with prompts of the percentile) -> speed of one replica


class Capacity(Value, frozen=True):
    """What a replica serves. `users` at once in a busy moment; `amount` in the unit of the demand."""

    users: int
    amount: float


class MissedTargets(Value, frozen=True):
    """Why a replica serves nobody in time: its times with one request. None = that one is not asked for."""

    ttft_s: float | None
    tpot_s: float | None


def with_percentile(traffic: Traffic, percentile: float) -> Traffic:
    """The traffic with prompts of this percentile where the planner takes those of the 95th."""
    factor = NormalDist().inv_cdf(percentile) / P95_OF_NORMAL
    if abs(factor - 1) < 1e-3:
        return traffic
    spread = max(0.0, factor) * (traffic.prompt.p95 - traffic.prompt.mean)
    longest = min(traffic.context_length - traffic.output.mean, math.ceil(traffic.prompt.mean + spread))
    prompt = TokenSpread(mean=traffic.prompt.mean, p95=max(traffic.prompt.mean, longest))
    return msgspec.structs.replace(traffic, prompt=prompt)


def find_capacity(
    speed_of: SpeedOf, held: int, traffic: Traffic, targets: Targets, spare: float, confidence: Confidence
) -> Capacity | MissedTargets | None:
    """The most that a replica serves which holds `held` requests; None where its speed is not known.

    Times are looked at as they are predicted (`likely`), or at the slow end of their intervals (`safe`).
    """
    safe = confidence == "safe"

    def on_time(users: int) -> bool:
        return _meets(speed_of, users, targets, safe)

    first = speed_of(1, False)
    if first is None or first.output_tps is None:
        return None
    if held < 1 or not on_time(1):
        long = speed_of(1, True) if targets.ttft_s else None
        ttft, tpot = (long.ttft_s if long else None), (first.tpot_s if targets.tpot_s else None)
        return MissedTargets(*(None if t is None else (t.high if safe else t.value) for t in (ttft, tpot)))
    users = _most(on_time, held)
    if traffic.rate is None:
        return Capacity(users, float(users))
    mean = _mean_of_peak(users)
    speed = speed_of(max(1, int(mean)), False)
    if speed is None or speed.output_tps is None:
        return None
    output = speed.output_tps.low if safe else speed.output_tps.value
    return Capacity(users, output * min(1.0, mean) / max(1, traffic.output.mean) / spare)


def _meets(speed_of: SpeedOf, users: int, targets: Targets, safe: bool) -> bool:
    if targets.tpot_s is not None:
        speed = speed_of(users, False)
        if speed is None or not _is_within(speed.tpot_s, targets.tpot_s, safe):
            return False
    if targets.ttft_s is not None:
        long = speed_of(users, True)
        return long is not None and _is_within(long.ttft_s, targets.ttft_s, safe)
    return True


def _is_within(time: Interval | None, most: float, safe: bool) -> bool:
    return time is not None and (time.high if safe else time.value) <= most


def _most(holds: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` for which it holds, where it holds for 1 and stops holding once."""
    if holds(most):
        return most
    low, high = 1, most
    while high - low > max(1, low // 32):
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _mean_of_peak(users: int) -> float:
    """The mean number at once of which so many are the peak: N with N + z sqrt(N) = users."""
    root = (math.sqrt(P99_OF_NORMAL**2 + 4 * users) - P99_OF_NORMAL) / 2
    return root * root
