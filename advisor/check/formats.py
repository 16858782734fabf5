"""One function a format: a Report in, its text out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from advisor.catalog import Catalog
from advisor.check.findings import Report


def json_text(r: Report, rules: Catalog) -> str:
    """The machine-readable form."""
    from advisor.check.report import as_json

    return msgspec.json.format(msgspec.json.encode(as_json(r)), indent=2).decode()


def text(r: Report, rules: Catalog) -> str:
    """`path:line:col: severity rule message`, then a table of the deployments."""
    from advisor.check.format_text import text as made

    return made(r)


FORMATS: dict[str, Callable[[Report, Catalog], str]] = {"json": json_text, "text": text}
