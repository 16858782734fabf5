"""`advise check` names every tensor-parallel size that the engine refuses, and no other."""

from __future__ import annotations

import random
from pathlib import Path

import engine_shapes  # what vLLM and SGLang assert, written down from their sources
import pytest

import advisor

ROWS = {row["id"]: row for row in engine_shapes.rows()}
RULES = ("tp-heads-indivisible", "tp-kv-heads-indivisible", "tp-parts-indivisible")
COMMANDS = {
    "vllm": "vllm serve {} --tensor-parallel-size {}",
    "sglang": "sglang serve --model-path {} --tp-size {}",
}


def lines_with(rules: tuple[str, ...], source: str, folder: Path, on: str | None = None) -> set[int]:
    """The lines of a script where `check` reports one of the rules as an error."""
    path = folder / "serve.sh"
    path.write_text(source, encoding="utf-8")
    found = advisor.check(path, on=on, fit=False).findings
    return {f.line for f in found if f.rule in rules and f.severity == "error"}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_refused_size_is_found_and_no_other(engine: str, tmp_path: Path) -> None:
    draw = random.Random(5)
    launches = [(name, draw.randint(2, 8)) for name in draw.sample(list(ROWS), k=150)]
    # shared experts may be part of the others on AMD, so those of the device have to be known
    seen = lines_with(
        RULES, "".join(COMMANDS[engine].format(*x) + "\n" for x in launches), tmp_path, on="8x H100 80GB SXM"
    )
    refused = {i for i, (m, tp) in enumerate(launches, 1) if not engine_shapes.starts(ROWS[m], tp, engine)}
    assert seen == refused
    assert 50 < len(refused) < 120


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("vllm serve microsoft/phi-4 -tp 4", "tp-kv-heads-indivisible"),
        ("sglang serve --model-path microsoft/phi-4 --tp-size 4", "tp-kv-heads-indivisible"),
        ("lmdeploy serve api_server microsoft/phi-4 --tp 4", "tp-kv-heads-indivisible"),
        ("trtllm-serve microsoft/phi-4 --tp_size 4", "tp-kv-heads-indivisible"),
        ("text-generation-launcher --model-id microsoft/phi-4 --num-shard 4", "tp-kv-heads-indivisible"),
        ("text-generation-launcher --model-id Qwen/Qwen2.5-72B-Instruct --num-shard 16", "tp-kv-heads-indivisible"),
        ("vllm serve Qwen/Qwen2.5-72B-Instruct -tp 16", None),  # fewer KV heads than ranks are repeated
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 16", None),  # latent attention
        ("vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8", "tp-heads-indivisible"),
        ("vllm serve google/gemma-3-12b-it -tp $TP", None),
        ("vllm serve microsoft/phi-4 -tp 4 --hf-overrides '{\"num_key_value_heads\": 8}'", None),
        # replicas of attention lie inside the ranks: 8 ranks are 4 of 2
        ("sglang serve --model-path microsoft/phi-4 --tp-size 8 --dp-size 4 --enable-dp-attention", None),
        (
            "sglang serve --model-path microsoft/phi-4 --tp-size 8 --dp-size 2 --enable-dp-attention",
            "tp-kv-heads-indivisible",
        ),
        ("sglang serve --model-path microsoft/phi-4 --tp-size 8 --attn-dp-size 4", None),
        ("vllm serve tiiuae/Falcon-H1-34B-Instruct -tp 4", "tp-parts-indivisible"),
        # whole experts are given out, if the words that are not known say so
        ("vllm serve ai21labs/AI21-Jamba-Mini-1.7 -tp 4", None),
    ],
)
def test_rules(command: str, rule: str | None, tmp_path: Path) -> None:
    for each in RULES:
        assert bool(lines_with((each,), command + "\n", tmp_path)) is (each == rule), each


BLOCKS = "tp-quant-block-indivisible"


@pytest.mark.parametrize(
    ("command", "on", "error"),
    [
        ("vllm serve Qwen/Qwen3-4B-FP8 -tp 8", None, True),
        ("vllm serve Qwen/Qwen3-4B-FP8 -tp 4", None, False),
        ("vllm serve qwen/qwen3-4b-fp8 -tp 8", None, True),
        ("sglang serve --model-path Qwen/Qwen3-4B-FP8 --tp-size 8", None, True),
        ("sglang serve --model-path MiniMaxAI/MiniMax-M2.5 --tp-size 8", "8x H200", True),
        ("sglang serve --model-path MiniMaxAI/MiniMax-M2.5 --tp-size 8 --ep-size 8", "8x H200", False),
        ("sglang serve --model-path MiniMaxAI/MiniMax-M2.5 --tp-size 8", "8x MI300X", False),
        ("sglang serve --model-path MiniMaxAI/MiniMax-M2.5 --tp-size 8", None, False),
        ("vllm serve MiniMaxAI/MiniMax-M2.5 -tp 8", "8x H200", False),  # blocks are taken apart since 0.29
        ("pip install vllm==0.20.0\nvllm serve MiniMaxAI/MiniMax-M2.5 -tp 8", "8x H200", True),
        # one scale a channel, one a tensor, and what nobody has read
        ("vllm serve zai-org/GLM-4.5-FP8 -tp 16", None, False),
        ("vllm serve zai-org/GLM-4.7-FP8 -tp 16", None, False),
        ("vllm serve nvidia/Llama-3.1-8B-Instruct-FP8 -tp 32", None, False),
        ("vllm serve RedHatAI/Qwen3-4B-FP8-dynamic -tp 8", None, False),
        ("vllm serve RedHatAI/Qwen3-4B-FP8-block -tp 8", None, False),
        ("vllm serve someone/Qwen3-4B-FP8 -tp 8", None, False),
        ("vllm serve /models/Qwen3-4B-FP8 -tp 8", None, False),
        ("vllm serve Qwen/Qwen3-4B --quantization fp8 -tp 8", None, False),
    ],
)
def test_blocks_are_facts_of_the_checkpoint(command: str, on: str | None, error: bool, tmp_path: Path) -> None:
    assert bool(lines_with((BLOCKS,), command + "\n", tmp_path, on)) is error


def test_what_recommend_says_passes(tmp_path: Path) -> None:
    """The same function decides both."""
    for model, cards in (("microsoft/phi-4", 4), ("Qwen/Qwen3-4B", 8), ("zai-org/GLM-4.5-Air", 6)):
        for engine in ("vllm", "sglang"):
            advice = advisor.recommend(
                advisor.machine(f"{cards}x RTX 4090, 256GB RAM, linux"), model=model, engine=engine, quantization="FP8"
            )
            if advice.chosen is not None and advice.chosen.command is not None:
                source = advice.chosen.command + "\n"
                assert not lines_with((*RULES, BLOCKS), source, tmp_path, f"{cards}x RTX 4090"), source
