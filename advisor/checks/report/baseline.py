"""Baselines: the findings of today, so that CI reports new ones only. Keyed by file, resource and rule, not by line."""

from __future__ import annotations

import json
from collections import Counter

import msgspec

from advisor.checks.findings import CheckReport, Finding
from advisor.checks.report.format_common import relative_path
from advisor.errors import BadFile
from advisor.files import read_json, write_report
from advisor.safe_text import escape_text


def _key(finding: Finding) -> tuple[str, str, str]:
    return escape_text(relative_path(finding.file)), escape_text(finding.resource or ""), finding.rule


def write_baseline(report: CheckReport, path: str) -> None:
    """Write the findings of a report as a baseline. Raises BadFile."""
    counts = Counter(_key(f) for f in report.findings)
    rows = [{"file": f, "resource": res, "rule": rule, "count": n} for (f, res, rule), n in sorted(counts.items())]
    write_report(path, json.dumps({"version": 1, "findings": rows}, indent=2) + "\n")


def remove_baseline(report: CheckReport, path: str) -> CheckReport:
    """The report without what the baseline holds; entries that match nothing are findings. Raises BadFile."""
    data = read_json(path)
    rows = data.get("findings") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(x, dict) for x in rows):
        raise BadFile(path, "is no baseline: `advise check --create-baseline FILE` writes one")
    left: Counter[tuple[str, str, str]] = Counter()
    for x in rows:
        count = x.get("count", 1)
        left[(str(x.get("file")), str(x.get("resource") or ""), str(x.get("rule")))] += (
            count if isinstance(count, int) else 1
        )
    kept: list[Finding] = []
    gone: list[Finding] = list(report.suppressed)
    for finding in report.findings:
        if left[_key(finding)] > 0:
            left[_key(finding)] -= 1
            gone.append(finding)
        else:
            kept.append(finding)
    checked = {relative_path(d.source) for d in report.deployments} | {relative_path(f.file) for f in report.findings}
    for (file, resource, rule), n in sorted(left.items()):
        if n > 0 and file in checked:
            kept.append(
                Finding(
                    rule="suppression-unused",
                    severity="info",
                    file=file,
                    line=1,
                    phase="lint",
                    resource=resource or None,
                    message=f"the baseline holds {rule}, which is not found any more",
                    fix="Write the baseline again",
                )
            )
    return msgspec.structs.replace(report, findings=tuple(kept), suppressed=tuple(gone))
