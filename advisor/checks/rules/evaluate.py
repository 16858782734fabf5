"""The rules in force, held against the facts of every launch of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.checks.facts.launch_facts import ABSENT, FACTS, LaunchFacts
from advisor.checks.findings import Finding, RuleSkip
from advisor.checks.knowledge import Knowledge
from advisor.checks.resolve.certainty import may_be_any_build
from advisor.checks.resolve.judge import CheckedLaunch, plain_text
from advisor.checks.rules import value_matches
from advisor.checks.rules.edits import make_edits
from advisor.checks.rules.load import LINT, PHASES, CheckRule, RuleEntry, list_rules
from advisor.decision.conditions import combine_tests, value_meets_test
from advisor.decision.types import Condition, FieldTest
from advisor.distribution import WRITTEN_BY
from advisor.engines.versions import is_before, version_key
from advisor.errors import UnknownName
from advisor.near import near_matches
from advisor.yaml_places import Strings, Words


class Rulebook:
    """The rules in force for one run."""

    def __init__(
        self,
        knowledge: Knowledge,
        select: Words = (),
        ignore: Words = (),
        every: tuple[CheckRule, ...] | None = None,
        strict: bool = False,
    ) -> None:
        """`every` are the rules to choose from; None: all of the catalogue, which have to be without fault. `strict`:
        rules that have a severity of their own for that take it."""
        self.know = knowledge
        self.strict = strict
        every = list_rules(knowledge) if every is None else every
        self.all: dict[str, CheckRule] = {r.entry.id: r for r in every}
        chosen = _matching(select, every, True)
        dropped = _matching(ignore, every, False)
        self.rules = [r for r in every if r.entry.id in chosen and r.entry.id not in dropped]
        self.ignored = dropped
        self.claimed: dict[tuple[str | None, str], list[RuleEntry]] = {}
        for rule in every:
            for name in rule.entry.only:
                self.claimed.setdefault((rule.entry.each, name), []).append(rule.entry)

    def judges_suppressions_of(self, rule: str) -> bool:
        """Whether a comment that suppresses nothing of this rule is a finding: the rule is asked, or there is none."""
        return rule not in self.all or any(r.entry.id == rule for r in self.rules)

    def apply(
        self, verdicts: Sequence[CheckedLaunch], source: str, file: str, of: CheckedLaunch | None = None
    ) -> tuple[list[Finding], list[RuleSkip]]:
        """Findings on the launches of one file, or on one `of` them, and the rules that could not be answered."""
        findings: list[Finding] = []
        skipped: list[RuleSkip] = []
        siblings = list(verdicts)
        for checked in siblings if of is None else [of]:
            facts = LaunchFacts(checked, self.know, siblings, source)
            routes = checked.launch.engine in self.know.routers
            for rule in self.rules:
                if _applies(rule.entry, checked) and (not routes or rule.entry.each in value_matches.OF_FLAGS):
                    self._ask(rule, facts, file, findings, skipped)
        unique: dict[tuple[str, int, str], Finding] = {}
        for finding in findings:
            unique.setdefault((finding.rule, finding.line, finding.message), finding)
        return list(unique.values()), skipped

    def _ask(
        self, rule: CheckRule, facts: LaunchFacts, file: str, findings: list[Finding], skipped: list[RuleSkip]
    ) -> None:
        """Adds what one rule finds in a launch, or that it could not be answered."""
        entry, missing = rule.entry, list[str]()
        outcome = condition_holds(rule.condition, facts, missing)
        if entry.each is None:
            if outcome is None:
                missing_facts = tuple(dict.fromkeys(missing))
                name = plain_text(facts.launch.resource)
                skipped.append(RuleSkip(rule=entry.id, file=file, resource=name, missing=missing_facts))
            elif outcome:
                findings.append(self._finding(entry, facts, file, {}, _place(entry.at, facts)))
            return
        for item in value_matches.EACH[entry.each](facts) if outcome else ():
            of_others = (r for r in self.claimed.get((entry.each, item.key), ()) if _applies(r, facts.checked))
            if item.key not in entry.only if entry.only else any(of_others):
                continue
            made = self._finding(entry, facts, file, item.words, (item.word.line, item.word.column), item.never)
            fix = item.fix or item.words.get("hint") or made.fix
            findings.append(replace(made, edits=item.edits if entry.edit else (), fix=fix))

    def _finding(
        self,
        entry: RuleEntry,
        facts: LaunchFacts,
        file: str,
        words: Strings,
        place: tuple[int, int],
        never: bool = False,  # no release has what is found
    ) -> Finding:
        severity = entry.severity
        if entry.strict is not None and (self.strict or says_it_is_rendered(facts.source)):
            severity = entry.strict
        message = fill_message(entry.message, facts, words)
        assumed = list_assumed(entry, facts, never)
        certain = not assumed and not (facts.launch.version is None and _is_of_release(entry))
        if not certain and facts.launch.version is None and facts.version and _is_of_release(entry):
            message += f" (version not pinned: {facts.version} taken)"
        guard = facts.guards.get(place)
        if guard is not None:
            message += f" (where it is given: {guard})"
        if severity == "error" and (guard is not None or assumed):
            severity = "warning"
        return Finding(
            rule=entry.id,
            severity=severity,
            file=file,
            line=place[0] or facts.launch.line or 1,
            column=place[1] or 1,
            message=message,
            fix=fill_message(entry.fix, facts, words),
            phase=entry.phase,
            resource=plain_text(facts.launch.resource),
            engine=facts.launch.engine,
            error=entry.error,
            edits=make_edits(fill_message(entry.edit, facts, words), entry.at, facts.checked, facts.source)
            if entry.edit
            else (),
            certain=certain,
            assumed=assumed,
        )


_PATCHES = re.compile(  # an engine that is changed before it starts takes what its patches make of it
    r"^(?![ \t]*#).*(\b(?:apply[_-]?)?patch(?:es)?[\w-]*\.(?:py|sh)\b|\bgit apply\b|\bpatch -p\d"
    r"|(?:site|dist)-packages/(?:vllm|sglang|lmdeploy)\b)",
    re.M,
)


def list_assumed(entry: RuleEntry, facts: LaunchFacts, never: bool) -> tuple[str, ...]:
    """What a finding of this rule rests on that is only assumed: then it is no error."""
    known = facts.judged.certainty
    if not entry.engines and entry.each not in value_matches.OF_PARSERS and entry.versions is None:
        return ()  # it holds for any program
    rests_on = [("engine", known.engine), ("entry_point", known.entry_point)]
    read = facts.flags.history.read if facts.flags.history is not None else ()
    older = bool(read and facts.launch.version) and is_before(facts.launch.version or "", read[0])
    any_build = may_be_any_build(facts.launch, facts.knowledge)
    of_flags = any_build and facts.launch.program is None and entry.each in value_matches.OF_FLAGS
    if entry.each in value_matches.OF_FLAGS and _PATCHES.search(facts.source):
        return ("release",)
    if of_flags or (_is_of_release(entry) and (older or not never or any_build)):
        rests_on.append(("release", "assumed" if older else known.release))
    return tuple(name for name, source in rests_on if source == "assumed")


def _is_of_release(entry: RuleEntry) -> bool:
    return entry.versions is not None or entry.each in value_matches.BY_VERSION


def says_it_is_rendered(source: str) -> bool:
    """Whether a comment at the top of a file says that `advise render` wrote it, and its launch does not refuse by
    itself to start without a key (templates/common.j2, `key_guard`)."""
    return "ALLOW_NO_KEY" not in source and any(
        line.lstrip().startswith("#") and WRITTEN_BY in line for line in source[:4000].splitlines()[:20]
    )


def _applies(entry: RuleEntry, checked: CheckedLaunch) -> bool:
    launch = checked.launch
    if (entry.engines and launch.engine not in entry.engines) or launch.engine in entry.except_engines:
        return False
    if entry.kinds and launch.kind not in entry.kinds and not ("container" in entry.kinds and launch.setup.container):
        return False
    if entry.versions is None:
        return True
    version = version_key(checked.judged.engine_version or "")
    if not version:
        return False
    low, high = entry.versions.at_least, entry.versions.before
    return not (low and version < version_key(low)) and not (high and version >= version_key(high))


def condition_holds(condition: Condition | None, facts: LaunchFacts, missing: list[str]) -> bool | None:
    """Whether a condition holds; None when a fact it needs is not known, and `missing` gets its name.

    An argument that is not given is no unknown: a test on its value does not hold.
    """

    def holds(test: FieldTest) -> bool | None:
        seen = facts[test.field]
        if seen is ABSENT:
            return test.op == "is_not" or (test.op == "exists" and test.value is False)
        result = value_meets_test(test, seen, facts.fields[test.field].type == "version")
        if result is None:
            missing.append(test.field)
        return result

    return combine_tests(condition, holds)


def fill_message(template: str, facts: LaunchFacts, words: Strings) -> str:
    """A message with `{fact}` filled in; nothing but names is taken from the template."""

    def one(m: re.Match[str]) -> str:
        if m[1] in words:
            return str(words[m[1]])
        value = facts[m[1]] if m[1] in FACTS or m[1].partition(".")[0] in ("arg", "env") else m[0]
        if value is None or value is ABSENT:
            return "unknown"
        if isinstance(value, float):
            return f"{value:g}"
        return str(value).lower() if isinstance(value, bool) else str(value)

    return re.sub(r"\{([a-zA-Z_][\w.-]*)\}", one, template)


def _place(at: Words, facts: LaunchFacts) -> tuple[int, int]:
    """(line, column) of the first of the named arguments, variables or places that the file has."""
    for name in at:
        argument = facts.last(name)
        word = argument.place if argument is not None and argument.place.line else facts.env.get(name)
        if word is not None and word.line:
            return word.line, word.column
        if facts.setup.places.get(name):
            return facts.setup.places[name], 1
        model = facts.reading.model if name == "model" else None
        if model is not None and model.line:
            return model.line, model.column
    return 0, 0


def _matching(words: Words, every: Sequence[CheckRule], select: bool) -> set[str]:
    """Rule ids that ids, phases and `all` name; without words the default set (select) or none. Raises UnknownName."""
    if not words:
        return {r.entry.id for r in every if r.entry.default} if select else set()
    out: set[str] = set()
    for w in words:
        matching = {r.entry.id for r in every if w in (r.entry.id, r.entry.phase, "all") or w == f"{r.entry.phase}s"}
        if w == "default":
            matching = {r.entry.id for r in every if r.entry.default}
        if not matching and w not in LINT:
            ids = [r.entry.id for r in every]
            raise UnknownName("rule", w, near_matches(w, [*ids, *PHASES]))
        out |= matching
    return out
