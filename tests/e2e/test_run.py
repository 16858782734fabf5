"""`advise run` with a real llama-server: started as recommended, asked once, compared with the prediction, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import tiny_model
from commands import advise
from programs import link_program, program, skip_without_instructions
from serving import free_port


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `llama-server` is the real one."""
    return f"{link_program('llama-server', tmp_path)}:{os.environ['PATH']}"


def words(model: Path, port: int) -> list[str]:
    return ["run", "--model", str(model), "--engine", "llama.cpp", "--context", "1024", "--port", str(port)]


def test_it_is_started_asked_and_stopped(tmp_path: Path, path: str) -> None:
    model = tiny_model.write(tmp_path / "tiny model.gguf")
    port = free_port()
    p = advise(*words(model, port), "--once", "--json", env={"PATH": path})
    skip_without_instructions(p.stderr)
    assert p.returncode == 0, p.stderr
    found = json.loads(p.stdout)
    assert found["engine"] == "llama.cpp"
    assert found["answer"]["output_tokens"] >= 1
    assert found["answer"]["output_tps"] > 0
    parts = {x["part"]: x for x in found["memory"]["parts"]}
    assert parts["KV cache"]["logged"] == pytest.approx(parts["KV cache"]["predicted"], abs=11_000)
    with pytest.raises((urllib.error.URLError, OSError)):  # it is gone
        urllib.request.urlopen(found["url"], timeout=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_server(tmp_path: Path, path: str, number: signal.Signals) -> None:
    model = tiny_model.write(tmp_path / "tiny.gguf")
    port = free_port()
    program_path = Path(sys.executable).parent / "advise"
    before = signal.signal(number, signal.SIG_DFL)  # a shell's background jobs ignore an interrupt, and so would ours
    p = subprocess.Popen(
        [str(program_path), *words(model, port), "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "PATH": path}, start_new_session=True, text=True,
    )  # fmt: skip
    signal.signal(number, before)
    try:
        for _ in range(1200):
            if p.poll() is not None:
                assert p.stderr is not None
                said = p.stderr.read()
                skip_without_instructions(said)
                raise AssertionError(said)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as r:
                    if r.status == 200:
                        break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        os.kill(p.pid, number)
        assert p.wait(60) == 130
    finally:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
        if p.stderr is not None:
            p.stderr.close()
    with pytest.raises((urllib.error.URLError, OSError)):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)


def test_what_ends_at_once_is_said_with_its_log(tmp_path: Path) -> None:
    program("llama-server")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "llama-server").write_text("#!/bin/sh\necho broken build >&2\nexit 3\n")
    (folder / "llama-server").chmod(0o755)
    model = tiny_model.write(tmp_path / "tiny.gguf")
    p = advise(*words(model, free_port()), env={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert p.returncode == 2
    assert "status 3" in p.stderr
    assert "broken build" in p.stderr


def test_nothing_is_downloaded_or_overwritten_unasked(tmp_path: Path, path: str) -> None:
    p = advise("run", "--model", "qwen3:0.6b", "--engine", "llama.cpp", env={"PATH": path})
    assert p.returncode == 2
    assert "--download" in p.stderr
    log = tmp_path / "kept.log"
    log.write_text("mine")
    p = advise(*words(tiny_model.write(tmp_path / "t.gguf"), free_port()), "--log", str(log), env={"PATH": path})
    assert p.returncode == 2
    assert log.read_text() == "mine"
