"""What a machine allows of a deployment: the longest context, the most requests, the widest weights, cards needed.

Every limit is found by asking the estimator: it fits at the limit, and one step beyond it is not sure to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from advisor.deployment import Deployment, KvType
from advisor.errors import AdvisorError
from advisor.record import Record

FitTest = Callable[[Deployment, int], bool | None]  # a deployment with a context length
MOST_SEQUENCES = 4096  # beyond it no server admits more
COUNTS = (1, 2, 3, 4, 6, 8, 16)


class CacheTypeLimit(Record, frozen=True, kw_only=True):
    """Longest context with one KV cache type, tokens of each request; None = not even the shortest fits."""

    kv_cache_type: str
    largest_context: int | None


class DeploymentLimits(Record, frozen=True, kw_only=True):
    """What fits on the machine. None = nothing does."""

    largest_context: int | None  # tokens of each of the asked requests, at most the trained length
    most_sequences: int | None  # requests of the asked length at once
    largest_quantization: str | None  # widest weights of the same family, by memory alone
    cards_needed: int | None  # of the machine's own card, for what was asked
    layers_on_cards: tuple[int, int] | None = None  # that fit, of all: engines that can split a model with the CPU
    by_cache: tuple[CacheTypeLimit, ...] = ()


def find_limits(
    deployment: Deployment,
    length: int,
    fits: FitTest,
    spread: Callable[[Deployment], Deployment],
    formats: Sequence[str],
    caches: Sequence[str],
) -> DeploymentLimits:
    """The limits around a deployment at `length` tokens.

    `spread` puts a deployment over its machine's cards, `formats` are weight formats from wide to narrow, `caches` are
    KV cache types to compare.
    """
    top = max(deployment.model.max_context or length, length)

    def reach(kind: str) -> int | None:
        other = replace(deployment, kv_cache_type=KvType(k=kind, v=kind))
        return find_largest(lambda n: fits(other, n), top)

    by_cache = tuple(CacheTypeLimit(kv_cache_type=kind, largest_context=reach(kind)) for kind in caches)
    return DeploymentLimits(
        largest_context=find_largest(lambda n: fits(deployment, n), top),
        most_sequences=find_largest(lambda n: fits(replace(deployment, sequences=n), length), MOST_SEQUENCES),
        largest_quantization=next(
            (q for q in formats if _is_sure(partial(fits, replace(deployment, quantization=q), length))),
            None,
        ),
        cards_needed=_count_cards_needed(deployment, length, fits, spread),
        by_cache=by_cache,
    )


def find_largest(fits: Callable[[int], bool | None], at_most: int, near: int = 1) -> int | None:
    """The largest number for which `fits` is sure, from 1 to `at_most`; None when it is for none. `near` is a number
    near the answer: the search goes from there in growing steps, up where it fits and down where it does not."""

    def sure(n: int) -> bool:
        return _is_sure(partial(fits, n))

    low, high, step = 0, at_most + 1, 1  # sure at low (of nothing: always), not at high
    probe = max(1, min(near, at_most))
    up = sure(probe)
    low, high = (probe, high) if up else (low, probe)
    while high - low > 1 and (up or low == 0):
        probe = min(low + step, high - 1) if up else max(high - step, low + 1)
        if sure(probe) is not up:
            low, high = (low, probe) if up else (probe, high)
            break
        low, high = (probe, high) if up else (low, probe)
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sure(middle) else (low, middle)
    return low or None


def _is_sure(fits: Callable[[], bool | None]) -> bool:
    try:
        return fits() is True
    except AdvisorError:
        return False


def _count_cards_needed(
    deployment: Deployment, length: int, fits: FitTest, spread: Callable[[Deployment], Deployment]
) -> int | None:
    """The smallest number of the machine's first card on which the deployment fits."""
    machine = deployment.machine
    if machine is None or not machine.usable_devices:
        return None
    one = machine.usable_devices[0]
    spread_by = spread(replace(deployment, settings={})).settings  # which the number of cards decides
    own = {k: v for k, v in deployment.settings.items() if k not in spread_by}
    for n in COUNTS:
        devices = tuple(replace(one, index=i) for i in range(n))
        other = replace(deployment, machine=replace(machine, devices=devices), settings=own)
        if _is_sure(partial(fits, spread(other), length)):
            return n
    return None
