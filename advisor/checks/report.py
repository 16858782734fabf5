"""The report as plain data, its usual format, and where it is written."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.checks.findings import Finding, Judged, Problem, Report
from advisor.errors import BadFile
from advisor.record import Record


def default_format() -> str:
    """GitHub's annotations inside its Actions, else text."""
    return "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"


def save(body: str, target: str) -> None:
    """Write a report. Raises BadFile."""
    try:
        Path(target).write_text(body if body.endswith("\n") else body + "\n", encoding="utf-8")
    except OSError as e:
        raise BadFile(target, f"cannot be written: {e.strerror or e}") from None


class SkippedRule(Record, frozen=True, kw_only=True):
    """A rule that could not be answered for deployments of a file, and the facts that were missing."""

    rule: str
    file: str
    missing: list[str]
    deployments: int


class Summary(Record, frozen=True, kw_only=True):
    """Counts of a run."""

    files: int
    rules: int  # in force
    errors: int
    warnings: int
    infos: int
    rules_skipped: int


class CheckAnswer(Record, frozen=True, kw_only=True):
    """`advise check --json`."""

    deployments: list[Judged]
    findings: list[Finding]
    skipped: list[SkippedRule]
    suppressed: list[Finding]
    problems: list[Problem]
    summary: Summary


def as_json(r: Report) -> CheckAnswer:
    """The report as `--json` prints it."""
    levels = [f.severity for f in r.findings]
    return CheckAnswer(
        deployments=list(r.deployments),
        findings=list(r.findings),
        skipped=_counted(r),
        suppressed=list(r.suppressed),
        problems=list(r.problems),
        summary=Summary(
            files=r.files,
            rules=r.rules,
            errors=levels.count("error"),
            warnings=levels.count("warning"),
            infos=levels.count("info"),
            rules_skipped=len(r.skipped),
        ),
    )


def _counted(r: Report) -> list[SkippedRule]:
    """Skipped rules by file and rule."""
    missing: dict[tuple[str, str], set[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for s in r.skipped:
        key = (s.file, s.rule)
        missing.setdefault(key, set()).update(s.missing)
        counts[key] = counts.get(key, 0) + 1
    return [SkippedRule(rule=k[1], file=k[0], missing=sorted(m), deployments=counts[k]) for k, m in missing.items()]
