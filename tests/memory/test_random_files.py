"""Random files of llama.cpp's architectures: its own planner against our answer, without a table.

`make planner` puts the engine where this finds it; tests/planner/llama_random.py runs all architectures.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gguf_files
import pytest
from llama_random import LaunchComparison, compare_launch, describe_difference, group_sets, plan_file
from programs import LONG
from random_gguf import KNOWN, Draw, draw_keys, make_file

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.session import Session
from tools.accuracy.llama_planner import CARD

RULES = catalog([shipped_root()])
SEED = 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "qwen35", "gemma3"])
def test_the_engines_own_plan_of_a_random_file(name: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("ADVISOR_ENGINES", ".engines")) / "llama-planner"
    if not (folder / "pretended").exists():
        pytest.skip(f"{LONG}$ADVISOR_ENGINES names no folder with llama-planner (`make planner` makes one)")
    file = tmp_path / "random.gguf"
    keys = make_file(folder, file, name, SEED)
    assert not isinstance(keys, str), keys
    found = [compare_launch(row, RULES, tmp_path) for row in plan_file(folder, file, name, keys, SEED)]
    assert len(found) >= 5
    assert all(x is not None and {"weights", "context", "near", "inside"} <= x.agreeing for x in found)
    assert all(true for x in found if x is not None for true in x.labels.values())


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_keys_are_the_same_for_the_same_seed(name: str) -> None:
    keys = [draw_keys(name, Draw(seed, name), False, experts=True) for seed in (SEED, SEED, SEED + 1)]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("name", "labels", "said"),
    [
        ("llama", {"kv_cache": True}, []),
        ("llama", {"compute": False}, ["llama: scratch is called exact and differs: f16, f16, on, 1 GPU"]),
        ("falcon", {}, ["falcon: graph.whole is not set in a rule, and scratch is equal in all 1 sets"]),
    ],
)
def test_evidence_that_differs_from_the_rules(name: str, labels: dict[str, bool], said: list[str]) -> None:
    settings = '{"cache-type-k": "f16", "cache-type-v": "f16", "flash-attn": "on"}'
    row = {"architecture": name, "placed": "1 GPU", "settings": settings}
    found = LaunchComparison(frozenset({"context", "scratch"}), labels)
    assert list(describe_difference(group_sets([(row, found)]), RULES)) == said


FILES = json.loads((Path(__file__).parents[1] / "data" / "llama_random_gemma.json").read_text())["files"]


@pytest.mark.parametrize("file", FILES, ids=lambda x: str(x["architecture"]))
def test_kept_plans_of_random_files(file: dict[str, Any], tmp_path: Path) -> None:
    """Scaled embeddings, keys before values, rows of a second embedding, several cards: scratch of every device."""
    path, types = tmp_path / "x.gguf", {name: kind for name, _, kind in file["tensors"]}
    shapes = [(name, tuple(shape)) for name, shape, _ in file["tensors"]]
    gguf_files.write(path, file["architecture"], file["keys"], shapes, lambda name, _shape: types[name], data=False)
    for row in file["rows"]:
        asked = EstimateRequest(
            model=str(path), engine_version="0.5.0", hardware=f"{row['gpus']}x {CARD}", settings=row["settings"]
        )
        ours = estimate(resolve_request(asked, RULES)[0], Session(RULES))
        assert [x.compute_bytes for x in ours.devices] == [x[2] for x in row["devices"]], row["settings"]
