"""Many deployments, spread evenly over engines, devices, models and settings. The same ones every time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
from launching import RULES

from advisor.deployment import Deployment
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, RememberedNames, resolve_request

NVIDIA = (
    "RTX 4090",
    "2x RTX 3090, driver 570",
    "T4",
    "L40S",
    "8x H100 80GB SXM",
    "4x A100 80GB SXM, CUDA 12.4",
    "RTX 5090",
)
ANY = (
    *NVIDIA,
    "RX 7900 XTX",
    "MI300X",
    "Arc B580",
    "cpu, 64GB RAM, 16 cores",
    "Ryzen AI Max+ 395, 128GB",
    "M3 Max 64GB",
)
APPLE = ("M3 Max 64GB", "M4 Pro 48GB", "M2 Ultra 192GB")
HARDWARE = {
    "vllm": (*NVIDIA, "MI300X", "8x H100 80GB SXM, 2 nodes"),
    "sglang": (*NVIDIA, "MI300X", "8x H100 80GB SXM, 2 nodes"),
    "llama.cpp": ANY, "ollama": ANY, "transformers": ANY, "llama-swap": ANY, "ramalama": ANY, "lemonade": ANY,
    "docker-model-runner": ANY, "lm-studio": ANY, "mlx-lm": APPLE, "vllm-metal": APPLE, "vllm-mlx": APPLE,
    "openvino-model-server": ("Arc B580", "cpu, 64GB RAM"), "litert-lm": ("cpu, 32GB RAM", "M3 Max 64GB"),
    "max": (*NVIDIA, "MI300X"), "tgi": (*NVIDIA, "MI300X"), "mlc-llm": ("RTX 4090", "M3 Max 64GB", "RX 7900 XTX"),
    "ktransformers": ("RTX 4090, 512GB RAM, 64 cores, 2 sockets",),
}  # fmt: skip
MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-30B-A3B", "google/gemma-3-27b-it", "Qwen/Qwen3-0.6B",
          "meta-llama/Llama-3.3-70B-Instruct", "openai/gpt-oss-20b", "mistralai/Mistral-7B-Instruct-v0.3",
          "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct", "BAAI/bge-m3")  # fmt: skip
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "vllm": ({}, {"tensor-parallel-size": 2}, {"tensor-parallel-size": 8, "pipeline-parallel-size": 2},
             {"kv-cache-dtype": "fp8", "enforce-eager": True}, {"language-model-only": True, "max-num-seqs": 64}),
    "sglang": ({}, {"tp-size": 2}, {"kv-cache-dtype": "fp8_e4m3"}),
    "llama.cpp": ({}, {"cache-type-k": "q8_0", "cache-type-v": "q8_0"}, {"cpu-moe": True, "n-gpu-layers": "all"},
                  {"n-gpu-layers": 12}),
    "lmdeploy": ({}, {"tp": 2}), "tensorrt-llm": ({}, {"tp_size": 2}), "tgi": ({}, {"num-shard": 2}),
}  # fmt: skip
NAMES = RememberedNames()
LENGTHS = ((8192, 1), (32768, 16), (4096, 4))


def deployments(every: int = 1, only: str | None = None) -> Iterator[Deployment]:
    """Each `every`-th of all combinations that an engine can hold, of all engines or of one."""
    count = 0
    for entry in RULES.engines().values():
        if entry.kind == "client" or only not in (None, entry.id):
            continue
        hardware = HARDWARE.get(entry.id, NVIDIA)
        options = SETTINGS.get(entry.id, ({},))
        for hw, model, settings, (length, at_once) in itertools.product(hardware, MODELS, options, LENGTHS):
            count += 1
            if count % every:
                continue
            request = EstimateRequest(
                model=model, engine=entry.id, hardware=hw, context_length=length, sequences=at_once, settings=settings
            )
            try:
                d, _ = resolve_request(request, RULES, NAMES)
            except AdvisorError:
                continue
            more: dict[str, Any] = {}
            if count % 3 == 0:
                more["served_name"] = "my model's name"
            if count % 5 == 0:
                more["host"] = "0.0.0.0"
            if count % 7 == 0:
                more["model_path"] = f"/srv/models/{entry.id} weights"
            yield msgspec.structs.replace(d, **more)
