"""Efficiencies of the speed model: every one is there, is a possible number, and has factors of things that exist."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.lint.faults import Fault, nearest_names
from advisor.lint.house import House, RuleDocument
from advisor.machines.types import Device
from advisor.speed.efficiencies import (
    DECODE,
    PREFILL,
    QUANTITIES,
    UNMEASURED,
    WAITS,
    SpeedRules,
    format_class,
    hardware_class,
)

FILE, ENGINES = "speed.yaml", "speed-engines.yaml"
# of a base; states that a scan keeps on the chip for some tokens are read at more than the memory gives
UNITS = {"share": (0.0, 4.0), "seconds": (0.0, 10.0)}
BOUND = (1.0, 20.0)
FAMILIES = ("server", "ggml")  # of engines that speed-engines.yaml does not list
LINKS = ("alone", "stages", "direct", "pcie")  # how ranks are joined (advisor/speed/estimator.py)
UNITS_OF_PRODUCTS = ("vector", "half")  # that are no plain matrix units
WHOLE = "all"
OF_SPREADS = {WHOLE, UNMEASURED, "dense", "moe"}


def find_speed_faults(house: House) -> Iterator[Fault]:
    """Coefficients that are missing, cannot be, or are for nothing that exists."""
    if FILE in house.documents:
        yield from _speed(house, house.documents[FILE])
    if ENGINES in house.documents:
        yield from _engines(house, house.documents[ENGINES])


def _speed(house: House, document: RuleDocument) -> Iterator[Fault]:
    place, file = document.place, document.value
    assert isinstance(file, SpeedRules)
    laws = dict.fromkeys((*DECODE, *PREFILL, *WAITS))
    # Every name that a factor may have.
    cards = house.accelerators.values()
    out = {"cpu", *(a.vendor for a in cards), *(format_class(q) for q in house.formats.values())}
    for accelerator in cards:
        device = Device(
            index=0,
            name=accelerator.name,
            vendor=accelerator.vendor,  # type: ignore[arg-type]  # an unknown one is reported for the entry
            accelerator=accelerator.id,
            compute_capability=accelerator.compute_capability,
            gfx=accelerator.gfx,
        )
        out.add(hardware_class(device, house.catalog))
    traits = [e.speed for e in house.engines.values()]
    families = {t.family for t in traits if t.family}
    generations = {g.name for t in traits for g in t.generations}
    links = {*LINKS, *(f"{x}-experts" for x in LINKS)}
    backends = {b for t in traits for names in t.other_backends.values() for b in names}
    known = out | {*house.ids["engines"], *families, *FAMILIES, *generations, *backends, *UNITS_OF_PRODUCTS} | links
    for name in laws:
        if name not in file.coefficients:
            yield place.field("missing_key", ("coefficients",), f"`{name}` is missing: the laws need it")
    for name, coefficient in file.coefficients.items():
        at = ("coefficients", name)
        if name not in laws:
            yield place.field("unknown_key", at, f"no law asks for `{name}`", nearest_names(name, laws))
        low, high = UNITS.get(coefficient.unit, (0.0, 0.0))
        if coefficient.unit not in UNITS:
            problem = f"{coefficient.unit!r} is not one of {', '.join(UNITS)}"
            yield place.field("wrong_value", (*at, "unit"), problem, nearest_names(coefficient.unit, UNITS))
        elif not low < coefficient.base <= high:
            yield place.field(
                "unit", (*at, "base"), f"{coefficient.base:g} is no {coefficient.unit}: above {low:g}, at most {high:g}"
            )
        for factor in coefficient.factors:
            yield from _names(document, (*at, "factors", factor), factor, known)
    for kind, rows in file.spread.items():
        if kind not in QUANTITIES:
            yield place.field(
                "unknown_key", ("spread", kind), f"no row is of the kind `{kind}`", nearest_names(kind, QUANTITIES)
            )
        if WHOLE not in rows:
            yield place.field("missing_key", ("spread", kind), f"`{WHOLE}` is missing")
        for name, spread in rows.items():
            here = ("spread", kind, name)
            yield from _names(document, here, name, known | OF_SPREADS)
            if not BOUND[0] <= spread.bound <= BOUND[1]:
                yield place.field("unit", here, f"bound {spread.bound:g} is not a factor of at least 1")
            if not 0 <= spread.covered <= 100 or spread.rows < 1 or min(spread.median_error, spread.p90_error) < 0:
                yield place.field("unit", here, "rows, errors and covered cannot be so")


def _names(document: RuleDocument, at: tuple[str, ...], name: str, known: set[str]) -> Iterator[Fault]:
    for part in name.split("/"):
        yield from document.place.unknown(at, "class", part, known)


def _engines(house: House, document: RuleDocument) -> Iterator[Fault]:
    file = document.value
    families = {e.speed.family for e in house.engines.values() if e.speed.family}
    for key, i, family in [(k, i, f) for k in ("tensor_split", "bfloat16") for i, f in enumerate(getattr(file, k))]:
        yield from document.place.unknown((key, i), "family", family, {*families, *FAMILIES}, families)
    known = file.speculation
    for name, method in known.methods.items():
        at = ("speculation", "methods", name)
        shares = [x for pair in method.accepts.values() for x in pair] + list(method.finds.values())
        if method.tokens < 1 or not all(0 <= x <= 1 for x in shares):
            problem = "shares of accepted tokens lie between 0 and 1, of one token at least"
            yield document.place.field("unit", at, problem)
        if missing := {"least", "chat", "code", "most"} - set(method.accepts):
            yield document.place.field("missing_key", (*at, "accepts"), f"{', '.join(sorted(missing))}: missing")
    for engine in {*known.gains, *known.costs} - {"other"}:
        yield from document.place.unknown(("speculation",), "engine", engine, set(house.engines), set(house.engines))
