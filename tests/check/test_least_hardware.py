"""Where no hardware is named, the smallest common cards on which a launch starts are; the next smaller do not do."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text

from advisor.catalog import catalog
from advisor.catalog.described_machine import list_common_cards
from advisor.checks.findings import CheckedDeployment

RULES = catalog()
VLLM = "vllm serve {} --max-model-len {}\n"
GPUS = "deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: {}, capabilities: [gpu]}}]}}}}}}"
COMPOSE = "services:\n  v:\n    image: {}\n    command: --model {} --max-model-len {}{}\n    " + GPUS + "\n"
LAUNCHES = [
    ("a.sh", VLLM.format("Qwen/Qwen3-4B", 4096), 1, "nvidia"),
    ("a.sh", VLLM.format("Qwen/Qwen3-32B", 32768), 1, "nvidia"),
    ("a.sh", VLLM.format("meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4", 16384), 4, "nvidia"),
    ("a.sh", "sglang serve --model-path Qwen/Qwen3-14B --context-length 8192\n", 1, "nvidia"),
    ("a.sh", "llama-server -hf unsloth/Qwen3-14B-GGUF:Q4_K_M -c 16384 -ngl 99\n", 1, "nvidia"),
    ("compose.yaml", COMPOSE.format("vllm/vllm-openai:v0.33.0", "Qwen/Qwen3-32B-FP8", 16384, "", 1), 1, "nvidia"),
    ("compose.yaml", COMPOSE.format("rocm/vllm:v0.33.0", "Qwen/Qwen3-32B", 16384, "", 1), 1, "amd"),
    ("compose.yaml", COMPOSE.format("vllm/vllm-openai:v0.33.0", "openai/gpt-oss-120b", 8192,
                                    " --tensor-parallel-size 2", 2), 2, "nvidia"),
]  # fmt: skip


def judge(text: str, name: str, on: str | None = None) -> CheckedDeployment:
    (found,) = check_text(text, name, on=on).verdicts
    return found


@pytest.mark.parametrize(("name", "text", "count", "vendor"), LAUNCHES)
def test_the_least_is_enough_and_the_next_smaller_is_not(name: str, text: str, count: int, vendor: str) -> None:
    found = judge(text, name)
    assert found.fits is None
    assert found.least is not None
    cards = sorted((c for c in list_common_cards(RULES) if c.vendor == vendor), key=lambda c: c.memory_bytes or 0)
    (at,) = (i for i, c in enumerate(cards) if found.least.hardware == f"{count}x {c.name}")
    assert judge(text, name, f"{count}x {cards[at].name}").fits is True
    assert found.least.needs_bytes <= (cards[at].memory_bytes or 0)
    if at:
        assert judge(text, name, f"{count}x {cards[at - 1].name}").fits is not True


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve $MODEL\n",
        "vllm serve meta-llama/Llama-3.1-405B-Instruct --max-model-len 8192\n",  # on no single card
        "image: x\n",
        "docker run --gpus 0 vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-4B\n",
        "docker run --gpus all quay.io/ascend/vllm-ascend:v0.11 vllm serve Qwen/Qwen3-4B\n",
        "docker run --device /dev/kfd --device /dev/dri me/vllm:1 vllm serve Qwen/Qwen3-4B\n",
    ],
)
def test_there_is_none_where_more_is_open(text: str) -> None:
    assert all(d.least is None for d in check_text(text, "a.sh").verdicts)


def test_a_processor_image_takes_no_card() -> None:
    text = "services: {l: {image: 'ghcr.io/ggml-org/llama.cpp:server', command: -hf unsloth/Qwen3-8B-GGUF:Q4_K_M}}\n"
    assert all(d.least is None for d in check_text(text, "compose.yaml").verdicts)


def test_the_status_is_good_and_with_strict_open(tmp_path: Path) -> None:
    import advisor

    (tmp_path / "a.sh").write_text("# advise: version=0.33.0\n" + LAUNCHES[0][1])
    assert advisor.check([tmp_path / "a.sh"]).status() == 0
    assert advisor.check([tmp_path / "a.sh"], strict=True).status() == 2
