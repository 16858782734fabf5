"""An answer that cannot be written is one line on standard error and exit status 2: 1 would be a verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
COMMANDS = ("explain --model qwen3:8b --json", "explain --model qwen3:8b", "recommend --on frob --json", "--version")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("out", ["> /dev/full", ">&-"])
def test_lost_output(command: str, out: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m advisor {command} {out}', sys.executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("advise: standard output cannot be written: ")
