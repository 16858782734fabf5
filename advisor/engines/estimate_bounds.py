"""Two estimates of one deployment, without and with the most that a part of unknown size can take, as one interval."""

from __future__ import annotations

import msgspec

from advisor.deployment import Basis, DeviceMemory, KvCache, MemoryEstimate
from advisor.units import format_gib

PARTS = ("weights_bytes", "kv_cache_bytes", "recurrent_state_bytes", "compute_bytes", "overhead_bytes")


def bound_estimate(least: MemoryEstimate, most: MemoryEstimate, what: str) -> MemoryEstimate:
    """The estimate whose bounds reach from `least` to `most`; `what` is the part whose size is not known.

    It fits where even the larger one does, it does not where even the smaller one does not. Parts are the middle of
    both, and the cache holds what is left next to the larger one.
    """
    rows = tuple(_row(a, b) for a, b in zip(least.devices, most.devices, strict=True))
    host = _row(least.host, most.host) if least.host and most.host else least.host
    fits = least.fits if least.fits == most.fits else False if least.fits is False else None
    basis: dict[str, Basis] = {**least.basis, "weights": "assumed", "kv_cache": "assumed"}
    warnings = (*least.warnings, *_open(rows, what)) if fits is None else least.warnings
    return msgspec.structs.replace(
        most,
        fits=fits,
        devices=rows,
        host=host,
        kv_cache=_cache(least.kv_cache, most.kv_cache),
        basis=basis,
        warnings=warnings,
        short=least.short,
        message=least.message,
    )


def _open(rows: tuple[DeviceMemory, ...], what: str) -> list[str]:
    said = [
        f"{r.name}: {format_gib(r.low_bytes)} to {format_gib(r.high_bytes)} needed, {format_gib(r.budget_bytes)} "
        f"there: {what} may be large"
        for r in rows
        if r.low_bytes is not None and r.high_bytes is not None and r.budget_bytes is not None
        if r.high_bytes > r.budget_bytes
    ]
    return list(dict.fromkeys(said))


def _row(least: DeviceMemory, most: DeviceMemory) -> DeviceMemory:
    parts = {p: _middle(getattr(least, p), getattr(most, p)) for p in PARTS}
    whole = (
        None
        if least.total_bytes is None or most.total_bytes is None
        else sum(x for x in parts.values() if x is not None)
    )
    return msgspec.structs.replace(
        least, **parts, total_bytes=whole, low_bytes=least.low_bytes, high_bytes=most.high_bytes
    )


def _middle(least: int | None, most: int | None) -> int | None:
    return None if least is None or most is None else (least + most) // 2


def _cache(least: KvCache, most: KvCache) -> KvCache:
    return msgspec.structs.replace(
        most,
        available_bytes=_middle(least.available_bytes, most.available_bytes),
        available_high_bytes=least.available_high_bytes,
    )
