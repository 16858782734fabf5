"""Rules of `advise check`: conditions over facts that there are, flags that engines have, words that are filled in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from advisor.catalog.flaws import At
from advisor.checks.facts.launch_facts import FACTS, LaunchFields
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, FileResult, check_source, make_checker
from advisor.checks.rules import value_matches
from advisor.checks.rules.evaluate import Rulebook
from advisor.checks.rules.load import CheckRule, RuleEntry
from advisor.decision.conditions import GuideFault, parse_condition
from advisor.engines.flag_tables import FlagTable
from advisor.errors import AdvisorError
from advisor.lint.faults import Fault, nearest_names, one_line, without_hint
from advisor.lint.flags import find_flag_table, is_known_setting, list_setting_names
from advisor.lint.house import House
from advisor.lint.reading import EntryPlace, find_original_place
from advisor.record import Value

FOLDER = "checks/rules/"
OF_VARIABLES = ("env", "has")
OF_FLAGS = ("arg", "given")  # facts of a flag: arg.dtype, given.enforce-eager
MISSPELT = 0.85  # likeness from which a place in a file is taken for a flag that was written wrongly
NAME = "snippet"  # of the file that a snippet would be


class LocatedRule(Value, frozen=True):
    """A rule that can be asked, and its place."""

    rule: CheckRule
    place: EntryPlace


class FlagSlip(Value, frozen=True):
    """A flag that no engine of a rule has: where in the entry, in words."""

    at: At
    problem: str
    near: tuple[str, ...]


def load_knowledge(house: House) -> Knowledge | None:
    """The tables that rules ask; None where they cannot be read, which is reported for their files."""
    try:
        return Knowledge(house.catalog)
    except (AdvisorError, re.error):
        return None


def find_check_rules_faults(house: House) -> Iterator[Fault]:
    """What is wrong with rules, their examples aside."""
    knowledge = load_knowledge(house)
    first: dict[str, EntryPlace] = {}
    for entry, place in list_located_rules(house):
        other = first.setdefault(entry.id, place)
        if other is not place:
            there = f"{other.file.shown}:{other.file.line(other.at)}"
            yield place.fault("duplicate_name", f"a rule of this id is already in {there}", ("id",))
        if not house.is_asked(place):
            continue
        yield from _entry(entry, place)
        if knowledge is not None:
            found: list[GuideFault] = []
            read_condition(entry, knowledge, found)
            slips = list(find_slips(house, entry))
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
        return CheckRule(entry, parse_condition(entry.when, ("when",), LaunchFields(knowledge, entry.engines), {}, {}))
    except GuideFault as e:
        found += e.all
        return None


def list_sound_rules(house: House, knowledge: Knowledge) -> list[LocatedRule]:
    """The rules that can be asked: their condition can be read. One whose id is taken goes by another here."""
    out: dict[str, LocatedRule] = {}
    for entry, place in list_located_rules(house):
        if entry.id in out:
            entry = replace(entry, id=f"{entry.id} of {place.file.name}:{place.at[-1]}")
        rule = read_condition(entry, knowledge, [])
        if rule is not None and (entry.each is None or entry.each in value_matches.EACH):
            out[entry.id] = LocatedRule(rule, place)
    return list(out.values())


def _problem(place: EntryPlace, guide_fault: GuideFault) -> Fault:
    code = "unknown_name" if guide_fault.text.startswith("unknown") else "condition"
    problem, hint = without_hint(guide_fault.text)
    return place.field(code, guide_fault.path, one_line(problem), hint)  # type: ignore[arg-type]  # one of two codes


def _entry(entry: RuleEntry, place: EntryPlace) -> Iterator[Fault]:
    if entry.each is not None and entry.each not in value_matches.EACH:
        problem = f"{entry.each!r} is not one of {', '.join(value_matches.EACH)}"
        yield place.field("wrong_value", ("each",), problem, nearest_names(entry.each, value_matches.EACH))
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
        if name not in FACTS and name.partition(".")[0] not in (*OF_FLAGS, *OF_VARIABLES):
            yield place.field(
                "unknown_name", at, f"{{{name}}} is not a fact, so nothing is filled in", nearest_names(name, FACTS)
            )


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
    plain = {k.replace("_", "-") for k in known}
    places = _places(house)
    for i, name in enumerate(entry.at):  # a variable, a key of the file, or a flag: only slips can be found
        if name.isupper() or places[name] > 1 or any(is_known_setting(name, t) for t in tables):
            continue
        close = get_close_matches(name.replace("_", "-"), plain, n=max(len(plain), 1), cutoff=MISSPELT)
        alike = [k for k in known if k.replace("_", "-") in close]
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


def _fields(raw: object, at: At) -> Iterator[tuple[At, str]]:
    if isinstance(raw, list):
        for i, inner in enumerate(raw):
            yield from _fields(inner, (*at, i))
    elif isinstance(raw, dict):
        for word, inner in raw.items():
            if word == "field" and isinstance(inner, str):
                yield (*at, word), inner
            else:
                yield from _fields(inner, (*at, word))


def find_snippets_faults(house: House) -> Iterator[Fault]:
    """Examples that do not show what their rule means."""
    judged = any(house.is_asked(document.place) for document in house.under(FOLDER).values())
    knowledge = load_knowledge(house) if judged else None
    if knowledge is None:
        return
    found = list_sound_rules(house, knowledge)
    if not found:
        return
    book = Rulebook(knowledge, ("all",), every=tuple(f.rule for f in found))  # without what is wrong
    for each in found:
        if house.is_asked(each.place) and not any(house.unsure(e) for e in each.rule.entry.engines):
            yield from _examples(each, book)


def _examples(found: LocatedRule, book: Rulebook) -> Iterator[Fault]:
    entry, place = found.rule.entry, found.place
    for field, text in (("bad", entry.bad), ("good", entry.good)):
        if not text:
            continue
        try:
            result = check_source(text, NAME, None, make_checker(book, CheckOptions()))
        except AdvisorError as e:
            yield place.field("snippet", (field,), f"cannot be read: {one_line(e.message)}")
            continue
        if not result.verdicts:
            yield place.field("snippet", (field,), "holds no launch that the checker sees")
            continue
        fired = [f for f in result.findings if f.rule == entry.id]
        started = {x.engine for x in result.verdicts}
        if field == "bad" and entry.engines and started.isdisjoint(entry.engines):
            problem = f"starts {', '.join(sorted(started))}, and the rule is for {', '.join(entry.engines)}"
            yield place.field("snippet", (field,), problem)
        elif field == "bad" and not fired:
            yield place.field("snippet", (field,), f"the rule does not find fault with it{_instead(entry.id, result)}")
        if field == "good" and fired:
            yield place.field("snippet", (field,), f"the rule finds fault with it: {one_line(fired[0].message, 160)}")
        if field == "bad" and fired and entry.edit and not any(f.edits for f in fired):
            yield place.field("snippet", ("edit",), f"`edit: {entry.edit}` finds nothing to change in `bad`")
        for finding in fired if field == "bad" else ():
            left = re.search(r"(?<!\$)\{([a-z]+[\w.]*)\}", finding.message + finding.fix)
            if left and left[0] not in text:
                yield place.field("snippet", ("message",), f"{left[0]} is left as it is in the message")


def _instead(rule: str, result: FileResult) -> str:
    """What came instead: facts that were missing, or the rules that did fire."""
    missing = next((s.missing for s in result.skipped if s.rule == rule), ())
    if missing:
        return f"; not known in it: {', '.join(missing)}"
    others = sorted({f.rule for f in result.findings})
    return f"; {', '.join(others[:3])} did" if others else ""
