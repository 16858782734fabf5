"""Models that stay loaded side by side: each gets a part of every device, as large as its need is of all needs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.deployment import MemoryEstimate
from advisor.machines.types import Machine
from advisor.planning.traffic import Traffic

LEFT = 0.97  # of what is free: the rest is for what servers take next to their share


def count_need(memory: MemoryEstimate, traffic: Traffic) -> int:
    """Bytes that a model wants of the devices (of the host without any): itself, scratch, its typical requests. What
    is not sure is counted at its most: of a small model it is a large part."""
    rows = memory.devices or ((memory.host,) if memory.host is not None else ())
    fixed = sum(
        (r.high_bytes or r.total_bytes or 0) - (r.kv_cache_bytes or 0) - (r.recurrent_state_bytes or 0) for r in rows
    )
    each = traffic.typical_tokens * (memory.kv_cache.bytes_per_token or 0) * len(rows)
    return int(fixed + traffic.users * each)


def share_machine(machine: Machine, needs: Sequence[int]) -> list[Machine]:
    """The machine as each of the models may use it; the shares of all together are less than what is free.

    On several cards each model gets cards with room for it, one where that is enough; where that cannot be, and on one
    device, all of them share every device by their needs.
    """
    places = _deal_cards(machine, needs) if len(machine.usable_devices) > 1 else None
    if places is not None:
        return [_on_cards(machine, p) for p in places]
    total = sum(needs) or 1
    return [_share_of(machine, LEFT * need / total) for need in needs]


def _deal_cards(machine: Machine, needs: Sequence[int]) -> list[dict[int, int]] | None:
    """Bytes of each card (by its place among those that may be used) for each model; None where they do not fit so.

    Large models first; each takes the fewest cards, 1, 2, 4, ... or all, that have room for equal parts of it, of these
    the emptiest. What is left of a card is divided among its models by their parts.
    """
    sizes = [d.free_bytes if d.free_bytes is not None else d.total_bytes for d in machine.usable_devices]
    if any(r is None for r in sizes):
        return None
    free = [LEFT * (r or 0) for r in sizes]
    counts = sorted({*(2**k for k in range(len(free).bit_length()) if 2**k <= len(free)), len(free)})
    dealt: list[dict[int, float]] = [{} for _ in needs]
    for model in sorted(range(len(needs)), key=lambda m: -needs[m]):
        order = sorted(range(len(free)), key=lambda i: (-free[i], i))
        cards = next((order[:k] for k in counts if free[order[k - 1]] >= needs[model] / k), None)
        if cards is None:
            return None
        for i in cards:
            dealt[model][i] = needs[model] / len(cards)
            free[i] -= dealt[model][i]
    taken = [sum(d.get(i, 0.0) for d in dealt) for i in range(len(free))]
    growth = [(free[i] + taken[i]) / taken[i] if taken[i] else 1.0 for i in range(len(free))]
    return [{i: int(part * min(growth[j] for j in d)) for i, part in sorted(d.items())} for d in dealt]


def _on_cards(machine: Machine, room: dict[int, int]) -> Machine:
    """The machine with only these of its cards, each with so much free."""
    usable = {id(d): i for i, d in enumerate(machine.usable_devices)}
    devices = []
    for device in machine.devices:
        i = usable.get(id(device))
        if i is None:
            devices.append(device)
        elif i in room:
            devices.append(replace(device, free_bytes=room[i]))
        else:
            devices.append(replace(device, visible=False))
    return replace(machine, devices=tuple(devices))


def _share_of(machine: Machine, share: float) -> Machine:
    usable = {id(d) for d in machine.usable_devices}
    if usable:
        rooms = [d.free_bytes if d.free_bytes is not None else d.total_bytes for d in machine.devices]
        devices = tuple(
            replace(d, free_bytes=int(share * room)) if id(d) in usable and room is not None else d
            for d, room in zip(machine.devices, rooms, strict=True)
        )
        return replace(machine, devices=devices)
    memory = machine.memory
    room = memory.available_bytes if memory.available_bytes is not None else memory.usable_bytes
    if room is None:
        return machine
    return replace(machine, memory=replace(memory, available_bytes=int(share * room)))
