"""The rules of `rules/checks/rules/*.yaml`, read once: conditions over named facts."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from advisor.checks.facts.launch_facts import LaunchFields
from advisor.checks.findings import Severity
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules import value_matches
from advisor.decision.conditions import GuideFault, parse_condition
from advisor.decision.types import Condition
from advisor.decoding import convert
from advisor.errors import BadInput
from advisor.meanings import EngineId, Version, like, one_of
from advisor.memo import memoize_by_identity
from advisor.near import near_matches
from advisor.record import Names, Value

PHASES = ("start", "memory", "runtime", "perf", "ops", "security", "correctness", "lint")
LINT = ("suppression-unused",)  # made by the checker itself


class VersionRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The engine versions a rule holds for: from `at_least` on, below `before`."""

    at_least: Version | None = None
    before: Version | None = None


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule as it stands in the rules."""

    id: Annotated[str, like(r"[a-z0-9]+(-[a-z0-9.]+)*", "is not lower-case words joined by -")]
    engines: tuple[EngineId, ...] = ()  # empty = all that the facts are known of
    except_engines: tuple[EngineId, ...] = ()  # where `engines` is empty: those it is not for
    except_because: str | None = None  # and why
    severity: Severity
    phase: Annotated[str, one_of(*PHASES)]
    kinds: Names = ()  # kinds of launch; empty = all
    versions: VersionRange | None = None
    when: Any = None
    each: str | None = None
    only: Names = ()  # of an `each` rule: the items it is for
    message: str
    error: str | None = None
    fix: str
    at: Names = ()
    edit: str | None = None  # remove, rename NEW, set VALUE, ... : a safe change
    strict: Severity | None = None  # with --strict, and in files which say that `advise render` wrote them
    default: bool = True  # False: only when selected
    bad: str | None = None
    good: str | None = None
    source: str
    confidence: Annotated[str, one_of("source", "doc", "issue", "judgement")] = "source"


class CheckRulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """checks/rules/*.yaml."""

    rules: tuple[RuleEntry, ...]
    as_of: str | None = None  # when the file was compiled


class CheckRule(Value, frozen=True):
    """A rule with its condition read."""

    entry: RuleEntry
    condition: Condition | None


@memoize_by_identity
def list_rules(knowledge: Knowledge) -> tuple[CheckRule, ...]:
    """All rules, by file and order. Raises BadInput naming the rule that is wrong."""
    out: list[CheckRule] = []
    seen: set[str] = set()
    for path, body in sorted(knowledge.rules.documents("checks/rules/").items()):
        try:
            entries = convert(body, CheckRulesFile).rules
        except msgspec.ValidationError as e:
            raise BadInput(f"rules/{path}: {e}") from None
        for entry in entries:
            if entry.id in seen:
                raise BadInput(f"rules/{path}: {entry.id} stands twice")
            if entry.phase not in PHASES:
                raise BadInput(f"rules/{path}: {entry.id}: phase {entry.phase!r} is none of {', '.join(PHASES)}")
            if entry.each is not None and entry.each not in value_matches.EACH:
                raise BadInput(
                    f"rules/{path}: {entry.id}: unknown each {entry.each!r}",
                    near_matches(entry.each, value_matches.EACH),
                )
            seen.add(entry.id)
            fields = LaunchFields(knowledge, entry.engines)
            try:
                condition = None if entry.when is None else parse_condition(entry.when, ("when",), fields, {}, {})
            except GuideFault as e:
                raise BadInput(f"rules/{path}: {entry.id}: {'.'.join(map(str, e.path))}: {e.text}") from None
            out.append(CheckRule(entry, condition))
    return tuple(out)
