"""The report for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from advisor.checks.findings import CheckedDeployment, CheckReport
from advisor.deployment import OFFLOADED
from advisor.units import GIB

Row = tuple[str, str, str, str, str, str]


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
        lines += _accounts(report) if report.verbose else ()
    lines.append(_summary(report))
    return "\n".join(lines) + "\n"


def _table(report: CheckReport) -> list[str]:
    rows = [("deployment", "hardware", "needs", "of", "seqs", "verdict")]
    rows += [describe_deployment(d, (d.model or "?").rpartition("/")[2], report) for d in report.deployments]
    limits = (28, 20, 7, 7, 6, 12)
    cut = [[c if len(c) <= n else c[: n - 1] + "…" for c, n in zip(row, limits, strict=True)] for row in rows]
    widths = [max(len(row[i]) for row in cut) for i in range(6)]
    return ["  ".join(c.ljust(widths[i]) for i, c in enumerate(row)).rstrip() for row in cut]


def describe_deployment(
    deployment: CheckedDeployment, model: str, report: CheckReport
) -> tuple[str, str, str, str, str, str]:
    """(engine and model, hardware, memory that is needed, of how much, requests that are held, verdict)."""
    verdict, least = fits_word(deployment.fits, report.asked_fit, deployment.waits), deployment.least
    called = f"{deployment.engine} {model}"
    if least is not None and report.asked_fit:
        cards, needs = f"e.g. {least.hardware.replace('GeForce ', '')}", f"{least.needs_bytes / GIB:.1f}G"
        return called, cards, needs, "-", "-", "not stated"
    return called, deployment.hardware or "unknown", *_describe_memory(deployment), verdict


def _describe_memory(deployment: CheckedDeployment) -> tuple[str, str, str]:
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


def fits_word(fits: bool | None, asked: bool, waits: bool = False) -> str:
    open_ = "starts" if waits else "cannot tell"
    return "not asked" if not asked else {True: "fits", False: "does not fit", None: open_}[fits]


def _reasons(report: CheckReport) -> Iterator[str]:
    if not report.asked_fit:
        return
    for deployment in report.deployments:
        if deployment.fits is True:
            warnings = deployment.memory.warnings if deployment.memory is not None else ()
            yield from (f"{deployment.source}:{deployment.line}: fits: {x}" for x in warnings if OFFLOADED in x)
            continue
        told = fits_word(deployment.fits, True, deployment.waits)
        told = told if deployment.least is None else "the hardware is not stated (--on)"
        for why in deployment.why[: 1 if deployment.waits else 3]:
            yield f"{deployment.source}:{deployment.line}: {told}: {why}"
    assumptions = dict.fromkeys(a for d in report.deployments for a in d.assumed)
    for a in list(assumptions)[:6]:
        yield f"assumed: {a}"


def _accounts(report: CheckReport) -> Iterator[str]:
    """What each launch comes to, and what of it was not used."""
    for deployment in report.deployments:
        place = f"{deployment.source}:{deployment.line}"
        yield f"{place}: launched with {', '.join(f'{k} {v}' for k, v in deployment.request.items()) or 'defaults'}"
        yield from (f"{place}: not modelled: {x}" for x in deployment.not_modelled)
        if deployment.unused:
            yield f"{place}: without effect on the verdict: {', '.join(deployment.unused)}"


def _summary(report: CheckReport) -> str:
    levels = [f.severity for f in report.findings]
    over = f" ({report.passed_over} no deployment)" if report.passed_over else ""
    parts = [_count(report.files, "file") + over, _count(len(report.deployments), "deployment")]
    parts += [_count(n, level) for level in ("error", "warning", "info") if (n := levels.count(level))]
    if report.skipped:
        missing = (m for skip in report.skipped for m in skip.missing[:1])
        machine = ("gpu.", "driver.", "host.")
        needed = Counter("hardware" if m.startswith(machine) else m.partition(".")[0] for m in missing)
        most = ", ".join(name for name, _ in needed.most_common(3))
        parts.append(f"{_count(len(report.skipped), 'rule check')} skipped (needed: {most})")
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} suppressed")
    return ", ".join(parts)


def _count(n: int, name: str) -> str:
    return f"{n} {name}{'s' if n != 1 else ''}"
