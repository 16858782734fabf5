"""No false error on launch lines of the engines' recipes, SGLang's cookbook and model makers' own pages.

tests/data/official_launches.csv: an error counts as true only where the release of today, which no line pins, has no
such flag or value: by the engines' own parsers (rules/flags), looked up in the source of SGLang 0.5.23.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from collect import read_table

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook

RULES = catalog([shipped_root()])
ROWS = read_table()
STEP = 9  # one row in so many by default


def judge(rows: list[dict[str, str]], folder: Path) -> int:
    """How many launches are seen; fails for an error that is not among the true ones, for a true one that is not named
    (a warning, where only the release is assumed), and for hardware refused."""
    knowledge = Knowledge(RULES)
    book = Rulebook(knowledge)
    seen, wrong = 0, []
    for row in rows:
        options = CheckOptions(on=row["hardware"] or None, fit=bool(row["hardware"]))
        found = check_source(f"{row['command']}\n", "serve.sh", folder, make_checker(book, options))
        seen += bool(found.verdicts)
        errors = {f.rule for f in found.findings if f.severity == "error"}
        true, named = set(row["errors"].split()), {f.rule for f in found.findings}
        if errors - true or true - named or any(v.fits is False for v in found.verdicts):
            wrong.append((sorted(errors), row["errors"], row["hardware"], row["command"], row["source"]))
    assert wrong == []
    return seen


def test_the_table_is_broad() -> None:
    assert len(ROWS) >= 800
    assert len({r["source"].split("@")[0] for r in ROWS}) >= 20
    assert sum(bool(r["errors"]) for r in ROWS) <= 0.04 * len(ROWS), "lines of old pages that fail today"
    assert all(r["why"] for r in ROWS if r["errors"])


def test_one_line_in_some(tmp_path: Path) -> None:
    rows = ROWS[::STEP]
    assert judge(rows, tmp_path) >= 0.85 * len(rows)


@pytest.mark.slow
def test_every_line(tmp_path: Path) -> None:
    assert judge(ROWS, tmp_path) >= 0.89 * len(ROWS)
