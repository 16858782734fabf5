"""The rules of `rules/checks/rules/*.yaml`: conditions over named facts, read once, applied to every launch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.checks import each
from advisor.checks.facts import ABSENT, FIELDS, Facts, Fields
from advisor.checks.findings import Finding, Severity, Skipped
from advisor.checks.judge import Verdict
from advisor.checks.knowledge import Knowledge
from advisor.decision.conditions import Problem, holds, parse_condition
from advisor.decision.fields import Scalar
from advisor.decision.types import All, AnyOf, Condition, Not, Test
from advisor.engines.versions import key
from advisor.errors import BadInput, UnknownName
from advisor.meanings import EngineId, Version
from advisor.memo import memoize_by_identity
from advisor.near import near_matches

PHASES = ("start", "memory", "runtime", "perf", "ops", "security", "correctness", "lint")
LINT = ("suppression-unused",)  # made by the checker itself


class Versions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The engine versions a rule holds for: from `at_least` on, below `before`."""

    at_least: Version | None = None
    before: Version | None = None


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule as it stands in the rules."""

    id: str
    engines: tuple[EngineId, ...] = ()  # empty = all
    severity: Severity
    phase: str
    kinds: tuple[str, ...] = ()  # kinds of launch; empty = all
    versions: Versions | None = None
    when: Any = None
    each: str | None = None
    only: tuple[str, ...] = ()  # of an `each` rule: the items it is for
    message: str
    error: str | None = None
    fix: str
    at: tuple[str, ...] = ()
    edit: str | None = None  # remove, rename, ... : a safe change
    default: bool = True  # False: only when selected
    bad: str | None = None
    good: str | None = None
    source: str
    confidence: str = "source"


class CheckRulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """checks/rules/*.yaml."""

    rules: tuple[RuleEntry, ...]
    as_of: str | None = None  # when the file was compiled


class Rule(NamedTuple):
    """A rule with its condition read."""

    entry: RuleEntry
    condition: Condition | None


def load(rules: Catalog, know: Knowledge) -> tuple[Rule, ...]:
    """All rules, by file and order. Raises BadInput naming the rule that is wrong."""
    out: list[Rule] = []
    seen: set[str] = set()
    for path, body in sorted(rules.documents("checks/rules/").items()):
        try:
            entries = msgspec.convert(body, CheckRulesFile).rules
        except msgspec.ValidationError as e:
            raise BadInput(f"rules/{path}: {e}") from None
        for entry in entries:
            if entry.id in seen:
                raise BadInput(f"rules/{path}: {entry.id} stands twice")
            if entry.phase not in PHASES:
                raise BadInput(f"rules/{path}: {entry.id}: phase {entry.phase!r} is none of {', '.join(PHASES)}")
            if entry.each is not None and entry.each not in each.EACH:
                raise BadInput(
                    f"rules/{path}: {entry.id}: unknown each {entry.each!r}", near_matches(entry.each, each.EACH)
                )
            seen.add(entry.id)
            try:
                condition = (
                    None
                    if entry.when is None
                    else parse_condition(entry.when, ("when",), Fields(know, entry.engines), {}, {})
                )
            except Problem as e:
                raise BadInput(f"rules/{path}: {entry.id}: {'.'.join(map(str, e.path))}: {e.text}") from None
            out.append(Rule(entry, condition))
    return tuple(out)


@memoize_by_identity
def _every(know: Knowledge) -> tuple[Rule, ...]:
    return load(know.rules, know)


class Rulebook:
    """The rules in force for one run."""

    def __init__(
        self,
        know: Knowledge,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        every: tuple[Rule, ...] | None = None,
    ) -> None:
        """`every` are the rules to choose from; None: all of the catalogue, which have to be without fault."""
        self.know = know
        every = _every(know) if every is None else every
        self.all: dict[str, Rule] = {r.entry.id: r for r in every}
        chosen = _matching(select, every, True)
        dropped = _matching(ignore, every, False)
        self.rules = [r for r in every if r.entry.id in chosen and r.entry.id not in dropped]
        self.ignored = dropped
        self.claimed = {(r.entry.each, x) for r in every for x in r.entry.only}
        self.size = len(self.rules)

    def in_force(self, rule: str) -> bool:
        """Whether a rule of this id is asked."""
        return any(r.entry.id == rule for r in self.rules)

    def apply(self, verdicts: Sequence[Verdict], source: str, file: str) -> tuple[list[Finding], list[Skipped]]:
        """Findings on the launches of one file, and the rules that could not be answered."""
        findings: list[Finding] = []
        skipped: list[Skipped] = []
        siblings = list(verdicts)
        for v in siblings:
            facts = Facts(v, self.know, siblings, source)
            for rule in self.rules:
                if _applies(rule.entry, v):
                    self._one(rule, v, facts, file, findings, skipped)
        unique: dict[tuple[str, int, str], Finding] = {}
        for f in findings:
            unique.setdefault((f.rule, f.line, f.message), f)
        return list(unique.values()), skipped

    def _one(
        self, rule: Rule, v: Verdict, facts: Facts, file: str, findings: list[Finding], skipped: list[Skipped]
    ) -> None:
        entry = rule.entry
        if entry.each is None:
            missing: list[str] = []
            outcome = evaluate(rule.condition, facts, missing)
            if outcome is None:
                skipped.append(
                    Skipped(
                        rule=entry.id,
                        file=file,
                        resource=None if v.launch.resource is None else str(v.launch.resource),
                        missing=tuple(dict.fromkeys(missing)),
                    )
                )
            elif outcome:
                findings.append(self._finding(entry, v, facts, file, {}, _place(entry.at, v, facts)))
            return
        if rule.condition is not None and evaluate(rule.condition, facts, []) is not True:
            return
        for item in each.EACH[entry.each](v, facts, self.know):
            if entry.only and item.key not in entry.only:
                continue
            if not entry.only and (entry.each, item.key) in self.claimed:
                continue
            made = self._finding(entry, v, facts, file, item.words, item.place)
            findings.append(
                msgspec.structs.replace(made, edits=item.edits if entry.edit else (), fix=item.fix or made.fix)
            )

    def _finding(
        self, entry: RuleEntry, v: Verdict, facts: Facts, file: str, words: Mapping[str, str], place: tuple[int, int]
    ) -> Finding:
        severity = entry.severity
        message = filled(entry.message, facts, words)
        if (entry.versions is not None or entry.each in each.BY_VERSION) and v.launch.version is None:
            version = v.judged.engine_version
            if facts["version.certain"] is not True:
                severity = "warning" if severity == "error" else severity
            message += f" (version not pinned: {version} taken)" if version else ""
        return Finding(
            rule=entry.id,
            severity=severity,
            file=file,
            line=place[0] or v.launch.line or 1,
            column=place[1] or 1,
            message=message,
            fix=filled(entry.fix, facts, words),
            phase=entry.phase,
            resource=None if v.launch.resource is None else str(v.launch.resource),
            engine=v.launch.engine,
            error=entry.error,
            edits=facts.edits(entry),
        )


def _applies(entry: RuleEntry, v: Verdict) -> bool:
    launch = v.launch
    if entry.engines and launch.engine not in entry.engines:
        return False
    if entry.kinds and launch.kind not in entry.kinds and not ("container" in entry.kinds and launch.setup.container):
        return False
    if entry.versions is None:
        return True
    version = key(v.judged.engine_version or "")
    if not version:
        return False
    low, high = entry.versions.at_least, entry.versions.before
    return not (low and version < key(low)) and not (high and version >= key(high))


def evaluate(condition: Condition | None, facts: Facts, missing: list[str]) -> bool | None:
    """Whether a condition holds; None when a fact it needs is not known, and `missing` gets its name.

    An argument that is not given is no unknown: a test on its value does not hold.
    """
    if condition is None:
        return True
    if isinstance(condition, Test):
        seen = facts[condition.field]
        if seen is ABSENT:
            return condition.op == "is_not" or (condition.op == "exists" and condition.value is False)
        known: Scalar | None = seen
        result = holds(condition, known, facts.fields[condition.field].type == "version")
        if result is None:
            missing.append(condition.field)
        return result
    if isinstance(condition, Not):
        inner = evaluate(condition.part, facts, missing)
        return None if inner is None else not inner
    decisive = isinstance(condition, AnyOf)
    unknown = False
    for part in condition.parts:
        r = evaluate(part, facts, missing)
        if r is decisive:
            return decisive
        unknown = unknown or r is None
    return None if unknown else not decisive


def filled(template: str, facts: Facts, words: Mapping[str, str]) -> str:
    """A message with `{fact}` filled in; nothing but names is taken from the template."""

    def one(m: re.Match[str]) -> str:
        if m[1] in words:
            return str(words[m[1]])
        value = facts[m[1]] if m[1] in FIELDS or m[1].partition(".")[0] in ("arg", "env") else m[0]
        if value is None or value is ABSENT:
            return "unknown"
        if isinstance(value, float):
            return f"{value:g}"
        return str(value).lower() if isinstance(value, bool) else str(value)

    return re.sub(r"\{([a-zA-Z_][\w.-]*)\}", one, template)


def _place(at: Sequence[str], v: Verdict, facts: Facts) -> tuple[int, int]:
    """(line, column) of the first of the named arguments, variables or places that the file has."""
    for name in at:
        a = v.arguments.last(name)
        if a is not None and a.place.line:
            return a.place.line, a.place.column
        value = v.launch.env.get(name)
        if value is not None and value.line:
            return value.line, value.column
        if v.launch.setup.places.get(name):
            return v.launch.setup.places[name], 1
        if name == "model" and v.reading.model is not None and v.reading.model.line:
            return v.reading.model.line, v.reading.model.column
    return 0, 0


def _matching(words: Sequence[str], every: Sequence[Rule], select: bool) -> set[str]:
    """Rule ids that ids, phases and `all` name; without words the default set (select) or none. Raises UnknownName."""
    if not words:
        return {r.entry.id for r in every if r.entry.default} if select else set()
    out: set[str] = set()
    for w in words:
        hit = {r.entry.id for r in every if w in (r.entry.id, r.entry.phase, "all") or w == f"{r.entry.phase}s"}
        if w == "default":
            hit = {r.entry.id for r in every if r.entry.default}
        if not hit and w not in LINT:
            ids = [r.entry.id for r in every]
            raise UnknownName("rule", w, near_matches(w, [*ids, *PHASES]))
        out |= hit
    return out


__all__ = ["LINT", "All", "Rule", "RuleEntry", "Rulebook", "evaluate", "load"]
