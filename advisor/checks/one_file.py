"""One deployment file: read, judged, findings suppressed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.checks.findings import CheckedDeployment, FileProblem, Finding, RuleSkip
from advisor.checks.read import comments
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches, reads_others
from advisor.checks.read.launch import Launch
from advisor.checks.resolve.judge import CheckedLaunch, LaunchCheckOptions, check_launch
from advisor.checks.resolve.named_files import join_named_files
from advisor.checks.rules.evaluate import Rulebook
from advisor.deployment import WhyNot
from advisor.errors import AdvisorError, BadFile, LinkOut, NotText, Unread
from advisor.machines.types import Machine
from advisor.record import Names, Record, Value
from advisor.session import Session
from advisor.tree import describe_link, leads_out
from advisor.yaml_places import MAX_BYTES, Text, TextList, lines_of


class CheckOptions(LaunchCheckOptions, frozen=True):
    """How a check is asked for."""

    snapshot: str | None = None  # file of a machine; `on` is then only what it is called
    variables: dict[str, str] = {}
    select: Names = ()
    ignore: Names = ()
    suppressions: bool = True
    fail_on: str = "error"  # least severity that makes the exit status 1, or "none"
    strict: bool = False  # rules that are errors only then (`strict` of their entries)
    root: str | None = None  # no file outside of this folder is read, whatever a file names
    named: frozenset[str] = frozenset()  # files that were named one by one, not found in a folder


class FileResult(Record, frozen=True):
    """What one file came to."""

    verdicts: tuple[CheckedDeployment, ...] = ()
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    skipped: tuple[RuleSkip, ...] = ()
    problem: FileProblem | None = None
    recognised: bool = True  # False: one of many in a folder, which is no deployment


class Checker(Value, frozen=True):
    """What all files of a run are checked with."""

    book: Rulebook
    options: CheckOptions
    machines: dict[str, Machine]  # by their words
    session: Session


def make_checker(book: Rulebook, options: CheckOptions, session: Session | None = None) -> Checker:
    """The rules with the machine that the options name; without a session one of the book's rules.

    Raises UnknownName, BadInput, BadFile.
    """
    rules = book.know.rules
    return Checker(book, options, _find_machines(options, rules), session or Session(rules))


def _find_machines(options: CheckOptions, rules: Catalog) -> dict[str, Machine]:
    """The machine that the options name, by its words."""
    if options.on is None:
        return {}
    if options.snapshot is not None:
        from advisor.catalog.match import join_catalogue
        from advisor.machines.snapshot import load_snapshot

        return {
            options.on: join_catalogue(load_snapshot(options.snapshot), rules.accelerators(), rules.cpu_platforms())
        }
    from advisor.estimation import find_machine

    return {options.on.strip(): find_machine(options.on, rules)}


def check_file(name: str, checker: Checker, stdin: bytes | None = None) -> FileResult:
    """The result of one file; what is wrong with the file itself is a FileProblem, never an exception."""
    found = take_file(name, checker, check_source, lambda x: FileResult(problem=x), stdin)
    return found or FileResult(recognised=False)


T = TypeVar("T")
Take = Callable[[str, str, Path | None, Checker], T]  # text, name, folder, checker


def take_file(
    name: str, checker: Checker, take: Take[T], failed: Callable[[FileProblem], T], stdin: bytes | None = None
) -> T | None:
    """What `take` makes of one file; None for one of many in a folder that speaks of no engine, or that cannot be read
    and is no deployment."""
    alone, source = name == "-" or name in checker.options.named, None
    tooling = name.lower().endswith(".json")  # most are some tool's, with comments that JSON has not
    try:
        source = _read(name, stdin)
        if (
            (not alone or tooling)
            and not checker.book.know.may_hold_launch(source)
            and not reads_others(source.encode(), name)
        ):
            return None
        return take(source, name, None if name == "-" else Path(name).parent, checker)
    except BadFile as e:
        if source is not None and (not alone or tooling) and not _is_recognised(source, e, checker):
            return None
        over = not alone and isinstance(e, (NotText, LinkOut))
        return failed(_describe_problem(name, e, over))
    except (AdvisorError, MemoryError):
        raise
    except Exception as e:  # whatever one file does, the others are checked
        if os.environ.get("ADVISOR_DEBUG"):
            raise
        message = (
            f"could not be checked: {type(e).__name__}: {e} (set ADVISOR_DEBUG=1 for the traceback; please report it)"
        )
        return failed(FileProblem(file=name, line=None, message=message[:500]))


def _read(name: str, stdin: bytes | None) -> str:
    """The text of a file, or of standard input. Raises BadFile."""
    from advisor.files import decode_text, read_bytes

    if name == "-" and stdin is not None:
        if len(stdin) > MAX_BYTES:
            raise BadFile(name, f"is larger than {MAX_BYTES // 2**20} MiB, which no file of this kind needs")
        return decode_text(stdin, "standard input")
    if leads_out(name):
        raise LinkOut(name, describe_link(name))
    return decode_text(read_bytes(name, MAX_BYTES), name)


def _name_doubled(keys: Sequence[Text], launches: Sequence[Launch], name: str) -> list[Finding]:
    """A finding for each key that stands twice, in files with launches."""
    if not launches:
        return []
    refused = any(x.kind == "compose" for x in launches)
    then = "Docker Compose refuses the file" if refused else "the last one counts"
    return [
        Finding(
            rule="key-doubled", severity="error" if refused else "warning", file=name, line=k.line or 1,
            column=k.column or 1, message=f"{k} stands twice in one mapping: {then}", fix="Keep one of them",
            phase="lint"
        )
        for k in keys
    ]  # fmt: skip


def _describe_problem(name: str, fault: BadFile, passed_over: bool = False) -> FileProblem:
    if isinstance(fault, Unread):
        return FileProblem(file=name, line=fault.at_line, message=fault.problem, passed_over=passed_over)
    m = re.match(r"^.*?:(\d+): ", fault.message)
    message = re.sub(rf"^{re.escape(name)}(:\d+)?: ", "", fault.message)  # the report has the place on its own
    return FileProblem(file=name, line=int(m[1]) if m else None, message=message, passed_over=passed_over)


def _is_recognised(source: str, fault: BadFile, checker: Checker) -> bool:
    """Whether a text that cannot be read is a deployment all the same."""
    known = checker.book.know
    return known.may_hold_launch(source) if isinstance(fault, Unread) else known.describes_container(source)


def relocate(launches: Sequence[Launch], source: str) -> None:
    """Puts each argument on the line where it stands: folded texts (`>`) and joined lines lose their line ends."""
    lines = lines_of(source)
    for launch in launches:
        at = launch.line
        for word in launch.argv:
            if not word.line or len(word) < 2 or word.line > len(lines):
                at = max(at, word.line)
                continue
            line = lines[word.line - 1]
            stands = word.column > 0 and line.startswith(word, word.column - 1)  # a long line is not searched each time
            if not stands and line.count(word) == 1:
                word.column = line.index(word) + 1
            elif not stands and word not in line:
                for n in range(max(at, word.line), min(len(lines), word.line + 200) + 1):
                    column = lines[n - 1].find(word)
                    if column >= 0:
                        word.line, word.column = n, column + 1
                        break
            at = max(at, word.line)


class SourceLaunches(Value, frozen=True):
    """The launches of one text, and how they are to be judged."""

    launches: list[Launch]
    asked: CheckOptions
    doubled: TextList  # keys that stand twice
    problem: FileProblem | None


def read_source(source: str, name: str, folder: Path | None, checker: Checker) -> SourceLaunches:
    """The launches of a text, with what comments and files next to it say. Raises BadFile."""
    options, knowledge = checker.options, checker.book.know
    faults: list[BadFile] = []
    doubled: TextList = []
    context = ReaderContext(
        name, knowledge, options.variables, folder, problems=faults, doubled=doubled, root=options.root
    )
    read = read_launches(source, name, 1, context)
    launches = [y for x in read for y in join_named_files(x, source, folder, knowledge)]
    launches = comments.apply_declarations(launches, source, name)
    relocate(launches, source)
    asked, declared = options, comments.find_declared_hardware(source)
    if options.on is None and declared:
        asked = replace(options, on=declared, on_from="a comment in the file")
    over = name not in {"-", *options.named} and not all(_is_recognised(source, x, checker) for x in faults)
    problem = _describe_problem(name, faults[0], over) if faults else None
    return SourceLaunches(launches, asked, doubled, problem)


def check_source(source: str, name: str, folder: Path | None, checker: Checker) -> FileResult:
    """The result of one text. Raises BadFile."""
    book, options, machines = checker.book, checker.options, checker.machines
    knowledge, read = book.know, read_source(source, name, folder, checker)
    launches, asked = read.launches, read.asked

    def list_errors(found: CheckedLaunch) -> frozenset[str]:
        return frozenset(f.rule for f in book.apply([found], source, name)[0] if f.severity == "error")

    verdicts = [check_launch(x, knowledge, asked, machines, checker.session, list_errors) for x in launches]
    each = [book.apply(verdicts, source, name, x) for x in verdicts]
    findings = list({(f.rule, f.line, f.message): f for found, _ in reversed(each) for f in reversed(found)}.values())
    findings.reverse()
    earlier = [
        check_launch(x.before, knowledge, asked, machines, checker.session) for x in launches if x.before is not None
    ]
    if earlier:
        known = {(f.rule, f.message, f.resource) for f in book.apply(earlier, source, name)[0]}
        findings = [f for f in findings if (f.rule, f.message, f.resource) not in known]
    findings = [*findings, *_name_doubled(read.doubled, launches, name)]
    kept, gone = findings, list[Finding]()
    if options.suppressions:
        judges = None if "suppression-unused" in book.ignored else book.judges_suppressions_of
        kept, gone = comments.apply_suppressions(findings, source, name, [v.launch for v in verdicts], judges)
    judged = tuple(_with_errors(v.judged, found, kept) for v, (found, _) in zip(verdicts, each, strict=True))
    return FileResult(
        verdicts=tuple(x for x in judged if x.engine not in knowledge.routers), findings=tuple(kept),
        suppressed=tuple(gone), skipped=tuple(x for _, skipped in each for x in skipped), problem=read.problem
    )  # fmt: skip


def _with_errors(judged: CheckedDeployment, found: Sequence[Finding], kept: Sequence[Finding]) -> CheckedDeployment:
    """The verdict with what rules refuse at the start, suppressions aside: what does not start does not fit either."""
    stops = [f for f in found if f in kept and f.certain and (f.severity, f.phase) == ("error", "start")]
    if judged.hardware is None or judged.fits is False or not stops:
        return judged
    said = tuple(WhyNot(code="rule", text=f.message, source=f.rule, certain=True) for f in stops)
    return replace(judged, fits=False, starts=False, why=(*(f.message for f in stops), *judged.why), why_not=said)
