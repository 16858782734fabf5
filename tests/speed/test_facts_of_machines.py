"""Measured pairs that differ in one fact of the machine: predictions move as far, in the same direction."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from speed_asking import RULES

from advisor.speed.efficiencies import load_speed_rules
from tools.speed.rows import FitSample, MeasuredRow, make_samples, predict_sample, read_measured_rows

ROWS = Path(__file__).parents[1] / "data" / "speed_rows.csv"
LIMIT = r", power limit \d+ W"
CORES = r" \(\d+-core GPU\)"
# what a row says besides the fact, with the fact left out of the hardware's words
FACTS: dict[str, tuple[Callable[[MeasuredRow], str], str]] = {
    "backend": (lambda r: r.request.backend or "", r"$^"),
    "power limit": (lambda r: "".join(re.findall(LIMIT, r.request.hardware)), LIMIT),
    "GPU cores": (lambda r: "".join(re.findall(CORES, r.request.hardware)), CORES),
}
NEAR = 1.3  # ratio of the two predictions against that of the two measurements
SAME = 1.05  # measured ratios below have no direction


def _alike(row: MeasuredRow, words: str) -> tuple[object, ...]:
    asked = row.request
    return (
        row.kind, row.load, row.source, asked.model, asked.engine, asked.engine_version, asked.quantization,
        str(sorted(asked.settings.items())), asked.kv_cache_type, re.sub(words, "", asked.hardware),
    )  # fmt: skip


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, float, float]]:
    """(fact, measured ratio, predicted ratio) of rows that differ in a fact alone."""
    table, out = load_speed_rules(RULES), []
    rows = [r for r in read_measured_rows(ROWS) if not r.doubtful and r.source != "own measurement"]
    for fact, (read, words) in FACTS.items():
        groups: dict[tuple[object, ...], dict[str, MeasuredRow]] = defaultdict(dict)
        for row in rows:
            groups[_alike(row, words)].setdefault(read(row), row)
        chosen = [r for g in groups.values() if len(g) > 1 and all(g) for r in (g[min(g)], g[max(g)])]
        samples: list[FitSample] = make_samples(chosen, RULES)
        for a, b in zip(samples[::2], samples[1::2], strict=True):
            out.append((fact, a.row.value / b.row.value, predict_sample(a, table) / predict_sample(b, table)))
    return out


def test_one_fact_moves_a_prediction_as_it_moved_the_measurement(pairs: list[tuple[str, float, float]]) -> None:
    held = [
        (fact, measured, found)
        for fact, measured, found in pairs
        if 1 / NEAR <= found / measured <= NEAR and (abs(measured - 1) < SAME - 1 or (found > 1) == (measured > 1))
    ]
    assert len(held) >= 20
    assert len(held) >= 0.6 * len(pairs)
    assert {fact for fact, _, _ in held} == set(FACTS)
