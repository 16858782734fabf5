"""Which card a foreign name means: names as drivers write them, and the short words of schedulers.

A name is never taken for the nearest one. Sold with several sizes, a card is known and its memory is not, and is
stated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.described_machine import MIG, find_vendor, load_words, mig_bytes
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.match import MEMORY_TOLERANCE, find_accelerators, usable_capacity_bytes
from advisor.catalog.name_words import NameWords, choose_accelerator, split_name
from advisor.catalog.types import Accelerator
from advisor.errors import AdvisorError
from advisor.machines.types import Device, Vendor
from advisor.near import simplify_name
from advisor.record import Value, pick_fields
from advisor.units import GIB, MIB, format_gib

MAX_WORDS = 80  # characters of a name that is looked up; longer ones are no names of cards

Basis = Literal["reported", "catalogue", "assumed"]


class CardKind(Value, frozen=True):
    """What the devices of a node are. `accelerator` None = not in the catalogue, `total_bytes` None = not known."""

    name: str
    vendor: Vendor
    accelerator: str | None = None
    total_bytes: int | None = None  # of one device
    basis: Basis | None = None
    mig: str | None = None
    sold: tuple[int, int] | None = None  # usable bytes of the smallest and the largest, where the total is not known
    notes: tuple[str, ...] = ()
    may_be: tuple[str, ...] = ()  # ids of the cards that the name may mean, where it does not say which


class CardLookup(Value, frozen=True):
    """The catalogue, and what was found in it already: each distinct name is looked up once."""

    rules: Catalog
    found: dict[tuple[object, ...], CardKind]
    devices: dict[tuple[CardKind, int, int, int], tuple[Device, ...]]
    machines: dict[str, tuple[CardKind, int] | None]


def make_lookup(rules: Catalog) -> CardLookup:
    """A lookup with nothing found yet."""
    return CardLookup(rules, {}, {}, {})


def make_devices(lookup: CardLookup, kind: CardKind, count: int, first: int = 0, seen: int = 0) -> tuple[Device, ...]:
    """`count` equal devices with indices from `first`; equal ones are made once.

    Of MIG slices a process sees one only, that at the position `seen`.
    """
    key = (kind, count, first, seen if kind.mig else 0)
    if key not in lookup.devices:
        entry = lookup.rules.accelerators().get(kind.accelerator or "")
        known = pick_fields(entry, "unified", "compute_capability", "gfx") if entry is not None else {}
        rate = entry.bandwidth_gbs if entry is not None and entry.devices_per_card > 1 and not kind.mig else None
        lookup.devices[key] = tuple(
            Device(
                index=i,
                name=kind.name,
                vendor=kind.vendor,
                accelerator=kind.accelerator,
                total_bytes=kind.total_bytes,
                total_basis=kind.basis if kind.total_bytes is not None else None,
                sold_bytes=kind.sold,
                **known,
                mig_profile=kind.mig,
                mig_enabled=True if kind.mig else None,
                visible=kind.mig is None or i == first + seen,
                bandwidth_gbs=rate / entry.devices_per_card if rate is not None and entry is not None else None,
            )
            for i in range(first, first + count)
        )
    return lookup.devices[key]


def find_by_driver_name(
    lookup: CardLookup, name: str, vendor: Vendor, memory_mib: int | None = None, mig: str | None = None
) -> CardKind:
    """The card of a name as the driver writes it, spaces and brackets possibly replaced, and MiB as the driver says.

    With `mig`, the memory is that of a slice.
    """
    name = name[:MAX_WORDS]
    key = ("driver", name, vendor, memory_mib, mig)
    if key not in lookup.found:
        lookup.found[key] = _find_by_driver_name(lookup, name, vendor, memory_mib, mig)
    return lookup.found[key]


def _find_by_driver_name(
    lookup: CardLookup, name: str, vendor: Vendor, memory_mib: int | None, mig: str | None
) -> CardKind:
    known = lookup.rules.accelerators()
    spaced = re.sub(r"[-_]+", " ", name).strip()
    total = memory_mib * MIB if memory_mib else None
    unknown = CardKind(spaced, vendor, None, total, "reported", mig)
    if _VIRTUAL.search(name):
        return replace(unknown, notes=(f"{name}: a virtual GPU, a part of a card that is not in the catalogue",))
    plain = simplify_name(name)
    exact = [a for a in known.values() if any(simplify_name(n) == plain for n in a.reported_names)]
    if len(exact) != 1 and (mig or total is None):
        return _with_slice(find_by_words(lookup, spaced, vendor, mig), total, mig)
    whole = None if mig else total
    found = exact if len(exact) == 1 else _find_by_pattern(name, spaced, vendor, whole, known)
    if len(found) != 1:
        note = f"may be {', '.join(a.name for a in found[:4])}" if found else "not in the catalogue of accelerators"
        return replace(unknown, notes=(f"{name}: {note}",))
    entry = found[0]
    if whole is not None and not _agrees(whole, entry):
        note = f"{name}: its memory is stated to be {format_gib(whole, 0)}, and {entry.name} has {_nominal(entry)}"
        if not exact:  # a card of a similar name
            return replace(unknown, notes=(f"{note}: taken as a card that is not in the catalogue",))
        return replace(unknown, total_bytes=None, notes=(f"{note}: neither is believed",))
    return _with_slice(_make_card_kind(entry, vendor, mig), total, mig)


def _find_by_pattern(
    name: str, spaced: str, vendor: Vendor, total: int | None, known: dict[str, Accelerator]
) -> Sequence[Accelerator]:
    """What the catalogue's patterns of driver names find for the label as it stands, else with spaces."""
    for spelled in (name, spaced):
        found = find_accelerators(Device(index=0, name=spelled, vendor=vendor, total_bytes=total), known)
        if found:
            return found
    return ()


