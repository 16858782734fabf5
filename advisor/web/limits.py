"""What a server takes from a client: sizes, times, hosts, origins, keys."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from advisor.errors import BadInput
from advisor.record import Value

MAX_BODY = 2**20  # bytes
MOST_DISCARDED = 2**24  # bytes of a body that is too large: read, not kept, so that its sender sees the answer
BODY_GRACE_S = 0.6  # until a body is complete, and one second more for each LEAST_RATE bytes that have come
LEAST_RATE = 32_768  # bytes a second
HEADER_S = 0.8  # until the head of a request is complete
MOST_CONNECTIONS = 512
LEAST_KEY = 16  # characters of an API key


class ServerLimits(Value, frozen=True):
    """Who may ask, and for how long an answer may take."""

    hosts: frozenset[str]  # names in Host, in lower case and without the port
    api_key: str | None
    answer_s: float = 60.0
    most_waiting: int = 256  # questions that wait for a worker


LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_limits(host: str, names: tuple[str, ...], api_key: str | None, answer_s: float = 60.0) -> ServerLimits:
    """Limits of a server that listens at `host` and is also called `names`.

    Raises BadInput for an address that others reach without a key, and for a key that is too short to be one.
    """
    if not is_loopback(host) and api_key is None:
        raise BadInput(
            f"{host} is reached from other machines, so an API key is needed: set ADVISOR_API_KEY or --api-key-file"
        )
    if api_key is not None and (len(api_key) < LEAST_KEY or not api_key.isascii() or not api_key.isprintable()):
        raise BadInput(f"the API key needs at least {LEAST_KEY} printable ASCII characters")
    own = {host} if host not in ("0.0.0.0", "::") else set()  # noqa: S104  compared with, not listened at
    return ServerLimits(frozenset(n.lower() for n in (*LOOPBACK_NAMES, *own, *names)), api_key, answer_s)


def is_known_host(header: str | None, limits: ServerLimits) -> bool:
    """Whether the Host of a request is one that this server is called by: a name that an attacker's DNS points here is
    not (DNS rebinding)."""
    return header is not None and _split_host(header) in limits.hosts


def is_own_origin(header: str | None, host: str | None) -> bool:
    """Whether a request comes from no page, or from a page of this server. `host` = its Host."""
    if header is None:
        return True
    try:
        found = urlsplit(header)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and bool(found.netloc) and found.netloc.lower() == (host or "").lower()


def has_key(authorization: str | None, limits: ServerLimits) -> bool:
    """Whether a request carries the key, compared in constant time; True where none is asked for."""
    if limits.api_key is None:
        return True
    scheme, _, given = (authorization or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), limits.api_key.encode())


def _split_host(header: str) -> str | None:
    try:
        found = urlsplit(f"//{header}")
        return found.hostname if found.username is None and not found.path else None
    except ValueError:
        return None
