"""The report for people."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.checks.findings import CheckedDeployment, CheckReport
from advisor.units import GIB

WIDTH = 80


def describe_report(report: CheckReport) -> str:
    """Findings one a line, then the deployments as a table, then what cannot be determined and what was left out."""
    lines: list[str] = []
    for file_problem in report.problems:
        lines.append(f"{file_problem.file}:{file_problem.line or 1}:1: error unreadable {file_problem.message}")
    for finding in report.findings:
        lines.append(
            f"{finding.file}:{finding.line}:{finding.column}: {finding.severity} {finding.rule} {finding.message}"
        )
        lines.append(f"    fix: {finding.fix}")
    if report.deployments:
        if lines:
            lines.append("")
        lines += _table(report)
        lines += _reasons(report)
    lines.append(_summary(report))
    return "\n".join(lines) + "\n"


def _table(report: CheckReport) -> list[str]:
    rows = [("deployment", "hardware", "needs", "of", "seqs", "verdict")]
    for deployment in report.deployments:
        need, budget, held = describe_memory(deployment)
        rows.append(
            (
                _label(deployment),
                deployment.hardware or "unknown",
                need,
                budget,
                held,
                fits_word(deployment.fits, report.asked_fit),
            )
        )
    limits = (28, 20, 7, 7, 6, 12)
    cut = [[_cut(c, limits[i]) for i, c in enumerate(row)] for row in rows]
    widths = [max(len(row[i]) for row in cut) for i in range(6)]
    return ["  ".join(c.ljust(widths[i]) for i, c in enumerate(row)).rstrip() for row in cut]


def describe_memory(deployment: CheckedDeployment) -> tuple[str, str, str]:
    memory = deployment.memory
    if memory is None:
        return "-", "-", "-"
    known = [x for x in memory.devices if x.total_bytes is not None] or ([memory.host] if memory.host else [])
    fullest = max(known, key=lambda x: x.total_bytes or 0, default=None)
    if fullest is None or fullest.total_bytes is None:
        return "-", "-", "-"
    held = memory.kv_cache.max_sequences
    budget = fullest.budget_bytes or fullest.capacity_bytes
    return (
        f"{fullest.total_bytes / GIB:.1f}G",
        f"{budget / GIB:.1f}G" if budget else "-",
        str(held) if held is not None else "-",
    )


def _label(deployment: CheckedDeployment) -> str:
    model = (deployment.model or "?").rpartition("/")[2]
    return f"{deployment.engine} {model}"


def _cut(value: str, width: int) -> str:
    return value if len(value) <= width else value[: width - 1] + "…"


def fits_word(fits: bool | None, asked: bool) -> str:
    return "not asked" if not asked else {True: "fits", False: "does not fit", None: "cannot tell"}[fits]


def _reasons(report: CheckReport) -> Iterator[str]:
    if not report.asked_fit:
        return
    for deployment in report.deployments:
        if deployment.fits is True:
            continue
        for why in deployment.why[:3]:
            yield f"{deployment.source}:{deployment.line}: {fits_word(deployment.fits, True)}: {why}"
    assumptions = dict.fromkeys(a for d in report.deployments for a in d.assumed)
    for a in list(assumptions)[:6]:
        yield f"assumed: {a}"


def _summary(report: CheckReport) -> str:
    n = {s: sum(f.severity == s for f in report.findings) for s in ("error", "warning", "info")}
    parts = [
        f"{report.files} file{'s' if report.files != 1 else ''}",
        f"{len(report.deployments)} deployment{'s' if len(report.deployments) != 1 else ''}",
    ]
    parts += [f"{k} {name}{'s' if k != 1 else ''}" for name, k in n.items() if k]
    if report.skipped:
        needed: dict[str, int] = {}
        for rule_skip in report.skipped:
            for m in rule_skip.missing[:1]:
                head = "hardware" if m.startswith(("gpu.", "driver.", "host.")) else m.partition(".")[0]
                needed[head] = needed.get(head, 0) + 1
        most = ", ".join(sorted(needed, key=lambda k: -needed[k])[:3])
        parts.append(
            f"{len(report.skipped)} rule check{'s' if len(report.skipped) != 1 else ''} skipped (needed: {most})"
        )
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} suppressed")
    return ", ".join(parts)
