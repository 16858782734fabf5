"""From bytes to a verdict, for all engines: rows of devices and host, budgets, what is short, joined bounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from msgspec.structs import replace

from advisor.deployment import Basis, Deployment, DeviceMemory, KvCache, MemoryEstimate, PlaceBytes
from advisor.machines.types import Device, HostMemory, Machine
from advisor.memo import memoize_by_identity
from advisor.record import Record
from advisor.units import MIB, format_gib
from advisor.unknowns import all_hold, sum_known

Bounds = tuple[float, float, float]  # low, value, high
PARTS = ("weights_bytes", "kv_cache_bytes", "recurrent_state_bytes", "compute_bytes", "overhead_bytes")


def used_devices(deployment: Deployment) -> tuple[Device, ...]:
    """The devices a deployment uses: the machine's usable ones, or the first `device_count`."""
    if deployment.machine is None:
        return ()
    usable = deployment.machine.usable_devices
    return usable if deployment.device_count is None else usable[: deployment.device_count]


def has_several_devices(deployment: Deployment) -> bool:
    """Whether the machine has more devices than one, so that a launch should say how many it takes."""
    return deployment.machine is not None and len(deployment.machine.usable_devices) > 1


def explain_ranks(ranks: int) -> str:
    """Reason of a tensor-parallel setting."""
    return "splits every layer over the GPUs; divides the heads" if ranks > 1 else "one of the GPUs is enough"


def budget_bytes(device: Device) -> int | None:
    """What may be allocated on a device: free memory where it was read, else all of it; None when unknown."""
    return device.free_bytes if device.free_bytes is not None else device.total_bytes


# CUDA programs see less than the driver's total: T4 0.44, H100 0.46, RTX 4090 0.47, L40S 0.59, H200 0.6, A100 0.75 GiB
# (totals in published engine logs against the driver's own)
CUDA_HIDDEN = 512 * MIB


def allocatable_bytes(device: Device) -> int | None:
    """The total that a program on the device sees, bytes; None when not known."""
    if device.total_bytes is None:
        return None
    hidden = CUDA_HIDDEN if device.vendor == "nvidia" and not device.unified and device.mig_profile is None else 0
    return device.total_bytes - hidden


def number_device_kinds(deployment: Deployment) -> tuple[int, ...]:
    """A number of each device, the same for those that may share a row: it depends on nothing else of them."""
    return () if deployment.machine is None else _kinds(deployment.machine)[: deployment.device_count]


@memoize_by_identity
def _kinds(machine: Machine) -> tuple[int, ...]:
    seen: dict[tuple[object, ...], int] = {}
    each = ((x.name, x.vendor, x.total_bytes, x.free_bytes, x.unified, x.mig_profile) for x in machine.usable_devices)
    return tuple(seen.setdefault(k, len(seen)) for k in each)


def device_row(device: Device, parts: PlaceBytes, overhead_mib: Bounds, slack: int = 0) -> DeviceMemory:
    """One device's row; `overhead_mib` is (low, value, high) MiB, `slack` widens the interval both ways, in bytes."""
    return _row(device.name, device.total_bytes, budget_bytes(device), parts, overhead_mib, slack)


def host_row(deployment: Deployment, parts: PlaceBytes, overhead_mib: Bounds, slack: int = 0) -> DeviceMemory:
    """The host's row. Its budget is what is available now, where a probe read it, else RAM less the reserve."""
    memory = deployment.machine.memory if deployment.machine else HostMemory()
    return _row("host memory", memory.usable_bytes, memory.budget_bytes, parts, overhead_mib, slack)


