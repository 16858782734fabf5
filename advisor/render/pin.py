"""Images by digest: the registry is asked which one a tag stands for (`render --pin`).

The protocol is that of the OCI distribution specification: a HEAD for the manifest, and a token from the server that
the answer 401 names. Only public images are asked for: nothing of the user's is sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.render.files import LaunchFile
from advisor.render.matrix import load_targets, mirror_image

MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
LIMIT = 4 * 2**20  # bytes of a manifest or a token
SECONDS = 20.0
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?")
LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?")


def pin_images(
    files: Sequence[LaunchFile], rules: Catalog, ask: Callable[[str], str] | None = None
) -> tuple[LaunchFile, ...]:
    """The files with `@sha256:...` behind every image of the catalogue that they name by a tag.

    `ask` gives the digest of an image; None = its registry is asked. Raises BadInput where that fails.
    """
    known: dict[str, str] = {}
    ask = ask or ask_registry
    repositories = "|".join(sorted(map(re.escape, _list_repositories(rules)), key=len, reverse=True))
    find = re.compile(
        rf"(?:(?<=docker:)|(?<![\w./:-]))({repositories})"
        rf":{TAG.pattern}(?![\w@.-])"
    )

    def pinned(found: re.Match[str]) -> str:
        image = found[0]
        if image not in known:
            known[image] = ask(image)
        return f"{image}@{known[image]}"

    return tuple(replace(f, content=find.sub(pinned, f.content)) for f in files)


def _list_repositories(rules: Catalog) -> set[str]:
    """Repositories of all images that are written into launch files."""
    targets = load_targets(rules)
    engines = rules.engines().values()
    placed = {p.image.replace("{engine}", e.id) for p in targets.places.values() for e in engines}
    return {
        *(mirror_image(i.repository, rules) for e in engines for i in e.images),
        *(p.rpartition(":")[0] for p in placed),
        targets.router_image.rpartition(":")[0],
    }


def ask_registry(image: str) -> str:
    """The digest (`sha256:...`) that a tag stands for now. Raises BadInput with one line where nobody says."""
    import urllib.request

    host, name, tag = split_reference(image)
    plain = LOOPBACK.fullmatch(host) is not None
    url = f"{'http' if plain else 'https'}://{host}/v2/{name}/manifests/{tag}"
    headers = {"Accept": ", ".join(MANIFESTS)}
    status, response, _ = _send(urllib.request.Request(url, headers=headers, method="HEAD"), image)  # noqa: S310 - see plain
    if status == 401:
        headers["Authorization"] = f"Bearer {_get_token(response.get('WWW-Authenticate') or '', image, plain)}"
        status, response, _ = _send(urllib.request.Request(url, headers=headers, method="HEAD"), image)  # noqa: S310
    if status == 200 and not response.get("Docker-Content-Digest"):  # some say it for the whole manifest only
        status, response, body = _send(urllib.request.Request(url, headers=headers), image)  # noqa: S310
        digest = response.get("Docker-Content-Digest") or f"sha256:{hashlib.sha256(body).hexdigest()}"
    else:
        digest = response.get("Docker-Content-Digest") or ""
    if status == 404:
        raise BadInput(f"{image}: {host} has no such image or tag")
    if status in (401, 403):
        raise BadInput(f"{image}: {host} tells nobody without a login; pin it by hand")
    if status != 200 or not DIGEST.fullmatch(digest):
        raise BadInput(f"{image}: {host} does not say its digest (status {status})")
    return digest


def split_reference(image: str) -> tuple[str, str, str]:
    """(registry, name, tag) of an image as Docker reads it. Raises BadInput for what is no image with a tag."""
    name, _, tag = image.rpartition(":")
    first, slash, rest = name.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        first, rest = "registry-1.docker.io", name if slash else f"library/{name}"
    if not HOST.fullmatch(first) or not re.fullmatch(r"[a-z0-9._/-]+", rest) or not TAG.fullmatch(tag):
        raise BadInput(f"{image[:120]}: an image with a tag is expected")
    return first, rest, tag


def _get_token(challenge: str, image: str, plain: bool) -> str:
    """A token for everybody, from the server that a registry names."""
    import urllib.parse
    import urllib.request

    import msgspec

    words = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = words.pop("realm", "")
    if not challenge.lower().startswith("bearer") or not re.match(r"https://" if not plain else r"https?://", realm):
        raise BadInput(f"{image}: its registry asks for a login of another kind; pin it by hand")
    query = urllib.parse.urlencode({k: v for k, v in words.items() if k in ("service", "scope")})
    status, _, body = _send(urllib.request.Request(f"{realm}?{query}"), image)  # noqa: S310 - checked above
    try:
        answer = msgspec.json.decode(body) if status == 200 else None
    except (msgspec.DecodeError, RecursionError):
        answer = None
    token = (answer.get("token") or answer.get("access_token")) if isinstance(answer, dict) else None
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]{1,20000}", token):
        raise BadInput(f"{image}: its registry gives no token to everybody; pin it by hand")
    return token


def _send(request: Any, image: str) -> tuple[int, Any, bytes]:
    """(status, headers, bounded body); no redirect is followed. Raises BadInput where nobody answers."""
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A registry answers for itself."""

        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=SECONDS) as answer:
            body = answer.read(LIMIT + 1)
            if len(body) > LIMIT:
                raise BadInput(f"{image}: {request.host} answers with more than {LIMIT} bytes")
            return answer.status, answer.headers, body
    except urllib.error.HTTPError as e:
        return e.code, e.headers, b""
    except (OSError, http.client.HTTPException, ValueError) as e:
        reason = getattr(e, "reason", None) or e
        raise BadInput(f"{image}: {request.host} cannot be asked: {str(reason)[:200]}") from None
