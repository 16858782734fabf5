"""The examples of check rules, put to the real checker: the bad one fires the rule, the good one does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.checks.one_file import CheckOptions, FileResult, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook
from advisor.errors import AdvisorError
from advisor.lint.check_rules import LocatedRule, list_sound_rules, load_knowledge
from advisor.lint.faults import Fault, one_line
from advisor.lint.house import House

NAME = "snippet"  # of the file that a snippet would be


def find_faults(house: House) -> Iterator[Fault]:
    """Examples that do not show what their rule means."""
    knowledge = load_knowledge(house)
    if knowledge is None:
        return
    found = list_sound_rules(house, knowledge)
    if not found:
        return
    book = Rulebook(knowledge, ("all",), every=tuple(f.rule for f in found))  # without what is wrong
    for each in found:
        if not any(house.unsure(e) for e in each.rule.entry.engines):
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
        hits = [f for f in result.findings if f.rule == entry.id]
        started = {x.engine for x in result.verdicts}
        if field == "bad" and entry.engines and started.isdisjoint(entry.engines):
            said = f"starts {', '.join(sorted(started))}, and the rule is for {', '.join(entry.engines)}"
            yield place.field("snippet", (field,), said)
        elif field == "bad" and not hits:
            yield place.field("snippet", (field,), f"the rule does not find fault with it{_instead(entry.id, result)}")
        if field == "good" and hits:
            yield place.field("snippet", (field,), f"the rule finds fault with it: {one_line(hits[0].message, 160)}")
        if field == "bad" and hits and entry.edit and not any(f.edits for f in hits):
            yield place.field("snippet", ("edit",), f"`edit: {entry.edit}` finds nothing to change in `bad`")
        for finding in hits if field == "bad" else ():
            left = re.search(r"(?<!\$)\{([a-z]+[\w.]*)\}", finding.message + finding.fix)
            if left and left[0] not in text:
                yield place.field("snippet", ("message",), f"{left[0]} is left as it stands in the message")


def _instead(rule: str, result: FileResult) -> str:
    """What came instead: facts that were missing, or the rules that did fire."""
    missing = next((s.missing for s in result.skipped if s.rule == rule), ())
    if missing:
        return f"; not known in it: {', '.join(missing)}"
    others = sorted({f.rule for f in result.findings})
    return f"; {', '.join(others[:3])} did" if others else ""
