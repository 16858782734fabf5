"""Deployment-file readers against 30,000 mutated inputs: no crash, no hang, nothing run, nothing read outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ELSEWHERE

HERE = Path(__file__).parent


def findings(count: int, seed: int) -> tuple[list[str], dict[str, float]]:
    """What went wrong, and the totals of the run."""
    done = subprocess.run(
        [sys.executable, str(HERE / "mutate_check.py"), str(count), str(seed)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # every file that is opened is looked at
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["error"] for line in lines[:-1]], lines[-1]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason=f"{ELSEWHERE}the memory bound is set the Linux way")
def test_many() -> None:
    errors, totals = findings(30_000, 20261121)
    assert not errors
    assert totals["refused"] > 0
    assert totals["launches"] > 7
