"""Readers of outside files against mutated inputs: no crash, no input above 2 s, at most 300 MB more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ELSEWHERE

from advisor.catalog import catalog
from advisor.errors import AdvisorError
from advisor.models.hf_config import read_model_dir

HERE = Path(__file__).parent
CONFIGS = HERE.parent / "models" / "configs"


def findings(kind: str, count: int, seed: int, folder: Path) -> tuple[list[str], dict[str, float]]:
    """What went wrong, and the totals of the run."""
    done = subprocess.run(
        [sys.executable, str(HERE / "mutate_readers.py"), kind, str(count), str(seed), str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["error"] for line in lines[:-1]], lines[-1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason=f"{ELSEWHERE}the memory bound is set the Linux way")
@pytest.mark.parametrize("kind", ["gguf", "safetensors", "index", "config", "log", "line"])
def test_a_few(kind: str, tmp_path: Path) -> None:
    errors, totals = findings(kind, 150 if kind != "log" else 25, 11, tmp_path)
    assert not errors
    assert 0 < totals["refused"] < totals["inputs"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("gguf", 13_000), ("safetensors", 10_000), ("index", 4_000), ("config", 13_000), ("log", 4_000),
        ("results", 12_000), ("trace", 33_000), ("snapshot", 15_000), ("lock", 15_000), ("configuration", 33_000),
        ("baseline", 40_000), ("line", 26_000), ("hardware", 2_000),
    ],
)  # fmt: skip
def test_many(kind: str, count: int, tmp_path: Path) -> None:
    errors, totals = findings(kind, count, 20261121, tmp_path)
    assert not errors
    assert totals["inputs"] == count


# findings of earlier runs
@pytest.mark.parametrize(
    "change",
    [
        (b'"model_type": "', b'"model_type": "\xff'),
        (b'"hidden_size"', b'"hidden_\xffsize"'),
        (b"{", b'{"id2label": 1.5, ', 1),
        (b"{", b'{"id2label": 7, ', 1),
    ],
)
def test_found_before(change: tuple[bytes, bytes], tmp_path: Path) -> None:
    data = (CONFIGS / "BAAI--bge-reranker-v2-m3.json").read_bytes()
    (tmp_path / "config.json").write_bytes(data.replace(*change))
    try:
        model = read_model_dir(tmp_path, catalog().config_classes)
    except AdvisorError:
        return
    assert model.kind in ("embedding", "reranker")
