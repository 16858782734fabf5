"""`advise migrate` as text."""

from __future__ import annotations

from advisor.advice.migrate_types import Migration, NewLaunch, SettingChange
from advisor.report.text import align_table, bullets, paint

WIDTH = 23  # of a column


def describe_migration(migration: Migration) -> str:
    """What changes, flag by flag, then files and clients, then features; at the end the launch that takes the place."""
    out = [paint(f"From {migration.names[0]} to {migration.names[1]}", "bold")]
    out += bullets(migration.warnings)
    rows, notes = [], []
    for change in migration.settings:
        rows.append([change.label, _cell(change.before or "-", change.value), _cell(*_new(change))])
        notes += _notes(change)
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
    if migration.launch is not None:
        out += ["", *_launch(migration.launch)]
    elif migration.next is not None:
        out += ["", "Next:", *bullets((migration.next,))]
    return "\n".join(out)


def _new(change: SettingChange) -> tuple[str, str | None]:
    """The new engine's name and the value that is written, if any."""
    if change.after is None:
        return "(none)", None
    return change.after, change.written


def _notes(change: SettingChange) -> list[str]:
    """What to mind about one setting. Defaults matter only where the launch leaves it to the engine."""
    out = []
    differ = change.default_before != change.default_after and (change.default_before or change.default_after)
    if differ and change.value is None and change.written is None:
        out.append(
            f"{change.label}: unasked {change.default_before or 'not known'} there, "
            f"{change.default_after or 'not known'} here"
        )
    if change.note:
        out.append(f"{change.label}: {change.note}")
    if change.before and not change.after and change.value:
        out.append(f"{change.label}: {change.before} has no equivalent")
    return out


def _launch(launch: NewLaunch) -> list[str]:
    """The new launch, ready to paste, and what is known of it."""
    fits = {True: "it fits", False: "it does not fit", None: "whether it fits is not known"}[launch.fits]
    where = f" on {launch.hardware}" if launch.hardware else ""
    out = [paint(f"{launch.model} in {launch.quantization}{where}: {fits}", "bold"), *bullets(launch.notes)]
    out += [f"  - `advise check` finds: {f}" for f in launch.findings]
    out.append("")
    if len(launch.files) == 1 and launch.files[0][0] != "run.sh":
        name, content, _ = launch.files[0]
        out += [f"# {name}", content.rstrip("\n")]
    else:
        out.append("  " + (launch.command or "").replace("\n", "\n  "))
    name = f", model {launch.served_name}" if launch.served_name else ""
    out += ["", f"Clients: base_url {launch.url}{name}"]
    return out


def _cell(name: str, value: str | None) -> str:
    if value is None:
        return _cut(name)
    room = max(8, WIDTH - len(value) - 1)
    return f"{_cut(name, room)} {_cut(value, WIDTH)}" if len(value) < WIDTH - 8 else _cut(value)


def _cut(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
