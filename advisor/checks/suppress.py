"""Suppressions: `# advise: ignore[rule] reason` on or above a line, `file-ignore`, annotations of an object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from advisor.checks.findings import Finding
from advisor.checks.read.launch import Launch
from advisor.checks.read.located_text import lines_of
from advisor.record import Value

_COMMENT = re.compile(r"(?:#|//|;)\s*advise:\s*(ignore|file-ignore)\s*\[([^\]]*)\]\s*(.*)$")


class Suppression(Value, frozen=True):
    """One comment that suppresses rules."""

    line: int
    rules: tuple[str, ...]
    whole_file: bool
    reason: str
    alone: bool  # nothing else stands on the line


def find_suppressions(source: str) -> list[Suppression]:
    """The suppressions of a text."""
    out = []
    for n, line in enumerate(lines_of(source), 1):
        m = _COMMENT.search(line)
        if m:
            rules = tuple(r.strip() for r in m[2].split(",") if r.strip())
            out.append(Suppression(n, rules, m[1] == "file-ignore", m[3].strip(), not line[: m.start()].strip()))
    return out


def apply_suppressions(
    findings: Sequence[Finding], source: str, file: str, launches: Sequence[Launch], on: bool, book: Any
) -> tuple[list[Finding], list[Finding]]:
    """(findings that stand, findings that are suppressed). A suppression of nothing is a finding of its own."""
    if not on:
        return list(findings), []
    found = find_suppressions(source) if "advise:" in source else []
    notes = {x.resource: x.ignore for x in launches if x.ignore}
    kept: list[Finding] = []
    gone: list[Finding] = []
    used: set[int] = set()
    lines = lines_of(source)
    for finding in findings:
        hit = next(
            (
                i
                for i, s in enumerate(found)
                if finding.rule in s.rules and (s.whole_file or finding.line in _covered(s, lines))
            ),
            None,
        )
        if hit is not None:
            used.add(hit)
            gone.append(finding)
        elif finding.rule in notes.get(finding.resource, {}):
            gone.append(finding)
        else:
            kept.append(finding)
    if "suppression-unused" not in book.ignored:
        for i, suppression in enumerate(found):
            if i not in used and all(book.in_force(r) or r not in book.all for r in suppression.rules):
                kept.append(
                    Finding(
                        rule="suppression-unused",
                        severity="info",
                        file=file,
                        line=suppression.line,
                        phase="lint",
                        message=f"nothing is suppressed by ignore[{', '.join(suppression.rules)}]",
                        fix="Remove the comment",
                    )
                )
    return kept, gone


def _covered(suppression: Suppression, lines: Sequence[str]) -> range:
    """The lines a comment is for: its own, or when it stands alone the next one and what continues it."""
    if not suppression.alone:
        return range(suppression.line, suppression.line + 1)
    end = suppression.line + 1
    while end <= len(lines) and (lines[end - 1].rstrip().endswith("\\") or lines[end - 1].lstrip().startswith("#")):
        end += 1
    return range(suppression.line, end + 1)
