"""`advise migrate` as text."""

from __future__ import annotations

from advisor.advice.migrate import Migration
from advisor.report.text import align_table, bullets, paint


def describe_migration(migration: Migration) -> str:
    """What changes, flag by flag, then files and clients, then features."""
    out = [paint(f"From {migration.names[0]} to {migration.names[1]}", "bold")]
    out += bullets(migration.warnings)
    rows, notes = [], []
    for setting_change in migration.settings:
        value = f" {setting_change.value}" if setting_change.value else ""
        rows.append(
            [setting_change.label, _cut((setting_change.before or "-") + value), _cut(setting_change.after or "(none)")]
        )
        if setting_change.default_before != setting_change.default_after and (
            setting_change.default_before or setting_change.default_after
        ):
            notes.append(
                f"{setting_change.label}: unasked {setting_change.default_before or 'not known'} there, "
                f"{setting_change.default_after or 'not known'} here"
            )
        if setting_change.note:
            notes.append(f"{setting_change.label}: {setting_change.note}")
        if setting_change.before and not setting_change.after and setting_change.value:
            notes.append(f"{setting_change.label}: {setting_change.before} has no equivalent")
    out += ["", align_table(rows, ("", migration.source, migration.target), "lll")]
    for title, lines in (
        ("What differs", notes),
        ("Files, clients, operation", migration.says),
        ("Not translated", [f"{n} of the launch has no entry here" for n in migration.unknown]),
        ("Formats that do not move along", migration.formats_lost),
        ("Lost", migration.lost),
        ("Gained", migration.gained),
    ):
        if lines:
            out += ["", f"{title}:", *bullets(lines)]
    return "\n".join(out)


def _cut(text: str, width: int = 23) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
