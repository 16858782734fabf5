"""Facts of launches on both sides of what decides them: the launch and the value, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from checking import knowledge, launches

from advisor.checks.facts.launch_facts import LaunchFacts
from advisor.checks.resolve.judge import LaunchCheckOptions, check_launch
from advisor.session import Session

VLLM = "docker run --gpus all {} vllm/vllm-openai:v0.33.0 {}"
POD = """apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers:
  - name: v
    image: vllm/vllm-openai:v0.33.0
    args: [--model, Qwen/Qwen3-8B]
    ports: [{{containerPort: 8000}}]
    resources: {{limits: {{nvidia.com/gpu: '1'}}}}
{}
"""


def find_fact(text: str, name: str, on: str | None = "RTX 4090, 64GB RAM", file: str = "x.sh") -> Any:
    asked = LaunchCheckOptions(on, "--on", True, None, speed=False)
    found = [check_launch(x, knowledge(), asked, {}, Session(knowledge().rules)) for x in launches(text, file)]
    assert found, text
    return LaunchFacts(found[0], knowledge(), found, text)[name]


COMMANDS = [
    # llama-server: batch 2048 and micro-batch 512 where nothing is given
    ("llama-server -m a.gguf", "llama.batch_above_ubatch", True),
    ("llama-server -m a.gguf -ub 2048", "llama.batch_above_ubatch", False),
    ("llama-server -m a.gguf -ub 2047", "llama.batch_above_ubatch", True),
    ("llama-server -m a.gguf -b 512", "llama.batch_above_ubatch", False),
    ("llama-server -m a.gguf -b 513", "llama.batch_above_ubatch", True),
    ("llama-server -m a.gguf -b 512 -ub 511", "llama.batch_above_ubatch", True),
    ("llama-server -m a.gguf", "llama.embedding_batch", False),
    ("llama-server -m a.gguf -b 513", "llama.embedding_batch", True),
    ("llama-server -m a.gguf", "llama.context_not_given", True),
    ("llama-server -m a.gguf -c 0", "llama.context_not_given", True),
    ("llama-server -m a.gguf -c 1", "llama.context_not_given", False),
    ("llama-server -m a.gguf -ctk q8_0", "llama.kv_types_differ", True),
    ("llama-server -m a.gguf -ctk f16", "llama.kv_types_differ", False),
    ("llama-server -m a.gguf -ctk q8_0 -ctv q8_0", "llama.kv_types_differ", False),
    ("OLLAMA_HOST=0.0.0.0 ollama serve", "ollama.all_interfaces", True),
    ("OLLAMA_HOST=http://0.0.0.0:11434 ollama serve", "ollama.all_interfaces", True),
    ("OLLAMA_HOST=:11434 ollama serve", "ollama.all_interfaces", True),
    ("OLLAMA_HOST=[::] ollama serve", "ollama.all_interfaces", True),
    ("OLLAMA_HOST=127.0.0.1 ollama serve", "ollama.all_interfaces", False),
    ("OLLAMA_HOST= ollama serve", "ollama.all_interfaces", False),
    ("ollama serve", "ollama.all_interfaces", False),
    ("OLLAMA_NUM_PARALLEL=3 ollama serve", "ollama.parallel", 3.0),
    ("ollama serve", "ollama.parallel", 1.0),
    ("OLLAMA_MAX_LOADED_MODELS=2 ollama serve", "ollama.loaded", 2.0),
    ("ollama serve", "ollama.loaded", 0.0),
    ("OLLAMA_CONTEXT_LENGTH=4096 ollama serve", "ollama.context_set", True),
    ("OLLAMA_CONTEXT_LENGTH=0 ollama serve", "ollama.context_set", False),
    # arguments
    ("vllm serve --max-num-seqs 4 Qwen/Qwen3-8B", "args.no_model", False),
    ("vllm serve --port 8000", "args.no_model", True),
    ("vllm serve $ARGS", "args.no_model", None),
    ("vllm serve a/b --attention-config.backend FLASHINFER", "args.attention_config_backend", True),
    ("vllm serve a/b --attention-config '{\"backend\": \"FLASHINFER\"}'", "args.attention_config_backend", True),
    ("vllm serve a/b --attention-config.flash_attn_version 3", "args.attention_config_backend", False),
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct --tool-call-parser hermes", "args.tool_parser_odd", False),
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct --tool-call-parser mistral", "args.tool_parser_odd", True),
    ("vllm serve deepseek-ai/DeepSeek-R1-Distill-Llama-8B --tool-call-parser mistral", "args.tool_parser_odd", False),
    ("vllm serve Qwen/Qwen3-8B", "args.tool_parser_odd", False),
    # shared memory and limits of a container: GiB for each rank
    (VLLM.format("", "--model Qwen/Qwen3-8B"), "shm.missing", True),
    (VLLM.format("--ipc host", "--model Qwen/Qwen3-8B"), "shm.missing", False),
    (VLLM.format("--shm-size 1g", "--model Qwen/Qwen3-8B"), "shm.missing", False),
    (VLLM.format("--tmpfs /dev/shm", "--model Qwen/Qwen3-8B"), "shm.missing", False),
    ("vllm serve Qwen/Qwen3-8B", "shm.missing", False),
    (VLLM.format("--shm-size 2g", "--model Qwen/Qwen3-8B -tp 2"), "shm.small", False),
    (VLLM.format("--shm-size 2047m", "--model Qwen/Qwen3-8B -tp 2"), "shm.small", True),
    (VLLM.format("--shm-size 64m", "--model Qwen/Qwen3-8B"), "shm.small", False),
    (VLLM.format("--shm-size 2g", "--model Qwen/Qwen3-8B"), "shm.gib", 2.0),
    (VLLM.format("-m 16g", "--model Qwen/Qwen3-8B"), "memory.limit_gib", 16.0),
    (VLLM.format("", "--model Qwen/Qwen3-8B"), "memory.limit_gib", None),
    (VLLM.format("-m 8g", "--model Qwen/Qwen3-8B"), "memory.limit_small", False),
    (VLLM.format("-m 8191m", "--model Qwen/Qwen3-8B"), "memory.limit_small", True),
    (VLLM.format("-m 8191m", "--model Qwen/Qwen3-0.6B"), "memory.limit_small", False),  # 1.1 GiB of weights
    (VLLM.format("-m 40g", "--model Qwen/Qwen3-8B --cpu-offload-gb 10"), "memory.pools", True),
    (VLLM.format("-m 40g -e LMCACHE_MAX_LOCAL_CPU_SIZE=5", "--model Qwen/Qwen3-8B"), "memory.pools", True),
    (VLLM.format("-m 40g", "--model Qwen/Qwen3-8B"), "memory.pools", False),
    (VLLM.format("", "--model Qwen/Qwen3-8B"), "memory.host_need_gib", 8.0),
    (VLLM.format("", "--model Qwen/Qwen3-8B --kv-offloading-size 10"), "memory.host_need_gib", 27.2),
    (VLLM.format("-e LMCACHE_MAX_LOCAL_CPU_SIZE=5 ", "--model Qwen/Qwen3-8B -tp 2"), "memory.host_need_gib", 18.0),
    (VLLM.format("-m 28g", "--model Qwen/Qwen3-8B --kv-offloading-size 10"), "memory.limit_below_need", False),
    (VLLM.format("-m 27g", "--model Qwen/Qwen3-8B --kv-offloading-size 10"), "memory.limit_below_need", True),
    (VLLM.format("-m 1g", "--model Qwen/Qwen3-8B"), "memory.limit_below_need", False),
    (VLLM.format("--gpus 2 --cpus 4", "--model Qwen/Qwen3-8B"), "cpu.small", False),
    (VLLM.format("--gpus 2 --cpus 3.9", "--model Qwen/Qwen3-8B"), "cpu.small", True),
    (VLLM.format("--cpus 1", "--model Qwen/Qwen3-8B"), "cpu.small", False),
    # devices
    (VLLM.format("-e CUDA_VISIBLE_DEVICES=0,1", "--model a/b"), "devices.visible_conflict", False),
    (VLLM.format("-e CUDA_VISIBLE_DEVICES=0,0", "--model a/b"), "devices.visible_conflict", True),
    (VLLM.format("--gpus 2 -e CUDA_VISIBLE_DEVICES=0,1", "--model a/b"), "devices.visible_conflict", False),
    (VLLM.format("--gpus 2 -e CUDA_VISIBLE_DEVICES=0,2", "--model a/b"), "devices.visible_conflict", True),
    (VLLM.format("--gpus 2", "--model Qwen/Qwen3-8B"), "devices.unused", True),
    (VLLM.format("--gpus 2", "--model Qwen/Qwen3-8B -tp 2"), "devices.unused", False),
    # images
    ("docker run --gpus all vllm/vllm-openai:latest --model a/b", "image.floating", True),
    ("docker run --gpus all vllm/vllm-openai --model a/b", "image.floating", True),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model a/b", "image.floating", False),
    ("docker run --gpus all vllm/vllm-openai:v0 --model a/b", "image.floating", True),
    ("docker run --gpus all vllm/vllm-openai:nightly-abc --model a/b", "image.floating", True),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server -m a.gguf", "image.cpu_only", True),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-b10000 -m a.gguf", "image.cpu_only", True),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m a.gguf", "image.cpu_only", False),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-rocm -m a.gguf", "image.vendor", "amd"),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-vulkan -m a.gguf", "image.vendor", "any"),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-rocm -m a.gguf", "image.wrong_vendor", True),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-vulkan -m a.gguf", "image.wrong_vendor", False),
    ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m a.gguf", "image.wrong_vendor", False),
    # what fits on 24 GB
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "fit.weights_exceed", False),
    ("vllm serve Qwen/Qwen3-32B --max-model-len 8192", "fit.weights_exceed", True),
    ("vllm serve /models/Qwen3-32B --max-model-len 8192", "fit.weights_exceed", None),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "fit.request_exceeds", False),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 131072", "fit.request_exceeds", True),
    ("vllm serve Qwen/Qwen3-32B --max-model-len 8192", "fit.request_exceeds", False),
    ("vllm serve Qwen/Qwen3-8B", "fit.length_defaulted", True),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "fit.length_defaulted", False),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 65536", "fit.too_long", True),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "fit.too_long", False),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 24576", "fit.tight", True),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 24576 --max-num-seqs 1", "fit.tight", False),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "fit.tight", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "value"), COMMANDS, ids=[f"{n}: {t}" for t, n, _ in COMMANDS])
def test_facts_of_commands(text: str, name: str, value: Any) -> None:
    found = find_fact(text, name)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)
    assert type(found) is type(value) or isinstance(value, float)


@pytest.mark.parametrize(
    ("more", "name", "value"),
    [
        ("    livenessProbe: {httpGet: {path: /health, port: 8000}}", "probe.path_unknown", False),
        ("    livenessProbe: {httpGet: {path: /healthy, port: 8000}}", "probe.path_unknown", True),
        ("    livenessProbe: {httpGet: {path: /healthy, port: 9000}}", "probe.path_unknown", False),
        ("    livenessProbe: {httpGet: {path: '/health?x=1', port: 8000}}", "probe.path_unknown", False),
        ("    livenessProbe: {httpGet: {path: /v1/anything, port: 8000}}", "probe.path_unknown", False),
        ("    livenessProbe: {periodSeconds: 7, failureThreshold: 4}", "probe.budget_seconds", 28.0),
        (
            "    livenessProbe: {periodSeconds: 1, failureThreshold: 1}\n"
            "    startupProbe: {periodSeconds: 10, failureThreshold: 60}",
            "probe.budget_seconds",
            600.0,
        ),
        # 16.38 GB of weights at 0.5 GB/s are 32.8 s, and a minute to get ready
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 92}", "probe.too_short", True),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 93}", "probe.too_short", False),
        ("", "probe.too_short", False),
        ("", "probe.budget_seconds", None),
    ],
)
def test_facts_of_pods(more: str, name: str, value: Any) -> None:
    assert find_fact(POD.format(more), name, file="pod.yaml") == value


@pytest.mark.parametrize(
    ("share", "above"), [("0.79", False), ("0.8", False), ("0.81", True), (None, True)]
)  # 19.2 of 24 GiB are free
def test_a_share_that_is_not_free(share: str | None, above: bool) -> None:
    words = f" --gpu-memory-utilization {share}" if share else ""
    on = "RTX 4090 24GB with 19.2 GiB free, 64GB RAM"
    assert find_fact(f"vllm serve Qwen/Qwen3-8B{words}", "fit.above_free", on) is above


@pytest.mark.parametrize(("words", "slow"), [("-tp 8", True), ("-tp 4", False), ("-tp 2", False)])
def test_ranks_over_slow_links(words: str, slow: bool) -> None:
    assert find_fact(f"vllm serve Qwen/Qwen3-32B {words}", "tp.across_slow_link", "8x H100 PCIe") in (slow, None)


@pytest.mark.parametrize(("loaded", "exceeds"), [(1, False), (4, True)])
def test_models_that_may_be_loaded_together(loaded: int, exceeds: bool) -> None:
    text = f"OLLAMA_MAX_LOADED_MODELS={loaded} ollama serve & ollama run llama3.1:8b"
    assert find_fact(text, "ollama.loaded_exceeds") is exceeds
