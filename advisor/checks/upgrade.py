"""`advise upgrade`: what another release of an engine changes for the launches of deployment files.

A launch at the release that runs and the same launch at the one to come are two values. The answer is the difference
of what the one judge, the one estimator, the rules of `advise check` and the one table of flags say of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from advisor.checks.facts.launch_facts import LaunchFacts
from advisor.checks.findings import FileProblem, Finding
from advisor.checks.one_file import Checker, SourceLaunches, read_source, take_file
from advisor.checks.read import comments
from advisor.checks.read.launch import Launch
from advisor.checks.resolve.judge import CheckedLaunch, check_launch, plain_text
from advisor.checks.rules.edits import repin
from advisor.checks.rules.flag_matches import is_parsed_by_engine
from advisor.checks.run import find_files, make_options, make_run_checker, name_text
from advisor.checks.upgrade_types import Kind, LaunchUpgrade, ReleaseSide, Upgrade, UpgradeChange
from advisor.engines.account import find_bearing
from advisor.engines.flag_tables import FlagHistory, find_default, find_presence, is_deprecated, release_key
from advisor.engines.pool.settings import list_resolved_defaults
from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.questions import Asking
from advisor.questions.files import UpgradeQuestion
from advisor.record import Value
from advisor.session import Session

VERSION = re.compile(r"v?(\d+(?:\.\d+)+(?:[.-]?(?:post|rc|dev|a|b)\d+)?)|(b\d{3,6})")
STATED = "--from"
BY_TAG = "the image tag"
# how the rules of `advise check` find words that a release does not have, or not yet
KINDS: dict[str | None, Kind] = {
    "removed_flags": "gone", "removed_variables": "gone", "newer_flags": "came", "kv_types": "value",
    "quantizations": "value", "values_of_release": "value", "bad_values": "value",
}  # fmt: skip


class _File(Value, frozen=True):
    """A file with its launches, or what is wrong with it."""

    name: str = ""
    source: str = ""
    read: SourceLaunches | None = None
    problem: FileProblem | None = None


class _Pair(Value, frozen=True):
    """One launch at both releases."""

    facts: LaunchFacts  # at the release to come
    before: CheckedLaunch | None
    after: CheckedLaunch
    old: str | None
    new: str
    known: bool  # what both releases take was read of them

    @property
    def history(self) -> FlagHistory | None:
        """What releases of the engine take; None where that was not read, or another parser reads its words."""
        return self.facts.flags.history if is_parsed_by_engine(self.facts) else None


Changes = Iterator[UpgradeChange]


def answer_question(question: UpgradeQuestion, session: Session, asking: Asking, stdin: bytes | None = None) -> Upgrade:
    """What changes for every launch. Raises BadInput for a version that is none, files without a launch, and where
    several engines are started and none is named."""
    checker = make_run_checker(session, replace(make_options(question, asking), engine_version=None))
    files = list(_read_files(question, checker, stdin))
    engine = _choose_engine(question, files, checker)
    to = read_version(question.to, engine, checker)
    stated = read_version(question.engine_version, engine, checker) if question.engine_version else None
    launches = tuple(x for f in files for x in _upgrade_file(f, engine, stated, to, checker))
    problems = tuple(p for f in files for p in (f.problem, f.read.problem if f.read else None) if p is not None)
    return Upgrade(
        engine=engine, to=to, launches=launches, problems=problems, notes=tuple(_describe_release(engine, to, checker)),
        exit_status=_find_status(launches, problems, question.fit)
    )  # fmt: skip


def _read_files(question: UpgradeQuestion, checker: Checker, stdin: bytes | None) -> Iterator[_File]:
    def take(source: str, name: str, folder: Path | None, checker: Checker) -> _File:
        return _File(name, source, read_source(source, name, folder, checker))

    if question.text is not None:
        yield take(question.text, name_text(question), None, checker)
        return
    for name in find_files(question.files):
        found = take_file(name, checker, take, lambda x: _File(problem=x), stdin)
        if found is not None:
            yield found


def _choose_engine(question: UpgradeQuestion, files: Sequence[_File], checker: Checker) -> str:
    """Whose launches are meant. Raises BadInput."""
    started = list(dict.fromkeys(x.engine for f in files if f.read for x in f.read.launches))
    if question.engine is not None:
        asked = question.engine.strip().lower()
        named = asked if asked in started else checker.session.rules.engine(asked).id
        if named not in started:
            raise BadInput(f"no launch of {named} was found", near_matches(named, started) or tuple(started))
        return named
    engines = [x for x in started if x not in checker.book.know.routers] or started
    problem = next((f.problem for f in files if f.problem is not None and not f.problem.passed_over), None)
    if not engines and problem is not None:
        raise BadInput(f"{problem.file}: {problem.message}")
    if len(engines) != 1:
        what = f"the files start {', '.join(engines)}: say whose release is meant with --engine"
        raise BadInput(what if engines else "no launch of an inference engine was found: there is nothing to upgrade")
    return engines[0]


def list_releases(engine: str, checker: Checker) -> tuple[str, ...]:
    """The releases of an engine whose flags were read, oldest first."""
    lookup = checker.book.know.flags(engine)
    return lookup.table.history.read if lookup is not None and lookup.table.history is not None else ()


def read_version(text: str, engine: str, checker: Checker) -> str:
    """A release as the tables write it. Raises BadInput for what is none, or is one of another kind."""
    m = VERSION.fullmatch(text.strip())
    entry = checker.session.rules.engines().get(engine)
    usual = (list_releases(engine, checker) or (entry.version if entry is not None else None,))[-1]
    if m is None or (usual is not None and (m[2] is None) == usual.startswith("b")):
        raise BadInput(f"{text[:40]!r} is no release of {engine}" + (f": write it like {usual}" if usual else ""))
    return m[1] or m[2]


def _describe_release(engine: str, version: str, checker: Checker) -> Iterator[str]:
    """What is not known of what a release takes."""
    read = list_releases(engine, checker)
    if not read:
        yield (
            f"what releases of {engine} take was not read one by one: flags and defaults are not compared, only what "
            "rules and estimates say by version"
        )
    elif release_key(version) > release_key(read[-1]):
        yield f"{engine} {version} is newer than all releases that were read: taken to be as {read[-1]}"
    elif release_key(version) < release_key(read[0]):
        yield f"{engine} {version} is older than all releases that were read (from {read[0]} on)"
    elif version not in read:
        last = next(x for x in reversed(read) if release_key(x) < release_key(version))
        following = next(x for x in read if release_key(x) > release_key(version))
        yield f"{engine} {version} was not read: what {last} and {following} agree on is taken to hold for it"


def _upgrade_file(file: _File, engine: str, stated: str | None, to: str, checker: Checker) -> Iterator[LaunchUpgrade]:
    read = file.read
    chosen = [x for x in read.launches if x.engine == engine] if read is not None else []
    if read is None or not chosen:
        return
    know, machines = checker.book.know, checker.machines
    old = [_at_release(x, x.version or stated, x.version_from if x.version else STATED) for x in chosen]
    new = [_at_release(x, to, x.version_from or "--to") for x in chosen]
    judged = [[check_launch(x, know, read.asked, machines, checker.session) for x in side] for side in (old, new)]
    for launch, before, after in zip(chosen, *judged, strict=True):
        version = plain_text(before.launch.version)
        found = _find(before, judged[0], file, checker) if version is not None else []
        pair = _Pair(
            LaunchFacts(after, know, judged[1], file.source), before if version is not None else None, after, version,
            to, all(v in list_releases(engine, checker) for v in (version, to))
        )  # fmt: skip
        changes = [
            *_pins(pair, file, checker),
            *_compare_findings(pair, found, _find(after, judged[1], file, checker), checker),
            *_list_open_words(pair, file), *_list_deprecated(pair, file), *_compare_defaults(pair, file, checker)
        ]  # fmt: skip
        yield _make_upgrade(launch, pair, _settle_edits(changes, pair), checker)


def _at_release(launch: Launch, version: str | None, version_from: str | None) -> Launch:
    """A launch as it would be with another release of its engine, in the image's tag, too."""
    image, setup = launch.setup.image, launch.setup
    if launch.version_from == BY_TAG and launch.version and version and image:
        setup = replace(setup, image=image.replace(launch.version, version))
    return replace(launch, version=version, version_from=version_from if version else None, setup=setup, before=None)


