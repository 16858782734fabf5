"""Stores of four programs, written as those programs write them: names and sizes are found, nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from advisor.advice.models.choice import find_stored_models
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.roots import shipped_root
from advisor.deployment import Workload
from advisor.models.local_stores import StoredModel, list_stored_models
from advisor.session import Session

CATALOG = catalog([shipped_root()])


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "LMSTUDIO_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("advisor.models.local_stores.SERVICE_STORE", tmp_path / "none")
    return tmp_path


def write(path: Path, size: int = 7) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def ollama(home: Path, name: str, size: int) -> None:
    """As Ollama 0.33 leaves a pulled model: a manifest that names a blob by its digest."""
    digest = "sha256:" + "ab" * 32
    media = "application/vnd.ollama.image."
    layers = [
        {"mediaType": media + "model", "digest": digest, "size": size},
        {"mediaType": media + "license", "size": 3},
    ]
    manifest = home / ".ollama/models/manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}), encoding="utf-8")
    write(home / ".ollama/models/blobs" / digest.replace(":", "-"))


def hub(home: Path, name: str, files: dict[str, int]) -> None:
    """As huggingface_hub leaves a download: blobs, and a snapshot of links to them."""
    folder = home / ".cache/huggingface/hub" / ("models--" + name.replace("/", "--"))
    for i, (file, size) in enumerate(files.items()):
        blob = write(folder / "blobs" / f"{i:040x}", size)
        link = folder / "snapshots" / ("c" * 40) / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    write(folder / "refs/main")


def stored(home: Path) -> dict[tuple[str, str], StoredModel]:
    return {(m.store, m.name): m for m in list_stored_models()}


def test_all_four_stores(home: Path) -> None:
    ollama(home, "registry.ollama.ai/library/qwen3/8b", 5_200_000_000)
    ollama(home, "hf.co/bartowski/Llama-3.3-70B-Instruct-GGUF/Q4_K_M", 40)
    parts = {"model-00001-of-00002.safetensors": 11, "model-00002-of-00002.safetensors": 12, "config.json": 5}
    hub(home, "Qwen/Qwen3-32B-AWQ", parts)
    hub(home, "unsloth/Qwen3-4B-GGUF", {"Qwen3-4B-Q4_K_M.gguf": 21, "Qwen3-4B-Q8_0.gguf": 22, "mmproj-F16.gguf": 2})
    write(home / ".lmstudio/models/lmstudio-community/gemma-3-12b-it-GGUF/gemma-3-12b-it-Q4_K_M.gguf", 31)
    write(home / ".lmstudio/models/mlx-community/Qwen3-8B-4bit/model.safetensors", 32)
    write(home / ".cache/llama.cpp/ggml-org_gpt-oss-20b-GGUF_gpt-oss-20b-mxfp4.gguf", 41)
    write(home / ".cache/llama.cpp/unsloth_Qwen3-30B-A3B-GGUF_Qwen3-30B-A3B-Q4_K_M-00001-of-00002.gguf", 42)
    write(home / ".cache/llama.cpp/unsloth_Qwen3-30B-A3B-GGUF_Qwen3-30B-A3B-Q4_K_M-00002-of-00002.gguf", 43)
    found = stored(home)
    assert found["ollama-store", "qwen3:8b"].bytes == 5_200_000_000
    assert found["hub-cache", "Qwen/Qwen3-32B-AWQ"].bytes == 23
    assert found["hub-cache", "unsloth/Qwen3-4B-GGUF:Q8_0"].bytes == 22
    assert found["lm-studio-folder", "lmstudio-community/gemma-3-12b-it-GGUF:Q4_K_M"].bytes == 31
    assert len([k for k in found if k[0] == "llama-cache"]) == 2  # a part that follows is no model of its own
    machine = msgspec.structs.replace(parse_hardware("RTX 4090, 64GB RAM", CATALOG), source="probe")
    models = find_stored_models(machine, CATALOG)
    for model, format in (
        ("Qwen/Qwen3-8B", "Q4_K_M"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Q4_K_M"),
        ("Qwen/Qwen3-32B", "AWQ"),
        ("Qwen/Qwen3-4B", "Q8_0"),
        ("google/gemma-3-12b-it", "Q4_K_M"),
        ("Qwen/Qwen3-8B", "MLX-4bit"),
        ("Qwen/Qwen3-30B-A3B", "Q4_K_M"),
    ):
        assert models.find(model, format) is not None, (model, format)
    elsewhere = find_stored_models(parse_hardware("RTX 4090, 64GB RAM", CATALOG), CATALOG)
    assert elsewhere.copies == {}  # another machine's stores are not this one's


@pytest.mark.slow
def test_what_lies_here_is_preferred_when_equal_and_said(home: Path) -> None:
    machine = msgspec.structs.replace(parse_hardware("1x RTX 3060 12GB, 32GB RAM", CATALOG), source="probe")
    plain = recommend(RecommendRequest(machine, Workload()), Session(CATALOG))
    assert plain.chosen is not None
    assert plain.chosen.stored is None
    name = (plain.chosen.model or "").rpartition("/")[2]
    hub(home, f"unsloth/{name}-GGUF", {f"{name}-{plain.chosen.quantization}.gguf": 99})
    here = recommend(RecommendRequest(machine, Workload()), Session(CATALOG))
    assert here.chosen is not None
    assert here.chosen.model == plain.chosen.model
    assert here.chosen.stored is not None
    assert any("already on this machine" in w for w in here.warnings)


def test_damaged_and_foreign_entries_are_passed_over(home: Path) -> None:
    write(home / ".ollama/models/manifests/registry.ollama.ai/library/broken/latest")
    write(home / ".ollama/models/manifests/stray")
    write(home / ".cache/huggingface/hub/models--a--b/snapshots/x/readme.txt")
    (home / ".cache/huggingface/hub/models--loop--b").symlink_to(home)
    write(home / ".lmstudio/models/file.gguf")
    assert list_stored_models() == ()


def test_no_stores_at_all(home: Path) -> None:
    assert list_stored_models() == ()
