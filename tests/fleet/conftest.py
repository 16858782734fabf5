"""Clusters that several modules ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inventories import DATA
from programs import ELSEWHERE
from slurm_lab import SlurmLab, started_lab

TOP = Path(__file__).resolve().parents[2]
SECONDS = 600


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """A cluster on whose nodes `advise` answers with what a probe of their cards once said."""
    folder = tmp_path_factory.mktemp("slurm")
    stand_in = folder / "bin"
    stand_in.mkdir()
    advise = stand_in / "advise"
    advise.write_text(f"#!{sys.executable}\n" + (DATA / "probe_stand_in.py").read_text())
    advise.chmod(0o755)
    (folder / "asked").mkdir()
    os.environ["ASKED"] = str(folder / "asked")
    with started_lab(folder / "lab", str(stand_in)) as running:
        yield running
    del os.environ["ASKED"]


@pytest.fixture(scope="module")
def ray_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of an environment with ray and this package; RAY_PYTHON names one that is there."""
    if os.environ.get("RAY_PYTHON"):
        return os.environ["RAY_PYTHON"]
    place = tmp_path_factory.mktemp("ray") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=SECONDS)
    words = [str(place / "bin/python"), "-m", "pip", "install", "-q", "ray[serve]>=2.50", str(TOP)]
    installed = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if "No matching distribution found for ray" in installed.stderr:
        pytest.skip(f"{ELSEWHERE}ray for Python {sys.version_info.major}.{sys.version_info.minor}")
    assert installed.returncode == 0, installed.stderr
    return str(place / "bin/python")
