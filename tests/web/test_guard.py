"""What the server refuses, how clearly and how soon: hosts, origins, keys, sizes, slow and broken requests."""

from __future__ import annotations

import json
import socket

import commands
import pytest
import server
from hypothesis import given
from hypothesis import strategies as st

from advisor.web.limits import LOOPBACK_NAMES, MAX_BODY, ServerLimits, is_known_host, is_own_origin, make_limits

KEY = "0123456789abcdef"
GOOD = {"model": "llama3.1:8b", "hardware": "RTX 4090"}


def _is_refused(found: tuple[int, object], status: int, code: str) -> None:
    assert found[0] == status
    body = found[1]
    assert isinstance(body, dict)
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    assert "\n" not in body["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 421, "host"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "host"),
        ({"Host": "localhost:80@evil.example"}, 421, "host"),
        ({"Origin": "https://evil.example"}, 403, "origin"),
        ({"Origin": "null"}, 403, "origin"),
        ({"Origin": "http://localhost:1"}, 403, "origin"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "origin"),
        ({"Content-Type": "text/plain"}, 415, "content_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "content_type"),
        ({"Content-Encoding": "gzip"}, 415, "content_encoding"),
    ],
)
def test_senders_that_are_refused(local: server.Server, headers: dict[str, str], status: int, code: str) -> None:
    _is_refused(server.ask(local, "/v1/estimate", GOOD, {**server.JSON, **headers}), status, code)


def test_a_refusal_is_sent_when_the_body_has_come(local: server.Server) -> None:
    head = (
        f"POST /v1/estimate HTTP/1.1\r\nHost: 127.0.0.1:{local.port}\r\nContent-Type: text/plain\r\n"
        "Content-Length: 2\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", local.port), timeout=120) as connection:
        connection.sendall(head.encode())
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):  # an answer now, and the end of the connection, would be lost by the sender
            connection.recv(1)
        connection.settimeout(120)
        connection.sendall(b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 415")


def test_a_page_of_this_server_may_ask(local: server.Server) -> None:
    assert server.ask(local, "/v1/estimate", GOOD, {**server.JSON, "Origin": local.address})[0] == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[]", "object"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 100_000, "deep"),
        (b'{"model": 3}', "model"),
        (b'{"modle": "8B"}', "modle"),
        (b'{"model": "8B", "hardware": "RTX 40900"}', "RTX 40900"),
        (b'{"model": "/etc/passwd.gguf", "hardware": "RTX 4090"}', "no file is read"),
        (b'{"model": "~/x.gguf", "hardware": "RTX 4090"}', "no file is read"),
        (b'{"model": "../../etc", "hardware": "RTX 4090"}', "no file is read"),
        (b'{"model": "' + b"a" * 100_000 + b'"}', "unknown"),
    ],
)
def test_wrong_bodies(local: server.Server, body: bytes, says: str) -> None:
    status, answer = server.ask(local, "/v1/explain", body)
    assert status == 400
    assert set(answer["error"]) == {"code", "message", "near"}
    assert says.lower() in answer["error"]["message"].lower()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nul", b"\xff", b'{"model": 3}', b"[" * 100_000])
def test_wrong_estimates(local: server.Server, body: bytes) -> None:
    _is_refused(server.ask(local, "/v1/estimate", body), 400, "bad_input")


def test_a_body_that_is_too_large(local: server.Server) -> None:
    _is_refused(server.ask(local, "/v1/estimate", b" " * (MAX_BODY + 1)), 413, "too_large")
    head = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    said = server.send_raw(local, head + b"Content-Length: 99999999999\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 413")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    assert b" 413 " in server.send_raw(local, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17)[:20]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 408),
        (b"POST /v1/est", 408),
        (b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nX: ", 408),
        (b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         b"Content-Length: 50\r\n\r\n{", 408),
        (b"\x16\x03\x01\x02\x00", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_slow_and_broken_requests_get_an_answer(local: server.Server, sent: bytes, status: int) -> None:
    """Within the bounds of advisor/web/limits.py, which are below a second."""
    assert server.send_raw(local, sent).startswith(b"HTTP/1.1 %d " % status)


def test_paths_and_methods(local: server.Server) -> None:
    _is_refused(server.ask(local, "/v1/estimates", GOOD), 404, "not_found")
    assert "/v1/estimate" in server.ask(local, "/v1/estimates", GOOD)[1]["error"]["near"]
    _is_refused(server.ask(local, "/v1/estimate"), 405, "method")
    said = server.send_raw(local, b"PUT /v1/estimate HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 405")


def test_an_address_that_others_reach_needs_a_key() -> None:
    done = commands.advise("serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "ADVISOR_API_KEY" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_key_is_asked_for() -> None:
    with server.run_server("--host", "0.0.0.0", ADVISOR_API_KEY=KEY) as open_to_all:
        there = open_to_all._replace(address=f"http://127.0.0.1:{open_to_all.port}")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {KEY}"}):
            _is_refused(server.ask(there, "/v1/estimate", GOOD, {**server.JSON, **headers}), 401, "api_key")
            _is_refused(server.ask(there, "/metrics", None, headers), 401, "api_key")
        assert server.ask(there, "/healthz", None, {}) == (200, "ok\n")
        assert server.ask(there, "/v1/estimate", GOOD, {**server.JSON, "Authorization": f"Bearer {KEY}"})[0] == 200


@pytest.mark.parametrize("key", ["short", "x" * 15, "with\nline" * 4, "ünicode" * 4])
def test_a_weak_key(key: str) -> None:
    done = commands.advise("serve", "--port", "0", env={"ADVISOR_API_KEY": key})
    assert done.returncode == 2
    assert "API key" in done.stderr


def test_an_address_that_is_taken(local: server.Server) -> None:
    done = commands.advise("serve", "--port", str(local.port))
    assert done.returncode == 2
    assert str(local.port) in done.stderr


LIMITS = ServerLimits(LOOPBACK_NAMES, None)


@given(st.text(max_size=40))
def test_any_text_as_host_and_origin(text: str) -> None:
    """Only names that the server has are known, whatever stands around them."""
    known = is_known_host(text, LIMITS)
    assert not known or any(name in text.lower() for name in LOOPBACK_NAMES)
    assert not is_own_origin(text, "localhost:80") or text.lower().startswith(
        ("http://localhost:80", "https://localhost:80")
    )


def test_hosts() -> None:
    limits = make_limits("192.0.2.7", ("GPU1.example.org",), KEY)
    for host in ("192.0.2.7", "192.0.2.7:80", "gpu1.example.org:8642", "localhost", "[::1]:80", "127.0.0.1:1"):
        assert is_known_host(host, limits), host
    for host in (None, "", "gpu2.example.org", "192.0.2.8", "a@localhost", "localhost/x", "[::1", "0.0.0.0"):
        assert not is_known_host(host, limits), host
    assert json.dumps(sorted(limits.hosts))
