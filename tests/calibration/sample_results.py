"""Results of tools and servers, written by the fields that the tools document."""

from __future__ import annotations

from typing import Any


def llama_bench(**more: Any) -> dict[str, Any]:
    """A row of `llama-bench -o json`, the fields that are read and some that are not."""
    row = {
        "build_commit": "abc", "build_number": 10434, "cpu_info": "x", "gpu_info": "NVIDIA GeForce RTX 3090",
        "model_filename": "/m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "model_type": "llama 8B Q4_K - Medium",
        "model_size": 4920000000, "n_batch": 2048, "n_ubatch": 512, "type_k": "f16", "type_v": "f16",
        "n_gpu_layers": 99, "split_mode": "layer", "flash_attn": True, "n_prompt": 512, "n_gen": 0, "n_depth": 0,
        "avg_ns": 1, "stddev_ns": 0, "avg_ts": 4100.0, "stddev_ts": 3.0, "samples_ts": [4100.0],
    }  # fmt: skip
    return row | more


RATES: list[dict[str, Any]] = [
    llama_bench(),
    llama_bench(n_prompt=0, n_gen=128, avg_ts=118.5),
    llama_bench(n_prompt=0, n_gen=128, n_depth=8192, avg_ts=95.0),
    llama_bench(n_prompt=512, n_gen=128, avg_ts=300.0),  # together: neither is timed
]
AIPERF: dict[str, Any] = {
    "request_throughput": {"unit": "requests/sec", "avg": 4.2},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1070.0},
    "time_to_first_token": {"unit": "ms", "avg": 320.0, "p50": 300.0, "p99": 900.0},
    "inter_token_latency": {"unit": "ms", "avg": 29.0, "p50": 28.0},
    "input_sequence_length": {"unit": "tokens", "avg": 1000.4},
    "output_sequence_length": {"unit": "tokens", "avg": 255.6},
    "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-32B"]}, "loadgen": {"concurrency": 32}},
}
SERVE: dict[str, Any] = {
    "date": "20261122-101010", "backend": "vllm", "model_id": "Qwen/Qwen3-32B", "num_prompts": 320,
    "request_rate": "inf", "max_concurrency": 32, "duration": 76.0, "completed": 320, "total_input_tokens": 320000,
    "total_output_tokens": 81920, "output_throughput": 1077.0, "mean_ttft_ms": 400.0, "median_ttft_ms": 310.0,
    "mean_tpot_ms": 30.0, "median_tpot_ms": 28.5,
}  # fmt: skip
METRICS = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-32B"} 30.0
vllm:generation_tokens_total{engine="0",model_name="Qwen/Qwen3-32B"} 81920.0
vllm:iteration_tokens_total_sum{engine="0",model_name="Qwen/Qwen3-32B"} 401920.0
vllm:iteration_tokens_total_count{engine="0",model_name="Qwen/Qwen3-32B"} 2560.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="Qwen/Qwen3-32B"} 128.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="Qwen/Qwen3-32B"} 320.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="Qwen/Qwen3-32B"} 0.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="Qwen/Qwen3-32B"} 2325.6
vllm:inter_token_latency_seconds_count{engine="0",model_name="Qwen/Qwen3-32B"} 81600.0
vllm:request_prompt_tokens_sum{engine="0",model_name="Qwen/Qwen3-32B"} 320000.0
vllm:request_prompt_tokens_count{engine="0",model_name="Qwen/Qwen3-32B"} 320.0
vllm:request_generation_tokens_sum{engine="0",model_name="Qwen/Qwen3-32B"} 81920.0
vllm:request_generation_tokens_count{engine="0",model_name="Qwen/Qwen3-32B"} 320.0
"""
LLAMA_METRICS = """llamacpp:prompt_tokens_total 51200
llamacpp:prompt_seconds_total 12.5
llamacpp:tokens_predicted_total 12800
llamacpp:tokens_predicted_seconds_total 110.0
llamacpp:n_busy_slots_per_decode 1.02
"""
LOG = """slot print_timing: id  0 | task 0 |
prompt eval time =     125.00 ms /   512 tokens (    0.24 ms per token,  4096.00 tokens per second)
       eval time =    1080.00 ms /   128 tokens (    8.44 ms per token,   118.52 tokens per second)
      total time =    1205.00 ms /   640 tokens
"""
OLLAMA = """total duration:       2.5s
load duration:        30.2ms
prompt eval count:    512 token(s)
prompt eval duration: 125ms
prompt eval rate:     4096.00 tokens/s
eval count:           128 token(s)
eval duration:        1m1.08s
eval rate:            2.10 tokens/s
"""
