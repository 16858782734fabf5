"""The log of blind rounds of speed says what its rows say."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("number", ["1", "2", "3"])
def test_figures_of_a_round_are_those_of_its_rows(number: str) -> None:
    every = csv.DictReader((DATA / "speed_rounds.csv").read_text("utf-8").splitlines())
    rows = [r for r in every if r["round"] == number]
    written = (DATA / "speed_rounds.md").read_text("utf-8")
    text = written.split(f"Round {number}, ")[1].split("\n\n")[0].replace("\n", " ")
    assert all(r["source"] and r["date"] for r in rows)
    asked = [r for r in rows if r["said"]]
    for kind, name in (("decode", "decode"), ("prefill", "prompts"), ("closed", "closed loop")):
        off = [abs(float(r["said"]) / float(r["value"]) - 1) for r in asked if r["kind"] == kind]
        assert f"{name} {100 * statistics.median(off):.1f} / " in text
    inside = [float(r["said_low"]) <= float(r["value"]) <= float(r["said_high"]) for r in asked]
    assert f"{100 * sum(inside) / len(inside):.1f} % inside" in text
