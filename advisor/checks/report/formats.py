"""One function a format: a CheckReport in, its text out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from advisor.catalog import Catalog
from advisor.checks.findings import CheckReport
from advisor.checks.report.answer import as_json
from advisor.checks.report.format_common import fingerprint_finding, pretty_json, relative_path, verdict_findings
from advisor.checks.report.format_junit import junit
from advisor.checks.report.format_sarif import sarif
from advisor.safe_text import escape_commands, make_safe


def json_text(report: CheckReport, rules: Catalog) -> str:
    """The machine-readable form."""
    return pretty_json(as_json(report))


def text(report: CheckReport, rules: Catalog) -> str:
    """`path:line:col: severity rule message`, then a table of the deployments."""
    from advisor.checks.report.format_text import describe_report as made

    return made(report)


def github(report: CheckReport, rules: Catalog) -> str:
    """Workflow commands that GitHub Actions turns into annotations, then the text of the report's table."""
    kinds = {"error": "error", "warning": "warning", "info": "notice"}
    lines = [
        f"::{kinds[f.severity]} file={_property(relative_path(f.file))},line={max(1, f.line)},col={max(1, f.column)},"
        f"title={_property(f.rule)}::{_data(f'{f.message}. {f.fix}')}"
        for f in verdict_findings(report)
    ]
    return "\n".join(lines) + ("\n" if lines else "")


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def gitlab(report: CheckReport, rules: Catalog) -> str:
    """GitLab's code-quality report."""
    severity = {"error": "major", "warning": "minor", "info": "info"}
    seen: dict[str, int] = {}
    out = []
    for finding in verdict_findings(report):
        mark = fingerprint_finding(finding)
        n = seen[mark] = seen.get(mark, 0) + 1
        out.append(
            {
                "description": f"{finding.message}. {finding.fix}",
                "check_name": finding.rule,
                "fingerprint": mark if n == 1 else hashlib.sha256(f"{mark}{n}".encode()).hexdigest()[:32],
                "severity": severity[finding.severity],
                "location": {"path": relative_path(finding.file), "lines": {"begin": max(1, finding.line)}},
            }
        )
    return pretty_json(out)


def markdown(report: CheckReport, rules: Catalog) -> str:
    """A summary for job pages and pull requests."""
    from advisor.checks.report.format_text import describe_memory, fits_word

    lines = ["## advise check", ""]
    if report.deployments:
        lines += [
            "| deployment | hardware | needs | of | sequences | verdict |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for deployment in report.deployments:
            need, budget, held = describe_memory(deployment)
            cells = (
                f"{deployment.engine} {deployment.model or '?'}",
                deployment.hardware or "unknown",
                need,
                budget,
                held,
                fits_word(deployment.fits, report.asked_fit),
            )
            lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
        lines.append("")
    found = verdict_findings(report)
    if found:
        lines += ["| place | severity | rule | what | fix |", "| --- | --- | --- | --- | --- |"]
        lines += [
            "| "
            + " | ".join(_cell(c) for c in (f"{relative_path(f.file)}:{f.line}", f.severity, f.rule, f.message, f.fix))
            + " |"
            for f in found
        ]
        lines.append("")
    lines.append(
        f"{report.files} files, {len(report.deployments)} deployments, {len(report.findings)} findings, "
        f"{len(report.skipped)} rule checks skipped for lack of facts."
    )
    return "\n".join(lines) + "\n"


_MARKUP, _REFERENCE = re.compile(r"[\\|\[\]`*~]"), re.compile(r"://|@|(?<=www)\.|(?<![\w&])#(?=\d)")


def _cell(value: str) -> str:
    """Text in a table: no markup, no links, no mentions."""
    plain = _MARKUP.sub(lambda m: "\\" + m[0], value.replace("\n", " ").replace("<", "&lt;"))
    return _REFERENCE.sub(lambda m: m[0][:1] + "<!-- -->" + m[0][1:] if m[0] != "." else "<!-- -->.", plain)


FORMATS: dict[str, Callable[[CheckReport, Catalog], str]] = {
    "json": json_text,
    "text": text,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
    "markdown": markdown,
}


def write_report_text(report: CheckReport, name: str, rules: Catalog) -> str:
    """The report in the format of this name, without secrets and without what a terminal or a runner would obey."""
    made = FORMATS[name](make_safe(report), rules)
    if name == "github":
        return made.replace("##[", "#\\#[").replace("##vso[", "#\\#vso[")
    if name in ("json", "sarif", "gitlab"):
        return made.replace("##[", "#\\u0023[")
    return "\n".join(escape_commands(line) for line in made.split("\n"))
