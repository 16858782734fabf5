"""Places below the cards: host memory and disk that a launch takes beside what its memory's law counts.

Caches of keys and values that are kept there (`tiers` of rules/engines), and pages of a mapped file that memory does
not hold, which the system reads again from disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.catalog.types import Tier
from advisor.deployment import Deployment, DeviceMemory, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import get_flag, get_number
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.units import GIB, format_gib
from advisor.unknowns import all_hold, sum_known

DISK = "disk"
UNITS = {"gib": GIB, "gb": 10**9}


def add_tiers(deployment: Deployment, tiers: Sequence[Tier], estimate: MemoryEstimate) -> MemoryEstimate:
    """The estimate with what lies below the cards. Raises BadInput for a size that is none."""
    for tier in tiers:
        least, size = _size(tier, deployment, estimate)
        if size:
            estimate = (_on_host if tier.place == "host" else _on_disk)(deployment, least, size, estimate)
    return _with_pages(deployment, estimate) if any(x.part == "file" for x in tiers) else estimate


def _size(tier: Tier, deployment: Deployment, estimate: MemoryEstimate) -> tuple[int, int]:
    """(at least, as is likely) bytes of all ranks together; 0 where the launch does not ask for it."""
    given, version = deployment.settings, deployment.engine_version
    if (tier.switch and not get_flag(given, tier.switch)) or (
        tier.since and version and is_before(version, tier.since)
    ):
        return 0, 0
    ranks = max(1, len(estimate.devices))
    stated = get_number(given, tier.size) if tier.size else None
    if stated is None and tier.variable is not None:
        stated = get_number(dict(deployment.environment), tier.variable) or get_number(given, tier.variable)
    if stated is not None and stated < 0:
        raise BadInput(f"setting {tier.size or tier.variable}: {stated:g} is below 0")
    if stated:
        size = int(stated * UNITS[tier.unit]) * (ranks if tier.each == "rank" else 1)
        return size, size
    asked = get_number(given, tier.ratio) if tier.ratio else None
    share = tier.usual_ratio if asked is None else asked
    pool = (estimate.kv_cache.available_bytes or 0) + _pooled_states(estimate)
    size = int(share * max(0, pool)) * ranks if share else 0
    if asked is not None or estimate.host is None or estimate.host.budget_bytes is None:
        return size if asked is not None else 0, size
    most = tier.usual_share * (estimate.host.budget_bytes - tier.usual_reserve_gib * GIB)
    return 0, int(min(size, max(0, most)))


def _pooled_states(estimate: MemoryEstimate) -> int:
    """Bytes of a rank's states that have a part of the pool: they are kept as well."""
    if estimate.kv_cache.state_sequences is None or not estimate.devices:
        return 0
    return estimate.devices[0].recurrent_state_bytes or 0


def _on_host(deployment: Deployment, least: int, size: int, estimate: MemoryEstimate) -> MemoryEstimate:
    host = estimate.host
    if host is None or not estimate.devices:
        return estimate
    row = _more_cache(host, least, size)
    sold = deployment.machine.memory.sold_bytes if deployment.machine else None
    held = fitting.row_fits(row, sold)
    fits = all_hold([estimate.fits, held])
    if held is True:
        return replace(estimate, host=row, fits=fits)
    there = f"{format_gib(row.budget_bytes)} there" if row.budget_bytes is not None else "what is there is not known"
    said = f"host memory: {format_gib(row.low_bytes)} to {format_gib(row.high_bytes)} needed with the cache, {there}"
    short = (*estimate.short, said) if held is False else estimate.short
    return replace(estimate, host=row, fits=fits, short=short, warnings=(*estimate.warnings, said))


def _more_cache(row: DeviceMemory, least: int, size: int) -> DeviceMemory:
    """The row with a cache of so many bytes more, of which `least` are taken for sure."""
    return replace(
        row,
        kv_cache_bytes=(row.kv_cache_bytes or 0) + size,
        total_bytes=sum_known([row.total_bytes, size]),
        low_bytes=sum_known([row.low_bytes, least]),
        high_bytes=sum_known([row.high_bytes, size]),
    )


def _on_disk(deployment: Deployment, least: int, size: int, estimate: MemoryEstimate) -> MemoryEstimate:
    return replace(estimate, disk=_more_cache(estimate.disk or _make_disk((0, 0, 0)), 0, size))


def _make_disk(pages: tuple[int, int, int]) -> DeviceMemory:
    """The disk with so many bytes of a mapped file: (low, value, high)."""
    low, value, high = pages
    return DeviceMemory(
        name=DISK, weights_bytes=value, mapped_bytes=value, kv_cache_bytes=0, recurrent_state_bytes=0,
        compute_bytes=0, overhead_bytes=0, total_bytes=value, low_bytes=low, high_bytes=high,
    )  # fmt: skip


def _with_pages(deployment: Deployment, estimate: MemoryEstimate) -> MemoryEstimate:
    """The estimate with the pages that memory does not hold on disk, where all that is too much is such pages."""
    missing, host = _count_missing(deployment, estimate), estimate.host
    if missing is None or host is None:
        return estimate
    names = ("weights_bytes", "mapped_bytes", "total_bytes", "low_bytes")
    left = {x: max(0, (getattr(host, x) or 0) - missing[1]) for x in names}
    text = f"{format_gib(missing[1])} of the file exceed memory: it runs, and reads them from disk all the time"
    return replace(
        estimate,
        host=replace(host, **left, high_bytes=left["total_bytes"]),
        disk=_make_disk(missing),
        warnings=(*estimate.warnings, text),
    )


def _count_missing(deployment: Deployment, estimate: MemoryEstimate) -> tuple[int, int, int] | None:
    """(low, value, high) bytes of mapped pages that memory does not hold; None where something else is short, too."""
    host = estimate.host
    if host is None or not host.mapped_bytes or not estimate.short or estimate.fits is not False:
        return None
    place = fitting.merge_rows(deployment, estimate.devices, host) or host
    room = place.budget_bytes
    if room is None or any(x.partition(":")[0] != place.name for x in estimate.short):
        return None
    low, value, high = (max(0, (x or 0) - room) for x in (place.low_bytes, place.total_bytes, place.high_bytes))
    return (low, value, high) if value and high < host.mapped_bytes else None


def run_from_disk(estimate: MemoryEstimate) -> MemoryEstimate | None:
    """The estimate as one that fits, with pages on disk; None where it has none, or memory holds less than half of the
    file: then it hardly runs."""
    pages = (estimate.disk.weights_bytes or 0) if estimate.disk is not None else 0
    rows = (*estimate.devices, estimate.host) if estimate.host is not None else estimate.devices
    if not pages or sum(x.weights_bytes or 0 for x in rows) < pages:
        return None
    return replace(estimate, fits=True, short=())
