"""An environment with Ray and this package: made once, for all tests and workers that want one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ELSEWHERE

TOP = Path(__file__).resolve().parent.parent
SECONDS = 600


def find_ray_python() -> str:
    """Its Python; RAY_PYTHON names one that is there."""
    if os.environ.get("RAY_PYTHON"):
        return os.environ["RAY_PYTHON"]
    import fcntl  # no system without it has tests of Ray

    home = Path(os.environ["ADVISOR_TESTS_HOME"]) / "ray"
    home.mkdir(exist_ok=True)
    python, made = home / "venv/bin/python", home / "made"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            install(python)
            made.touch()
    return str(python)


def install(python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(python.parents[1])], check=True, timeout=SECONDS)
    words = [str(python), "-m", "pip", "install", "-q", "ray[serve]>=2.50", str(TOP)]
    installed = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if "No matching distribution found for ray" in installed.stderr:
        pytest.skip(f"{ELSEWHERE}ray for Python {sys.version_info.major}.{sys.version_info.minor}")
    assert installed.returncode == 0, installed.stderr
