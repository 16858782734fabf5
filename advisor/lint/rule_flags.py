"""Flags that rules of `advise check` name: in conditions, in words to fill in, as the place that is pointed at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import msgspec

from advisor.checks.rules.load import RuleEntry
from advisor.engines.flag_tables import FlagTable
from advisor.lint.faults import nearest_names
from advisor.lint.flags import find_flag_table, is_known_setting, list_setting_names
from advisor.lint.house import House
from advisor.lint.rule_types import At
from advisor.record import Value

OF_FLAGS = ("arg", "given")  # facts of a flag: arg.dtype, given.enforce-eager
MISSPELT = 0.85  # likeness from which a place in a file is taken for a flag that was written wrongly


class FlagSlip(Value, frozen=True):
    """A flag that no engine of a rule has: where in the entry, in words."""

    at: At
    problem: str
    near: tuple[str, ...]


def find_slips(house: House, entry: RuleEntry) -> Iterator[FlagSlip]:
    """Flags of a rule that its engines lack; none where the flags of one of them were not read."""
    engines = entry.engines or tuple(house.ids["engines"])
    tables = [t for t in (find_flag_table(x, house) for x in engines) if t is not None]
    if len(tables) < len(entry.engines) or not tables:
        return
    for at, name in _fields(msgspec.to_builtins(entry.when), ("when",)):
        yield from _fact(entry, tables, at, name)
    for field in ("message", "fix"):
        for name in re.findall(r"(?<!\$)\{([a-zA-Z_][\w.-]*)\}", getattr(entry, field)):
            yield from _fact(entry, tables, (field,), name)
    known = {n for t in tables for n in list_setting_names(t)}
    places = _places(house)
    for i, name in enumerate(entry.at):  # a variable, a key of the file, or a flag: only slips can be found
        if name.isupper() or places[name] > 1 or any(is_known_setting(name, t) for t in tables):
            continue
        plain = name.replace("_", "-")
        alike = [k for k in known if SequenceMatcher(None, k.replace("_", "-"), plain).ratio() >= MISSPELT]
        if alike:
            near = nearest_names(name, alike)
            yield FlagSlip(("at", i), f"unknown flag {name!r} of {_whose(entry)}", near)


def _fact(entry: RuleEntry, tables: list[FlagTable], at: At, name: str) -> Iterator[FlagSlip]:
    head, _, flag = name.partition(".")
    if head in OF_FLAGS and flag and not any(is_known_setting(flag, t) for t in tables):
        near = nearest_names(flag, [n for t in tables for n in list_setting_names(t)])
        yield FlagSlip(at, f"unknown flag {flag!r} of {_whose(entry)}", near)


def _places(house: House) -> Counter[str]:
    """How many rules point at each name."""
    rules = [entry for document in house.under("checks/rules/").values() for entry in document.value.rules]
    return Counter(name for entry in rules for name in entry.at)


def _whose(entry: RuleEntry) -> str:
    return " and ".join(entry.engines) if entry.engines else "any engine"


def _fields(raw: Any, at: At) -> Iterator[tuple[At, str]]:
    if isinstance(raw, list):
        for i, inner in enumerate(raw):
            yield from _fields(inner, (*at, i))
    elif isinstance(raw, dict):
        for word, inner in raw.items():
            if word == "field" and isinstance(inner, str):
                yield (*at, word), inner
            else:
                yield from _fields(inner, (*at, word))
