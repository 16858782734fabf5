"""`check(paths)`: files found, each judged on its own, findings put in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog import Catalog, catalog
from advisor.checks import batch
from advisor.checks.findings import ORDER, CheckReport, Finding
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, FileResult, check_source, find_machines
from advisor.checks.rules.evaluate import Rulebook
from advisor.errors import BadInput

# Names that deployment files have; the pre-commit hooks ask for the same.
FILES = re.compile(
    r"\.(ya?ml|json|sh|bash|zsh|sbatch|slurm|service|env|modelfile|dockerfile|hcl|nomad)$"
    r"|(^|/)((docker-?compose|compose|dockerfile|containerfile|modelfile|\.env)[^/]*|kustomization)$"
    r"|\.service\.d/[^/]+\.conf$",
    re.I,
)
BACKUPS = re.compile(r"(\.(bak|orig|rej|sw[op])|~)$", re.I)  # what editors and sed leave: checked where it is named
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


def find_files(paths: Iterable[str | Path]) -> Iterator[str]:
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
        elif x.is_file() and FILES.search(x.as_posix()) and not BACKUPS.search(x.name):
            yield x


def check_paths(
    paths: str | Path | Sequence[str | Path], options: CheckOptions | None = None, *, rules: Catalog | None = None
) -> CheckReport:
    """Check deployment files. Raises BadInput for an option that cannot be used."""
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    asked = replace(options or CheckOptions(), named=frozenset(str(x) for x in listed))
    return check_files(list(find_files(listed)), asked, rules or catalog())


def check_files(
    files: Sequence[str],
    options: CheckOptions,
    rules: Catalog,
    stdin: bytes | None = None,
    progress: Callable[[int], None] | None = None,
    jobs: int = 1,
    keep: bool = False,
) -> CheckReport:
    """The report on a list of files, over `jobs` processes; with `keep` unchanged files are not read again."""
    knowledge = Knowledge(rules)
    find_machines(options, rules)  # hardware that means nothing is the caller's mistake, stated at once
    book = Rulebook(knowledge, options.select, options.ignore, strict=options.strict)
    cache = batch.ResultCache(rules, options) if keep else None
    results = batch.check_many(
        files, options, rules, book, knowledge, stdin=stdin, jobs=jobs, cache=cache, progress=progress
    )
    return collect_report(results, book.size, options, len(files))


def find_errors(source: str, name: str, on: str | None, rules: Catalog) -> list[str]:
    """What keeps the launches of a text from starting, by the rules alone; `on` is the hardware in words."""
    knowledge = Knowledge(rules)
    options = CheckOptions(on=on, fit=False)
    found = check_source(
        source, name, None, knowledge, Rulebook(knowledge, (), ()), options, find_machines(options, rules)
    )
    return [f"{f.rule}: {f.message}" for f in found.findings if f.severity == "error"]


def add_findings(report: CheckReport, more: Sequence[Finding]) -> CheckReport:
    """The report with findings that no deployment has: on the lock file, on the configuration."""
    return replace(report, findings=(*more, *report.findings)) if more else report


def collect_report(results: Sequence[FileResult], rules: int, options: CheckOptions, files: int) -> CheckReport:
    """One report from the results of all files, in a stable order."""
    findings = [f for r in results for f in r.findings]
    return CheckReport(
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
        fail_on=options.fail_on,
        strict=options.strict,
    )
