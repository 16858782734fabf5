"""Clusters that several modules ask."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from inventories import DATA
from ray_environment import find_ray_python
from slurm_lab import SlurmLab, started_lab


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


@pytest.fixture(scope="session")
def ray_python() -> str:
    """Of an environment with ray and this package."""
    return find_ray_python()