def _find(of: CheckedLaunch, verdicts: list[CheckedLaunch], file: _File, checker: Checker) -> list[Finding]:
    """What the rules find in one launch, but for what is suppressed."""
    found, _ = checker.book.apply(verdicts, file.source, file.name, of)
    return comments.apply_suppressions(found, file.source, file.name, [of.launch], None)[0]


def _make(pair: _Pair, file: str, **given: object) -> UpgradeChange:
    """A change, with what holds for all of a launch."""
    launch = pair.after.launch
    certainty = "assumed" if not pair.known else "stated" if launch.version_from in (STATED, "--to") else "file"
    usual = {"certainty": certainty, "file": file, "line": launch.line or 1}
    plain = {k: str(v) if isinstance(v, str) else v for k, v in {**usual, **given}.items()}  # words without places
    return UpgradeChange(**plain)  # type: ignore[arg-type]  # fields by name


def _pins(pair: _Pair, file: _File, checker: Checker) -> Changes:
    """The release where the file states it."""
    launch, old = pair.after.launch, pair.old
    if old is None or old == pair.new or launch.version_from in (STATED, "--to"):
        return
    entry = checker.session.rules.engines().get(launch.engine)
    packages = list(entry.recognition.packages) if entry is not None else []
    image = pair.before.launch.setup.image if pair.before is not None and launch.version_from == BY_TAG else None
    edits = repin(file.source, image, packages, old, pair.new)
    variant = (image or "").rpartition(old)[2]  # `-cu129`: whether the new release has such an image is not known
    hand = f"the place that states {old} is not plain: change it by hand"
    yield _make(
        pair, file.name, kind="version", effect="moves", word=plain_text(launch.version_from), old=old, new=pair.new,
        text=f"{launch.version_from} states {old}", edits=edits, line=edits[0].line if edits else launch.line or 1,
        certain=not variant and pair.new in list_releases(launch.engine, checker), fix=None if edits else hand,
    )  # fmt: skip


