"""A server of `advise serve` for tests, and requests to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

JSON = {"Content-Type": "application/json"}


class Server(NamedTuple):
    """A server that runs: its address and its process."""

    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0


@contextmanager
def run_server(*options: str, **environment: str) -> Iterator[Server]:
    """`advise serve` at a free port."""
    with subprocess.Popen(
        [sys.executable, "-m", "advisor", "serve", "--port", "0", *options],
        stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("http://"), line
            yield Server(line.split("/ ")[0], process)
        finally:
            process.terminate()


def ask(server: Server, path: str, body: Any = None, headers: Mapping[str, str] = JSON) -> tuple[int, Any]:
    """(status, JSON or text) of a POST with a body, of a GET without."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.address + path, data, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as e:
        status, text = e.code, e.read()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode()


def send_raw(server: Server, *pieces: bytes, wait: float = 120.0) -> bytes:
    """What comes back for bytes that are sent as they are."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as connection:
        out = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while got := connection.recv(65536):
                out += got
        except (ConnectionResetError, BrokenPipeError):
            pass
        return out
