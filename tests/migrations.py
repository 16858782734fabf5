"""Launches to migrate, for the tests of `advise migrate`: as people write them, with what has to come out."""

from __future__ import annotations

from typing import NamedTuple

TGI_COMPOSE = """\
services:
  llm:
    image: ghcr.io/huggingface/text-generation-inference:3.3.5
    command: >
      --model-id meta-llama/Llama-3.1-8B-Instruct --max-total-tokens 8192 --num-shard 2
      --kv-cache-dtype fp8_e4m3fn --max-concurrent-requests 64 --max-batch-prefill-tokens 4096
      --dtype bfloat16 --cuda-memory-fraction 0.8 --trust-remote-code --revision 0e9e39f
    ports: ["127.0.0.1:8080:80"]
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]
"""
TGI_RUN = """\
docker run --gpus all --shm-size 1g -p 8080:80 -e HF_TOKEN=$HF_TOKEN -v $PWD/data:/data \\
  ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id meta-llama/Llama-3.1-8B-Instruct \\
  --quantize eetq --max-total-tokens 8192 --revision main
"""
OLLAMA = (
    "OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_CONTEXT_LENGTH=32768 OLLAMA_NUM_PARALLEL=4 OLLAMA_HOST=0.0.0.0:9999 "
    "ollama run qwen3:32b"
)
LLAMA_SERVER = (
    "llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q5_K_M -c 32768 -np 4 -ctk q8_0 -ctv q8_0 --port 9000"
)
VLLM = (
    "vllm serve Qwen/Qwen3-32B-AWQ --max-model-len 16384 --kv-cache-dtype fp8 --tensor-parallel-size 2 --port 9001 "
    "--no-enable-prefix-caching --max-num-seqs 24"
)
SGLANG = (
    "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --context-length 16384 --disable-radix-cache "
    "--kv-cache-dtype fp8_e5m2 --port 30001 --served-model-name assistant"
)


class Case(NamedTuple):
    """A launch, the engine to go to, the hardware, and the flags that the new command must have."""

    text: str
    to: str
    on: str | None
    flags: dict[str, str]  # `name`: value; "" for a switch


CASES = {
    "tgi": Case(TGI_COMPOSE, "vllm", "2x L40S, 128GB RAM, linux", {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "max-model-len": "8192", "tensor-parallel-size": "2",
        "kv-cache-dtype": "fp8", "max-num-seqs": "64", "max-num-batched-tokens": "4096", "dtype": "bfloat16",
        "gpu-memory-utilization": "0.8", "trust-remote-code": "", "revision": "0e9e39f", "port": "8080",
    }),
    "tgi in another format": Case(TGI_RUN, "vllm", None, {
        "model": "nvidia/Llama-3.1-8B-Instruct-FP8", "max-model-len": "8192", "port": "8080", "host": "0.0.0.0",
        "served-model-name": "meta-llama/Llama-3.1-8B-Instruct",
    }),
    "ollama": Case(OLLAMA, "vllm", "2x RTX 3090, 64GB RAM, linux", {
        "model": "Qwen/Qwen3-32B-AWQ", "max-model-len": "32768", "max-num-seqs": "4", "kv-cache-dtype": "fp8",
        "tensor-parallel-size": "2", "served-model-name": "qwen3:32b", "host": "0.0.0.0", "port": "9999",
    }),
    "ollama without a card": Case("ollama run llama3.1:8b", "vllm", None, {
        "model": "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "max-model-len": "4096", "port": "8000",
        "served-model-name": "llama3.1:8b",
    }),
    "llama.cpp": Case(LLAMA_SERVER, "vllm", "RTX 4090, 64GB RAM, linux", {
        "max-model-len": "8192", "max-num-seqs": "4", "kv-cache-dtype": "fp8", "port": "9000",
    }),
    "llama.cpp from a total of slots": Case(VLLM, "llama.cpp", "2x RTX 4090, 128GB RAM, linux", {
        "ctx-size": str(16384 * 24), "parallel": "24", "cache-type-k": "q8_0", "cache-type-v": "q8_0", "port": "9001",
    }),
    "vllm": Case(VLLM, "sglang", "2x RTX 4090, 64GB RAM, linux", {
        "model-path": "Qwen/Qwen3-32B-AWQ", "context-length": "16384", "tp-size": "2", "kv-cache-dtype": "fp8_e4m3",
        "max-running-requests": "24", "disable-radix-cache": "", "port": "9001",
    }),
    "sglang": Case(SGLANG, "vllm", "1x L4, 64GB RAM, linux", {
        "model": "Qwen/Qwen3-8B", "max-model-len": "16384", "kv-cache-dtype": "fp8_e5m2", "port": "30001",
        "served-model-name": "assistant", "no-enable-prefix-caching": "",
    }),
}  # fmt: skip