def _compare_findings(pair: _Pair, old: Sequence[Finding], new: Sequence[Finding], checker: Checker) -> Changes:
    """What rules find at one release and not at the other, and what both refuse."""
    places = [{(f.rule, f.line, f.column) for f in side} for side in (old, new)]
    for finding in new:
        refused = finding.severity == "error"
        if pair.old is None or (finding.rule, finding.line, finding.column) not in places[0]:
            yield _describe_finding(pair, finding, "breaks" if refused else "warns", checker)
        elif refused:
            yield _describe_finding(pair, finding, "stays", checker)
    for finding in old:
        if (finding.rule, finding.line, finding.column) not in places[1]:
            yield _describe_finding(pair, finding, "mends", checker)


def _describe_finding(pair: _Pair, finding: Finding, effect: str, checker: Checker) -> UpgradeChange:
    rule = checker.book.all.get(finding.rule)
    kind = KINDS.get(rule.entry.each if rule is not None else None, "rule")
    word, value = _find_word(pair, finding)
    instead = pair.facts.flags.instead.get(word.lstrip("-").replace("_", "-")) if kind == "gone" else None
    renamed = instead is not None and not instead.startswith("remove")
    mends = effect == "mends"
    return _make(
        pair, finding.file, kind="renamed" if renamed else kind, effect=effect, line=finding.line,
        column=finding.column, word=word if kind != "rule" else finding.rule, text=finding.message,
        old=value if kind == "value" else None if mends else word if kind == "gone" else None,
        new=instead if renamed else None, fix=None if mends else finding.fix, edits=() if mends else finding.edits,
        source=rule.entry.source if rule is not None else "", certain=finding.certain,
    )  # fmt: skip


