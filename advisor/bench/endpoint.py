"""What an OpenAI-compatible server says of itself: its models, its engine, and how it was started."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from advisor.catalog.launch_types import ServerSelfReport
from advisor.catalog.types import Engine
from advisor.decoding import Json
from advisor.errors import BadInput
from advisor.record import Record
from advisor.safe_text import mask_secrets

LIMIT = 4 * 2**20  # bytes of an answer


class Endpoint(Record, frozen=True, kw_only=True):
    """A server that answered. None = it does not say."""

    url: str  # without /v1
    models: tuple[str, ...]
    engine: str | None = None
    engine_version: str | None = None
    model_path: str | None = None  # on the server
    context_length: int | None = None  # of one request
    slots: int | None = None  # requests at once


def ask_server(url: str, engines: Mapping[str, Engine], key: str | None = None, timeout: float = 10) -> Endpoint:
    """Asks the server what it is: the engine is the one that writes such an `owned_by`.

    Raises BadInput with one line that says what is wrong with the address.
    """
    base = _base(url)
    data = _ask(base, "/v1/models", key, timeout)
    rows = data.get("data") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not rows:
        raise BadInput(
            f"{base}: answers, but lists no model at /v1/models: no OpenAI-compatible server, or none loaded"
        )
    rows = [r for r in rows if isinstance(r, dict) and isinstance(r.get("id"), str)]
    if not rows:
        raise BadInput(f"{base}: answers, but not as an OpenAI-compatible server does at /v1/models")
    first = rows[0]
    owner = str(first.get("owned_by"))
    entry = next((e for e in engines.values() if e.owned_by == owner), None)
    found = Endpoint(
        url=base,
        models=tuple(r["id"][:200] for r in rows[:100]),
        engine=entry.id if entry else None,
        context_length=_count(first.get("max_model_len")),
    )
    return _add_own_report(found, entry.told, key, timeout) if entry and entry.told else found


def _add_own_report(endpoint: Endpoint, report: ServerSelfReport, key: str | None, timeout: float) -> Endpoint:
    """What engines tell at addresses of their own; a server that does not is none the worse."""
    from msgspec.structs import replace

    try:
        data = _ask(endpoint.url, report.path, key, timeout)
    except BadInput:
        return endpoint
    version, path = _value_at(data, report.version), _value_at(data, report.model_path)
    found = str(version)[:40] if version is not None else None
    if found is not None and report.version_pattern is not None:
        match = re.match(report.version_pattern, found)
        found = match[0] if match else None
    return replace(
        endpoint,
        engine_version=found,
        model_path=str(path)[:1000] if path else None,
        context_length=_count(_value_at(data, report.context_length))
        if report.context_length
        else endpoint.context_length,
        slots=_count(_value_at(data, report.slots)),
    )


def _value_at(data: Any, keys: str | None) -> Any:
    """The value in a JSON object that dotted keys lead to; None where they lead nowhere."""
    for k in keys.split(".") if keys else ():
        data = data.get(k) if isinstance(data, dict) else None
    return data if keys else None


def count_tokens(
    endpoint: Endpoint, words: str, key: str | None, report: ServerSelfReport | None, timeout: float = 10
) -> int | None:
    """How many tokens a text is, by the server's own tokenizer; None where it has no address for that."""
    alone = report.tokenizes if report else None
    body = {alone: words} if alone else {"model": endpoint.models[0], "prompt": words}
    try:
        answer = _ask(endpoint.url, "/tokenize", key, timeout, body)
        n = len(answer["tokens"])
    except (BadInput, KeyError, TypeError):
        return None
    return n or None


def warm_up(endpoint: Endpoint, model: str, key: str | None, timeout: float = 300) -> None:
    """One short answer, so that nothing is loaded while it is measured. Raises BadInput where it fails."""
    body = {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "Say yes."}]}
    _ask(endpoint.url, "/v1/chat/completions", key, timeout, body)


