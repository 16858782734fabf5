"""What the rules name must be there. The types say what a text stands for (advisor/meanings.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from difflib import get_close_matches
from typing import cast

from msgspec import inspect

from advisor.catalog.flaws import At
from advisor.decision.floors import listed_names, vendor_of_generation
from advisor.decision.types import GENERATIONS, USE_CASES
from advisor.engines.versions import version_key
from advisor.errors import AdvisorError, UnknownName
from advisor.lint.faults import Fault, one_line
from advisor.lint.flags import flag_faults
from advisor.lint.house import House, TableItem, TypedPart
from advisor.lint.reading import EntryPlace
from advisor.near import simplify_name

NO_ENGINE = "none"  # an image that looks like an engine's and is not
MISSPELT = 0.9  # likeness from which a name outside the catalogue is taken for a slip
# fields of conditions whose values are ids of a table
CONDITION_FIELDS = {
    "gpu.accelerator": "accelerators",
    "engine.chosen": "engines",
    "engine.name": "engines",
    "workload.migrate_from": "engines",
}
_WORDS = {"accelerators": "accelerator", "engines": "engine"}


def find_references_faults(house: House) -> Iterator[Fault]:
    """References to what is not there, patterns that do not compile, versions that are none."""
    for part, found in house.visits:
        for at, kind, value in found:
            if isinstance(kind, inspect.Metadata):
                here, extra = (*part.at, *at), kind.extra or {}
                # A text that has not the form, or a number outside the bounds, that its type states.
                if isinstance(value, str) and "form" in extra:
                    pattern, otherwise, code = extra["form"]
                    if not re.fullmatch(pattern, value):
                        yield part.place.field(code, here, f"{value!r} {otherwise}")
                elif isinstance(value, (int, float)) and "bounds" in extra:
                    low, high, otherwise = extra["bounds"]
                    if not low <= value <= high:
                        shown = f"{value:g}" if isinstance(value, float) else str(value)
                        yield part.place.field("unit", here, f"{shown} {otherwise}")
                if isinstance(value, str):
                    meaning = extra.get("is", "")
                    if meaning in _CHECKS:
                        yield from _CHECKS[meaning](house, part, here, value)
                    elif meaning in _NAMES and not (meaning == "engine" and value == NO_ENGINE):
                        what, list_names = _NAMES[meaning]
                        known = list_names(house, part)
                        if known is not None:
                            yield from house.unknown(part.place, here, what, value, known)
    for path, document in house.documents.items():
        if path.startswith(("guides/", "policy/", "checks/rules/")):
            yield from _conditions(house, document.place, document.data, ())


def _hub_id(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*/[a-z0-9._-]+", name):
        yield part.place.field("wrong_value", at, f"{name!r} is not a hub id in lower case (org/name)")


def _model_type(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    """An engine may know models that the catalogue lacks: only what is nearly a known type is taken for a slip."""
    known = {m.model_type for m in house.models.values() if m.model_type}
    if name in known:
        return
    close = get_close_matches(name, known, n=max(len(known), 1), cutoff=MISSPELT)
    if close:
        yield part.place.field(
            "unknown_name", at, f"no model of the catalogue has the type {name!r}", sorted(close)[:2]
        )


def _hardware(house: House, part: TypedPart, at: At, words: str) -> Iterator[Fault]:
    from advisor.catalog.hardware_names import parse_hardware

    try:
        parse_hardware(words, house.catalog)
    except AdvisorError as e:
        yield part.place.field("unknown_name", at, f"{words!r} names no hardware: {one_line(e.message)}", e.near[:2])


def _quantization(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    try:
        house.catalog.quantization(name)
    except UnknownName as e:
        if name not in house.ids["quantizations"] and name not in house.hidden:
            yield part.place.field("unknown_name", at, f"unknown weight format {name!r}", e.near[:2])


def _list_forms(house: House, part: TypedPart) -> set[str] | None:
    """Forms are those that budgets.yaml speaks of and those of several entries."""
    budgets = house.documents.get("budgets.yaml")
    if budgets is None:
        return None
    used = [a.form for a in house.accelerators.values() if a.form]
    b = budgets.value
    return {f for f in used if used.count(f) > 1} | {*b.forms, *b.least_bought, *b.not_offered}


def _list_currencies(house: House, part: TypedPart) -> Container[str] | None:
    budgets = house.documents.get("budgets.yaml")
    return budgets.value.rates.per_usd if budgets is not None else None


def _version(house: House, part: TypedPart, at: At, text: str) -> Iterator[Fault]:
    if not version_key(text) or not re.match(r"[vVbB]?\d", text):
        yield part.place.field("version", at, f"{text!r} is not a version (0.33.0, v3.3.6, b11434)")


# what a text stands for -> what it is called, and the names there are (None: nothing to compare with)
_NAMES: dict[str, tuple[str, Callable[[House, TypedPart], Container[str] | None]]] = {
    "engine": ("engine", lambda house, _: house.ids["engines"]),
    "model": ("model", lambda house, _: house.ids["models"]),
    "accelerator": ("accelerator", lambda house, _: house.ids["accelerators"]),
    "quantization key": (
        "key of engines' `quantization`",
        lambda house, _: {k for e in house.engines.values() for k in e.quantization} or None,
    ),
    "feature": ("key of engines' `features`", lambda house, _: {k for e in house.engines.values() for k in e.features}),
    "generation": (
        "generation",
        lambda house, _: {n for g in GENERATIONS for n in listed_names(vendor_of_generation(g), g)},
    ),
    "form": ("form", _list_forms),
    "currency": ("currency (rates in budgets.yaml)", _list_currencies),
    "use case": ("use case", lambda house, part: USE_CASES),
    "source": ("source", lambda _, part: tuple(getattr(part.entry, "sources", ()))),
}
# what a text stands for -> what else has to hold for it
_CHECKS: dict[str, Callable[[House, TypedPart, At, str], Iterator[Fault]]] = {
    "model in lower case": _hub_id,
    "model type": _model_type,
    "hardware words": _hardware,
    "quantization": _quantization,
    "flag": flag_faults,
    "version": _version,
}


def _conditions(house: House, place: EntryPlace, data: object, at: At) -> Iterator[Fault]:
    """Ids that conditions compare a field with."""
    if isinstance(data, list):
        for i, inner in enumerate(data):
            yield from _conditions(house, place, inner, (*at, i))
    elif isinstance(data, dict):
        table = CONDITION_FIELDS.get(str(data.get("field")))
        for name, value in data.items():
            if table and name in ("is", "is_not", "in"):
                many = value if isinstance(value, list) else [value]
                for i, word in enumerate(many):
                    here = (*at, name, i) if isinstance(value, list) else (*at, name)
                    yield from house.unknown(place, here, _WORDS[table], cast("str", word), table=table)
            else:
                yield from _conditions(house, place, value, (*at, name))


def find_names_faults(house: House) -> Iterator[Fault]:
    """Ids and aliases of models, engines, formats and accelerators that stand for two things."""
    for table in ("models", "engines", "quantizations"):
        for root in house.roots:
            mine = [x for x in house.tables[table].values() if x.place.file.root == root]
            yield from _clashes((x, (x.entry.id, *x.entry.aliases)) for x in mine)
    # hardware is asked for by any of its names, so an overlay's card must have names of its own
    cards = house.tables["accelerators"].values()
    yield from _clashes((x, (x.entry.id, x.entry.name, *x.entry.aliases, *x.entry.default_of)) for x in cards)
    yield from _driver_names(list(cards))


def _clashes(rows: Iterable[tuple[TableItem, Iterable[str]]]) -> Iterator[Fault]:
    first: dict[str, tuple[TableItem, str]] = {}
    for item, names in rows:
        for name in names:
            key = simplify_name(name)
            other, spelt = first.setdefault(key, (item, name))
            if other is item:
                continue
            owner, taker, taken = other, item, name
            if _is_in_id(name, item) and not _is_in_id(name, other):
                owner, taker, taken = item, other, spelt
                first[key] = item, name
            there = f"{owner.place.file.shown}:{owner.place.file.line(owner.place.at)}"
            problem = f"the name {taken!r} is also a name of {owner.entry.id} ({there})"
            yield taker.place.fault("duplicate_name", problem, _where(taker, taken))


def _is_in_id(name: str, item: TableItem) -> bool:
    """Whether an entry's own id says the name: then it is another that has taken it."""
    return simplify_name(name) in simplify_name(item.entry.id)


def _where(item: TableItem, name: str) -> tuple[str | int, ...]:
    for field in ("aliases", "default_of"):
        listed = getattr(item.entry, field, ())
        if name in listed:
            return (field, listed.index(name))
    return ("id",) if item.entry.id == name else ("name",)


def _driver_names(cards: list[TableItem]) -> Iterator[Fault]:
    """Entries with one driver name have to differ in memory, or in what only the system knows (modules)."""
    by_name: dict[str, list[TableItem]] = {}
    for item in cards:
        for name in item.entry.reported_names:
            by_name.setdefault(name, []).append(item)
    for name, same in by_name.items():
        for i, item in enumerate(same):
            a = item.entry
            twins = [x.entry.id for x in same[:i] if x.entry.memory_bytes == a.memory_bytes and not a.unified]
            if twins:
                problem = f"shares the driver name {name!r} and the memory with {twins[0]}: nothing tells them apart"
                yield item.place.fault("probe", problem, ("reported_names",))
