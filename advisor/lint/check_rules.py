"""Rules of `advise check`: conditions over facts that there are, flags that engines have, words that are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from advisor.checks import each
from advisor.checks.facts import FIELDS, Fields
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules import PHASES, Rule, RuleEntry
from advisor.decision.conditions import Problem, parse_condition
from advisor.errors import AdvisorError
from advisor.lint.faults import Fault, near, one_line
from advisor.lint.flags import known, names, table_of
from advisor.lint.house import House
from advisor.lint.reading import Place
from advisor.lint.shape import At, original

FOLDER = "checks/rules/"
CONFIDENCE = ("source", "doc", "issue", "judgement")
OF_FLAGS = ("arg", "given")  # facts of a flag: arg.dtype, given.enforce-eager
OF_VARIABLES = ("env", "has")


class Found(NamedTuple):
    """A rule that can be asked, and its place."""

    rule: Rule
    place: Place


def knowledge(house: House) -> Knowledge | None:
    """The tables that rules ask; None where they cannot be read, which is said of their files."""
    try:
        return Knowledge(house.catalog)
    except (AdvisorError, re.error):
        return None


def faults(house: House) -> Iterator[Fault]:
    """What is wrong with rules, their examples aside."""
    know = knowledge(house)
    first: dict[str, Place] = {}
    for entry, place in entries(house):
        other = first.setdefault(entry.id, place)
        if other is not place:
            there = f"{other.file.shown}:{other.file.line(other.at)}"
            yield place.fault("duplicate_name", f"a rule of this id stands already in {there}", ("id",))
        yield from _entry(entry, place)
        if know is not None:
            found: list[Problem] = []
            condition(entry, know, found)
            yield from (_problem(place, p) for p in found)
            yield from _flags(house, entry, place)


def entries(house: House) -> Iterator[tuple[RuleEntry, Place]]:
    """Every rule with its place, by file and order."""
    for document in house.under(FOLDER).values():
        for i, entry in enumerate(document.value.rules):
            at = original(document.data, ("rules", i))
            yield entry, Place(document.file, at, entry.id, document.data["rules"][i])


def condition(entry: RuleEntry, know: Knowledge, found: list[Problem]) -> Rule | None:
    """The rule with its condition read; None where that has problems, which go to `found`."""
    if entry.when is None:
        return Rule(entry, None)
    try:
        return Rule(entry, parse_condition(entry.when, ("when",), Fields(know, entry.engines), {}, {}, found.append))
    except Problem as e:
        found.append(e)
        return None


def sound(house: House, know: Knowledge) -> list[Found]:
    """The rules that can be asked: their condition can be read. One whose id is taken goes by another here."""
    out: dict[str, Found] = {}
    for entry, place in entries(house):
        if entry.id in out:
            entry = msgspec.structs.replace(entry, id=f"{entry.id} of {place.file.name}:{place.at[-1]}")
        rule = condition(entry, know, [])
        if rule is not None and (entry.each is None or entry.each in each.EACH):
            out[entry.id] = Found(rule, place)
    return list(out.values())


def _problem(place: Place, p: Problem) -> Fault:
    code = "unknown_name" if p.text.startswith("unknown") else "condition"
    return place.field(code, p.path, one_line(p.text))  # type: ignore[arg-type]  # one of two codes


def _entry(e: RuleEntry, place: Place) -> Iterator[Fault]:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9.]+)*", e.id):
        yield place.field("wrong_value", ("id",), f"{e.id!r} is not lower-case words joined by -")
    for field, value, allowed in (
        ("phase", e.phase, PHASES),
        ("each", e.each, tuple(each.EACH)),
        ("confidence", e.confidence, CONFIDENCE),
    ):
        if value is not None and value not in allowed:
            said = f"{value!r} is none of {', '.join(allowed)}"
            yield place.field("wrong_value", (field,), said, near(value, allowed))
    if e.only and e.each is None:
        yield place.field("contradiction", ("only",), "`only` belongs to rules with `each`")
    if e.when is None and e.each is None:
        yield place.fault("missing_key", "needs `when` (a condition) or `each` (what it looks at one by one)")
    for field in ("bad", "good"):
        if not (getattr(e, field) or "").strip():
            what = "a snippet that it finds fault with" if field == "bad" else "the same snippet, put right"
            yield place.fault("missing_key", f"`{field}` is missing: {what}")
    if e.each is None:
        for field in ("message", "fix"):
            yield from _filled_in(getattr(e, field), (field,), place)


def _filled_in(text: str, at: At, place: Place) -> Iterator[Fault]:
    """Words in braces are facts; `${X}` is meant as it stands."""
    for name in re.findall(r"(?<!\$)\{([a-zA-Z_][\w.-]*)\}", text):
        if name not in FIELDS and name.partition(".")[0] not in (*OF_FLAGS, *OF_VARIABLES):
            yield place.field("unknown_name", at, f"{{{name}}} is no fact, so nothing is filled in", near(name, FIELDS))


def _flags(house: House, e: RuleEntry, place: Place) -> Iterator[Fault]:
    """Flags in a condition are flags of an engine that the rule is for."""
    engines = e.engines or tuple(house.ids["engines"])
    tables = [t for t in (table_of(x, house) for x in engines) if t is not None]
    if len(tables) < len(e.engines) or not tables:
        return  # an engine whose flags were not read
    for at, name in _fields(msgspec.to_builtins(e.when), ("when",)):
        head, _, flag = name.partition(".")
        if head in OF_FLAGS and flag and not any(known(flag, t) for t in tables):
            said = f"no engine of this rule has a flag {flag!r}"
            yield place.field("unknown_name", at, said, near(flag, [n for t in tables for n in names(t)]))


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
