"""Models that stay loaded side by side: each gets a part of every device, as large as its need is of all needs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.deployment import MemoryEstimate
from advisor.machines.types import Device, Machine
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
    """The machine as each of the models may use it; the shares of all together are less than what is free."""
    total = sum(needs) or 1
    return [_part(machine, LEFT * need / total) for need in needs]


def _part(machine: Machine, share: float) -> Machine:
    usable = {id(d) for d in machine.usable_devices}
    if usable:
        devices = tuple(_smaller(d, share) if id(d) in usable else d for d in machine.devices)
        return msgspec.structs.replace(machine, devices=devices)
    memory = machine.memory
    room = memory.available_bytes if memory.available_bytes is not None else memory.usable_bytes
    if room is None:
        return machine
    return msgspec.structs.replace(machine, memory=msgspec.structs.replace(memory, available_bytes=int(share * room)))


def _smaller(device: Device, share: float) -> Device:
    room = device.free_bytes if device.free_bytes is not None else device.total_bytes
    return device if room is None else msgspec.structs.replace(device, free_bytes=int(share * room))
