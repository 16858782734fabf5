"""A real llama-server, started by the command that the product renders."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from commands import advise

MIB = 2**20


def advise_json(*words: str) -> Any:
    done = advise(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
        with urllib.request.urlopen(self.url + path, timeout=300) as r:
            return json.load(r)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as r:
            return json.load(r)

    def stop(self) -> int:
        """SIGTERM to the whole group; the exit status."""
        os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(20)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
