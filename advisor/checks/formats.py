"""One function a format: a Report in, its text out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from advisor.catalog import Catalog
from advisor.checks.findings import Report
from advisor.checks.format_common import fingerprint, pretty, relative, verdict_findings
from advisor.checks.format_junit import junit
from advisor.checks.format_sarif import sarif
from advisor.checks.report import as_json


def json_text(r: Report, rules: Catalog) -> str:
    """The machine-readable form."""
    return pretty(as_json(r))


def text(r: Report, rules: Catalog) -> str:
    """`path:line:col: severity rule message`, then a table of the deployments."""
    from advisor.checks.format_text import text as made

    return made(r)


def github(r: Report, rules: Catalog) -> str:
    """Workflow commands that GitHub Actions turns into annotations, then the text of the report's table."""
    kinds = {"error": "error", "warning": "warning", "info": "notice"}
    lines = [
        f"::{kinds[f.severity]} file={_property(relative(f.file))},line={max(1, f.line)},col={max(1, f.column)},"
        f"title={_property(f.rule)}::{_data(f'{f.message}. {f.fix}')}"
        for f in verdict_findings(r)
    ]
    return "\n".join(lines) + ("\n" if lines else "")


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def gitlab(r: Report, rules: Catalog) -> str:
    """GitLab's code-quality report."""
    severity = {"error": "major", "warning": "minor", "info": "info"}
    seen: dict[str, int] = {}
    out = []
    for f in verdict_findings(r):
        mark = fingerprint(f)
        n = seen[mark] = seen.get(mark, 0) + 1
        out.append(
            {
                "description": f"{f.message}. {f.fix}",
                "check_name": f.rule,
                "fingerprint": mark if n == 1 else hashlib.sha256(f"{mark}{n}".encode()).hexdigest()[:32],
                "severity": severity[f.severity],
                "location": {"path": relative(f.file), "lines": {"begin": max(1, f.line)}},
            }
        )
    return pretty(out)


def markdown(r: Report, rules: Catalog) -> str:
    """A summary for job pages and pull requests."""
    from advisor.checks.format_text import figures, word

    lines = ["## advise check", ""]
    if r.deployments:
        lines += [
            "| deployment | hardware | needs | of | sequences | verdict |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for d in r.deployments:
            need, budget, held = figures(d)
            cells = (
                f"{d.engine} {d.model or '?'}",
                d.hardware or "unknown",
                need,
                budget,
                held,
                word(d.fits, r.asked_fit),
            )
            lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
        lines.append("")
    found = verdict_findings(r)
    if found:
        lines += ["| place | severity | rule | what | fix |", "| --- | --- | --- | --- | --- |"]
        lines += [
            "| "
            + " | ".join(_cell(c) for c in (f"{relative(f.file)}:{f.line}", f.severity, f.rule, f.message, f.fix))
            + " |"
            for f in found
        ]
        lines.append("")
    lines.append(
        f"{r.files} files, {len(r.deployments)} deployments, {len(r.findings)} findings, "
        f"{len(r.skipped)} rule checks skipped for lack of facts."
    )
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


FORMATS: dict[str, Callable[[Report, Catalog], str]] = {
    "json": json_text,
    "text": text,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
    "markdown": markdown,
}


def render(r: Report, name: str, rules: Catalog) -> str:
    """The report in the format of this name."""
    return FORMATS[name](r, rules)
