"""The log of blind rounds of speed says what its rows say."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def test_figures_of_the_round_are_those_of_its_rows() -> None:
    rows = list(csv.DictReader((DATA / "speed_rounds.csv").read_text("utf-8").splitlines()))
    text = (DATA / "speed_rounds.md").read_text("utf-8")
    assert all(r["source"] and r["date"] for r in rows)
    asked = [r for r in rows if r["said"]]
    for kind, name in (("decode", "decode"), ("prefill", "prompts"), ("closed", "closed loop\n")):
        off = [abs(float(r["said"]) / float(r["value"]) - 1) for r in asked if r["kind"] == kind]
        assert f"{name}{'' if name.endswith(chr(10)) else ' '}{100 * statistics.median(off):.1f} / " in text
    inside = [float(r["said_low"]) <= float(r["value"]) <= float(r["said_high"]) for r in asked]
    assert f"{100 * sum(inside) / len(inside):.1f} % inside" in text
