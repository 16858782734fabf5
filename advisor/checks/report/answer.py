"""The report as plain data, its usual format, and where it is written."""

from __future__ import annotations

import os
from itertools import chain

from advisor.checks.findings import CheckedDeployment, CheckReport, FileProblem, Finding
from advisor.record import Answer, Record


def default_format() -> str:
    """GitHub's annotations inside its Actions, else text."""
    return "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"


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
    passed_over: int = 0  # of the files: found in a folder, and no deployment
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
            files=report.files, passed_over=report.passed_over, rules=report.rules, errors=levels.count("error"),
            warnings=levels.count("warning"), infos=levels.count("info"), rules_skipped=len(report.skipped),
            exit_status=report.status()
        ),
    )  # fmt: skip


def _counted(report: CheckReport) -> list[SkippedRule]:
    """Skipped rules by file and rule."""
    skips: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for skip in report.skipped:
        skips.setdefault((skip.file, skip.rule), []).append(skip.missing)
    return [
        SkippedRule(rule=rule, file=file, missing=sorted({*chain(*missing)}), deployments=len(missing))
        for (file, rule), missing in skips.items()
    ]
