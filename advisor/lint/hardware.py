"""Accelerators and processor platforms: figures that fit each other, and whether a probe would recognise them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from advisor.catalog.flaws import At
from advisor.catalog.match import find_accelerators, fits_pattern
from advisor.catalog.types import Accelerator, CpuPlatform
from advisor.decision.floors import amd_generation, nvidia_generation, vendor_of_generation
from advisor.decision.types import GENERATIONS, VENDORS
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.house import House, TableItem
from advisor.lint.reading import EntryPlace
from advisor.machines.pci import VENDORS as PCI_VENDORS
from advisor.machines.types import Device, Vendor
from advisor.units import GIB

DOUBTFUL = "doubtful"  # little more is known than that there is such a thing
DTYPES = ("fp32", "fp16", "bf16", "fp8", "int8", "fp4")
MEMORY = (2 * GIB, 1024 * GIB)
USABLE = 0.85  # of the nominal size; 0.93 is the least that was seen
# rate of the second over that of the first, where both are given. Pascal runs fp16 at a 64th; B300 has little int8.
RATIOS = {
    ("fp32", "fp16"): (1 / 70, 40.0),
    ("fp16", "bf16"): (0.45, 2.1),
    ("fp16", "fp8"): (0.95, 4.2),
    ("fp16", "int8"): (0.05, 8.2),
    ("fp8", "fp4"): (0.95, 4.2),
}
BANDWIDTH_TOLERANCE = 0.01  # of channels x rate x 8 bytes
QUARTER_GIB = GIB // 4
LOST = {
    "tflops": "no speed is known of it (dense rates: {fp16: ..., bf16: ...})",
    "bandwidth_gbs": "no speed is known of it (GB/s)",
    "price": "`advise hardware` never lists it (or `msrp`, or a rental offer in rules/prices)",
}


def find_hardware_faults(house: House) -> Iterator[Fault]:
    """Figures that cannot be, and hardware that a probe could not recognise."""
    cards = house.accelerators
    for item in house.items("accelerators"):
        yield from _card(item.entry, item.place)
        yield from _recognised(item.entry, item.place, cards)
        yield from _generation(item.entry, item.place, cards)
    yield from _shared_chips(house)
    for item in house.items("cpu_platforms"):
        yield from _processor(item.entry, item.place)
        yield from _check_same_chip(item.entry, item.place, cards)


def _card(card: Accelerator, place: EntryPlace) -> Iterator[Fault]:
    if card.vendor not in VENDORS:
        yield place.field(
            "wrong_value",
            ("vendor",),
            f"unknown vendor {card.vendor!r}",
            nearest_names(card.vendor, VENDORS),
        )
    yield from _memory(card, place)
    for kind in card.tflops:
        at: At = ("tflops", kind)
        if kind not in DTYPES:
            yield place.field(
                "unknown_key", at, f"`{kind}` is not one of {', '.join(DTYPES)}", nearest_names(kind, DTYPES)
            )
    for (first, second), (low, high) in RATIOS.items():
        one, other = card.tflops.get(first), card.tflops.get(second)
        if one and other and not low <= other / one <= high:
            problem = (
                f"{second} {other:g} is {other / one:.3g} times {first} {one:g}; {low:.2g} to {high:.2g} are possible"
            )
            yield place.field("unit", ("tflops", second), problem)
    price = card.price
    if price is not None and price.high is not None and price.low > price.high:
        yield place.field("range", ("price",), f"low {price.low:g} is above high {price.high:g}")


def _memory(card: Accelerator, place: EntryPlace) -> Iterator[Fault]:
    at: At = ("memory_bytes",)
    if card.memory_bytes is None:
        if not card.unified and not card.memory_options_gb and card.confidence != DOUBTFUL:
            yield place.fault("missing_key", "`memory_bytes` is missing: without it nothing can be known to fit")
        return
    if not MEMORY[0] <= card.memory_bytes <= MEMORY[1]:
        yield place.field("unit", at, f"{card.memory_bytes:,} bytes are not the memory of any device")
        return
    if card.memory_bytes % QUARTER_GIB:
        right, shown = round(card.memory_bytes / 1e9) * GIB, f"{card.memory_bytes:,}"
        problem = f"{shown} is not a whole number of GiB; the size on the box counts 2**30 bytes: {right}"
        yield place.field("unit", at, problem)
        return
    sizes = [float(n) for n in re.findall(r"(\d+(?:\.\d+)?)\s?GB\b", card.name)]
    if sizes and card.memory_bytes not in [int(n * GIB) for n in sizes]:
        problem = f"is {card.memory_bytes / GIB:g} x 2**30, the name says {sizes[0]:g} GB"
        yield place.field("total", at, problem)
    if card.usable_bytes is not None and not USABLE * card.memory_bytes <= card.usable_bytes <= card.memory_bytes:
        share = card.usable_bytes / card.memory_bytes
        problem = f"{card.usable_bytes:,} is {share:.3g} of memory_bytes; {USABLE} to 1 are possible"
        yield place.field("total", ("usable_bytes",), problem)
    for profile, size in card.mig_profiles.items():
        m = re.match(r"\d+g\.(\d+)gb", profile)
        if m is None or int(m[1]) * GIB != size:
            problem = f"{size / GIB:g} x 2**30 bytes are not what the profile's name says"
            yield place.field("total", ("mig_profiles", profile), problem)
        elif size > card.memory_bytes:
            yield place.field("total", ("mig_profiles", profile), "is larger than the whole device")


def _recognised(card: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """What a probe reports of this card has to lead back to it."""
    announced = card.confidence == DOUBTFUL  # which of its figures are known is not for us to say
    if card.vendor == "nvidia" and card.compute_capability is None and not announced:
        yield place.fault("probe", "`compute_capability` is missing: engines state their floors in it")
    if card.vendor == "amd" and card.gfx is None:
        yield place.fault("probe", "`gfx` is missing: engines list what they support by it")
    for i, pci in enumerate(card.pci_ids):
        yield from _pci(card, pci, place, ("pci_ids", i))
    if not (card.pci_ids or card.reported_names or card.name_pattern):
        yield place.fault("probe", "no `name_pattern`, `reported_names` or `pci_ids`: a probe cannot recognise it")
        return
    if card.name_pattern is not None:
        for name in card.reported_names or (card.name,):
            if not re.search(card.name_pattern, name, re.IGNORECASE):
                problem = f"does not match {name!r}, the entry's own " + (
                    "driver name" if card.reported_names else "name"
                )
                yield place.field("probe", ("name_pattern",), problem)
    yield from _found_again(card, place, cards)


def _found_again(card: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """Each driver name and PCI id, with the memory that the driver would show, must mean this entry alone."""
    total = card.usable_bytes or card.memory_bytes
    cores = re.search(r"\((\d+)-core", card.name)
    seen: set[tuple[str, ...]] = set()
    for name in card.reported_names or (card.name,):
        for pci in card.pci_ids or (None,):
            device = Device(
                index=0,
                name=name,
                vendor=cast("Vendor", card.vendor),
                pci_id=":".join(pci.split(":")[:2]) if pci else None,
                pci_subsystem=":".join(pci.split(":")[2:]) or None if pci else None,
                total_bytes=total // card.devices_per_card if total else None,
                gfx=card.gfx,
                gpu_cores=int(cores[1]) if cores else None,
                unified=card.unified,
            )
            found = tuple(x.id for x in find_accelerators(device, cards))
            if found == (card.id,) or found in seen:
                continue
            others = [i for i in found if i != card.id]
            if card.unified and others and all(cards[i].unified and name in cards[i].reported_names for i in others):
                continue  # modules of one driver name: the device tree tells them apart
            seen.add(found)
            taken = f"is taken for {', '.join(others[:3])}" if others else "is not recognised"
            yield place.fault("probe", f"a device that calls itself {name!r}{f' ({pci})' if pci else ''} {taken}")


def _pci(card: Accelerator, pci: str, place: EntryPlace, at: At) -> Iterator[Fault]:
    if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}(:[0-9a-f]{4}:[0-9a-f]{4})?", pci):
        yield place.field("probe", at, f"{pci!r} is not a PCI id (vendor:device in lower case, as 10de:2684)")
        return
    vendor = PCI_VENDORS.get(pci[:4])
    if vendor is not None and card.vendor not in (vendor, {"habana": "intel"}.get(vendor)):
        yield place.field("probe", at, f"{pci!r} is a device of {vendor}, the entry's vendor is {card.vendor}")
    elif vendor is None:
        yield place.field("probe", at, f"{pci[:4]!r} is not a vendor that a probe looks for")


def _generation(card: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """Entries of one architecture are of one generation."""
    mine = _generation_of(card)
    same = [_generation_of(b) for b in cards.values() if b.architecture == card.architecture and b.id != card.id]
    others = {g for g in same if g is not None}
    if mine is not None and len(same) > 1 and others and mine not in others:
        field = "gfx" if card.vendor == "amd" else "compute_capability"
        have = ", ".join(sorted(others))
        problem = f"{getattr(card, field)} is {mine}; other entries of architecture {card.architecture} are {have}"
        yield place.field("contradiction", (field,), problem)


def _generation_of(card: Accelerator) -> str | None:
    if card.vendor == "amd":
        return amd_generation(card.gfx)
    capability = card.compute_capability
    return nvidia_generation(float(capability)) if capability and re.fullmatch(r"\d+\.\d", capability) else None


def _shared_chips(house: House) -> Iterator[Fault]:
    """One PCI id is one chip: it has one compute capability and one gfx name."""
    first: dict[str, TableItem] = {}
    for item in house.tables["accelerators"].values():
        card: Accelerator = item.entry
        for i, pci in enumerate(card.pci_ids):
            b: Accelerator = first.setdefault(pci, item).entry
            if (card.compute_capability, card.gfx) != (b.compute_capability, b.gfx):
                problem = f"{pci} is also an id of {b.id}, which is another chip ({b.compute_capability or b.gfx})"
                yield item.place.field("probe", ("pci_ids", i), problem)


def _processor(cpu_platform: CpuPlatform, place: EntryPlace) -> Iterator[Fault]:
    if cpu_platform.channels_per_socket and cpu_platform.max_mts and cpu_platform.bandwidth_gbs_per_socket:
        derived = cpu_platform.channels_per_socket * cpu_platform.max_mts * 8 / 1000
        if abs(cpu_platform.bandwidth_gbs_per_socket / derived - 1) > BANDWIDTH_TOLERANCE:
            product = f"{cpu_platform.channels_per_socket} channels x {cpu_platform.max_mts} MT/s x 8 bytes"
            problem = f"is {cpu_platform.bandwidth_gbs_per_socket:g}, {product} are {derived:g}"
            yield place.field("total", ("bandwidth_gbs_per_socket",), problem)


def _check_same_chip(platform: CpuPlatform, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """A chip that is processor and accelerator has one memory bandwidth."""
    card = cards.get(platform.id) or cards.get(re.sub(r"-core$", "c", platform.id))
    if card is None or not card.unified or not card.bandwidth_gbs or not platform.bandwidth_gbs_per_socket:
        return
    if abs(platform.bandwidth_gbs_per_socket / card.bandwidth_gbs - 1) > BANDWIDTH_TOLERANCE:
        problem = (
            f"is {platform.bandwidth_gbs_per_socket:g}; {card.id}, the accelerator of this chip, has "
            f"{card.bandwidth_gbs:g}"
        )
        yield place.field("contradiction", ("bandwidth_gbs_per_socket",), problem)


def find_card_use_faults(house: House) -> Iterator[Fault]:
    """Accelerators that parts of the advice would pass over, and names that are taken for those of others."""
    cards = house.accelerators
    rented = {offer.accelerator for offer in house.prices}
    for item in house.items("accelerators"):
        yield from _figures(item.entry, item.place, item.entry.id in rented)
        yield from _known_generation(item.entry, item.place, cards)
        yield from _own_pattern(item.entry, item.place, cards)


def _figures(card: Accelerator, place: EntryPlace, rented: bool) -> Iterator[Fault]:
    there = {
        "tflops": bool(card.tflops),
        "bandwidth_gbs": card.bandwidth_gbs is not None,
        "price": card.price is not None or bool(card.msrp),
    }
    for name, lost in LOST.items():
        if there[name] and name in card.unknown:
            at = ("unknown", card.unknown.index(name))
            yield place.field("contradiction", at, f"the entry gives its {name}")
        elif not (there[name] or name in card.unknown or place.written((name,)) or (name == "price" and rented)):
            problem = f"`{name}` is missing, so {lost}; where no source has it: unknown: [{name}]"
            yield place.fault("missing_key", problem, ("id",))


def _known_generation(card: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """Rules ask for generations: one that none knows is one that none speaks of."""
    known = [g for g in GENERATIONS if vendor_of_generation(g) == card.vendor]
    if len(known) < 2:
        return  # all cards of this vendor are of one generation
    others = {b.architecture for b in cards.values() if b.vendor == card.vendor and b.id != card.id}
    families = {_family(name) for name in (*known, *(o for o in others if o))}
    mine = card.architecture
    if mine is not None and _family(mine) not in families and place.written(("architecture",)) is not None:
        listed = sorted({o for o in others if o} or known)
        problem = f"no rule knows the architecture {mine!r}; known of {card.vendor} are {', '.join(listed)}"
        yield place.field("unknown_name", ("architecture",), problem, nearest_names(mine, listed))
    if card.vendor == "amd" and card.gfx and amd_generation(card.gfx) is None:
        problem = f"no rule knows the generation of {card.gfx}"
        yield place.field("unknown_name", ("gfx",), f"{problem}; known of amd are {', '.join(known)}")


def _family(name: str) -> str:
    """The first word of a generation or architecture without its number: `RDNA 3.5` -> `rdna`."""
    found = re.match(r"[a-z]+", name.lower())
    return found[0] if found else ""


def _own_pattern(card: Accelerator, place: EntryPlace, cards: Mapping[str, Accelerator]) -> Iterator[Fault]:
    """A pattern is for the entry's own names. Entries that match each other's are versions of one card."""
    mine = card.reported_names or (card.name,)
    if card.name_pattern is None:
        return
    taken: dict[str, str] = {}
    for other in cards.values():
        theirs = other.reported_names or (other.name,)
        if other.id == card.id or other.vendor != card.vendor or set(mine) & set(theirs):
            continue
        taken_name = next((n for n in theirs if fits_pattern(n, card)), None)
        if taken_name is not None and not any(fits_pattern(n, other) for n in mine):
            taken[other.id] = taken_name
    if taken:
        first, name = next(iter(taken.items()))
        more = f", and names of {len(taken) - 1} others" if len(taken) > 1 else ""
        problem = f"also matches {name!r}, a name of {first}{more}"
        yield place.field("probe", ("name_pattern",), problem)
