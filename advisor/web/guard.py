"""What every request passes before it is answered: host, origin, key, kind and size of its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from advisor.web import limits as bounds
from advisor.web.limits import ServerLimits
from advisor.web.page import PAGE_PATHS, POLICY

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON_TYPES = ("application/json", "application/x-ndjson")
OPEN_PATHS = ("/healthz", *PAGE_PATHS)  # without a key: they tell nothing of this machine
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", f"{POLICY}; frame-ancestors 'none'".encode()),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]


class RefusedRequest(Exception):
    """A request that is not answered: status, code, one line."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def guard(inner: Application, limits: ServerLimits) -> Application:
    """`inner` behind the checks. A body is read whole before `inner` sees the request, and before a refusal is sent:
    most clients look for an answer when they have sent all, and a connection that ends before loses the answer."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        sender = _add_headers(send)
        refusal, body = _check_head(scope, headers, limits), b""
        try:
            if scope["method"] not in ("GET", "HEAD"):
                body = await _read_body(receive, headers)
        except RefusedRequest as e:
            refusal = refusal or e
        if refusal:
            await refuse(sender, refusal)
            return

        sent = False

        async def give() -> MutableMapping[str, Any]:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await inner(scope, give, sender)

    return guarded


def _check_head(scope: Scope, headers: dict[str, str], limits: ServerLimits) -> RefusedRequest | None:
    host, method = headers.get("host"), scope["method"]
    if not bounds.is_known_host(host, limits):
        return RefusedRequest(421, "host", "this server is not called that: name it with --allow-host")
    if not bounds.is_own_origin(headers.get("origin"), host) or headers.get("sec-fetch-site") == "cross-site":
        return RefusedRequest(403, "origin", "a page of another origin may not ask")
    if scope["path"] not in OPEN_PATHS and not bounds.has_key(headers.get("authorization"), limits):
        return RefusedRequest(401, "api_key", "an API key is needed: Authorization: Bearer KEY")
    if method in ("GET", "HEAD"):
        return None
    if method != "POST":
        return RefusedRequest(405, "method", "GET and POST are answered")
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in JSON_TYPES:
        return RefusedRequest(415, "content_type", f"the body is JSON: Content-Type: {JSON_TYPES[0]}")
    if headers.get("content-encoding", "identity") != "identity":
        return RefusedRequest(415, "content_encoding", "compressed bodies are not read")
    return None


async def _read_body(receive: Receive, headers: dict[str, str]) -> bytes:
    too_large = RefusedRequest(413, "too_large", f"a body has at most {bounds.MAX_BODY:,} bytes")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > bounds.MOST_DISCARDED:
        raise too_large
    loop = asyncio.get_running_loop()
    begun, body, size = loop.time(), bytearray(), 0
    while True:
        until = begun + bounds.BODY_GRACE_S + len(body) / bounds.LEAST_RATE
        try:
            message = await asyncio.wait_for(receive(), until - loop.time())
        except (TimeoutError, asyncio.TimeoutError):
            late = RefusedRequest(408, "too_slow", "the body did not come in time")
            raise (too_large if size > bounds.MAX_BODY else late) from None
        if message["type"] == "http.disconnect":
            raise RefusedRequest(400, "incomplete", "the body is incomplete")
        size += len(message.get("body", b""))
        if size > bounds.MAX_BODY:
            # read on for a while, and keep nothing
            if size > bounds.MOST_DISCARDED or not message.get("more_body"):
                raise too_large
            begun, body = (loop.time(), bytearray()) if body else (begun, body)
            continue
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


async def refuse(send: Send, refusal: RefusedRequest) -> None:
    """Sends a refusal as every error is sent. The connection ends: what is left of the body is not read."""
    error = {"error": {"code": refusal.code, "message": refusal.message, "near": []}}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(error)})


def _add_headers(send: Send) -> Send:
    async def sender(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)

    return sender