def _with_slice(kind: CardKind, total: int | None, mig: str | None) -> CardKind:
    """The kind with what the driver says of its memory, which is better than any other figure."""
    if total is None or (kind.accelerator is None and not mig and kind.total_bytes is None and kind.notes):
        return kind
    return replace(kind, total_bytes=total, basis="reported", mig=mig, sold=None)


def find_by_words(lookup: CardLookup, text: str, vendor: Vendor = "unknown", mig: str | None = None) -> CardKind:
    """The card of a scheduler's word for it (`h100`, `a100_80`, `AMD-Instinct-MI300X-OAM`, `a100_3g.20gb`)."""
    text = text[:MAX_WORDS]
    key = ("words", text, vendor, mig)
    if key not in lookup.found:
        lookup.found[key] = _find_by_words(lookup, text, vendor, mig)
    return lookup.found[key]


def find_by_size(
    lookup: CardLookup, text: str, vendor: Vendor, gigabytes: int | None, may_be: Sequence[str] = ()
) -> CardKind | None:
    """The one card with so much memory among those that it may be, else whose model number the text has (`MI325` is of
    the MI325X)."""
    word = next((w for w in re.split(r"[\W_]+", text.lower()) if re.fullmatch(r"[a-z]+\d{2,4}[a-z]?", w)), None)
    if word is None or not gigabytes:
        return None

    def fits(entry: Accelerator) -> bool:
        named = entry.id in may_be if may_be else re.search(rf"\b{word}[a-z]?\b", entry.name.lower()) is not None
        return named and entry.form != "laptop" and not entry.only_with_size and _agrees(gigabytes * GIB, entry)

    fitting = [a for a in lookup.rules.accelerators().values() if a.memory_bytes and fits(a)]
    return _make_card_kind(fitting[0], vendor, None) if len(fitting) == 1 else None


def find_machine_cards(lookup: CardLookup, name: str) -> tuple[CardKind, int] | None:
    """The one kind of card of a cloud's machine type, and how many it has; None for what is none, and for several."""
    if name not in lookup.machines:
        lookup.machines[name] = _find_machine_cards(lookup, name)
    return lookup.machines[name]


def _find_machine_cards(lookup: CardLookup, name: str) -> tuple[CardKind, int] | None:
    name = name.removeprefix("ml.")  # SageMaker's names of the same machines
    if simplify_name(name) not in lookup.rules.named_machines():
        return None
    try:
        devices = parse_hardware(name, lookup.rules).devices
    except AdvisorError:
        return None
    if len({d.accelerator for d in devices}) != 1:
        return None
    d = devices[0]
    return CardKind(d.name, d.vendor, d.accelerator, d.total_bytes, d.total_basis, d.mig_profile), len(devices)


def _find_by_words(lookup: CardLookup, text: str, vendor: Vendor, mig: str | None) -> CardKind:
    spaced = re.sub(r"[-_]+", " ", re.sub(r"[-_]?nvlink[-_]?", " SXM ", text, flags=re.I)).strip()
    slice_ = MIG.search(spaced)
    if slice_ is not None:
        mig = mig or slice_[0].lower()
        spaced = " ".join(MIG.sub(" ", spaced).split())
    kind = None
    for spelled in _spellings(spaced):
        kind = _choose(lookup, spelled, text, mig)
        if kind is not None:
            return kind
    total, basis = _slice_bytes(mig)
    note = f"{text}: not in the catalogue of accelerators" if spaced else "which card it is, is not stated"
    return CardKind(text or "GPU", vendor, None, total, basis, mig, notes=(note,))


def _spellings(spaced: str) -> list[str]:
    """A name, and the same with a number at its end as a size: `a100 80` is an A100 with 80 GB."""
    sized = re.fullmatch(r"(.*[a-z]\w*) (\d{2,3})", spaced, re.I)
    return [spaced, f"{sized[1]} {sized[2]}GB"] if sized else [spaced]


