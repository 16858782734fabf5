"""What the rules name must be there. The types say what a text stands for (advisor/meanings.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import Any, cast

from msgspec import inspect

from advisor.decision.floors import listed_names, vendor_of_generation
from advisor.decision.types import GENERATIONS, USE_CASES
from advisor.engines.versions import version_key
from advisor.errors import AdvisorError, UnknownName
from advisor.lint.faults import Fault, one_line
from advisor.lint.flags import flag_faults
from advisor.lint.house import House, TypedPart
from advisor.lint.reading import EntryPlace
from advisor.lint.rule_types import At

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

Check = Callable[[House, TypedPart, At, str], Iterator[Fault]]


def find_faults(house: House) -> Iterator[Fault]:
    """References to what is not there, patterns that do not compile, versions that are none."""
    for part, found in house.visits():
        for at, kind, value in found:
            if isinstance(kind, inspect.Metadata) and isinstance(value, str):
                check = _CHECKS.get((kind.extra or {}).get("is", ""))
                if check is not None:
                    yield from check(house, part, (*part.at, *at), value)
    for path, document in house.documents.items():
        if path.startswith(("guides/", "policy/", "checks/rules/")):
            yield from _conditions(house, document.place, document.data, ())


def _ids(table: str, what: str) -> Check:
    def check(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
        if not (table == "engines" and name == NO_ENGINE):
            yield from house.unknown(part.place, at, what, name, table=table)

    return check


def _hub_id(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*/[a-z0-9._-]+", name):
        yield part.place.field("wrong_value", at, f"{name!r} is no hub id in lower case (org/name)")


def _model_type(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    """An engine may know models that the catalogue lacks: only what is nearly a known type is taken for a slip."""
    known = {m.model_type for m in house.models.values() if m.model_type}
    close = [k for k in known if k != name and SequenceMatcher(None, k, name).ratio() >= MISSPELT]
    if name not in known and close:
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


def _quantization_key(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    keys = {k for e in house.engines.values() for k in e.quantization}
    if keys:
        yield from house.unknown(part.place, at, "key of engines' `quantization`", name, keys)


def _feature(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    keys = {k for e in house.engines.values() for k in e.features}
    yield from house.unknown(part.place, at, "key of engines' `features`", name, keys)


def _generation(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    known = {n for g in GENERATIONS for n in listed_names(vendor_of_generation(g), g)}
    yield from house.unknown(part.place, at, "generation", name, known)


def _form(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    """Forms are those that budgets.yaml speaks of and those of several entries."""
    used = [a.form for a in house.accelerators.values() if a.form]
    known = {f for f in used if used.count(f) > 1}
    if "budgets.yaml" in house.documents:
        b = house.documents["budgets.yaml"].value
        yield from house.unknown(part.place, at, "form", name, known | {*b.hosts, *b.not_bought_single, *b.not_offered})


def _currency(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    if "budgets.yaml" in house.documents:
        rates = house.documents["budgets.yaml"].value.rates.per_usd
        yield from house.unknown(part.place, at, "currency (rates in budgets.yaml)", name, rates)


def _use_case(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    yield from house.unknown(part.place, at, "use case", name, USE_CASES)


def _source(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    yield from house.unknown(part.place, at, "source", name, tuple(getattr(part.entry, "sources", ())))


def _version(house: House, part: TypedPart, at: At, text: str) -> Iterator[Fault]:
    if not version_key(text) or not re.match(r"[vVbB]?\d", text):
        yield part.place.field("version", at, f"{text!r} is no version (0.33.0, v3.3.6, b11434)")


_CHECKS: dict[str, Check] = {
    "engine": _ids("engines", "engine"),
    "model": _ids("models", "model"),
    "model in lower case": _hub_id,
    "model type": _model_type,
    "accelerator": _ids("accelerators", "accelerator"),
    "hardware words": _hardware,
    "quantization": _quantization,
    "quantization key": _quantization_key,
    "feature": _feature,
    "generation": _generation,
    "form": _form,
    "currency": _currency,
    "use case": _use_case,
    "source": _source,
    "flag": flag_faults,
    "version": _version,
}


def _conditions(house: House, place: EntryPlace, data: Any, at: At) -> Iterator[Fault]:
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
