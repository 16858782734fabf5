"""`--fix` and `--diff`: the safe changes of all findings, file by file."""

from __future__ import annotations

import difflib
from pathlib import Path

from advisor.checks.findings import CheckReport, FileEdit
from advisor.checks.rules.edits import apply_edits
from advisor.errors import BadFile
from advisor.safe_text import escape_commands, escape_text, mask_secrets


def count_uncertain(report: CheckReport) -> int:
    """Findings whose change rests on a version that the file does not state."""
    return sum(bool(f.edits) and not f.certain and f.file != "-" for f in report.findings)


def fix_report(report: CheckReport, write: bool, unsafe: bool = False) -> str:
    """A unified diff of the safe changes; with `write` they are made. Raises BadFile for a file that cannot be written.

    `unsafe`: those that rest on an assumed version as well.

    A file is read again and changed only where its lines are still what was checked.
    """
    out: list[str] = []
    by_file: dict[str, list[FileEdit]] = {}
    for finding in report.findings:
        if finding.edits and finding.file != "-" and (finding.certain or unsafe):
            by_file.setdefault(finding.file, []).extend(finding.edits)
    for file, edits in sorted(by_file.items()):
        before = _read(file)
        after = apply_edits(before, edits)
        if after == before:
            continue
        out += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
        )
        if write:
            try:
                with Path(file).open("w", encoding="utf-8", newline="") as f2:
                    f2.write(after)
            except OSError as e:
                raise BadFile(file, f"cannot be written: {e.strerror or e}") from None
    lines = "".join(x if x.endswith("\n") else x + "\n\\ No newline at end of file\n" for x in out).split("\n")
    return "\n".join(escape_commands(escape_text(mask_secrets(x.removesuffix("\r")))) for x in lines)


def _read(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8", newline="") as f:
            return f.read()
    except (OSError, UnicodeDecodeError) as e:
        raise BadFile(file, f"cannot be read: {e}") from None
