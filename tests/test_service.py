"""advisor as a part of a service: many threads and an event loop get the answers that each question gets alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parent / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_half_a_minute_of_questions_at_once() -> None:
    done = subprocess.run([sys.executable, str(SOAK), "30"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["differing"] == []
    assert found["answers"] > 500
