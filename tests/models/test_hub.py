"""`--online` against a hub of our own on loopback: the hub's real client library, real range requests, real files.

The independent answer is the same repository read from disk.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import commands
import gguf_files as g
import pytest
from test_safetensors import Spec, write

from advisor.catalog.roots import cache_dir
from advisor.errors import BadFile
from advisor.models.headers import read_origin
from advisor.models.hub import HubReference, parse_hub_reference

SHA = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


class Hub(ThreadingHTTPServer):
    """Serves the folders below `root` as repositories; keeps count of what it gave."""

    def __init__(self, root: Path, ranges: bool = True) -> None:
        self.root, self.ranges, self.sent, self.tokens = root, ranges, 0, set[str]()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for k, v in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(k.replace("_", "-"), v)
        self.end_headers()
        self.wfile.write(body)
        self.server.sent += len(body)

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        self.server.tokens.add(self.headers.get("authorization") or "")
        api = parts[:2] == ["api", "models"]
        folder = self.server.root / "/".join(parts[2:4] if api else parts[:2])
        if folder.name == "gated":
            return self.reply(403, b"{}", X_Error_Code="GatedRepo")
        if not folder.is_dir():
            return self.reply(404, b"{}", X_Error_Code="RepoNotFound")
        if api:
            files = [{"rfilename": p.name, "size": p.stat().st_size} for p in sorted(folder.iterdir())]
            body = {"id": "/".join(parts[2:4]), "sha": SHA, "siblings": files, "tags": [], "private": False}
            return self.reply(200, json.dumps(body).encode(), Content_Type="application/json")
        assert parts[2:4] == ["resolve", SHA], "a file of another commit was asked for"
        with (folder / parts[4]).open("rb") as f:
            said = self.headers.get("range")
            if not said or not self.server.ranges:
                return self.reply(200, f.read(64 * 2**20))
            start, end = (int(x) for x in said.removeprefix("bytes=").split("-"))
            f.seek(start)
            return self.reply(206, f.read(end - start + 1))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    root = tmp_path / "hub"
    server = Hub(root)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def checkpoint(folder: Path) -> Path:
    """A two-shard llama checkpoint of 30 GB whose tensor data are holes."""
    folder.mkdir(parents=True)
    big = {**CONFIG, "vocab_size": 4_000_000, "hidden_size": 1024}
    (folder / "config.json").write_text(json.dumps(big))
    d, v, f = 1024, 4_000_000, 512
    tensors: list[tuple[str, list[int]]] = [("model.embed_tokens.weight", [v, d]), ("lm_head.weight", [v, d])]
    tensors.append(("model.norm.weight", [d]))
    for i in range(2):
        p = f"model.layers.{i}."
        tensors += [(p + "self_attn.q_proj.weight", [d, d]), (p + "self_attn.o_proj.weight", [d, d])]
        tensors += [(p + f"self_attn.{x}_proj.weight", [d // 2, d]) for x in "kv"]
        tensors += [(p + f"mlp.{x}_proj.weight", [f, d]) for x in ("gate", "up")] + [
            (p + "mlp.down_proj.weight", [d, f])
        ]
        tensors += [(p + f"{x}_layernorm.weight", [d]) for x in ("input", "post_attention")]
    halves: list[Spec] = [{}, {}]
    for i, (name, shape) in enumerate(tensors):
        n = 2
        for s in shape:
            n *= s
        halves[i % 2][name] = ("BF16", shape, n)
    names = [f"model-{i + 1:05d}-of-00002.safetensors" for i in range(2)]
    for name, half in zip(names, halves, strict=True):
        write(folder / name, half)
    index = {"metadata": {}, "weight_map": {t: names[i] for i, h in enumerate(halves) for t in h}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def advise(hub: Hub, cache: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub's library reads its environment when it is imported."""
    own = {"HF_ENDPOINT": hub.url, "ADVISOR_CACHE_DIR": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1"}
    if not cache.exists():  # with the compiled rules in it
        shutil.copytree(cache_dir(), cache)
    return commands.started(*words, env={**own, **env})


def explained(done: subprocess.CompletedProcess[str] | commands.Finished) -> dict[str, Any]:
    assert done.returncode in (0, 1, 2), done.stderr  # whether it fits is not what is asked here
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_checkpoint_headers_answer_like_the_checkpoint_itself(hub: Hub, tmp_path: Path) -> None:
    folder = checkpoint(hub.root / "org" / "big")
    words = ("--engine", "vllm", "--on", "RTX 4090", "--json")
    there = explained(advise(hub, tmp_path / "c", "explain", "--model", "org/big", "--online", *words, HF_TOKEN="hf_x"))
    here = explained(commands.advise("explain", "--model", str(folder), *words))
    assert there["estimates"][0]["devices"] == here["estimates"][0]["devices"]
    assert there["estimates"][0]["devices"][0]["weights_bytes"] > 8e9
    assert there["model"] == "org/big"
    assert any("0123456789ab" in n for n in there["warnings"])
    assert hub.sent < 600_000
    assert hub.tokens == {"Bearer hf_x"}
    before = hub.sent
    explained(advise(hub, tmp_path / "c", "explain", "--model", "org/big", "--online", *words))
    assert hub.sent - before < 5_000, "headers of a known commit are not read again"


@pytest.mark.slow
def test_gguf_by_quantization_and_the_command_names_the_hub(hub: Hub, tmp_path: Path) -> None:
    folder = hub.root / "org" / "tiny-GGUF"
    folder.mkdir(parents=True)
    for label in ("Q8_0", "Q4_0"):
        g.tiny(folder / f"tiny-{label}.gguf", type_of=lambda n, s, q=label: "F32" if len(s) == 1 else q)
    g.tiny(folder / "mmproj-tiny-F16.gguf")
    cache = tmp_path / "c"
    there = explained(
        advise(hub, cache, "explain", "--model", "org/tiny-GGUF:Q8_0", "--online", "--json", "--on", "RTX 4090")
    )
    words = ("explain", "--model", str(folder / "tiny-Q8_0.gguf"), "--json", "--on", "RTX 4090")
    here = explained(commands.advise(*words))
    assert there["estimates"][0]["devices"] == here["estimates"][0]["devices"]
    unsaid = advise(hub, cache, "explain", "--model", "org/tiny-GGUF", "--online")
    assert unsaid.returncode == 2
    assert "Q4_0, Q8_0" in unsaid.stderr
    assert len(unsaid.stderr.splitlines()) == 1
    shown = advise(
        hub,
        cache,
        "recommend",
        "--model",
        "org/tiny-GGUF:Q4_0",
        "--online",
        "--engine",
        "llama.cpp",
        "--on",
        "RTX 4090",
    )
    assert "org/tiny-GGUF:Q4_0" in shown.stdout, shown.stderr
    assert str(cache) not in shown.stdout


def test_a_hub_without_range_requests_is_not_downloaded(hub: Hub, tmp_path: Path) -> None:
    checkpoint(hub.root / "org" / "big")
    hub.ranges = False
    done = advise(hub, tmp_path / "c", "explain", "--model", "org/big", "--online", "--engine", "vllm")
    assert done.returncode == 0, done.stderr  # headers lie in the first bytes, and no more is read


@pytest.mark.parametrize(
    ("name", "env", "said"),
    [
        ("org/none", {}, "is not on the hub, or is private: set HF_TOKEN"),
        ("org/gated", {}, "is gated: accept its terms"),
        ("org/big", {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ("org/big", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "could not be read: Connect"),
        ("70B", {}, "reads hub repositories"),
        ("../../etc/passwd", {}, "reads hub repositories"),
    ],
)
def test_what_goes_wrong_is_one_line(hub: Hub, tmp_path: Path, name: str, env: dict[str, str], said: str) -> None:
    (hub.root / "org" / "gated").mkdir(parents=True)
    done = advise(hub, tmp_path / "c", "explain", "--model", name, "--online", **env)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_names_that_are_hub_names() -> None:
    assert parse_hub_reference("org/name") == HubReference("org/name", None)
    assert parse_hub_reference("hf.co/org/name:Q4_K_M") == HubReference("org/name", "Q4_K_M")
    assert parse_hub_reference("https://huggingface.co/org/name/sub/file.gguf") == HubReference(
        "org/name", "sub/file.gguf"
    )
    assert parse_hub_reference("llama3.1:8b") is None
    assert parse_hub_reference("/tmp/x") is None


def test_only_the_mark_makes_a_header_folder(tmp_path: Path) -> None:
    assert read_origin(tmp_path) is None
    (tmp_path / "advise-headers.json").write_text("{}")
    with pytest.raises(BadFile, match="not what --online writes"):
        read_origin(tmp_path)


def test_a_downloaded_repository_is_found_in_the_hub_cache(hub: Hub, tmp_path: Path) -> None:
    home = tmp_path / "hf" / "hub" / "models--org--mine"
    made = checkpoint(home / "snapshots" / SHA)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(SHA)
    words = ("--engine", "vllm", "--on", "RTX 4090", "--json")
    there = explained(
        advise(hub, tmp_path / "c", "explain", "--model", "org/mine", *words, HF_HOME=str(tmp_path / "hf"))
    )
    here = explained(advise(hub, tmp_path / "c", "explain", "--model", str(made), *words))
    assert there["estimates"][0]["devices"] == here["estimates"][0]["devices"]
    assert there["model"] == "org/mine"
    assert hub.sent == 0
    (home / "refs" / "main").write_text("../../../..")
    gone = advise(hub, tmp_path / "c", "explain", "--model", "org/mine", *words, HF_HOME=str(tmp_path / "hf"))
    assert gone.returncode == 2
    assert "--online" in gone.stderr


@pytest.mark.slow  # three compilations of the rules
def test_a_repository_is_known_offline_once_it_was_added(hub: Hub, tmp_path: Path) -> None:
    """The entry of `models add` answers as the headers do, with the network gone."""
    checkpoint(hub.root / "org" / "big")
    cache, config = tmp_path / "c", {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = ("--engine", "vllm", "--on", "RTX 4090", "--json")
    there = explained(advise(hub, cache, "explain", "--model", "org/big", "--online", *words))
    added = advise(hub, cache, "models", "add", "org/big", "--online", "--json", **config)
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["model"] == "org/big"
    gone = {**config, "HF_ENDPOINT": "http://127.0.0.1:9"}
    here = explained(advise(hub, cache, "explain", "--model", "org/big", *words, **gone))
    assert here["estimates"][0]["devices"] == there["estimates"][0]["devices"]
    again = advise(hub, cache, "models", "add", "org/big", "--online", **config)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert advise(hub, cache, "models", "add", "org/big", "--online", "--force", **config).returncode == 0
    linted = advise(hub, cache, "rules", "lint", str(tmp_path / "config/advisor/rules"))
    assert linted.returncode == 0, linted.stdout


def test_what_cannot_be_added_is_said(hub: Hub, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "mine")
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    unnamed = advise(hub, tmp_path / "c", "models", "add", str(folder), **config)
    assert unnamed.returncode == 2
    assert "--name" in unnamed.stderr
    named = advise(hub, tmp_path / "c", "models", "add", str(folder), "--name", "our-org/assistant", **config)
    assert named.returncode == 0, named.stderr
    assert "our-org/assistant" in named.stdout
    known = advise(hub, tmp_path / "c", "models", "add", "Qwen/Qwen3-8B", **config)
    assert known.returncode == 2
    assert "in the catalogue already" in known.stderr
