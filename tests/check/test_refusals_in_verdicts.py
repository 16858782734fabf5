"""What an engine refuses at its start is the verdict, whichever part found it. Expectations are public reports."""

from pathlib import Path

import pytest

import advisor

LM_STUDIO = (
    "# LM Studio 0.4.{patch}\nlms load mlx-community/gemma-4-26b-a4b-it-4bit --gpu max\n"  # bug tracker 1741, 1791
)
V4 = (
    "docker run --gpus all vllm/vllm-openai:deepseekv4-cu129 deepseek-ai/DeepSeek-V4-Flash --kv-cache-dtype fp8 -tp 8\n"
)
INT8 = (
    "pip install vllm==0.11.0\nvllm serve RedHatAI/Qwen2.5-VL-7B-Instruct-quantized.w8a8 --max-model-len 8000\n"  # 2048
)
PARSER = "pip install vllm==0.10.2\nvllm serve Qwen/Qwen3-8B --enable-auto-tool-choice"


@pytest.mark.parametrize(
    ("launch", "on", "fits", "told"),
    [
        (LM_STUDIO.format(patch=8), "MacBook Pro M1 Max, 64GB", False, "from 0.4.12 on"),
        (LM_STUDIO.format(patch=12), "MacBook Pro M1 Max, 64GB", True, ""),
        (V4, "8x A800 80GB, 512GB RAM, linux", False, "no attention backend"),  # vllm issue 40851
        (INT8, "RTX 5090, 64GB RAM, linux", False, "Int8 not supported"),  # llm-compressor issue 2048
        (PARSER + "\n", "1x A100 80GB, 64GB RAM, linux", False, "--tool-call-parser"),
        (PARSER + " --tool-call-parser hermes\n", "1x A100 80GB, 64GB RAM, linux", True, ""),
    ],
)
def test_the_verdict_has_the_refusal_first(tmp_path: Path, launch: str, on: str, fits: bool, told: str) -> None:
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{launch}")
    (deployment,) = advisor.check(tmp_path / "run.sh", on=on).deployments
    assert deployment.fits is fits
    assert not told or told in deployment.why[0]
