"""The blind rounds of fleets, kept as references."""

from __future__ import annotations

import csv
from pathlib import Path


def test_rounds_of_fleets_are_kept() -> None:
    text = (Path(__file__).parents[1] / "data/fleet_rounds.csv").read_text("utf-8")
    rounds = list(csv.DictReader(text.splitlines()))
    assert len(rounds) == 117
    found = {n: right(rounds, n) for n in ("1", "2", "3")}
    assert found == {"1": ((14, 110), 13, 10), "2": ((6, 88), 1, 7), "3": ((6, 24), 5, 9)}
    assert all(r["source"] and r["first_answer"] for r in rounds)


def right(rounds: list[dict[str, str]], number: str) -> tuple[tuple[int, ...], int, int]:
    """Nodes right and asked for, inventories right, demands right."""
    rows = [r for r in rounds if r["round"] == number]
    nodes = [(int(r["nodes_right"]), int(r["nodes"])) for r in rows if r["kind"] == "inventory"]
    served = [sum(r["verdict"] == "right" for r in rows if r["kind"] == kind) for kind in ("inventory", "demand")]
    return tuple(map(sum, zip(*nodes, strict=True))), served[0], served[1]