def _find_word(pair: _Pair, finding: Finding) -> tuple[str, str | None]:
    """(flag or variable, its value) that a finding is about; the rule where it is about none."""
    at = (finding.line, finding.column)
    for argument in pair.after.arguments.given:
        value = argument.value
        if at in ((w.line, w.column) for w in (argument.place, value) if w is not None):
            return argument.written, plain_text(value)
    return next((k for k, v in pair.after.launch.env.items() if (v.line, v.column) == at), finding.rule), None


def _list_open_words(pair: _Pair, file: _File) -> Changes:
    """Words of which it is not known whether the release to come has them: the releases around it disagree."""
    history = pair.history
    for argument in pair.after.arguments.given if history is not None else ():
        presence = find_presence(history, argument.bare, pair.new) if history is not None else None
        if presence is not None and presence.has is None and argument.place.line:
            around = f"{presence.last or 'no older release'} had it, {presence.following or 'no newer one'} has it"
            yield _make(
                pair, file.name, kind="gone", effect="unknown", word=argument.written, old=argument.written,
                text=f"whether {pair.new} has {argument.written} is not known: {around}",
                line=argument.place.line, column=argument.place.column, source=history.source if history else "",
            )  # fmt: skip


def _list_deprecated(pair: _Pair, file: _File) -> Changes:
    """Words that the release to come takes and will not keep."""
    history, seen = pair.history, set[str]()
    for argument in pair.after.arguments.given if history is not None else ():
        name = argument.bare
        if history is None or name in seen or not is_deprecated(history, name, pair.new):
            continue
        seen.add(name)
        instead = pair.facts.flags.instead.get(name)
        already = pair.old is not None and is_deprecated(history, name, pair.old)
        presence = find_presence(history, name, history.read[-1])
        left = f", and {history.read[-1]} no longer has it" if presence is not None and presence.has is False else ""
        yield _make(
            pair, file.name, kind="deprecated", effect="warns", word=argument.written, new=instead,
            old="deprecated" if already else None, source=history.source, line=argument.place.line or 1,
            text=f"{argument.written} is deprecated in {pair.new}{' as before' if already else ''}{left}",
            fix=None if instead is None else instead if instead.startswith("remove") else f"Use {instead}",
            column=argument.place.column or 1,
        )  # fmt: skip


def _compare_defaults(pair: _Pair, file: _File, checker: Checker) -> Changes:
    """Defaults that move under what the launch leaves to its engine."""
    if pair.old is None or pair.history is None:
        return
    entry = checker.session.rules.engines().get(pair.after.launch.engine)
    given = {a.name for a in pair.after.arguments.given} | {a.bare for a in pair.after.arguments.given}
    for name in sorted(pair.history.defaults):
        old, new = (find_default(pair.history, name, v) for v in (pair.old, pair.new))
        if name in given or old is None or new is None or old == new or _is_alias(name, pair):
            continue
        yield _moved(pair, file, name, old, new, pair.history.source, checker)
    if entry is None or pair.before is None or not pair.before.deployment or not pair.after.deployment:
        return
    resolved = [list_resolved_defaults(x, entry) for x in (pair.before.deployment, pair.after.deployment)]
    for name, value in resolved[0].items():
        after = resolved[1].get(name)
        if name not in given and name not in pair.history.defaults and after not in (None, value):
            yield _moved(pair, file, name, f"{value:g}", f"{after:g}", f"rules/engines/{entry.id}.yaml", checker)


