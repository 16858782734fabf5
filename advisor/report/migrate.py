"""`advise migrate` as text."""

from __future__ import annotations

from advisor.advice.migrate import Migration
from advisor.report.text import bullets, paint, table


def migrated(x: Migration) -> str:
    """What changes, flag by flag, then files and clients, then features."""
    out = [paint(f"From {x.names[0]} to {x.names[1]}", "bold")]
    out += bullets(x.warnings)
    rows, notes = [], []
    for s in x.settings:
        value = f" {s.value}" if s.value else ""
        rows.append([s.label, _cut((s.before or "-") + value), _cut(s.after or "(none)")])
        if s.default_before != s.default_after and (s.default_before or s.default_after):
            notes.append(
                f"{s.label}: unasked {s.default_before or 'not known'} there, {s.default_after or 'not known'} here"
            )
        if s.note:
            notes.append(f"{s.label}: {s.note}")
        if s.before and not s.after and s.value:
            notes.append(f"{s.label}: {s.before} has no equivalent")
    out += ["", table(rows, ("", x.source, x.target), "lll")]
    for title, lines in (
        ("What differs", notes),
        ("Files, clients, operation", x.says),
        ("Not translated", [f"{n} of the launch has no entry here" for n in x.unknown]),
        ("Formats that do not move along", x.formats_lost),
        ("Lost", x.lost),
        ("Gained", x.gained),
    ):
        if lines:
            out += ["", f"{title}:", *bullets(lines)]
    return "\n".join(out)


def _cut(text: str, width: int = 23) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
