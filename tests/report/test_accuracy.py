"""docs/accuracy.md is what its command makes, and the measured rows keep within their bars."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.accuracy import page, rows, startup

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"
RULES = catalog([shipped_root()])
ROWS = [c for r in rows.read_rows(DATA / "vram_logs.csv") if (c := rows.compare_row(r, RULES)) is not None]


HOW = "run: python -m tools.accuracy.page tests/data docs/accuracy.md"


@pytest.mark.slow
def test_the_whole_page_is_made_from_the_rows() -> None:
    assert (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8") == page.make_accuracy_page(DATA, RULES), HOW


def test_kv_pools_that_engines_logged() -> None:
    errors = [abs(c.pool[0] - c.pool[1]) for c in ROWS if c.pool]
    assert len(errors) >= 20
    assert statistics.median(errors) <= 1.25  # the goal is 1.0; seen: 1.15


def test_weights_that_engines_logged() -> None:
    errors = [abs(c.weights[0] - c.weights[1]) / c.weights[1] for c in ROWS if c.weights]
    assert len(errors) >= 45
    assert statistics.median(errors) <= 0.005


def test_intervals_hold_most_readings_and_are_narrow() -> None:
    inside = [c.inside for c in ROWS if c.inside]
    assert sum(low <= x <= high for low, high, x in inside) / len(inside) >= 0.8
    assert statistics.median((high - low) / 2 / x for low, high, x in inside) <= 0.15


def test_nothing_that_was_refused_is_called_a_fit() -> None:
    """But for the one that froze after it had logged its KV pool: its memory was enough."""
    refused = [c for c in ROWS if not c.ran and not c.row["outcome"].startswith("froze")]
    assert len(refused) >= 4
    assert not [c.row["row_id"] for c in refused if c.fits is True]


@pytest.mark.parametrize("fit", [False, True])
def test_activation_peaks(fit: bool) -> None:
    """Also with coefficients fitted without the group that is judged."""
    errors = [abs(a - b) / b for _, a, b in startup.peak_errors(startup.read_peaks(DATA), RULES, fit)]
    assert statistics.median(errors) <= 0.08
    assert sorted(errors)[-3] <= 0.15  # all but one, and Qwen2Moe, whose checkpoint is a guess
    assert max(errors) <= 0.35
