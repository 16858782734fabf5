"""Many files: found, each judged on its own, over several processes, findings put in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog, catalog
from advisor.checks.findings import ORDER, CheckReport
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import Checker, CheckOptions, FileResult, check_file, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook
from advisor.decoding import convert, decode_json
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.questions import Asking
from advisor.questions.files import CheckQuestion, DeploymentFilesQuestion
from advisor.session import Session
from advisor.yaml_places import Words

# Names that deployment files have; the pre-commit hooks ask for the same.
FILES = re.compile(
    r"\.(ya?ml|json|sh|bash|zsh|sbatch|slurm|service|container|env|modelfile|dockerfile|hcl|nomad)$"
    r"|(^|/)((dockerfile|containerfile|modelfile|\.env)(?![^/]*\.(?:[jt]s|kt|py|go|rs|java)$)[^/]*|kustomization)$"
    r"|\.service\.d/[^/]+\.conf$",
    re.I,
)
BACKUPS = re.compile(r"(\.(bak|orig|rej|sw[op])|~)$", re.I)  # what editors and sed leave: checked where it is named
SKIPPED_FOLDERS = frozenset((
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache", "dist",
    "build",
))  # fmt: skip
MAX_FILES = 50_000
LEAST_FOR_JOBS = 64  # files; below, starting a process costs more than it saves
CHUNK = 32


def find_files(paths: Iterable[str | Path]) -> Iterator[str]:
    """The files to check: files as given, folders and globs searched for names that deployment files have; a folder
    that cannot be looked into is named as if it were one.

    Raises BadInput for a glob that nothing matches, and for too many files.
    """
    seen: set[str] = set()
    for given in paths:
        p = Path(given)
        if str(given) == "-":
            found: Iterable[Path | str] = ["-"]
        elif _is(Path.is_dir, p):
            found = _walk(p)
        elif any(c in str(given) for c in "*?[") and not p.exists():
            pattern = str(p.relative_to(p.anchor)) if p.is_absolute() else str(given)
            found = sorted(x for x in Path(p.anchor).glob(pattern) if x.is_file())
            if not found:
                raise BadInput(f"{given}: no file matches")
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
    except OSError:
        entries = []
        yield folder  # whoever reads it says why it cannot be read
    for x in entries:
        if _is(Path.is_dir, x) and not x.is_symlink():
            if x.name not in SKIPPED_FOLDERS:
                yield from _walk(x)
        elif _is(Path.is_file, x, unknown=True) and FILES.search(x.as_posix()) and not BACKUPS.search(x.name):
            yield x


def _is(kind: Callable[[Path], bool], path: Path, unknown: bool = False) -> bool:
    try:
        return kind(path)
    except OSError:  # in a folder without rights
        return unknown


MAX_TEXT = 2**20  # bytes of a text that is given in place of a file


def answer_question(question: CheckQuestion, session: Session, asking: Asking) -> CheckReport:
    """The report on files or on a text. Raises BadInput for a path that is not there, an unknown rule, and for
    hardware that is stated twice."""
    options = make_options(question, asking)
    if question.text is None:
        return check_files(list(find_files(question.files)), options, session)
    checker = make_run_checker(session, options)
    found = check_source(question.text, name_text(question), None, checker)
    return collect_report([found], checker, 1)


def make_options(question: DeploymentFilesQuestion, asking: Asking) -> CheckOptions:
    """How the files of a question are judged. Raises BadInput where hardware or files are stated twice, or not at
    all."""
    names = asking.names
    if question.hardware is not None and question.snapshot is not None:
        raise BadInput(f"{names['hardware']} and {names['snapshot']} exclude each other")
    if bool(question.files) == (question.text is not None):
        raise BadInput("either `files` of the working folder or a `text` is expected")
    if len((question.text or "").encode()) > MAX_TEXT:
        raise BadInput(f"a text of at most {MAX_TEXT // 2**20} MiB is read")
    return replace(
        convert(msgspec.structs.asdict(question), CheckOptions),
        on=question.hardware if question.snapshot is None else f"the machine of {question.snapshot}",
        on_from="--on" if question.snapshot is None else "--machine",
        root=None if asking.folder is None else str(asking.folder),
        named=frozenset(question.files),
    )


def name_text(question: DeploymentFilesQuestion) -> str:
    """What a text that is given in place of a file is called."""
    return (question.name or "text")[:200]


def check_paths(
    paths: str | Path | Sequence[str | Path], options: CheckOptions | None = None, *, rules: Catalog | None = None
) -> CheckReport:
    """Check deployment files. Raises BadInput for an option that cannot be used."""
    listed = [paths] if isinstance(paths, (str, Path)) else paths
    asked = replace(options or CheckOptions(), named=frozenset(map(str, listed)))
    return check_files(list(find_files(listed)), asked, Session(rules or catalog()))


def check_files(
    files: Words,
    options: CheckOptions,
    session: Session,
    stdin: bytes | None = None,
    progress: Callable[[int], None] | None = None,
    jobs: int = 1,
) -> CheckReport:
    """The report on a list of files, over `jobs` processes."""
    checker = make_run_checker(session, options)
    results: list[FileResult] = []
    for result in _check_each(files, checker, stdin, jobs):
        results.append(result)
        if progress is not None:
            progress(len(results))
    return collect_report(results, checker, len(files))


def make_run_checker(session: Session, options: CheckOptions) -> Checker:
    """What all files of a run are checked with. Raises UnknownName, BadInput, BadFile."""
    return make_checker(
        Rulebook(Knowledge(session.rules), options.select, options.ignore, strict=options.strict), options, session
    )


def find_errors(source: str, name: str, on: str | None, session: Session) -> list[str]:
    """What keeps the launches of a text from starting, by the rules alone; `on` is the hardware in words."""
    found = check_source(source, name, None, make_run_checker(session, CheckOptions(on=on, fit=False)))
    return [f"{f.rule}: {f.message}" for f in found.findings if f.severity == "error"]


def collect_report(results: Sequence[FileResult], checker: Checker, files: int) -> CheckReport:
    """One report from the results of all files, in a stable order."""
    options = checker.options
    findings = [f for r in results for f in r.findings]
    findings.sort(key=lambda f: (f.file, f.line, f.column, ORDER[f.severity], f.rule, f.message))
    return CheckReport(
        deployments=tuple(v for r in results for v in r.verdicts), findings=tuple(findings),
        skipped=tuple(s for r in results for s in r.skipped),
        suppressed=tuple(s for r in results for s in r.suppressed),
        problems=tuple(r.problem for r in results if r.problem is not None), files=files,
        passed_over=sum(not r.recognised for r in results), rules=len(checker.book.rules), asked_fit=options.fit,
        fail_on=options.fail_on, strict=options.strict
    )  # fmt: skip


def _check_each(files: Words, checker: Checker, stdin: bytes | None, jobs: int) -> Iterator[FileResult]:
    if jobs > 1 and len(files) >= LEAST_FOR_JOBS and "-" not in files:
        from advisor.workers import make_pool

        chunks = [list(files[i : i + CHUNK]) for i in range(0, len(files), CHUNK)]
        work = partial(_check_chunk, checker.book.know.rules.roots, msgspec.json.encode(checker.options))
        with make_pool(jobs) as pool:
            for results in pool.map(work, chunks):
                yield from results
    else:
        yield from (check_file(f, checker, stdin) for f in files)


@memoize_by_identity
def _worker(rules: Catalog, options: bytes) -> Checker:
    """What a worker process keeps from chunk to chunk."""
    return make_run_checker(Session(rules), decode_json(options, CheckOptions))


def _check_chunk(roots: tuple[Path, ...], options: bytes, files: list[str]) -> list[FileResult]:
    checker = _worker(catalog(roots), options)
    return [check_file(f, checker) for f in files]
