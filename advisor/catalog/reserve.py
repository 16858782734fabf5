"""What the system keeps of a described computer's memory (rules/reserve.yaml)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from advisor.catalog.documents import decode_document
from advisor.catalog.store import Catalog
from advisor.machines.types import Machine, Os
from advisor.units import GIB


class ReserveFile(msgspec.Struct, frozen=True):
    """rules/reserve.yaml, which says what each means."""

    source: str
    as_of: str
    share: float
    unified_share: float
    most_gib: float
    least_gib: dict[Os, float]
    unknown_least_gib: float
    wsl_share: float


def keep_reserve(machine: Machine, rules: Catalog) -> Machine:
    """The described machine with what its system keeps; in WSL2 with the part of the RAM that it has by default."""
    kept, memory, notes = decode_document(rules, "reserve.yaml", ReserveFile), machine.memory, machine.notes
    if machine.wsl and memory.limit_bytes is None and memory.total_bytes is not None:
        memory = replace(memory, limit_bytes=int(kept.wsl_share * memory.total_bytes))
        notes = (*notes, "WSL2 has half of the RAM unless `.wslconfig` gives it more (`memory=`)")
    ram = memory.usable_bytes
    if ram is None or memory.available_bytes is not None:
        return replace(machine, memory=memory, notes=notes)
    unified = any(d.unified for d in machine.devices)
    least = kept.unknown_least_gib if machine.os is None else kept.least_gib.get(machine.os, kept.unknown_least_gib)
    share = (kept.unified_share if unified else kept.share) * ram
    reserve = min(ram // 2, int(min(kept.most_gib * GIB, max(least * GIB, share))))
    return replace(machine, memory=replace(memory, reserve_bytes=reserve), notes=notes)
