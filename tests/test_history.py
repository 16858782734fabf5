"""What is kept is kept whole, whoever writes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.history import forget_residuals, load_residuals

STORE = """
import sys
from advisor.history import MemoryResidual, store_residual
store_residual(MemoryResidual(date="2026-11-26", machine="m", engine="vllm", model=sys.argv[1], quantization="FP8",
                              model_class="c", ranks=1, weights_bytes=1, beside_bytes=2))
"""


def test_many_at_once_keep_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "own"))
    running = [subprocess.Popen([sys.executable, "-c", STORE, f"model-{i}"], env={**os.environ}) for i in range(12)]
    assert [p.wait() for p in running] == [0] * 12
    assert sorted(r.model for r in load_residuals()) == sorted(f"model-{i}" for i in range(12))
    assert forget_residuals() == 12
    assert load_residuals() == ()
