"""`check(paths)`: files found, read, judged, findings suppressed and put in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from advisor.catalog import Catalog, catalog
from advisor.checks import declared
from advisor.checks.findings import ORDER, Finding, Judged, Problem, Report, Skipped
from advisor.checks.judge import Asked, Verdict, judge
from advisor.checks.knowledge import Knowledge
from advisor.checks.launch import Launch
from advisor.checks.located import MAX_BYTES, lines_of
from advisor.checks.readers.context import Context
from advisor.checks.readers.detect import read_text
from advisor.errors import BadFile, BadInput

ENDINGS = frozenset(
    (".yaml", ".yml", ".json", ".sh", ".bash", ".sbatch", ".slurm", ".service", ".env", ".modelfile", ".dockerfile")
)
NAMES = re.compile(r"^(docker-?compose|compose|dockerfile|containerfile|modelfile)", re.I)
SKIPPED_FOLDERS = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
        "dist",
        "build",
    )
)
MAX_FILES = 50_000


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


def files_of(paths: Iterable[str | Path]) -> Iterator[str]:
    """The files to check: files as given, folders and globs searched for names that deployment files have.

    Raises BadInput for a path that is not there.
    """
    seen: set[str] = set()
    for given in paths:
        p = Path(given)
        if str(given) == "-":
            found: Iterable[Path | str] = ["-"]
        elif p.is_dir():
            found = _walk(p)
        elif any(c in str(given) for c in "*?[") and not p.exists():
            found = (
                sorted(x for x in Path().glob(str(given)) if x.is_file())
                if not p.is_absolute()
                else sorted(x for x in Path(p.anchor).glob(str(p.relative_to(p.anchor))) if x.is_file())
            )
            if not found:
                raise BadInput(f"{given}: no file is called that")
        else:
            found = [p]
        for f in found:
            if str(f) not in seen:
                seen.add(str(f))
                yield str(f)
                if len(seen) >= MAX_FILES:
                    raise BadInput(f"more than {MAX_FILES:,} files: name fewer")


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir(), key=lambda x: x.name)
    except OSError as e:
        raise BadInput(f"{folder}: cannot be read: {e.strerror or e}") from None
    for x in entries:
        if x.is_dir() and not x.is_symlink():
            if x.name not in SKIPPED_FOLDERS:
                yield from _walk(x)
        elif x.is_file() and (x.suffix.lower() in ENDINGS or NAMES.match(x.name) or x.name.startswith(".env")):
            yield x


def check(
    paths: str | Path | Sequence[str | Path],
    *,
    rules: Catalog | None = None,
    stdin: str | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Report:
    """Check deployment files; `options` are the fields of Options. Raises BadInput for one that cannot be used."""
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    return check_files(list(files_of(listed)), Options(**options), rules or catalog(), stdin, progress)


def check_files(
    files: Sequence[str],
    options: Options,
    rules: Catalog,
    stdin: str | None = None,
    progress: Callable[[int], None] | None = None,
    jobs: int = 1,
    keep: bool = False,
) -> Report:
    """The report on a list of files, over `jobs` processes; with `keep` unchanged files are not read again."""
    from advisor.checks import batch
    from advisor.checks.rules import Rulebook

    know = Knowledge(rules)
    machines_of(options, rules)  # hardware that means nothing is the caller's mistake, said at once
    book = Rulebook(know, options.select, options.ignore)
    cache = batch.Cache(rules, options) if keep else None
    results = batch.run(files, options, rules, book, know, stdin=stdin, jobs=jobs, cache=cache, progress=progress)
    return collect(results, book.size, options, len(files))


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


def collect(results: Sequence[FileResult], rules: int, options: Options, files: int) -> Report:
    """One report from the results of all files, in a stable order."""
    findings = [f for r in results for f in r.findings]
    return Report(
        deployments=tuple(v for r in results for v in r.verdicts),
        findings=tuple(
            sorted(findings, key=lambda f: (f.file, f.line, f.column, ORDER[f.severity], f.rule, f.message))
        ),
        skipped=tuple(s for r in results for s in r.skipped),
        suppressed=tuple(s for r in results for s in r.suppressed),
        problems=tuple(r.problem for r in results if r.problem is not None),
        files=files,
        rules=rules,
        asked_fit=options.fit,
    )


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
