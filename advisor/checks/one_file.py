"""One deployment file: read, judged, findings suppressed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from advisor.catalog import Catalog
from advisor.checks import declared
from advisor.checks.findings import Finding, Judged, Problem, Skipped
from advisor.checks.judge import Asked, Verdict, judge
from advisor.checks.knowledge import Knowledge
from advisor.checks.launch import Launch
from advisor.checks.located import MAX_BYTES, lines_of
from advisor.checks.readers.context import Context
from advisor.checks.readers.detect import read_text
from advisor.errors import BadFile


class Options(NamedTuple):
    """How a check is asked for."""

    on: str | None = None
    on_from: str = "--on"
    snapshot: str | None = None  # file of a machine; `on` is then only what it is called
    fit: bool = True
    engine_version: str | None = None
    variables: dict[str, str] = {}
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    suppressions: bool = True
    speed: bool = False


class FileResult(NamedTuple):
    """What one file came to."""

    verdicts: tuple[Judged, ...] = ()
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    problem: Problem | None = None


def machines_of(options: Options, rules: Catalog) -> dict[str, Any]:
    """The machine that the options name, by its words. Raises UnknownName, BadInput, BadFile."""
    if options.on is None:
        return {}
    if options.snapshot is not None:
        from advisor.catalog.match import attach
        from advisor.machines.snapshot import load

        return {options.on: attach(load(options.snapshot), rules.accelerators(), rules.cpu_platforms())}
    from advisor.estimation import machine_of

    return {options.on.strip(): machine_of(options.on, rules)}


def check_file(
    name: str, know: Knowledge, book: Any, options: Options, machines: dict[str, Any], stdin: str | None = None
) -> FileResult:
    """The result of one file; what is wrong with the file itself is a Problem, never an exception."""
    from advisor.files import read_text as read_file

    try:
        source = stdin if name == "-" and stdin is not None else read_file(name, MAX_BYTES)
        folder = None if name == "-" else Path(name).parent
        return check_source(source, name, folder, know, book, options, machines)
    except BadFile as e:
        m = re.match(r"^.*?:(\d+): ", e.message)
        return FileResult(
            problem=Problem(file=name, line=int(m[1]) if m else None, message=_without_place(e.message, name))
        )


def _without_place(message: str, name: str) -> str:
    """A message without the file and line that stand before it, which the report has on its own."""
    return re.sub(rf"^{re.escape(name)}(:\d+)?: ", "", message)


def relocate(launches: Sequence[Launch], source: str) -> None:
    """Puts each argument on the line where it stands: folded texts (`>`) and joined lines lose their line ends."""
    lines = lines_of(source)
    for launch in launches:
        at = launch.line
        for w in launch.argv:
            if w.line and len(w) > 1 and w.line <= len(lines) and w not in lines[w.line - 1]:
                for n in range(max(at, w.line), min(len(lines), w.line + 200) + 1):
                    column = lines[n - 1].find(w)
                    if column >= 0:
                        w.line, w.column = n, column + 1
                        break
            at = max(at, w.line)


def check_source(
    source: str, name: str, folder: Path | None, know: Knowledge, book: Any, options: Options, machines: dict[str, Any]
) -> FileResult:
    """The result of one text. Raises BadFile."""
    from advisor.checks.suppress import suppressed

    launches = read_text(source, name, 1, Context(name, know, options.variables, folder))
    launches = declared.applied(launches, source, name)
    relocate(launches, source)
    on, on_from = options.on, options.on_from
    if on is None:
        said = declared.hardware(source)
        if said:
            on, on_from = said, "a comment in the file"
    asked = Asked(on, on_from, options.fit, options.engine_version, speed=options.speed)
    verdicts: list[Verdict] = [judge(x, know, asked, machines) for x in launches]
    findings, skipped = book.apply(verdicts, source, name)
    kept, gone = suppressed(findings, source, name, [v.launch for v in verdicts], options.suppressions, book)
    return FileResult(tuple(v.judged for v in verdicts), tuple(kept), tuple(gone), tuple(skipped))
