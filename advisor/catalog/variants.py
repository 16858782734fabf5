"""Cards that are not quite what the catalogue holds: known dies with another amount of memory, chips by their cores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.catalog.types import Accelerator
from advisor.errors import BadInput
from advisor.record import Value
from advisor.units import GIB

SAME = 0.02  # by which sizes of one product differ between its makers' counts
# a board carries so many times the memory that its die is sold with: chips of half or twice the capacity, or on both
# sides of the board (workshops' RTX 4090 with 48 GB, RTX 2080 Ti with 22); GDDR7 has chips of 3 GB, too
_BOARDS = (0.5, 2.0)
_BOARDS_GDDR7 = (*_BOARDS, 1.5, 3.0)


class MemoryVariant(Value, frozen=True):
    """A card with another amount of memory than it is sold with."""

    entry: Accelerator
    memory_bytes: int
    bandwidth_gbs: float | None  # of the whole card; None: not known
    note: str


def find_memory_variant(
    gb: float, cards: Sequence[Accelerator], usual: Accelerator | None, known: Mapping[str, Accelerator]
) -> MemoryVariant | None:
    """One of the cards, `usual` before others, with so much memory; None where none can carry it.

    Bandwidth: with HBM that of a card with the same die and so much memory, else in proportion to the stacks where
    these are of the size that the die has, else the die's own. Other memory keeps its bus, and with it its bandwidth.
    """
    fit = [a for a in cards if _can_carry(a, gb, known)]
    if not fit:
        return None
    entry = usual if usual in fit else max(fit, key=lambda a: a.memory_bytes or 0)
    twins = [a for a in _list_same_die(entry, known) if a.memory_bytes and _is_same(gb, a.memory_bytes / GIB)]
    rates = [(a.bandwidth_gbs, a.name) for a in twins if a.bandwidth_gbs]
    stacks = _count_stacks(entry, gb)
    rate, origin = entry.bandwidth_gbs, "its own"
    if rates:
        rate, origin = min(rates)
        origin = f"that of {origin}, which has the same die"
    elif stacks is not None and rate is not None and entry.memory_stacks:
        rate, origin = rate * stacks / entry.memory_stacks, f"of {stacks} stacks, where it has {entry.memory_stacks}"
    shown = f"bandwidth {rate:g} GB/s, {origin}" if rate is not None else "its bandwidth is not known"
    note = f"{entry.name} is not known with {gb:g} GB: taken as the same die with that much memory, {shown}; assumed"
    return MemoryVariant(entry, int(gb * GIB), rate, note)


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * other


def _list_same_die(entry: Accelerator, known: Mapping[str, Accelerator]) -> list[Accelerator]:
    """Cards with HBM of one die: of one compute capability or gfx, which no two dies with HBM share."""
    die = entry.compute_capability or entry.gfx
    if die is None or not _has_hbm(entry):
        return []
    return [a for a in known.values() if die == (a.compute_capability or a.gfx) and _has_hbm(a)]


def _has_hbm(entry: Accelerator) -> bool:
    return "HBM" in (entry.memory_type or "")


def _can_carry(entry: Accelerator, gb: float, known: Mapping[str, Accelerator]) -> bool:
    """Whether a board with the die of an entry can have so much memory."""
    if entry.memory_bytes is None or entry.unified:
        return False
    own = entry.memory_bytes / GIB
    if not _has_hbm(entry):
        return any(_is_same(gb, own * x) for x in (_BOARDS_GDDR7 if entry.memory_type == "GDDR7" else _BOARDS))
    most = max((a.memory_bytes or 0 for a in _list_same_die(entry, known)), default=0) / GIB
    return own / 4 <= gb <= 2 * max(own, most)


def _count_stacks(entry: Accelerator, gb: float) -> int | None:
    """Stacks that so much memory is, where they are of the size that the entry has, at most one more than those."""
    if not entry.memory_stacks or entry.memory_bytes is None:
        return None
    stacks = round(gb * entry.memory_stacks * GIB / entry.memory_bytes)
    whole = _is_same(gb, stacks * entry.memory_bytes / GIB / entry.memory_stacks)
    return stacks if whole and 1 <= stacks <= entry.memory_stacks + 1 else None


def choose_by_cores(
    entry: Accelerator, ram_gb: float | None, cores: int | None, named: bool, known: Mapping[str, Accelerator]
) -> tuple[Accelerator, str | None]:
    """The chip of Apple that is meant by its GPU cores, else by its memory where only one of its kinds has that much;
    `named`: its name says which. Raises BadInput for a number of GPU cores that it is not sold with."""
    if not entry.gpu_cores:
        return entry, None
    plain = _plain_name(entry)
    kinds = [entry] if named else [a for a in known.values() if a.gpu_cores and _plain_name(a) == plain]
    if cores is not None:
        found = [a for a in kinds if cores in a.gpu_cores]
        if not found:
            sold = " or ".join(str(n) for n in sorted({n for a in kinds for n in a.gpu_cores}))
            raise BadInput(f"{plain} is sold with {sold} GPU cores, {cores} were stated")
        return found[0], None
    fit = [a for a in kinds if ram_gb in a.memory_options_gb]
    if len(fit) != 1 or fit[0] is entry:
        return entry, None
    return fit[0], f"{plain}: taken as {fit[0].name}, the one that is sold with {ram_gb:g} GB"


def _plain_name(entry: Accelerator) -> str:
    return re.sub(r"\s*\(.*\)", "", entry.name)
