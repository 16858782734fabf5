"""Tables of generated pages in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def escape_cell(text: object) -> str:
    """Text inside one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def make_markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + " --- |" * len(headers)]
    lines += ["| " + " | ".join("" if c is None else escape_cell(c) for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
