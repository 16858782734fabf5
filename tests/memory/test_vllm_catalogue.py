"""vLLM's memory against its own planner over configs and the catalogue: a sample of tests/data/vllm_catalogue.csv.

The whole table is in docs/accuracy.md; tests/planner makes it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.accuracy.rows import read_rows
from tools.accuracy.vllm_planner import VllmComparison, compare_row

TESTS = Path(__file__).resolve().parents[1]
RULES = catalog([shipped_root()])
ROWS = read_rows(TESTS / "data" / "vllm_catalogue.csv")
# every published config, and one row in so many of the catalogue
SAMPLE = [r for i, r in enumerate(ROWS) if r["name"].endswith(".json") or i % 5 == 0]
Found = dict[tuple[str, str, str], VllmComparison]


@pytest.fixture(scope="module")
def found() -> Found:
    configs = TESTS / "models" / "configs"
    made = (((r["name"], r["tp"], r["kv_cache_type"]), compare_row(r, RULES, configs)) for r in SAMPLE)
    return {k: c for k, c in made if c is not None}


def test_most_rows_are_compared(found: Found) -> None:
    assert len(found) >= 0.95 * len(SAMPLE) >= 200


def test_requests_take_what_the_planner_reserves(found: Found) -> None:
    """Left: windows of Phi-3, which llama.cpp ignores and our layers leave out, take a block more."""
    pairs = {(k, n): x for k, c in found.items() for n, x in c.requests.items()}
    wrong = {k: x for k, x in pairs.items() if x[0] != x[1]}
    assert {name for (name, _, _), _ in wrong} <= {n for n in (r["name"] for r in SAMPLE) if "Phi-3" in n}, wrong
    assert len(wrong) / len(pairs) <= 0.015


def test_weights_are_those_of_the_engines_own_classes(found: Found) -> None:
    wrong = {k: c.weights for k, c in found.items() if not c.weights_agree}
    assert len(wrong) / len(found) <= 0.02, wrong


def test_states_of_every_kind_are_among_the_rows() -> None:
    """Blocks next to states were once right for one kind only."""
    kinds = {
        type(part).__name__
        for name in {r["name"] for r in ROWS if not r["name"].endswith(".json")}
        for group in RULES.find_model(name).layout.attention  # type: ignore[union-attr]
        for part in getattr(group, "parts", (group,))
    }
    assert kinds >= {"GatedDeltaNet", "Kda", "Mamba1", "Mamba2", "Mla", "ShortConv", "Sliding"}
