"""Downloads: every repository was read somewhere, and a format that can be downloaded wins over one that cannot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from reading import read_yaml

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.catalog.downloads import list_repositories
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.roots import shipped_root
from advisor.deployment import Workload
from advisor.render.words import find_gguf_repository, find_repository
from advisor.session import Session

CATALOG = catalog([shipped_root()])
FILES = sorted((Path(__file__).parents[2] / "rules/downloads").glob("*.yaml"))


def entries() -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    out = []
    for path in FILES:
        file = read_yaml(path.read_text(encoding="utf-8"))
        out += [(m, e, file["sources"]) for m, rows in file["downloads"].items() for e in rows]
    return out


def test_every_repository_has_a_source_with_a_date() -> None:
    rows = entries()
    assert len({e["repository"] for _, e, _ in rows}) >= 600
    for model, entry, sources in rows:
        source = sources[entry["src"]]
        assert re.search(r"20\d\d-\d\d-\d\d|@ ?[0-9a-f]{7}", source), (model, entry, source)


def test_a_repository_is_a_copy_of_one_model() -> None:
    """The figures of size and version in a repository's name are those of its model."""
    owner: dict[str, str] = {}
    for model, entry, _ in entries():
        assert owner.setdefault(entry["repository"], model) == model
        sizes = set(re.findall(r"(?<![\d.a-z])(\d+(?:\.\d+)?)b(?![a-z0-9])", entry["repository"].lower()))
        own = set(re.findall(r"(?<![\d.a-z])(\d+(?:\.\d+)?)b(?![a-z0-9])", model.lower()))
        assert not sizes or not own or sizes & own, (model, entry["repository"])


def test_downloads_are_joined_to_their_model() -> None:
    model = CATALOG.find_model("Qwen/Qwen3-32B")
    assert model.quantized_repos["AWQ"] == list_repositories(model, "AWQ")[0]
    joined = [m for m in map(CATALOG.find_model, CATALOG.model_ids()) if m.downloads]
    assert len(joined) >= 250
    assert all(d.repository in m.gguf_repos for m in joined for d in m.downloads if d.gguf)


def test_checkpoints_for_nvidia_alone_are_not_named_elsewhere() -> None:
    found = 0
    for name in CATALOG.model_ids():
        model = CATALOG.find_model(name)
        for format in ("FP8", "NVFP4"):
            if any(r.startswith("nvidia/") for r in list_repositories(model, format)):
                found += 1
                elsewhere = find_repository(model, CATALOG.quantization(format), {"amd"})
                assert elsewhere is None or not elsewhere.startswith("nvidia/")
    assert found >= 20


@pytest.mark.parametrize(
    ("hardware", "model", "users"),
    [
        ("2x RTX 3090, 128GB RAM", "zai-org/GLM-4-32B-0414", 16),
        ("1x RTX 4090, 64GB RAM", "tiiuae/Falcon3-10B-Instruct", 16),
        ("4x RTX 3090, 128GB RAM", "Qwen/Qwen3-32B", 4),
        ("8x H100 80GB SXM, 2TB RAM", "Qwen/Qwen3-235B-A22B-Instruct-2507", 32),
        ("1x H100 80GB SXM, 256GB RAM", "meta-llama/Llama-3.3-70B-Instruct", 8),
    ],
)
def test_the_command_names_something_that_can_be_downloaded(hardware: str, model: str, users: int) -> None:
    request = RecommendRequest(parse_hardware(hardware, CATALOG), Workload(concurrency=users), model)
    chosen = recommend(request, Session(CATALOG)).chosen
    assert chosen is not None
    assert chosen.command
    assert "MODEL" not in chosen.command


def test_a_plan_names_a_type_that_the_repository_lists() -> None:
    """unsloth/Kimi-K2.6-GGUF has dynamic types alone, and stepfun's own Step-3.7 no 2-bit one."""
    kimi, step = CATALOG.find_model("moonshotai/Kimi-K2.6"), CATALOG.find_model("stepfun-ai/Step-3.7-Flash")
    found = {q: find_gguf_repository(kimi, CATALOG.quantization(q)) for q in ("UD-Q2_K_XL", "Q3_K_M")}
    assert found == {"UD-Q2_K_XL": "unsloth/Kimi-K2.6-GGUF", "Q3_K_M": "bartowski/moonshotai_Kimi-K2.6-GGUF"}
    assert find_gguf_repository(step, CATALOG.quantization("Q4_K_M")) == "unsloth/Step-3.7-Flash-GGUF"
    assert find_gguf_repository(step, CATALOG.quantization("Q3_K_M")) == "stepfun-ai/Step-3.7-Flash-GGUF"
    assert find_gguf_repository(step, CATALOG.quantization("Q2_K")) is None


@pytest.mark.parametrize(
    ("model", "engine", "on", "says"),
    [
        ("rednote-hilab/dots.llm1.inst", "ollama", "2x H200, 256GB RAM", "merged from its shards"),
        ("nvidia/NVIDIA-Nemotron-Nano-12B-v2", "llama.cpp", "RTX 3090, 64GB RAM", "convert_hf_to_gguf.py"),
        ("Qwen/Qwen3-8B", "ollama", "RTX 3090, 64GB RAM", ""),
    ],
)
def test_what_the_user_has_to_bring_is_a_condition(model: str, engine: str, on: str, says: str) -> None:
    request = RecommendRequest(parse_hardware(on, CATALOG), Workload(), model, engine=engine)
    chosen = recommend(request, Session(CATALOG)).chosen
    assert chosen is not None
    assert bool(chosen.conditions) is bool(says)
    assert says in " ".join(chosen.conditions)


def test_a_plan_that_drafts_takes_the_file_with_the_prediction_block() -> None:
    model, kind = CATALOG.find_model("Qwen/Qwen3.6-27B"), CATALOG.quantization("Q4_K_M")
    assert find_gguf_repository(model, kind) == "unsloth/Qwen3.6-27B-GGUF"
    assert find_gguf_repository(model, kind, prediction=True) == "unsloth/Qwen3.6-27B-MTP-GGUF"
    without = CATALOG.find_model("Qwen/Qwen3-8B")  # has no such file, and no other name for it
    assert find_gguf_repository(without, kind, prediction=True) == find_gguf_repository(without, kind)
