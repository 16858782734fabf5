"""What a deployment starts with, and how many requests of its traffic it holds at once."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.deployment import Deployment, HeldRequests, Holds, Interval, MemoryEstimate
from advisor.engines import held
from advisor.errors import AdvisorError
from advisor.estimation import estimate as estimate_memory_of
from advisor.planning.traffic import Traffic

RUNGS = 4  # of the ladder: the context length and its halves
SHORTEST = 512


class Holding(NamedTuple):
    """Whether one longest request is held, and how many requests are."""

    starts: bool | None
    holds: Holds | None


def find_holding(
    deployment: Deployment, estimate: MemoryEstimate, traffic: Traffic, rules: Catalog, copies: int = 1
) -> Holding:
    """What a deployment whose memory is `estimate` starts with and holds; `copies` of it stand behind a router.

    The lengths are those of the estimate where the traffic's are longer.
    """
    entry = engines.find_engine_module(deployment.engine, rules.engines())[1]
    one = with_one_request(deployment, estimate, entry, rules)
    if one is None or one[1].fits is False:
        return Holding(None if one is None else False, None)
    smaller, smaller_estimate = one
    length = smaller_estimate.context_length
    typical = min(traffic.typical_tokens, length)
    shared = min(traffic.shared_tokens, typical) if held.keeps_prefixes(deployment, entry) else 0
    lengths = [length]
    while len(lengths) < RUNGS and lengths[-1] // 2 >= SHORTEST:
        lengths.append(lengths[-1] // 2)
    counted = ((n, _count(deployment, estimate, smaller, smaller_estimate, entry, n, 0, rules)) for n in lengths)
    ladder = [HeldRequests(context_length=n, held=copies * count) for n, count in counted if count is not None]
    at_typical = _count(deployment, estimate, smaller, smaller_estimate, entry, typical, shared, rules)
    if at_typical is None or not ladder:
        return Holding(smaller_estimate.fits, None)
    full, at_once = ladder[0].held, copies * at_typical
    taken = full if traffic.full_length else at_once
    return Holding(
        smaller_estimate.fits,
        Holds(
            asked=traffic.users,
            typical=at_once,
            full_length=full,
            waiting=max(0, traffic.users - taken),
            wait_s=None,
            shared_prefix=round(shared / traffic.prompt.mean, 4) if shared else 0.0,
            ladder=tuple(ladder),
        ),
    )


def with_one_request(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, rules: Catalog
) -> tuple[Deployment, MemoryEstimate] | None:
    """The deployment with one longest request, and its memory; None where that cannot be told."""
    if estimate.fits or deployment.sequences == 1 or held.has_fixed_slots(deployment, entry):
        return deployment, estimate
    one = msgspec.structs.replace(deployment, sequences=1)
    try:
        return one, estimate_memory_of(one, rules)
    except AdvisorError:
        return None


def _count(
    deployment: Deployment,
    estimate: MemoryEstimate,
    one: Deployment,
    one_estimate: MemoryEstimate,
    entry: Engine,
    length: int,
    shared: int,
    rules: Catalog,
) -> int | None:
    """Requests of a length that are held. Slots that do not all fit are counted down until they do."""
    try:
        found = held.count_held(one, one_estimate, entry, length, shared)
        if one is deployment or found != 1 or "device_overhead_mib" not in entry.memory:
            return found
        return _most_slots(deployment, rules)
    except AdvisorError:
        return None


def _most_slots(deployment: Deployment, rules: Catalog) -> int:
    """The most slots of full length that fit, fewer than asked; at least one does."""
    low, high = 1, deployment.sequences
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fits = estimate_memory_of(msgspec.structs.replace(deployment, sequences=middle), rules).fits
        except AdvisorError:
            fits = False
        low, high = (middle, high) if fits else (low, middle)
    return low


def waiting_seconds(holds: Holds, request_s: Interval | None) -> Interval | None:
    """Mean seconds that one of the waiting requests waits, where users ask again when they are answered.

    Of `asked` users `held` are served at once, each for `request_s`; the others stand in one line before them, so a
    request waits `waiting / held` times as long as one takes.
    """
    taken = holds.asked - holds.waiting
    if request_s is None or not holds.waiting or taken < 1:
        return None
    turns = holds.waiting / taken
    return Interval(value=turns * request_s.value, low=turns * request_s.low, high=turns * request_s.high)


__all__ = ["Holding", "find_holding", "waiting_seconds", "with_one_request"]
