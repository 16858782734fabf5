"""The report as plain data, its usual format, and where it is written."""

from __future__ import annotations

import os

from advisor.checks.findings import CheckedDeployment, CheckReport, FileProblem, Finding
from advisor.files import write_report
from advisor.record import Answer, Record


def default_format() -> str:
    """GitHub's annotations inside its Actions, else text."""
    return "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"


def save_report(body: str, target: str) -> None:
    """Write a report. Raises BadFile."""
    write_report(target, body if body.endswith("\n") else body + "\n")


class SkippedRule(Record, frozen=True, kw_only=True):
    """A rule that could not be answered for deployments of a file, and the facts that were missing."""

    rule: str
    file: str
    missing: list[str]
    deployments: int


class CheckSummary(Record, frozen=True, kw_only=True):
    """Counts of a run."""

    files: int
    rules: int  # in force
    errors: int
    warnings: int
    infos: int
    rules_skipped: int
    exit_status: int  # 0 starts and fits, 1 does not, 2 cannot tell


class CheckAnswer(Answer, frozen=True, kw_only=True):
    """`advise check --json`."""

    deployments: list[CheckedDeployment]
    findings: list[Finding]
    skipped: list[SkippedRule]
    suppressed: list[Finding]
    problems: list[FileProblem]
    summary: CheckSummary


def as_json(report: CheckReport) -> CheckAnswer:
    """The report as `--json` prints it."""
    levels = [f.severity for f in report.findings]
    return CheckAnswer(
        deployments=list(report.deployments),
        findings=list(report.findings),
        skipped=_counted(report),
        suppressed=list(report.suppressed),
        problems=list(report.problems),
        summary=CheckSummary(
            files=report.files,
            rules=report.rules,
            errors=levels.count("error"),
            warnings=levels.count("warning"),
            infos=levels.count("info"),
            rules_skipped=len(report.skipped),
            exit_status=report.status(),
        ),
    )


def _counted(report: CheckReport) -> list[SkippedRule]:
    """Skipped rules by file and rule."""
    missing: dict[tuple[str, str], set[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for rule_skip in report.skipped:
        key = (rule_skip.file, rule_skip.rule)
        missing.setdefault(key, set()).update(rule_skip.missing)
        counts[key] = counts.get(key, 0) + 1
    return [SkippedRule(rule=k[1], file=k[0], missing=sorted(m), deployments=counts[k]) for k, m in missing.items()]
