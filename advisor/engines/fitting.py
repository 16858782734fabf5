"""From bytes to a verdict: rows of devices and host, budgets, what is short. Shared by all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from advisor.deployment import Deployment, DeviceMemory
from advisor.machines.types import Device, Machine
from advisor.memo import memoize_by_identity
from advisor.record import Record
from advisor.units import gib

MIB = 2**20


def devices(d: Deployment) -> tuple[Device, ...]:
    """The devices a deployment uses: the machine's usable ones, or the first `device_count`."""
    if d.machine is None:
        return ()
    usable = d.machine.usable_devices
    return usable if d.device_count is None else usable[: d.device_count]


def several(d: Deployment) -> bool:
    """Whether the machine has more devices than one, so that a launch should say how many it takes."""
    return d.machine is not None and len(d.machine.usable_devices) > 1


def why_so_many(ranks: int) -> str:
    """Reason of a tensor-parallel setting."""
    return "splits every layer over the GPUs; divides the heads" if ranks > 1 else "one of the GPUs is enough"


def part(parts: Mapping[int, int], i: int) -> int:
    """Bytes at a place; nothing placed there is 0."""
    return parts.get(i, 0)


def budget(x: Device) -> int | None:
    """What may be allocated on a device: free memory where it was read, else all of it; None when unknown."""
    return x.free_bytes if x.free_bytes is not None else x.total_bytes


# CUDA programs see less than the driver's total: T4 0.44, H100 0.46, RTX 4090 0.47, L40S 0.59, H200 0.6, A100 0.75 GiB
# (totals in published engine logs against the driver's own)
CUDA_HIDDEN = 512 * MIB


def allocatable(x: Device) -> int | None:
    """The total that a program on the device sees, bytes; None when not known."""
    if x.total_bytes is None:
        return None
    hidden = CUDA_HIDDEN if x.vendor == "nvidia" and not x.unified and x.mig_profile is None else 0
    return x.total_bytes - hidden


def kinds(d: Deployment) -> tuple[int, ...]:
    """A number of each device, the same for those that may share a row: it depends on nothing else of them."""
    return () if d.machine is None else _kinds(d.machine)[: d.device_count]


@memoize_by_identity
def _kinds(machine: Machine) -> tuple[int, ...]:
    seen: dict[tuple[object, ...], int] = {}
    each = ((x.name, x.vendor, x.total_bytes, x.free_bytes, x.unified, x.mig_profile) for x in machine.usable_devices)
    return tuple(seen.setdefault(k, len(seen)) for k in each)


def device_row(
    x: Device,
    weights: int | None,
    cache: int | None,
    state: int | None,
    compute: int | None,
    overhead_mib: tuple[float, float, float],
    slack: int = 0,
) -> DeviceMemory:
    """One device's row; `overhead_mib` is (low, value, high) MiB, `slack` widens the interval both ways, in bytes."""
    return _row(x.name, x.total_bytes, budget(x), weights, cache, state, compute, overhead_mib, slack)


def host_row(
    d: Deployment,
    weights: int | None,
    cache: int | None,
    state: int | None,
    compute: int | None,
    overhead_mib: tuple[float, float, float],
    slack: int = 0,
) -> DeviceMemory:
    """The host's row. Its budget is what is available now, where a probe read it, else RAM or its limit."""
    m = d.machine.memory if d.machine else None
    total = m.usable_bytes if m else None
    room = total
    if m is not None and m.available_bytes is not None:
        room = m.available_bytes if total is None else min(m.available_bytes, total)
    return _row("host memory", total, room, weights, cache, state, compute, overhead_mib, slack)


def _row(
    name: str,
    capacity: int | None,
    room: int | None,
    weights: int | None,
    cache: int | None,
    state: int | None,
    compute: int | None,
    overhead_mib: tuple[float, float, float],
    slack: int,
) -> DeviceMemory:
    low, value, high = (int(x * MIB) for x in overhead_mib)
    known = [weights, cache, state, compute]
    base = None if any(k is None for k in known) else sum(k for k in known if k is not None)
    return DeviceMemory(
        name=name,
        capacity_bytes=capacity,
        budget_bytes=room,
        weights_bytes=weights,
        kv_cache_bytes=cache,
        recurrent_state_bytes=state,
        compute_bytes=compute,
        overhead_bytes=value,
        total_bytes=None if base is None else base + value,
        low_bytes=None if base is None else max(0, base + low - slack),
        high_bytes=None if base is None else base + high + slack,
    )


class Verdict(Record, frozen=True, kw_only=True):
    """Whether it fits, what is short, what to say."""

    fits: bool | None
    short: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def row_fits(r: DeviceMemory) -> bool | None:
    """True when even the high bound fits, False when the low bound does not; None between or when unknown."""
    if r.budget_bytes is None or r.low_bytes is None or r.high_bytes is None:
        return None
    if r.high_bytes <= r.budget_bytes:
        return True
    return False if r.low_bytes > r.budget_bytes else None