def _row(
    name: str, capacity: int | None, budget: int | None, parts: PlaceBytes, overhead_mib: Bounds, slack: int
) -> DeviceMemory:
    low, value, high = (int(x * MIB) for x in overhead_mib)
    return DeviceMemory(
        name=name,
        capacity_bytes=capacity,
        budget_bytes=budget,
        weights_bytes=parts.weights,
        kv_cache_bytes=parts.cache,
        recurrent_state_bytes=parts.state,
        compute_bytes=parts.compute,
        overhead_bytes=value,
        total_bytes=parts.total + value,
        low_bytes=max(0, parts.total + low - slack),
        high_bytes=parts.total + high + slack,
    )


class FitVerdict(Record, frozen=True, kw_only=True):
    """Whether it fits, what is short, what to say."""

    fits: bool | None
    short: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def row_fits(row: DeviceMemory, sold: tuple[int, int] | None = None) -> bool | None:
    """True when even the high bound fits, False when the low bound does not; None between or when unknown.

    `sold`: the least and the most that a memory whose size was not stated comes with: what fits the least fits. Of one
    whose size is assumed, the budget lies between as well.
    """
    budgets = sold
    if row.budget_bytes is not None:
        budgets = row.budget_bytes, int(row.budget_bytes * (sold[1] / sold[0] if sold and sold[0] else 1))
    if budgets is None or row.low_bytes is None or row.high_bytes is None:
        return None
    if row.high_bytes <= budgets[0]:
        return True
    return False if row.low_bytes > budgets[1] else None


def merge_rows(deployment: Deployment, rows: Sequence[DeviceMemory], host: DeviceMemory | None) -> DeviceMemory | None:
    """Device and host rows as one, where they are the same memory (Apple, Strix Halo, GB10); else None."""
    memory = deployment.machine.memory if deployment.machine else HostMemory()
    ram = memory.usable_bytes
    if host is None or ram is None or not rows or not all(x.unified for x in used_devices(deployment)):
        return None
    parts = (*rows, host)
    return DeviceMemory(
        name="unified memory",
        capacity_bytes=ram,
        budget_bytes=ram if memory.available_bytes is not None else memory.budget_bytes,
        total_bytes=sum_known([p.total_bytes for p in parts]),
        low_bytes=sum_known([p.low_bytes for p in parts]),
        high_bytes=sum_known([p.high_bytes for p in parts]),
    )


def judge_fit(
    rows: Sequence[DeviceMemory], host: DeviceMemory | None, needs_host: bool, deployment: Deployment
) -> FitVerdict:
    """All rows together.

    Host memory decides only where the deployment keeps weights or cache there; an unknown host makes that answer None.
    """
    answers: list[bool | None] = []
    short: list[str] = []
    warnings: list[str] = []
    for row, device in zip_longest(rows, used_devices(deployment)[: len(rows)]):
        sold = device.sold_bytes if device is not None else None
        answers.append(row_fits(row, sold))
        _say(row, answers[-1], short, warnings, sold)
        if answers[-1] and row.budget_bytes is None:
            warnings.append(f"{row.name}: its memory was not stated; this fits the smallest it is sold with")
    if host is not None:
        bounds = deployment.machine.memory.bounds if deployment.machine else None
        a = row_fits(host, bounds)
        one = merge_rows(deployment, rows, host)
        if one is not None:
            answers.append(row_fits(one, bounds))
            _say(one, answers[-1], short, warnings)
        elif needs_host:
            answers.append(a)
            _say_host(host, a, deployment, short, warnings)
        elif a is False:
            # the files are mapped, so a small host slows loading down but does not stop it
            warnings.append(
                f"host memory: {format_gib(host.total_bytes)} needed, {format_gib(host.budget_bytes)} there"
            )
    fits = all_hold(answers)
    return FitVerdict(fits=fits, short=() if fits else tuple(short), warnings=tuple(warnings))


