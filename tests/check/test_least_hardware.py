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
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: a, image: '{}', "
    "command: [vllm, serve, Qwen/Qwen3-4B, --max-model-len, '4096'], resources: {{limits: {{{}: 1}}}}}}]}}\n"
)
DOCKER = "docker run --gpus all vllm/vllm-openai:v0.33.0 --model {} --max-model-len {}\n"
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
    # SGLang starts with a cache below the length, and then holds no request of it
    ("a.sh", "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp-size 2\n", 2, "nvidia"),
    # the last card that is named by a number is there, and those before it
    ("a.sh", "CUDA_VISIBLE_DEVICES=4,5 " + VLLM.format("Qwen/Qwen3-32B --tensor-parallel-size 2", 4096), 6, "nvidia"),
    ("a.sh", "llama-server -hf unsloth/Qwen3-14B-GGUF:Q4_K_M -c 16384 -ngl 99 -dev CUDA3\n", 4, "nvidia"),
    ("compose.yaml", COMPOSE.format("vllm/vllm-openai:v0.33.0", "Qwen/Qwen3-4B", 4096, "", 1).replace(
        "count: 1", "device_ids: ['7']"), 8, "nvidia"),
    ("pod.yaml", POD.format("intel/vllm:0.10.2-xpu", "gpu.intel.com/i915"), 1, "intel"),
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
    there = check_text(text, name, on=f"{count}x {cards[at].name}")
    (held,) = there.verdicts
    assert held.fits is True
    assert held.memory is not None
    assert held.memory.kv_cache.max_sequences != 0
    assert all((d.total_bytes or 0) <= (d.budget_bytes or 1e15) for d in held.memory.devices)
    assert {f.rule for f in there.findings if f.severity == "error"} <= {
        f.rule for f in check_text(text, name).findings if f.severity == "error"
    }
    assert found.least.needs_bytes <= (cards[at].memory_bytes or 0)
    if at:
        smaller = judge(text, name, f"{count}x {cards[at - 1].name}")
        assert smaller.fits is not True or (smaller.memory and smaller.memory.kv_cache.max_sequences == 0)


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve $MODEL\n",
        "vllm serve meta-llama/Llama-3.1-405B-Instruct --max-model-len 8192\n",  # on no single card
        "vllm serve deepseek-ai/DeepSeek-R1 -tp 2 --max-model-len 8192\n",  # on two of 432 GB, which are not common
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


NOWHERE = [  # text, whether it is known to start on no card
    ("vllm serve deepseek-ai/DeepSeek-R1 --max-model-len 8192\n", True),  # 671 GB of FP8 on one card
    ("vllm serve deepseek-ai/DeepSeek-R1 -tp 2 --max-model-len 8192\n", False),  # 336 GB a card: MI455X has 432
    (DOCKER.format("deepseek-ai/DeepSeek-R1 -tp 2", 8192), True),
    ("llama-server -hf unsloth/DeepSeek-R1-GGUF:Q8_0 -c 4096 -ngl 99\n", False),  # takes all the cards that there are
    ("pip install vllm==0.6.0\nvllm serve Qwen/Qwen3-30B-A3B --max-model-len 8192\n", True),  # Qwen3 came in 0.8.5
    ("vllm serve Qwen/Qwen3-30B-A3B --max-model-len 8192\n", False),
]  # fmt: skip


def test_words_that_another_program_adds_may_make_room() -> None:
    """A recipe of the vLLM project has no parallel size: its page adds one for the hardware that is chosen."""
    text = "model: {model_id: deepseek-ai/DeepSeek-R1, base_args: [--max-model-len, '8192']}\n"
    assert judge(text, "r.yaml").fits is None
    assert (
        judge("model: deepseek-ai/DeepSeek-R1\nmax-model-len: 8192\ngpu-memory-utilization: 0.9\n", "v.yaml").fits
        is None
    )


@pytest.mark.parametrize(("text", "nowhere"), NOWHERE)
def test_what_no_card_holds_does_not_fit(text: str, nowhere: bool) -> None:
    found = judge(text, "a.sh")
    assert (found.fits is False) is nowhere
    assert found.hardware is None


def test_a_server_that_waits_for_requests_starts(tmp_path: Path) -> None:
    import advisor

    (tmp_path / "a.sh").write_text("ollama serve\n")
    found = advisor.check([tmp_path / "a.sh"])
    assert (found.status(), found.deployments[0].fits, found.deployments[0].starts) == (0, None, True)
    assert advisor.check([tmp_path / "a.sh"], strict=True).status() == 2
    (tmp_path / "a.sh").write_text("vllm serve $MODEL\n")
    assert advisor.check([tmp_path / "a.sh"]).status() == 2
