"""The report in the formats that people and CI systems read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from advisor.catalog import Catalog
from advisor.check.findings import Report
from advisor.errors import BadFile


def render(r: Report, name: str, rules: Catalog) -> str:
    """The report as text, json, sarif, junit, github, gitlab or markdown."""
    from advisor.check import formats

    return formats.FORMATS[name](r, rules)


def default_format() -> str:
    """GitHub's annotations inside its Actions, else text."""
    return "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"


def save(body: str, target: str) -> None:
    """Write a report. Raises BadFile."""
    try:
        Path(target).write_text(body if body.endswith("\n") else body + "\n", encoding="utf-8")
    except OSError as e:
        raise BadFile(target, f"cannot be written: {e.strerror or e}") from None


def as_json(r: Report) -> dict[str, Any]:
    """The report as plain data, as `--json` prints it."""
    data = r.to_dict()
    return {
        "deployments": data["deployments"],
        "findings": data["findings"],
        "skipped": _counted(data["skipped"]),
        "suppressed": data["suppressed"],
        "problems": data["problems"],
        "summary": {
            "files": r.files,
            "rules": r.rules,
            "errors": sum(f.severity == "error" for f in r.findings),
            "warnings": sum(f.severity == "warning" for f in r.findings),
            "infos": sum(f.severity == "info" for f in r.findings),
            "rules_skipped": len(r.skipped),
        },
    }


def _counted(skipped: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Skipped rules by file and rule."""
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for s in skipped:
        row = out.setdefault(
            (s["file"], s["rule"]), {"rule": s["rule"], "file": s["file"], "missing": [], "deployments": 0}
        )
        row["deployments"] += 1
        row["missing"] = sorted({*row["missing"], *s["missing"]})
    return list(out.values())