def fits_as_sold(r: DeviceMemory, x: Device) -> bool | None:
    """The verdict where a chip's memory was not said: what fits the smallest one sold fits."""
    if r.budget_bytes is not None or x.sold_bytes is None or r.low_bytes is None or r.high_bytes is None:
        return row_fits(r)
    least, most = x.sold_bytes
    if r.high_bytes <= least:
        return True
    return False if r.low_bytes > most else None


def host_fits(r: DeviceMemory, d: Deployment) -> bool | None:
    """The host's verdict: where its size was not said but a superchip brings it, what fits the smallest sold fits."""
    sold = d.machine.memory.sold_bytes if d.machine else None
    if r.budget_bytes is not None or sold is None or r.low_bytes is None or r.high_bytes is None:
        return row_fits(r)
    if r.high_bytes <= sold[0]:
        return True
    return False if r.low_bytes > sold[1] else None


def together(d: Deployment, rows: Sequence[DeviceMemory], host: DeviceMemory | None) -> DeviceMemory | None:
    """Device and host rows as one, where they are the same memory (Apple, Strix Halo, GB10); None elsewhere."""
    ram = d.machine.memory.usable_bytes if d.machine else None
    if host is None or ram is None or not rows or not all(x.unified for x in devices(d)):
        return None
    parts = (*rows, host)

    def sum_of(values: Sequence[int | None]) -> int | None:
        return None if any(v is None for v in values) else sum(v for v in values if v is not None)

    return DeviceMemory(
        name="unified memory",
        capacity_bytes=ram,
        budget_bytes=ram,
        total_bytes=sum_of([p.total_bytes for p in parts]),
        low_bytes=sum_of([p.low_bytes for p in parts]),
        high_bytes=sum_of([p.high_bytes for p in parts]),
    )


def verdict(rows: Sequence[DeviceMemory], host: DeviceMemory | None, needs_host: bool, d: Deployment) -> Verdict:
    """All rows together.

    Host memory decides only where the deployment keeps weights or cache there; an unknown host makes that answer None.
    """
    answers: list[bool | None] = []
    short: list[str] = []
    warnings: list[str] = []
    last: tuple[DeviceMemory, bool | None, list[str], list[str]] | None = None
    for r, x in zip_longest(rows, devices(d)[: len(rows)]):
        if last is None or r is not last[0] or (x is not None and x.sold_bytes is not None):
            a = row_fits(r) if x is None else fits_as_sold(r, x)
            last = (r, a, [], [])
            _say(r, a, last[2], last[3])
            if a is True and r.budget_bytes is None and x is not None and x.sold_bytes is not None:
                last[3].append(f"{r.name}: its memory was not said; this fits the smallest it is sold with")
        answers.append(last[1])
        short += last[2]  # equal devices may share a row, and each is told of
        warnings += last[3]
    if host is not None:
        a = host_fits(host, d)
        one = together(d, rows, host)
        if one is not None:
            answers.append(row_fits(one))
            _say(one, answers[-1], short, warnings)
        elif needs_host:
            answers.append(a)
            _say_host(host, a, d, short, warnings)
        elif a is False:
            # the files are mapped, so a small host slows loading down but does not stop it
            warnings.append(f"host memory: {gib(host.total_bytes)} wanted, {gib(host.budget_bytes)} there")
    if any(a is False for a in answers):
        return Verdict(fits=False, short=tuple(short), warnings=tuple(warnings))
    if any(a is None for a in answers):
        return Verdict(fits=None, short=tuple(short), warnings=tuple(warnings))
    return Verdict(fits=True, warnings=tuple(warnings))


def _say_host(r: DeviceMemory, fits: bool | None, d: Deployment, short: list[str], warnings: list[str]) -> None:
    sold = d.machine.memory.sold_bytes if d.machine and r.budget_bytes is None else None
    if sold is None or r.total_bytes is None:
        _say(r, fits, short, warnings)
        return
    sizes = f"the processor comes with {gib(sold[0])} to {gib(sold[1])}, and its size was not said"
    if fits is False:
        short.append(f"host memory: {gib(r.total_bytes)} wanted; {sizes}")
    elif fits is None:
        warnings.append(f"host memory: {gib(r.low_bytes)} to {gib(r.high_bytes)} wanted; {sizes}")
    else:
        warnings.append(f"host memory: {gib(r.high_bytes)} at most; {sizes}")


def _say(r: DeviceMemory, fits: bool | None, short: list[str], warnings: list[str]) -> None:
    if fits is False:
        over = (r.total_bytes or 0) - (r.budget_bytes or 0)
        short.append(f"{r.name}: {gib(r.total_bytes)} wanted, {gib(r.budget_bytes)} there: {gib(over)} short")
    elif fits is None:
        if r.budget_bytes is None:
            what = "host RAM" if r.name == "host memory" else f"the memory of {r.name}"
            warnings.append(f"{what} is not known, so whether it fits cannot be told")
        elif r.total_bytes is None:
            warnings.append(f"{r.name}: not every part is known, so whether it fits cannot be told")
        else:
            warnings.append(
                f"{r.name}: too close to call: {gib(r.low_bytes)} to {gib(r.high_bytes)} wanted, "
                f"{gib(r.budget_bytes)} there"
            )
