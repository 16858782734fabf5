"""The engines' own flags for spreading a model over devices."""

from __future__ import annotations

TP_FLAG = {
    "vllm": "tensor-parallel-size",
    "sglang": "tp-size",
    "lmdeploy": "tp",
    "tensorrt-llm": "tensor_parallel_size",
    "max": "devices-count",
    "tgi": "num-shard",
}
PP_FLAG = {"vllm": "pipeline-parallel-size", "sglang": "pp-size", "tensorrt-llm": "pipeline_parallel_size"}
# share of the device that the server takes
FRACTION_FLAG = {"vllm": "gpu-memory-utilization", "sglang": "mem-fraction-static", "max": "device-memory-utilization"}
# requests that the server admits at once
SEQUENCES_FLAG = {
    "vllm": "max-num-seqs",
    "sglang": "max-running-requests",
    "lmdeploy": "max-batch-size",
    "tensorrt-llm": "max_batch_size",
    "max": "max-batch-size",
    "tgi": "max-batch-size",
}
