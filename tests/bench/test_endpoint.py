"""A key goes to the server it is for, and a server that never ends its answer is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from advisor.bench.endpoint import answers_health, ask_server
from advisor.errors import BadInput


class Server(ThreadingHTTPServer):
    """Sends on to `elsewhere`, if that is set; answers in drops, if `drips`; keeps the headers that it saw."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.elsewhere: str | None = None
        self.drips = False
        self.seen: list[tuple[str, str | None]] = []
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.seen.append((self.path, self.headers.get("Authorization")))
        if server.elsewhere is not None and self.path != "/moved/models":
            self.send_response(307)
            self.send_header("Location", server.elsewhere)
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        if server.drips:
            while not server.ended.wait(0.02):
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except OSError:
                    return
        else:
            self.wfile.write(b'{"data": [{"id": "m", "owned_by": "vllm"}]}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def two() -> Iterator[tuple[Server, Server]]:
    servers = Server(), Server()
    for x in servers:
        threading.Thread(target=x.serve_forever, args=(0.02,), daemon=True).start()
    yield servers
    for x in servers:
        x.ended.set()
        x.shutdown()
        x.server_close()


def test_a_key_is_sent_to_no_other_server(two: tuple[Server, Server]) -> None:
    first, second = two
    first.elsewhere = f"http://user:secretword@127.0.0.1:{second.server_address[1]}/v1/models"
    with pytest.raises(BadInput, match="not followed") as e:
        ask_server(first.url, {}, "the-key-12345678")
    assert "secretword" not in str(e.value)
    assert not second.seen
    assert not answers_health(first.url, "/health")
    assert not second.seen


def test_a_server_may_send_on_within_itself(two: tuple[Server, Server]) -> None:
    first, _ = two
    first.elsewhere = "/moved/models"
    assert ask_server(first.url, {}, "the-key-12345678").models == ("m",)
    assert ("/moved/models", "Bearer the-key-12345678") in first.seen


def test_an_answer_that_never_ends_is_left(two: tuple[Server, Server]) -> None:
    first, _ = two
    first.drips = True
    with pytest.raises(BadInput, match="longer than"):
        ask_server(first.url, {}, None, timeout=0.3)
