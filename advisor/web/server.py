"""Uvicorn around the application: bounded connections, and heads of requests that must come in time."""

from __future__ import annotations

import asyncio
from typing import Any

from advisor.catalog import catalog
from advisor.errors import BadInput
from advisor.web import limits as bounds
from advisor.web.limits import ServerLimits


def serve(host: str, port: int, limits: ServerLimits, roots: Any, say: Any) -> None:
    """Serves until it is interrupted. `say` is given the address. Raises BadInput where the extra is missing or the
    address is taken."""
    try:
        import uvicorn

        from advisor.web.application import make_application
    except ImportError:
        from advisor.distribution import install_command

        raise BadInput(f"the server needs the extra serve: {install_command('serve')}") from None
    import socket

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=bounds.MOST_CONNECTIONS)
    except (OSError, OverflowError) as e:
        raise BadInput(f"{host}:{port} cannot be listened at: {getattr(e, 'strerror', None) or e}") from None
    config = uvicorn.Config(
        make_application(catalog(roots), limits),
        http=make_protocol(),
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=bounds.MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    shown = f"[{host}]" if ":" in host else host
    say(f"http://{shown}:{listener.getsockname()[1]}/")
    uvicorn.Server(config).run(sockets=[listener])


def make_protocol() -> Any:
    """Uvicorn's HTTP/1.1 protocol, which ends a connection whose request does not begin in time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._deadline: asyncio.TimerHandle | None = self.loop.call_later(bounds.HEADER_S, self._give_up)

        def data_received(self, data: bytes) -> None:
            # a request on a connection that was kept begins with its first byte
            if self.cycle is not None and self.cycle.response_complete and self._deadline is None:
                self._deadline = self.loop.call_later(bounds.HEADER_S, self._give_up)
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before and self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def connection_lost(self, exc: Any) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            super().connection_lost(exc)

        def _give_up(self) -> None:
            self._deadline = None
            if not self.transport.is_closing():
                body = (
                    b'{"error":{"code":"too_slow","message":"the head of the request did not come in time","near":[]}}'
                )
                self.transport.write(
                    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
                    b"content-length: %d\r\n\r\n%s" % (len(body), body)
                )
                self.transport.close()

    return TimedProtocol
