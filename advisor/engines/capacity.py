"""How many requests of a length a deployment holds at once, read from its memory estimate.

What a request takes depends on the engine's kind of cache: blocks of a pool, growth with use, or slots of a fixed size.
The rows of the estimate say what is left for it, so that one more than these is just what `fits` would refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, DeviceMemory, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import get_flag, get_setting
from advisor.engines.flags import find_concept
from advisor.record import Value

MANY = 10**6  # requests; what keeps nothing between tokens holds any number


class RequestTokens(Value, frozen=True):
    """Tokens of a request."""

    length: int
    shared: int = 0  # of them the same in all requests, and kept once


def count_held(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, requests: Sequence[RequestTokens]
) -> tuple[int | None, ...]:
    """For each kind of request how many are surely held at once; None where a size is not known.

    `entry` is the engine that runs underneath. Raises BadInput as the memory estimate does.
    """
    if "fraction_of" in entry.memory:
        return _count_in_pool(deployment, estimate, entry, requests)
    if "device_overhead_mib" in entry.memory:
        return _count_in_slots(deployment, estimate, entry, requests)
    return tuple(_count_growing(deployment, estimate, entry, r.length) for r in requests)


def keeps_prefixes(deployment: Deployment, entry: Engine) -> bool:
    """Whether the engine keeps a beginning that requests have in common once for all of them."""
    known = entry.features.get("prefix_caching")
    off = get_flag(deployment.settings, *find_concept(entry, "no_prefix_caching").flags)
    off = off or get_flag(deployment.settings, *find_concept(entry, "prefix_caching").flags) is False
    return "fraction_of" in entry.memory and known is not None and known.support == "yes" and not off


def _count_in_pool(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, requests: Sequence[RequestTokens]
) -> tuple[int | None, ...]:
    from advisor.engines import pool
    from advisor.engines.pool.sizes import plan_caches

    constants = pool.read_constants(entry)
    settings = pool.resolve_pool_settings(deployment, entry, constants)
    of_states = estimate.kv_cache.state_sequences
    most = min(settings.dp * settings.sequences, MANY if of_states is None else of_states)
    if pool.keeps_nothing(deployment):
        return (most,) * len(requests)
    plans = plan_caches(deployment, settings, constants)
    rows: Sequence[DeviceMemory] = estimate.devices or ([estimate.host] if estimate.host is not None else [])
    left = [_left(row, states=settings.states is None) for row in rows]
    if constants.fraction_of != "total" and estimate.devices:  # of what the weights leave, and activations next to it
        pool_bytes = estimate.kv_cache.available_low_bytes
        left = [None if x is None or pool_bytes is None else min(x, pool_bytes) for x in left]
    known = [x for x in left if x is not None]
    if len(known) != len(rows) or not rows:
        return (None,) * len(requests)
    together = _left_together(deployment, estimate)
    if together is not None:
        known = [min(x, together // len(rows)) for x in known]

    def bytes_of(tokens: int) -> list[int]:
        """Of each stage; on a processor of the whole model."""
        each = [sum(p.request(tokens, settings.batched_tokens)) if tokens else 0 for p in plans]
        return each if estimate.devices else [sum(each) * settings.tp]

    def held(request: RequestTokens) -> int:
        each, once = bytes_of(max(1, request.length - request.shared)), bytes_of(request.shared)
        stages = [k // settings.tp % settings.pp if estimate.devices else 0 for k in range(len(known))]
        return min(
            max(0, available - once[k]) // each[k] if each[k] else MANY
            for available, k in zip(known, stages, strict=True)
        )

    return tuple(min(most, settings.dp * held(r)) for r in requests)


def _count_growing(deployment: Deployment, estimate: MemoryEstimate, entry: Engine, length: int) -> int | None:
    from advisor.engines import plain

    constants = plain.read_constants(entry)
    _, cache, state = plain.count_request_bytes(deployment, entry, length)
    n = max(1, len(estimate.devices))
    each = int((cache * (1 + constants.working_share[2]) + state) / n) + 1
    left = [_left(row, 1 + constants.working_share[2]) for row in (estimate.devices or (estimate.host,)) if row]
    together = _left_together(deployment, estimate, 1 + constants.working_share[2])
    if together is not None:
        left.append(together // n)
    if any(x is None for x in left):
        return None
    known = [x for x in left if x is not None]
    return max(0, min(known)) // each if known and each > 1 else MANY


def _count_in_slots(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, requests: Sequence[RequestTokens]
) -> tuple[int | None, ...]:
    """Slots are taken at start, whatever the requests are: as many as there are, if they are long enough."""
    from advisor.engines.llama_cpp.settings import read_constants, resolve_llama_settings

    if estimate.fits is not True:
        return (None if estimate.fits is None else 0,) * len(requests)
    settings = resolve_llama_settings(deployment, read_constants(entry).usual)
    if settings.unified:
        return tuple(min(settings.slots, settings.ctx_size // max(1, r.length)) for r in requests)
    each = settings.ctx_size // settings.slots
    return tuple(settings.slots if r.length <= each else 0 for r in requests)


def has_fixed_slots(deployment: Deployment, entry: Engine) -> bool:
    """Whether the launch says itself how many requests it takes memory for at start."""
    if "device_overhead_mib" not in entry.memory:
        return False
    return get_setting(deployment.settings, *find_concept(entry, "sequences").flags) is not None


def _held_bytes(row: DeviceMemory, factor: float, states: bool = True) -> int:
    return int((row.kv_cache_bytes or 0) * factor) + (row.recurrent_state_bytes or 0) * states


def _left_together(deployment: Deployment, estimate: MemoryEstimate, factor: float = 1.0) -> int | None:
    """Bytes of memory that devices and host share that requests may surely take; None where they share none."""
    one = fitting.merge_rows(deployment, estimate.devices, estimate.host)
    left = _left(one) if one is not None else None
    return None if left is None else left + sum(_held_bytes(r, factor) for r in estimate.devices)


def _left(row: DeviceMemory, factor: float = 1.0, states: bool = True) -> int | None:
    """Bytes of a place that requests may surely take; without `states`, those are taken whatever the requests are."""
    if row.budget_bytes is None or row.high_bytes is None:
        return None
    return row.budget_bytes - row.high_bytes + _held_bytes(row, factor, states)
