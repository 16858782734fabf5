"""The ASGI application: routes, statuses of errors, metrics."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from advisor import __version__
from advisor.catalog import Catalog
from advisor.errors import AdvisorError
from advisor.estimation import RememberedNames
from advisor.near import near_matches
from advisor.web.guard import Application, guard
from advisor.web.limits import ServerLimits
from advisor.web.page import PAGE_PATHS, list_names, load_usual, make_file
from advisor.web.questions import PATHS, answer_estimate, answer_estimates, answer_operation
from advisor.web.workers import Workers

JSON = "application/json"
LINES = "application/x-ndjson"
STATUS = {
    "busy": 503,
    "too_long": 504,
    "method": 405,
    "not_found": 404,
    "internal": 500,
}  # of an error's code; 400 for all others
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)  # seconds
ESTIMATES = 2  # threads for estimates: one works, one reads its request at the same time


class Metrics:
    """What one server counts."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("advise_requests", "Requests by path and status", ("path", "status"), registry=registry)
        self.seconds = Histogram("advise_request_seconds", "Time", ("path",), buckets=BOUNDS, registry=registry)
        self.in_flight = Gauge("advise_requests_in_flight", "Requests that are being answered", registry=registry)
        self.waiting = Gauge("advise_answers_waiting", "Answers that are worked out or wait for it", registry=registry)
        build = Gauge("advise_build_info", "The version that answers", ("version",), registry=registry)
        build.labels(__version__).set(1)

    def write(self, waiting: int) -> bytes:
        """The text that Prometheus reads."""
        self.waiting.set(waiting)
        return generate_latest(self.registry)


def make_application(rules: Catalog, limits: ServerLimits) -> Application:
    """The application behind its guard."""
    quick, slow = Workers(limits, ESTIMATES), Workers(limits, max(2, os.cpu_count() or 2))
    metrics = Metrics()
    remembered = RememberedNames()

    async def estimate(request: Request) -> Response:
        lines = request.headers["content-type"].startswith(LINES)
        work = answer_estimates if lines else answer_estimate
        found = await quick.answer(work, await request.body(), rules, remembered)
        return Response(found, media_type=LINES if lines else JSON)

    def ask(path: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            found = await slow.answer(answer_operation, path, await request.body(), rules)
            return Response(found, media_type=JSON)

        return answer

    async def show_metrics(request: Request) -> Response:
        return Response(metrics.write(quick.waiting + slow.waiting), media_type="text/plain; version=0.0.4")

    async def openapi(request: Request) -> Response:
        return Response(await asyncio.to_thread(_write_openapi), media_type=JSON)

    async def file(request: Request) -> Response:
        text, kind = await asyncio.to_thread(make_file, request.url.path)
        return Response(text, media_type=kind)

    async def catalogue(request: Request) -> Response:
        return Response(await asyncio.to_thread(list_names, rules), media_type=JSON)

    @asynccontextmanager
    async def live(_: Any) -> AsyncIterator[None]:
        warmed = asyncio.get_running_loop().run_in_executor(None, _warm, rules)
        yield
        warmed.cancel()
        quick.close()
        slow.close()

    routes = [
        *(Route(path, file, methods=["GET"]) for path in PAGE_PATHS),
        Route("/names.json", catalogue, methods=["GET"]),
        Route("/healthz", _say_health, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/v1/estimate", estimate, methods=["POST"]),
        *(Route(path, ask(path), methods=["POST"]) for path in PATHS),
    ]
    known = [r.path for r in routes]
    handlers: Any = {AdvisorError: _refuse, HTTPException: _make_refusal(known), Exception: _fail}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=live)
    return _measure(guard(app, limits), metrics, frozenset(known))


def _warm(rules: Catalog) -> None:
    """Asks what a page asks first, so that it finds rules and rows of measurements read."""
    for words in ("this", load_usual()["machines"][0]):
        with suppress(AdvisorError):
            answer_operation("/v1/recommend", msgspec.json.encode({"hardware": words}), rules)


async def _say_health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


@lru_cache(maxsize=1)
def _write_openapi() -> bytes:
    from advisor.web.openapi import make_openapi

    return msgspec.json.encode(make_openapi())


def _refuse(request: Request, error: Any) -> Response:
    status = STATUS.get(error.code, 400)
    body = {"code": error.code, "message": " ".join(error.message.split())[:1000], "near": list(error.near)[:10]}
    headers = {"retry-after": "1"} if status == 503 else None
    return Response(msgspec.json.encode({"error": body}), status, headers, JSON)


def _make_refusal(known: list[str]) -> Callable[[Request, Any], Response]:
    def refuse(request: Request, error: Any) -> Response:
        path = request.url.path
        if error.status_code == 405:
            fault = AdvisorError("method", f"{request.method} {path[:80]} is not answered")
        else:
            fault = AdvisorError("not_found", f"there is no {path[:80]}", near_matches(path, known))
        return _refuse(request, fault)

    return refuse


def _fail(request: Request, error: Exception) -> Response:
    return _refuse(request, AdvisorError("internal", "this should not happen: the server's log has more"))


def _measure(inner: Application, metrics: Metrics, known: frozenset[str]) -> Application:
    """Counts requests and their times by path and status."""

    async def measured(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def note(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        path = scope["path"] if scope["path"] in known else "other"
        metrics.in_flight.inc()
        try:
            await inner(scope, receive, note)
        finally:
            metrics.in_flight.dec()
            metrics.requests.labels(path, str(status)).inc()
            metrics.seconds.labels(path).observe(time.perf_counter() - begun)

    return measured
