"""The report for people."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.checks.findings import Judged, Report
from advisor.units import GIB

WIDTH = 80


def text(r: Report) -> str:
    """Findings one a line, then the deployments as a table, then what cannot be told and what was left out."""
    lines: list[str] = []
    for p in r.problems:
        lines.append(f"{p.file}:{p.line or 1}:1: error unreadable {p.message}")
    for f in r.findings:
        lines.append(f"{f.file}:{f.line}:{f.column}: {f.severity} {f.rule} {f.message}")
        lines.append(f"    fix: {f.fix}")
    if r.deployments:
        if lines:
            lines.append("")
        lines += _table(r)
        lines += _reasons(r)
    lines.append(_summary(r))
    return "\n".join(lines) + "\n"


def _table(r: Report) -> list[str]:
    rows = [("deployment", "hardware", "needs", "of", "seqs", "verdict")]
    for d in r.deployments:
        need, budget, held = figures(d)
        rows.append((_label(d), d.hardware or "unknown", need, budget, held, word(d.fits, r.asked_fit)))
    limits = (28, 20, 7, 7, 6, 12)
    cut = [[_cut(c, limits[i]) for i, c in enumerate(row)] for row in rows]
    widths = [max(len(row[i]) for row in cut) for i in range(6)]
    return ["  ".join(c.ljust(widths[i]) for i, c in enumerate(row)).rstrip() for row in cut]


def figures(d: Judged) -> tuple[str, str, str]:
    if d.memory is None:
        return "-", "-", "-"
    rows = [x for x in d.memory["devices"] if x["total_bytes"] is not None] or (
        [d.memory["host"]] if d.memory.get("host") else []
    )
    if not rows or rows[0].get("total_bytes") is None:
        return "-", "-", "-"
    fullest = max(rows, key=lambda x: x["total_bytes"])
    held = d.memory["kv_cache"]["max_sequences"]
    budget = fullest.get("budget_bytes") or fullest.get("capacity_bytes")
    return (
        f"{fullest['total_bytes'] / GIB:.1f}G",
        f"{budget / GIB:.1f}G" if budget else "-",
        str(held) if held is not None else "-",
    )


def _label(d: Judged) -> str:
    model = (d.model or "?").rpartition("/")[2]
    return f"{d.engine} {model}"


def _cut(value: str, width: int) -> str:
    return value if len(value) <= width else value[: width - 1] + "…"


def word(fits: bool | None, asked: bool) -> str:
    return "not asked" if not asked else {True: "fits", False: "does not fit", None: "cannot tell"}[fits]


def _reasons(r: Report) -> Iterator[str]:
    if not r.asked_fit:
        return
    for d in r.deployments:
        if d.fits is True:
            continue
        for why in d.why[:3]:
            yield f"{d.source}:{d.line}: {word(d.fits, True)}: {why}"
    said = dict.fromkeys(a for d in r.deployments for a in d.assumed)
    for a in list(said)[:6]:
        yield f"assumed: {a}"


def _summary(r: Report) -> str:
    n = {s: sum(f.severity == s for f in r.findings) for s in ("error", "warning", "info")}
    parts = [
        f"{r.files} file{'s' if r.files != 1 else ''}",
        f"{len(r.deployments)} deployment{'s' if len(r.deployments) != 1 else ''}",
    ]
    parts += [f"{k} {name}{'s' if k != 1 else ''}" for name, k in n.items() if k]
    if r.skipped:
        wanted: dict[str, int] = {}
        for s in r.skipped:
            for m in s.missing[:1]:
                head = "hardware" if m.startswith(("gpu.", "driver.", "host.")) else m.partition(".")[0]
                wanted[head] = wanted.get(head, 0) + 1
        most = ", ".join(sorted(wanted, key=lambda k: -wanted[k])[:3])
        parts.append(f"{len(r.skipped)} rule checks skipped (they need {most})")
    if r.suppressed:
        parts.append(f"{len(r.suppressed)} suppressed")
    return ", ".join(parts)
