"""The fixture that starts a real llama-server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import ELSEWHERE, program
from serving import Server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Path, int], Server]]:
    """Start run.sh on a port: `llama-server` on PATH is the real one, made to log its buffers."""
    real = program("llama-server")
    folder = tmp_path / "bin"
    folder.mkdir()
    shim = folder / "llama-server"
    shim.write_text(f'#!/bin/sh\nexec "{real}" "$@" -lv 4\n')
    shim.chmod(0o755)
    running: list[Server] = []

    def run(script: Path, port: int, seconds: float = 180) -> Server:
        log = tmp_path / "server.log"
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        with log.open("wb") as f:
            process = subprocess.Popen(
                [str(script)],
                stdout=f,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        server = Server(f"http://127.0.0.1:{port}", process, log)
        running.append(server)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if process.poll() == -signal.SIGILL:  # the build that pip brings wants AMX for quantized weights
                pytest.skip(f"{ELSEWHERE}this build of llama-server uses instructions that the processor lacks")
            assert process.poll() is None, f"llama-server ended: {log.read_text()[-2000:]}"
            try:
                if server.get("/health") == {"status": "ok"}:
                    return server
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise AssertionError(f"no /health within {seconds} s: {log.read_text()[-2000:]}")

    yield run
    for server in running:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait(10)
