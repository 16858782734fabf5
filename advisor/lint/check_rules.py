"""Rules of `advise check`: conditions over facts that there are, flags that engines have, words that are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from advisor.checks.facts.launch_facts import FIELDS, LaunchFields
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules import value_matches
from advisor.checks.rules.load import CheckRule, RuleEntry
from advisor.decision.conditions import GuideFault, parse_condition
from advisor.errors import AdvisorError
from advisor.lint import rule_flags
from advisor.lint.faults import Fault, nearest_names, one_line, without_hint
from advisor.lint.house import House
from advisor.lint.pruning import find_original_place
from advisor.lint.reading import EntryPlace
from advisor.lint.rule_types import At
from advisor.record import Value

FOLDER = "checks/rules/"
OF_VARIABLES = ("env", "has")


class LocatedRule(Value, frozen=True):
    """A rule that can be asked, and its place."""

    rule: CheckRule
    place: EntryPlace


def load_knowledge(house: House) -> Knowledge | None:
    """The tables that rules ask; None where they cannot be read, which is reported for their files."""
    try:
        return Knowledge(house.catalog)
    except (AdvisorError, re.error):
        return None


def find_faults(house: House) -> Iterator[Fault]:
    """What is wrong with rules, their examples aside."""
    knowledge = load_knowledge(house)
    first: dict[str, EntryPlace] = {}
    for entry, place in list_located_rules(house):
        other = first.setdefault(entry.id, place)
        if other is not place:
            there = f"{other.file.shown}:{other.file.line(other.at)}"
            yield place.fault("duplicate_name", f"a rule of this id stands already in {there}", ("id",))
        yield from _entry(entry, place)
        if knowledge is not None:
            found: list[GuideFault] = []
            read_condition(entry, knowledge, found)
            slips = list(rule_flags.find_slips(house, entry))
            tests = {slip.at[:-1] for slip in slips}  # of which nothing else is right either
            yield from (_problem(place, p) for p in found if not any(p.path[: len(t)] == t for t in tests if t))
            yield from (place.field("unknown_name", slip.at, slip.problem, slip.near) for slip in slips)


def list_located_rules(house: House) -> Iterator[tuple[RuleEntry, EntryPlace]]:
    """Every rule with its place, by file and order."""
    for document in house.under(FOLDER).values():
        for i, entry in enumerate(document.value.rules):
            at = find_original_place(document.data, ("rules", i))
            yield entry, EntryPlace(document.file, at, entry.id, document.data["rules"][i])


def read_condition(entry: RuleEntry, knowledge: Knowledge, found: list[GuideFault]) -> CheckRule | None:
    """The rule with its condition read; None where that has problems, which go to `found`."""
    if entry.when is None:
        return CheckRule(entry, None)
    try:
        return CheckRule(
            entry, parse_condition(entry.when, ("when",), LaunchFields(knowledge, entry.engines), {}, {}, found.append)
        )
    except GuideFault as e:
        found.append(e)
        return None


def list_sound_rules(house: House, knowledge: Knowledge) -> list[LocatedRule]:
    """The rules that can be asked: their condition can be read. One whose id is taken goes by another here."""
    out: dict[str, LocatedRule] = {}
    for entry, place in list_located_rules(house):
        if entry.id in out:
            entry = msgspec.structs.replace(entry, id=f"{entry.id} of {place.file.name}:{place.at[-1]}")
        rule = read_condition(entry, knowledge, [])
        if rule is not None and (entry.each is None or entry.each in value_matches.EACH):
            out[entry.id] = LocatedRule(rule, place)
    return list(out.values())


def _problem(place: EntryPlace, guide_fault: GuideFault) -> Fault:
    code = "unknown_name" if guide_fault.text.startswith("unknown") else "condition"
    said, hint = without_hint(guide_fault.text)
    return place.field(code, guide_fault.path, one_line(said), hint)  # type: ignore[arg-type]  # one of two codes


def _entry(entry: RuleEntry, place: EntryPlace) -> Iterator[Fault]:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9.]+)*", entry.id):
        yield place.field("wrong_value", ("id",), f"{entry.id!r} is not lower-case words joined by -")
    if entry.each is not None and entry.each not in value_matches.EACH:
        said = f"{entry.each!r} is none of {', '.join(value_matches.EACH)}"
        yield place.field("wrong_value", ("each",), said, nearest_names(entry.each, value_matches.EACH))
    if entry.engines and entry.except_engines:
        yield place.field("contradiction", ("except_engines",), "`engines` says already which it is for")
    if entry.except_engines and not entry.except_because:
        yield place.fault("missing_key", "`except_because` is missing: why it is not for them", ("except_engines",))
    if entry.only and entry.each is None:
        yield place.field("contradiction", ("only",), "`only` belongs to rules with `each`")
    if entry.when is None and entry.each is None:
        yield place.fault("missing_key", "needs `when` (a condition) or `each` (what it looks at one by one)")
    for field in ("bad", "good"):
        if not (getattr(entry, field) or "").strip():
            what = "a snippet that it finds fault with" if field == "bad" else "the same snippet, corrected"
            yield place.fault("missing_key", f"`{field}` is missing: {what}")
    if entry.each is None:
        for field in ("message", "fix"):
            yield from _filled_in(getattr(entry, field), (field,), place)


def _filled_in(text: str, at: At, place: EntryPlace) -> Iterator[Fault]:
    """Words in braces are facts; `${X}` is meant as it stands."""
    for name in re.findall(r"(?<!\$)\{([a-zA-Z_][\w.-]*)\}", text):
        if name not in FIELDS and name.partition(".")[0] not in (*rule_flags.OF_FLAGS, *OF_VARIABLES):
            yield place.field(
                "unknown_name", at, f"{{{name}}} is no fact, so nothing is filled in", nearest_names(name, FIELDS)
            )