def _say_host(
    row: DeviceMemory, fits: bool | None, deployment: Deployment, short: list[str], warnings: list[str]
) -> None:
    sold = deployment.machine.memory.sold_bytes if deployment.machine and row.budget_bytes is None else None
    if sold is None or row.total_bytes is None:
        _say(row, fits, short, warnings)
        return
    sizes = f"the processor comes with {format_gib(sold[0])} to {format_gib(sold[1])}, and its size was not stated"
    if fits is False:
        short.append(f"host memory: {format_gib(row.total_bytes)} needed; {sizes}")
    elif fits is None:
        warnings.append(f"host memory: {format_gib(row.low_bytes)} to {format_gib(row.high_bytes)} needed; {sizes}")
    else:
        warnings.append(f"host memory: {format_gib(row.high_bytes)} at most; {sizes}")


def _say(
    row: DeviceMemory,
    fits: bool | None,
    short: list[str],
    warnings: list[str],
    sold: tuple[int, int] | None = None,
) -> None:
    if fits is False:
        over = (row.total_bytes or 0) - (row.budget_bytes or 0)
        short.append(
            f"{row.name}: {format_gib(row.total_bytes)} needed, {format_gib(row.budget_bytes)} there: "
            f"{format_gib(over)} short"
        )
    elif fits is None:
        if row.budget_bytes is None:
            what = "host RAM" if row.name == "host memory" else f"the memory of {row.name}"
            warnings.append(f"{what} is not known, so whether it fits cannot be determined")
        elif row.total_bytes is None:
            warnings.append(f"{row.name}: not every part is known, so whether it fits cannot be determined")
        elif sold is not None and (row.low_bytes or 0) > row.budget_bytes:
            warnings.append(
                f"{row.name}: {format_gib(row.total_bytes)} needed, {format_gib(row.budget_bytes)} assumed to be "
                f"there: what the GPU may take of the RAM was not stated, and can be set"
            )
        else:
            warnings.append(
                f"{row.name}: too close to call: {format_gib(row.low_bytes)} to {format_gib(row.high_bytes)} needed, "
                f"{format_gib(row.budget_bytes)} there"
            )


def bound_estimate(least: MemoryEstimate, most: MemoryEstimate, what: str) -> MemoryEstimate:
    """The estimate whose bounds reach from `least` to `most`; `what` is the part whose size is not known.

    It fits where even the larger one does, it does not where even the smaller one does not. Parts are the middle of
    both, and the cache holds what is left next to the larger one.
    """
    rows = tuple(_bound_row(a, b) for a, b in zip(least.devices, most.devices, strict=True))
    host = _bound_row(least.host, most.host) if least.host and most.host else least.host
    fits = least.fits if least.fits == most.fits else False if least.fits is False else None
    basis: dict[str, Basis] = {**least.basis, "weights": "assumed", "kv_cache": "assumed"}
    warnings = (*least.warnings, *_open(rows, what)) if fits is None else least.warnings
    return replace(
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
    lines = [
        f"{r.name}: {format_gib(r.low_bytes)} to {format_gib(r.high_bytes)} needed, {format_gib(r.budget_bytes)} "
        f"there: {what} may be large"
        for r in rows
        if r.low_bytes is not None and r.high_bytes is not None and r.budget_bytes is not None
        if r.high_bytes > r.budget_bytes
    ]
    return list(dict.fromkeys(lines))


def _bound_row(least: DeviceMemory, most: DeviceMemory) -> DeviceMemory:
    parts = {p: _middle(getattr(least, p), getattr(most, p)) for p in PARTS}
    known = least.total_bytes is not None and most.total_bytes is not None
    whole = sum(x for x in parts.values() if x is not None) if known else None
    return replace(least, **parts, total_bytes=whole, low_bytes=least.low_bytes, high_bytes=most.high_bytes)


def _middle(least: int | None, most: int | None) -> int | None:
    return None if least is None or most is None else (least + most) // 2


def _cache(least: KvCache, most: KvCache) -> KvCache:
    return replace(
        most,
        available_bytes=_middle(least.available_bytes, most.available_bytes),
        available_high_bytes=least.available_high_bytes,
    )
