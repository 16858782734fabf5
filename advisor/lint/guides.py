"""Guides and policies: conditions, references, leaves that say nothing, branches that nothing reaches."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.decision.guides import guide_problems
from advisor.decision.policy import PolicyRule, read_policy_rules
from advisor.errors import BadFile
from advisor.lint.faults import Code, Fault, one_line, without_hint
from advisor.lint.house import House, RuleDocument
from advisor.lint.reading import EntryPlace

_WORDS: tuple[tuple[str, Code], ...] = (
    ("can never be reached", "unreachable"),
    ("unknown ", "unknown_name"),
    ("has no source", "source"),
    ("is missing", "missing_key"),
)


def find_faults(house: House) -> Iterator[Fault]:
    """Problems of guides and policies beyond the shape of their files."""
    for document in house.under("guides/").values():
        ids = house.ids["engines"]
        for line, text in guide_problems(document.data, document.file.lines(), ids):
            if not _hidden(text, house):
                said, hint = without_hint(text)
                file = document.file.shown
                yield Fault(file=file, line=line, code=_code(text), message=one_line(said), near=hint)
    for name, document in house.under("policy/").items():
        yield from _policy(name, document, house)


def _code(text: str) -> Code:
    return next((code for words, code in _WORDS if words in text), "condition")


def _hidden(text: str, house: House) -> bool:
    """Whether what is unknown may stand in a file that cannot be read."""
    name = text.partition("unknown engine '")[2].partition("'")[0]
    return bool(name) and name in house.hidden


def _policy(name: str, document: RuleDocument, house: House) -> Iterator[Fault]:
    """Rulings one by one, so that a wrong one does not hide the others."""
    good: list[tuple[str, int, PolicyRule]] = []
    for kind, entries in document.data.items():
        for i, entry in enumerate(entries):
            try:
                ((_, ruling),) = read_policy_rules(name, {kind: [entry]}, house.engines)
            except BadFile as e:
                said, hint = without_hint(e.problem.replace(f"{kind}.0", f"{kind}[{i}]", 1))
                yield document.place.fault(_code(said), said, (kind, i), hint)
            else:
                good.append((kind, i, ruling))
    yield from _contradictions(document.place, good)


def _contradictions(place: EntryPlace, entries: list[tuple[str, int, PolicyRule]]) -> Iterator[Fault]:
    """Engines that one file forbids and prefers (or pins) under the same condition, and entries stated twice."""
    forbidden = {(r.engine, r.condition) for kind, _, r in entries if kind == "forbid"}
    seen: set[tuple[str, str, object]] = set()
    for kind, i, rule in entries:
        if kind != "forbid" and ((rule.engine, rule.condition) in forbidden or (rule.engine, None) in forbidden):
            also = "preferred" if kind == "prefer" else "pinned"
            said = f"{rule.engine} is forbidden and {also}; the second never counts"
            yield place.fault("contradiction", said, (kind, i))
        if (kind, rule.engine, rule.condition) in seen:
            said = f"{kind} of {rule.engine} stands twice under the same condition"
            yield place.fault("duplicate_name", said, (kind, i))
        seen.add((kind, rule.engine, rule.condition))
