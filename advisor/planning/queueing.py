"""How long requests wait: users who ask again when they are answered, and requests that arrive at a rate.

Closed: of N users `held` are served at once, the others stand in one line before them. Open: M/G/k by Erlang's C and
the correction of Allen and Cunneen, (1 + cv^2) / 2 for service times of coefficient of variation cv (A. O. Allen,
Probability, Statistics and Queueing Theory, 2nd ed., 1990, section 5.3).
"""

from __future__ import annotations

import math

from advisor.deployment import Holds, Interval
from advisor.planning.traffic import Traffic

MOST_SERVERS = 4096


def estimate_wait(holds: Holds, traffic: Traffic, request_s: Interval | None) -> Interval | None:
    """Seconds until a request is taken: of those that wait, or, at a rate, of all in the mean. None where nobody waits,
    where the rate is more than what is held can answer, and where the time of a request is not known."""
    if request_s is None:
        return None
    if traffic.rate is None:
        return _closed(holds, request_s)
    at_once = holds.full_length if traffic.full_length else holds.typical
    low, value, high = (_open(traffic, at_once, s) for s in (request_s.low, request_s.value, request_s.high))
    if value is None:
        return None
    return Interval(value=value, low=value if low is None else low, high=math.inf if high is None else high)


def _closed(holds: Holds, request_s: Interval) -> Interval | None:
    taken = holds.asked - holds.waiting
    if not holds.waiting or taken < 1:
        return None
    turns = holds.waiting / taken
    return Interval(value=turns * request_s.value, low=turns * request_s.low, high=turns * request_s.high)


def _open(traffic: Traffic, servers: int, request_s: float) -> float | None:
    """Mean seconds in the queue; None where it grows without end."""
    load = (traffic.rate or 0) * request_s
    if servers < 1 or load >= servers:
        return None
    waits = erlang_c(min(servers, MOST_SERVERS), load if servers <= MOST_SERVERS else load / servers * MOST_SERVERS)
    mean = traffic.output.mean or traffic.prompt.mean
    spread = (traffic.output if traffic.output.mean else traffic.prompt).p95 - mean
    squared = (spread / 1.645 / mean) ** 2
    return waits * request_s / (servers - load) * (1 + squared) / 2


def erlang_c(servers: int, load: float) -> float:
    """Share of arrivals that find all of `servers` busy, at a load of so many busy ones in the mean."""
    blocked = 1.0  # Erlang's B, by its recurrence
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    busy = load / servers
    return blocked / (1 - busy + busy * blocked)
