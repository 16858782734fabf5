"""The blind rounds of fleets, kept as references."""

from __future__ import annotations

import csv
from pathlib import Path


def test_rounds_of_fleets_are_kept() -> None:
    text = (Path(__file__).parents[1] / "data/fleet_rounds.csv").read_text("utf-8")
    rounds = list(csv.DictReader(text.splitlines()))
    right = {k: sum(r["verdict"] == "right" for r in rounds if r["kind"] == k) for k in ("inventory", "demand")}
    assert (len(rounds), right) == (50, {"inventory": 13, "demand": 10})
    nodes = [(int(r["nodes_right"]), int(r["nodes"])) for r in rounds if r["kind"] == "inventory"]
    assert tuple(map(sum, zip(*nodes, strict=True))) == (14, 110)
    assert all(r["source"] and r["first_answer"] for r in rounds)
