"""What advice needs of an accelerator in addition to its memory: rates for speed, a price, a generation, a name of
its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from advisor.catalog.types import Accelerator
from advisor.decision.floors import amd_generation, vendor_of_generation
from advisor.decision.types import GENERATIONS
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.house import House
from advisor.lint.reading import EntryPlace

LOST = {
    "tflops": "no speed is known of it (dense rates: {fp16: ..., bf16: ...})",
    "bandwidth_gbs": "no speed is known of it (GB/s)",
    "price": "`advise hardware` never lists it (or `msrp`, or a rental offer in rules/prices)",
}


def find_faults(house: House) -> Iterator[Fault]:
    """Accelerators that parts of the advice would pass over, and names that are taken for those of others."""
    cards = house.accelerators
    rented = {offer.accelerator for offer in house.prices}
    for item in house.tables["accelerators"].values():
        yield from _figures(item.entry, item.place, item.entry.id in rented)
        yield from _generation(item.entry, item.place, cards)
        yield from _pattern(item.entry, item.place, cards)


def _figures(accelerator: Accelerator, place: EntryPlace, rented: bool) -> Iterator[Fault]:
    there = {
        "tflops": bool(accelerator.tflops),
        "bandwidth_gbs": accelerator.bandwidth_gbs is not None,
        "price": accelerator.price is not None or bool(accelerator.msrp),
    }
    for name, lost in LOST.items():
        if there[name] and name in accelerator.unknown:
            at = ("unknown", accelerator.unknown.index(name))
            yield place.field("contradiction", at, f"the entry gives its {name}")
        elif not (there[name] or name in accelerator.unknown or place.written((name,)) or (name == "price" and rented)):
            said = f"`{name}` is missing, so {lost}; where no source has it: unknown: [{name}]"
            yield place.fault("missing_key", said, ("id",))


def _generation(accelerator: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """Rules ask for generations: one that none knows is one that none speaks of."""
    known = [g for g in GENERATIONS if vendor_of_generation(g) == accelerator.vendor]
    if len(known) < 2:
        return  # all cards of this vendor are of one generation
    others = {b.architecture for b in cards.values() if b.vendor == accelerator.vendor and b.id != accelerator.id}
    families = {_family(name) for name in (*known, *(o for o in others if o))}
    mine = accelerator.architecture
    if mine is not None and _family(mine) not in families and place.written(("architecture",)) is not None:
        listed = sorted({o for o in others if o} or known)
        said = f"no rule knows the architecture {mine!r}; known of {accelerator.vendor} are {', '.join(listed)}"
        yield place.field("unknown_name", ("architecture",), said, nearest_names(mine, listed))
    if accelerator.vendor == "amd" and accelerator.gfx and amd_generation(accelerator.gfx) is None:
        said = f"no rule knows the generation of {accelerator.gfx}"
        yield place.field("unknown_name", ("gfx",), f"{said}; known of amd are {', '.join(known)}")


def _family(name: str) -> str:
    """The first word of a generation or architecture without its number: `RDNA 3.5` -> `rdna`."""
    found = re.match(r"[a-z]+", name.lower())
    return found[0] if found else ""


def _pattern(accelerator: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """A pattern is for the entry's own names. Entries that match each other's are versions of one card."""
    mine = accelerator.reported_names or (accelerator.name,)
    if accelerator.name_pattern is None:
        return
    taken: dict[str, str] = {}
    for other in cards.values():
        theirs = other.reported_names or (other.name,)
        if other.id == accelerator.id or other.vendor != accelerator.vendor or set(mine) & set(theirs):
            continue
        hit = next((n for n in theirs if _matches(accelerator, n)), None)
        if hit is not None and not any(_matches(other, n) for n in mine):
            taken[other.id] = hit
    if taken:
        first, name = next(iter(taken.items()))
        more = f", and names of {len(taken) - 1} others" if len(taken) > 1 else ""
        said = f"also matches {name!r}, a name of {first}{more}"
        yield place.field("probe", ("name_pattern",), said)


def _matches(accelerator: Accelerator, name: str) -> bool:
    """Whether an entry's pattern matches a driver's name."""
    return accelerator.name_pattern is not None and re.search(accelerator.name_pattern, name, re.IGNORECASE) is not None
