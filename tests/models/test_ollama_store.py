"""Ollama's store, built as its server lays it out."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import BadFile, BadInput
from advisor.models.local_stores import find_ollama_model

DIGEST = "ab" * 32


def pull(root: Path, where: str, digest: str = DIGEST, blob: bool = True) -> Path:
    """A pulled model: manifest with the layers of a real pull, and its blob."""
    manifest = root / "manifests" / where
    manifest.parent.mkdir(parents=True, exist_ok=True)
    kinds = ("template", "model", "license", "params")
    layers = [
        {
            "mediaType": f"application/vnd.ollama.image.{kind}",
            "digest": f"sha256:{digest if kind == 'model' else f'{i}' * 64}",
            "size": 10,
        }
        for i, kind in enumerate(kinds)
    ]
    media = "application/vnd.docker.distribution.manifest.v2+json"
    manifest.write_text(json.dumps({"schemaVersion": 2, "mediaType": media, "layers": layers}))
    path = root / "blobs" / f"sha256-{digest}"
    if blob:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"GGUF")
    return path


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("llama3.1:8b", "registry.ollama.ai/library/llama3.1/8b"),
        ("llama3.1", "registry.ollama.ai/library/llama3.1/latest"),
        ("library/llama3.1:8b", "registry.ollama.ai/library/llama3.1/8b"),
        ("someone/tuned:q4_K_M", "registry.ollama.ai/someone/tuned/q4_K_M"),
        ("hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF/Q4_K_M"),
        ("localhost:5000/team/model", "localhost:5000/team/model/latest"),
    ],
)
def test_names(tmp_path: Path, name: str, where: str) -> None:
    assert find_ollama_model(name, tmp_path) is None
    blob = pull(tmp_path, where)
    assert find_ollama_model(name, tmp_path) == blob


def test_store_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    home = pull(tmp_path / ".ollama" / "models", "registry.ollama.ai/library/m/latest")
    assert find_ollama_model("m") == home
    other = pull(tmp_path / "elsewhere", "registry.ollama.ai/library/m/latest")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "elsewhere"))
    assert find_ollama_model("m") == other


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../b", "a/b/../../c:d", "x:..", "/etc/passwd", "", "a//b", "a/b/c/d", "x:y:z", "m\0", "..:..", "a\\b"],
)
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="not an Ollama model name"):
        find_ollama_model(name, tmp_path)


def test_damaged_stores(tmp_path: Path) -> None:
    where = "registry.ollama.ai/library/m/latest"
    pull(tmp_path, where, blob=False)
    with pytest.raises(BadFile, match="pull the model again"):
        find_ollama_model("m", tmp_path)
    pull(tmp_path, where, digest="../../../../etc/passwd", blob=False)
    with pytest.raises(BadFile, match="64 hex digits"):
        find_ollama_model("m", tmp_path)
    for text in ("", "[]", "{}", '{"layers": [{"mediaType": 1}, 2]}', '{"layers": 1}', "\xff"):
        (tmp_path / "manifests" / where).write_text(text, encoding="latin-1")
        with pytest.raises(BadFile):
            find_ollama_model("m", tmp_path)


@settings(max_examples=100)
@given(st.text(alphabet="ab./:\\-_~\0 ", max_size=20))
def test_no_name_leaves_the_store(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "manifests"
    store = tmp_path / "store"
    store.mkdir(exist_ok=True)
    pull(tmp_path, "registry.ollama.ai/library/a/latest")
    assert outside.exists()
    with contextlib.suppress(BadInput):
        assert find_ollama_model(name, store) is None  # the store is empty; only the folder next to it has a model
