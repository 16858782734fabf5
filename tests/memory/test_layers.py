"""Cache widths of every catalogue model against figures derived from the configs independently of this package."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.layers import LayerCache, cache_layers

_LINES = (Path(__file__).parent.parent / "data" / "models_kv.csv").read_text().splitlines()
ROWS = list(csv.DictReader(line for line in _LINES if not line.startswith("#")))
RULES = catalog([shipped_root()])


def parts(model: str) -> list[LayerCache]:
    return [p for x in cache_layers(RULES.find_model(model)) for p in (x, *x.extra)]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["id"])
def test_elements_a_token_and_a_sequence(row: dict[str, str]) -> None:
    got = parts(row["id"])
    grow = [p for p in got if p.window is None and not p.image_only]
    assert sum((p.k + p.v) / p.per_tokens for p in grow) == float(row["elems_per_token"])
    windowed = [p for p in got if p.window]
    assert sum((p.k + p.v) * (p.window or 0) for p in windowed) == float(row["window_elems"])
    assert sum(p.state for p in got) == float(row["state_elems"])
    assert sum(p.conv for p in got) == float(row["conv_elems"])
    assert sum(p.index / p.per_tokens for p in got) == float(row["index_elems_per_token"] or 0)
    assert sum(p.k + p.v for p in got if p.image_only) == float(row["elems_per_image_token"] or 0)