def ask_question(endpoint: Endpoint, model: str, question: str, most_tokens: int, timeout: float) -> int | None:
    """Tokens of the answer to a question, None where the server does not say. Raises BadInput where it fails."""
    body = {"model": model, "max_tokens": most_tokens, "messages": [{"role": "user", "content": question}]}
    answer = _ask(endpoint.url, "/v1/chat/completions", None, timeout, body)
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return _count(usage.get("completion_tokens")) if isinstance(usage, dict) else None


def answers_health(url: str, path: str, timeout: float = 2) -> bool:
    """Whether a server answers with success at a path."""
    import http.client
    import urllib.error
    import urllib.request

    try:
        with _open(urllib.request.Request(_base(url) + path), timeout) as r:  # noqa: S310 - http or https, see _base
            return 200 <= int(r.status) < 300
    except (urllib.error.URLError, OSError, http.client.HTTPException, ValueError):
        return False


def _base(url: str) -> str:
    given = url.strip()
    given = (given if "://" in given else f"http://{given}").rstrip("/").removesuffix("/v1")
    if not re.fullmatch(r"https?://[\w.\[\]:%~-]{1,300}(/[^\s\"'<>\\]{0,500})?", given):
        raise BadInput(f"{url[:80]!r} is not an address; one like http://127.0.0.1:8000 is expected")
    return given


def _open(request: Any, timeout: float) -> Any:
    """The answer to a request. A server may send it on within itself, and nowhere else: its headers hold a key."""
    import urllib.error
    import urllib.request
    from urllib.parse import urlsplit

    asked = urlsplit(request.full_url)

    class WithinServer(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            there = urlsplit(newurl)
            if (there.scheme, there.netloc) != (asked.scheme, asked.netloc):
                fp.close()
                raise urllib.error.URLError(f"it sends on to {mask_secrets(newurl)[:80]}, which is not followed")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return urllib.request.build_opener(WithinServer).open(request, timeout=timeout)


def _read(answer: Any, timeout: float) -> bytes:
    """At most LIMIT + 1 bytes of an answer. Raises TimeoutError for one that takes longer as a whole."""
    from time import monotonic

    end, out = monotonic() + timeout, bytearray()
    while len(out) <= LIMIT and (piece := answer.read1(min(1 << 16, LIMIT + 1 - len(out)))):
        out += piece
        if monotonic() > end:
            raise TimeoutError(f"it takes longer than {timeout:g} s to answer")
    return bytes(out)


def _ask(base: str, path: str, key: str | None, timeout: float, body: Json | None = None) -> Any:
    import http.client
    import urllib.error
    import urllib.request

    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        request = urllib.request.Request(base + path, data, headers)  # noqa: S310 - http or https, see _base
        with _open(request, timeout) as r:
            raw = _read(r, timeout)
    except urllib.error.HTTPError as e:
        message = _error_message(e)
        e.close()
        if e.code in (401, 403):
            problem = "refuses the key" if key else "asks for a key: put it into OPENAI_API_KEY"
            raise BadInput(f"{base}: {problem} (HTTP {e.code})") from None
        raise BadInput(f"{base}{path}: HTTP {e.code}{message}") from None
    except urllib.error.URLError as e:
        raise BadInput(f"{base}: nothing answers there ({e.reason})") from None
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise BadInput(f"{base}: no answer from there ({e or type(e).__name__})") from None
    if len(raw) > LIMIT:
        raise BadInput(f"{base}{path}: answers with more than {LIMIT // 2**20} MiB")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise BadInput(f"{base}{path}: the answer is not JSON: no OpenAI-compatible server") from None


def _error_message(e: Any) -> str:
    try:
        text = json.loads(e.read(10_000))
        message = text["error"]["message"] if isinstance(text.get("error"), dict) else text.get("message")
        return f": {' '.join(str(message).split())[:200]}" if message else ""
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        return ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
