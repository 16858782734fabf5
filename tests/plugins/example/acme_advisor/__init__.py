"""Acme's engine: its rules and templates, a module for its settings, and a reader of its deployment files."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
RULES = HERE / "rules"
TEMPLATES = HERE / "templates"
ENGINES = {"acmeserve": "acme_advisor.engine"}  # imported when the engine is asked for


def read_acme_file(text: str, name: str) -> list[tuple[int, str]] | None:
    """The launches of a file `*.acme`: a command a line, after `serve:`."""
    if not name.endswith(".acme"):
        return None
    lines = enumerate(text.splitlines(), 1)
    return [(number, line.removeprefix("serve:")) for number, line in lines if line.startswith("serve:")]


READERS = (read_acme_file,)
