"""Images by digest: the registry's protocol against a registry of our own, and where a digest is written."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import RULES, launch, rendered
from reading import documents

from advisor.errors import BadInput
from advisor.render.files import LaunchFile
from advisor.render.pin import ask_registry, pin_images, split_reference

BODY = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


class Registry(ThreadingHTTPServer):
    """A registry: `kind` says how it behaves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind = "plain"
        self.seen: list[tuple[str, str, str | None]] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        registry = self.server
        assert isinstance(registry, Registry)
        token = self.headers.get("Authorization")
        registry.seen.append((self.command, self.path, token))
        if self.path.startswith("/token"):
            self.answer(200, {}, b'{"token": "abc"}' if registry.kind != "no token" else b"{}")
        elif registry.kind in ("token", "no token") and token != "Bearer abc":
            where = f'Bearer realm="http://{registry.host}/token",service="here",scope="repository:a/b:pull"'
            self.answer(401, {"WWW-Authenticate": where})
        elif registry.kind == "elsewhere":
            self.answer(307, {"Location": "http://127.0.0.1:1/v2/x"})
        elif not self.path.endswith("/manifests/v1"):
            self.answer(404, {})
        elif registry.kind == "silent":
            self.answer(200, {}, BODY)
        elif registry.kind == "odd":
            self.answer(200, {"Docker-Content-Digest": "sha256:zz\\n"})
        else:
            self.answer(200, {"Docker-Content-Digest": DIGEST}, BODY)

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("kind", ["plain", "token", "silent"])
def test_a_registry_says_the_digest_of_a_tag(registry: Registry, kind: str) -> None:
    registry.kind = kind
    assert ask_registry(f"{registry.host}/a/b:v1") == DIGEST
    assert all(path.startswith(("/v2/a/b/manifests/v1", "/token?")) for _, path, _ in registry.seen)
    if kind == "token":
        assert "scope=repository%3Aa%2Fb%3Apull" in registry.seen[1][1]


@pytest.mark.parametrize(
    ("kind", "tag", "why"),
    [
        ("plain", "v2", "no such image or tag"),
        ("no token", "v1", "no token"),
        ("elsewhere", "v1", "does not say its digest"),
        ("odd", "v1", "does not say its digest"),
    ],
)
def test_what_a_registry_does_not_say_is_one_line(registry: Registry, kind: str, tag: str, why: str) -> None:
    registry.kind = kind
    with pytest.raises(BadInput, match=why) as e:
        ask_registry(f"{registry.host}/a/b:{tag}")
    assert "\n" not in e.value.message


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(BadInput, match="cannot be asked"):
        ask_registry("127.0.0.1:9/a/b:v1")


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("nginx:1.29", ("registry-1.docker.io", "library/nginx", "1.29")),
        ("vllm/vllm-openai:v0.33.0", ("registry-1.docker.io", "vllm/vllm-openai", "v0.33.0")),
        ("ghcr.io/ggml-org/llama.cpp:server", ("ghcr.io", "ggml-org/llama.cpp", "server")),
        ("localhost:5000/a:1", ("localhost:5000", "a", "1")),
    ],
)
def test_images_are_read_as_docker_reads_them(image: str, parts: tuple[str, str, str]) -> None:
    assert split_reference(image) == parts


@given(st.text(max_size=60))
def test_no_text_makes_another_address(text: str) -> None:
    """Whatever stands in an image, the request goes to a host and a path of plain characters."""
    try:
        host, name, tag = split_reference(text)
    except BadInput:
        return
    assert not set(host + name + tag) & set("@?#\\ \n\r\t%")


def test_every_image_of_a_launch_is_pinned() -> None:
    d = launch("vllm", hardware="2x H100 80GB SXM")
    asked: list[str] = []

    def ask(image: str) -> str:
        asked.append(image)
        return DIGEST

    for target in ("kubernetes", "compose", "docker", "ray", "dynamo", "skypilot"):
        (file,) = pin_images((rendered(d, target),), RULES, ask)
        assert f"@{DIGEST}" in file.content, target
    (file,) = pin_images((rendered(d, "kubernetes"),), RULES, ask)
    (container,) = documents(file.content)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{asked[0]}@{DIGEST}"
    assert pin_images((file,), RULES, ask)[0].content == file.content, "what is pinned is left alone"


def test_only_whole_images_are_pinned() -> None:
    text = "a: my/vllm/vllm-openai:v1\nb: vllm/vllm-openai:v1\nc: vllm/vllm-openai-x:v1\n"
    (file,) = pin_images((LaunchFile(name="x", content=text),), RULES, lambda _: DIGEST)
    assert file.content == text.replace("b: vllm/vllm-openai:v1", f"b: vllm/vllm-openai:v1@{DIGEST}")