def _choose(lookup: CardLookup, spaced: str, text: str, mig: str | None) -> CardKind | None:
    known = lookup.rules.accelerators()
    words = load_words(lookup.rules)
    asked = split_name(words, spaced)
    if not any(any(c.isdigit() for c in word) for word in asked.words) and spaced.lower() not in _NAMES_ALONE:
        return None  # `RTX`, `G`, `gpu`: a word of many names
    try:
        chosen = choose_accelerator(asked, known, words, mig)
    except AdvisorError as e:
        if e.code != "ambiguous_accelerator":
            return None
        chosen = None
        candidates = _candidates(asked, lookup.rules, mig)
        if not candidates:
            return None
    else:
        if chosen is None:
            return None
        candidates = _candidates(asked, lookup.rules, mig) if chosen[1] is not None else [chosen[0]]
    if mig is not None:
        if chosen is None or mig not in chosen[0].mig_profiles:
            return None
        return _make_card_kind(chosen[0], "unknown", mig, _taken_note(text, chosen[0], candidates))
    sizes = sorted({a.memory_bytes or 0 for a in candidates})
    if chosen is not None and len(sizes) <= 1:
        return _make_card_kind(chosen[0], "unknown", None, _taken_note(text, chosen[0], candidates))
    return _undecided(text, candidates)


def _candidates(asked: NameWords, rules: Catalog, mig: str | None) -> list[Accelerator]:
    """Every card that the words could mean by themselves; laptops are no nodes."""
    out, words = [], load_words(rules)
    for entry in rules.accelerators().values():
        if entry.form == "laptop" or entry.only_with_size:
            continue
        try:
            if choose_accelerator(asked, {entry.id: entry}, words, mig) is not None:
                out.append(entry)
        except AdvisorError:
            continue
    return out


def _taken_note(text: str, entry: Accelerator, candidates: Sequence[Accelerator]) -> tuple[str, ...]:
    others = [a.name for a in candidates if a is not entry]
    return (f"{text}: taken as {entry.name}; {', '.join(others[:4])} has as much memory",) if others else ()


def _undecided(text: str, candidates: Sequence[Accelerator]) -> CardKind:
    """A name of cards with several sizes: nothing is taken, and the sizes are stated."""
    sizes = sorted({a.memory_bytes for a in candidates if a.memory_bytes})
    usable = sorted(u // a.devices_per_card for a in candidates if (u := usable_capacity_bytes(a)[0]) is not None)
    listed = " or ".join(f"{n / GIB:g}" for n in sizes)
    names = ", ".join(a.name for a in candidates[:4])
    return CardKind(
        text,
        find_vendor(candidates[0]) if len({a.vendor for a in candidates}) == 1 else "unknown",
        sold=(usable[0], usable[-1]) if usable else None,
        notes=(f"{text}: sold with {listed} GB ({names}); which it is, a probe tells (--probe)",),
        may_be=tuple(a.id for a in candidates),
    )


def _make_card_kind(entry: Accelerator, vendor: Vendor, mig: str | None, notes: tuple[str, ...] = ()) -> CardKind:
    basis: Basis | None
    total, basis = usable_capacity_bytes(entry)
    if mig:
        total, basis = _slice_bytes(mig)
    elif total is not None:
        total //= entry.devices_per_card
    if total is None:
        notes = (*notes, f"{entry.name}: how much memory it may use is not stated; a probe tells (--probe)")
    name = f"{entry.name} MIG {mig}" if mig else entry.name
    own = find_vendor(entry)
    return CardKind(name, own if own != "unknown" else vendor, entry.id, total, basis, mig, notes=notes)


def _slice_bytes(mig: str | None) -> tuple[int | None, Basis | None]:
    return (mig_bytes(mig), "assumed") if mig and MIG.fullmatch(mig) else (None, None)


def _agrees(total: int, entry: Accelerator) -> bool:
    """Whether a driver's figure is one of this card's, which shows up to 12 percent less than is sold."""
    sizes = [s / entry.devices_per_card for s in (entry.usable_bytes, entry.memory_bytes) if s]
    sizes += [gb * GIB for gb in entry.memory_options_gb]
    return not sizes or min(abs(total - s) / s for s in sizes) <= MEMORY_TOLERANCE


def _nominal(entry: Accelerator) -> str:
    return format_gib(entry.memory_bytes and entry.memory_bytes // entry.devices_per_card, 0)


# vGPU profiles as their drivers name them: GRID-A100-20C, NVIDIA-A40-8Q
_VIRTUAL = re.compile(r"^GRID\b|-\d{1,3}[ABCQ]$", re.I)
_NAMES_ALONE = ("gaudi", "intel gaudi")  # words without a number that name a product
