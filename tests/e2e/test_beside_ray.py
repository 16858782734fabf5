"""Ray starts in an environment that has this package, and answers a sweep.

Ray imports amdsmi wherever it is installed, and amdsmi's import raises `KeyError: 'libamd_smi.so'` on machines without
ROCm: a dependency on it kept Ray 2.60.0 from starting. So it is an extra.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from ray_environment import find_ray_python
from recipes import SHARDS, merge, recipe, write_sweep

PROGRAM = """
import advisor, ray

machine = advisor.probe()
ray.init(num_cpus=1, include_dashboard=False, object_store_memory=2**27, log_to_driver=False)

@ray.remote
def fits():
    return advisor.estimate({"model": "llama3.1:8b", "quantization": "Q4_K_M", "hardware": "RTX 4090"}).fits

print("fits:", ray.get(fits.remote(), timeout=120))
ray.shutdown()
"""


def started(words: list[str], seconds: int, **settings: object) -> subprocess.CompletedProcess[str]:
    """The program in a session of its own, so that what it started ends with it."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **settings
    )  # type: ignore[call-overload]
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture(scope="module")
def python() -> str:
    """Of an environment with ray and this package."""
    return find_ray_python()


def run_ray(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program that starts Ray, with nothing of an outer Ray."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "PYTHON"))}
    env = {**kept, "HOME": str(folder), "RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "120"}
    done = started(words, 300, cwd=folder, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.name != "posix", reason="starts a session")
def test_ray_starts_beside_the_package(python: str, tmp_path: Path) -> None:
    assert run_ray([python, "-c", PROGRAM], tmp_path).stdout.splitlines()[-1] == "fits: True"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.name != "posix", reason="starts a session")
def test_the_recipe_for_ray_answers_as_one_process(python: str, tmp_path: Path) -> None:
    """docs/sweeps.md."""
    whole = write_sweep(tmp_path)
    (tmp_path / "sweep.py").write_text(recipe("ray"), encoding="utf-8")
    run_ray([python, "sweep.py", str(tmp_path)], tmp_path)
    written = {i: (tmp_path / f"answers/{i}.jsonl").read_text().splitlines(keepends=True) for i in range(SHARDS)}
    assert merge(written) == whole