def _is_alias(name: str, pair: _Pair) -> bool:
    """Whether it is another spelling of a flag, which is listed under its own name."""
    spelling = pair.facts.knowledge.flags(pair.after.launch.engine)
    found = spelling.spellings.get(f"--{name}") if spelling is not None else None
    return found is not None and found.name != name and found.name in (pair.history.defaults if pair.history else ())


def _moved(pair: _Pair, file: _File, name: str, old: str, new: str, source: str, checker: Checker) -> UpgradeChange:
    rules = checker.session.rules
    entry = rules.engines().get(pair.after.launch.engine)
    return _make(
        pair, file.name, kind="default", effect="moves", word=f"--{name}", old=old, new=new, source=source,
        text=f"--{name}: {new} where nothing is set, {old} before",
        bears_on=find_bearing(name, entry, rules) if entry is not None else None,
    )  # fmt: skip


def _settle_edits(changes: Sequence[UpgradeChange], pair: _Pair) -> tuple[UpgradeChange, ...]:
    """Changes whose words are written for the release to come only where the file comes to state it."""
    stays = any(c.kind == "version" and not (c.edits and c.certain) for c in changes)
    return tuple(replace(c, certain=False) if stays and c.edits else c for c in changes)


def _make_side(checked: CheckedLaunch, version: str, checker: Checker) -> ReleaseSide:
    judged = checked.judged
    return ReleaseSide(
        version=version, read=version in list_releases(checked.launch.engine, checker), starts=judged.starts,
        fits=judged.fits, why=judged.why, why_not=judged.why_not, conditions=judged.conditions, memory=judged.memory
    )  # fmt: skip


def _make_upgrade(launch: Launch, pair: _Pair, changes: tuple[UpgradeChange, ...], checker: Checker) -> LaunchUpgrade:
    judged, before = pair.after.judged, pair.before
    sides = _make_side(pair.after, pair.new, checker)
    return LaunchUpgrade(
        source=judged.source, line=judged.line, kind=judged.kind, name=judged.name, engine=judged.engine,
        version_from=None if before is None else plain_text(before.launch.version_from), model=judged.model,
        quantization=judged.quantization, hardware=judged.hardware,
        before=None if before is None or pair.old is None else _make_side(before, pair.old, checker), after=sides,
        changes=changes, notes=tuple(_list_notes(pair, checker))
    )  # fmt: skip


def _list_notes(pair: _Pair, checker: Checker) -> Iterator[str]:
    """What the answer does not know of this launch."""
    engine = pair.after.launch.engine
    if pair.old is None:
        yield "which release runs is not stated: only what the new one refuses is known (--from says it)"
        return
    yield from _describe_release(engine, pair.old, checker)
    if release_key(pair.new) < release_key(pair.old):
        yield f"{pair.new} is older than {pair.old}: a downgrade"
    entry = checker.session.rules.engines().get(engine)
    if pair.after.judged.memory is not None and entry is not None and "cache_layouts" not in entry.memory:
        law = f"the law of {entry.name} {entry.version}"
        yield f"memory is counted by {law} on both sides: how older releases lay out the cache was not read"
    if not is_parsed_by_engine(pair.facts):
        yield "a program in between reads the flags: those of the engine are not compared"


def _find_status(launches: Sequence[LaunchUpgrade], problems: Sequence[FileProblem], asked_fit: bool) -> int:
    """0 nothing breaks, 1 something does not start or a word is refused (by both, too), 2 cannot tell."""
    if any(x.count("breaks") or x.count("stays") or (asked_fit and x.after.fits is False) for x in launches):
        return 1
    unknown = (not x.after.read or x.count("unknown") or (asked_fit and x.after.fits is None) for x in launches)
    return 2 if any(unknown) or any(not p.passed_over for p in problems) else 0
