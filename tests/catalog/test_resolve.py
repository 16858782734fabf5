"""A model by whatever people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gguf_files import tiny

from advisor.catalog import catalog
from advisor.catalog.resolve import resolve_model
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError, BadFile, UnknownName

RULES = catalog([shipped_root()])
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
    "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize("name", ["llama3.1:8b", "Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"])
def test_catalogue_names(name: str) -> None:
    found = resolve_model(name, RULES)
    assert found.model.id == "meta-llama/Llama-3.1-8B-Instruct"
    assert found.path is None


def test_a_directory_with_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for name in (str(tmp_path), str(tmp_path / "config.json")):
        found = resolve_model(name, RULES)
        assert found.path == str(tmp_path)
        assert found.model.layout is not None
        assert found.model.layout.n_layers == 2


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"neither config.json nor a .gguf file"):
        resolve_model(str(tmp_path), RULES)
    with pytest.raises(BadFile, match="no such file"):
        resolve_model(str(tmp_path / "x.gguf"), RULES)
    (tmp_path / "a.gguf").write_bytes(b"")
    (tmp_path / "b.gguf").write_bytes(b"")
    with pytest.raises(BadFile, match=r"2 .gguf files: name one"):
        resolve_model(str(tmp_path), RULES)
    with pytest.raises(BadFile):
        resolve_model(str(tmp_path / "a.gguf"), RULES)


def test_a_name_nobody_knows_says_what_else_works() -> None:
    with pytest.raises(UnknownName) as e:
        resolve_model("zzzzqqqq", RULES)
    assert "config.json" in e.value.line()
    with pytest.raises(UnknownName) as e:
        resolve_model("llama3.1:9b", RULES)
    assert "llama3.1:8b" in e.value.near


ODD = ["", ".", "/", "~", "~nobody/x", "a\x00b", "a\x00b.gguf", "x" * 5000, "/" + "x" * 5000, "\ud800", "../" * 50, "-"]


@pytest.mark.parametrize("name", [*ODD, "--model", "llama3.1:8b\n"], ids=range(len(ODD) + 2))
def test_odd_names_are_clear_errors(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        found = resolve_model(name, RULES)
    except AdvisorError as e:
        line = e.line()
    else:
        line = found.model.id
    assert "\n" not in line
    assert len(line) < 500


def test_a_directory_named_like_a_model_wins_only_with_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("qwen3").mkdir()
    with pytest.raises(UnknownName):
        resolve_model("qwen3-nothing", RULES)
    Path("mine").mkdir()
    Path("mine/config.json").write_text(json.dumps(CONFIG))
    assert resolve_model("mine", RULES).path == "mine"


def test_ollamas_own_store_is_asked_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = tmp_path / "blobs" / f"sha256-{64 * 'a'}"
    blob.parent.mkdir(parents=True)
    tiny(blob)
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "zzzz" / "mine"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{64 * 'a'}", "size": 1}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [layer]}))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    found = resolve_model("zzzz:mine", RULES)
    assert found.path == str(blob)
    assert found.note
    assert "Ollama" in found.note


def test_a_gguf_file_states_its_own_format(tmp_path: Path) -> None:
    path = tiny(tmp_path / "tiny.gguf")
    for name in (str(path), str(tmp_path)):
        found = resolve_model(name, RULES)
        assert found.path == str(path)
        assert found.model.layout is not None
        assert found.model.layout.n_layers == 2
        assert found.quantization is not None
