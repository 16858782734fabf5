"""More facts of launches: the launch and the value, on both sides of what decides, with what stays open."""

from __future__ import annotations

from typing import Any

import pytest
from checking import knowledge, launches
from test_fact_bounds import POD, VLLM, find_fact

from advisor.checks.facts.launch_facts import ABSENT, FACTS, LaunchFacts, LaunchFields
from advisor.checks.resolve.judge import LaunchCheckOptions, check_launch

LLAMA = "docker run --gpus all {} ghcr.io/ggml-org/llama.cpp:server-cuda {}"
Q = "Qwen/Qwen3-8B"
FOUR = """--speculative-config '{"num_speculative_tokens": 4}'"""
COMMANDS: list[tuple[str, str, Any]] = [
    # ranks: 1 where none is given, unknown where words are open
    (f"vllm serve {Q}", "tp", 1),
    (f"vllm serve {Q} -tp 4", "tp", 4),
    (f"vllm serve {Q} -tp 0", "tp", None),
    (f"vllm serve {Q} -tp $N", "tp", None),
    (f"vllm serve {Q} $MORE", "tp", None),
    (f"vllm serve {Q} $MORE -tp 2", "tp", 2),
    (f"vllm serve {Q} -pp 3", "pp", 3),
    (f"vllm serve {Q}", "pp", 1),
    (f"vllm serve {Q} $MORE", "pp", None),
    (f"vllm serve {Q} -tp 2 -pp 3", "ranks", 6),
    (f"vllm serve {Q}", "ranks", 1),
    (f"vllm serve {Q} $MORE", "ranks", None),
    (f"vllm serve {Q} --max-model-len 4096", "length", 4096.0),
    (f"vllm serve {Q}", "length", None),
    # ranks and heads: Qwen3 8B has 32 heads, 8 for keys and values
    (f"vllm serve {Q}", "tp.above_kv_heads", False),
    (f"vllm serve {Q} -tp 8", "tp.above_kv_heads", False),
    (f"vllm serve {Q} -tp 16", "tp.above_kv_heads", True),
    ("vllm serve a/b -tp 16", "tp.above_kv_heads", None),
    (f"vllm serve {Q} -tp $N", "tp.above_kv_heads", None),
    ("vllm serve a/b", "tp.above_kv_heads", False),
    (f"vllm serve {Q} -tp 3", "tp.heads_uneven", True),
    (f"vllm serve {Q} -tp 4", "tp.heads_uneven", False),
    (f"vllm serve {Q} -tp 3", "tp.heads_refused", 32),
    (f"vllm serve {Q} -tp 4", "tp.heads_refused", None),
    ("vllm serve a/b -tp 3", "tp.heads_uneven", None),
    (f"vllm serve {Q}", "tp.heads_uneven", False),
    (f"vllm serve {Q} -tp 4", "tp.asserts", True),
    ("ollama serve", "tp.asserts", False),
    ("ollama serve", "engine.splits", False),
    (f"vllm serve {Q}", "engine.splits", True),
    (f"vllm serve {Q} -tp 4", "tp.divisors", "1, 2, 4, 8, 16"),
    ("vllm serve a/b", "tp.divisors", None),
    ("ollama serve", "tp.divisors", None),
    (f"python -m sglang.launch_server --model-path {Q} --tp 8", "tp.attention_replicas", 1),
    (
        f"python -m sglang.launch_server --model-path {Q} --tp 8 --dp 4 --enable-dp-attention",
        "tp.attention_replicas",
        4,
    ),
    (f"python -m sglang.launch_server --model-path {Q} --tp 8 --enable-dp-attention", "tp.attention_replicas", 1),
    (
        f"python -m sglang.launch_server --model-path {Q} --tp 8 --dp $N --enable-dp-attention",
        "tp.attention_replicas",
        None,
    ),
    (f"python -m sglang.launch_server --model-path {Q} --tp 8 --dp 4", "tp.attention_replicas", 1),
    # lengths: Qwen3 8B was trained for 40,960 tokens
    (f"vllm serve {Q} --max-model-len 40960", "length.above_model", False),
    (f"vllm serve {Q} --max-model-len 40961", "length.above_model", True),
    (f"vllm serve {Q}", "length.above_model", False),
    ("vllm serve a/b --max-model-len 9", "length.above_model", None),
    (f"vllm serve {Q} --max-model-len $N", "length.above_model", None),
    (f"vllm serve {Q}", "model.max_context", 40960),
    # pairs of flags: nothing where one is absent, unknown where one is open
    (f"vllm serve {Q} --max-loras 4 --max-cpu-loras 3", "args.cpu_loras_below", True),
    (f"vllm serve {Q} --max-loras 4 --max-cpu-loras 4", "args.cpu_loras_below", False),
    (f"vllm serve {Q} --max-loras 4", "args.cpu_loras_below", False),
    (f"vllm serve {Q} --max-loras $N --max-cpu-loras 4", "args.cpu_loras_below", None),
    (f"vllm serve {Q} -dp 2 --data-parallel-size-local 3", "args.local_above_dp", True),
    (f"vllm serve {Q} -dp 2 --data-parallel-size-local 2", "args.local_above_dp", False),
    (f"vllm serve {Q} --nnodes 2 --node-rank 2", "args.node_rank_outside", True),
    (f"vllm serve {Q} --nnodes 2 --node-rank 1", "args.node_rank_outside", False),
    (f"vllm serve {Q} --nnodes 2 -tp 3", "args.nnodes_uneven", True),
    (f"vllm serve {Q} --nnodes 2 -tp 4", "args.nnodes_uneven", False),
    (f"vllm serve {Q} --nnodes 1 -tp 3", "args.nnodes_uneven", False),
    (f"vllm serve {Q} -tp 3", "args.nnodes_uneven", False),
    (f"vllm serve {Q} --nnodes 0 -tp 3", "args.nnodes_uneven", None),
    (f"vllm serve {Q} -tp 8 --decode-context-parallel-size 3", "args.dcp_uneven", True),
    (f"vllm serve {Q} -tp 8 --decode-context-parallel-size 4", "args.dcp_uneven", False),
    (f"vllm serve {Q} -tp 8", "args.dcp_uneven", False),
    (f"vllm serve {Q} -tp 8 --decode-context-parallel-size 0", "args.dcp_uneven", None),
    (f"vllm serve {Q} --enable-lora --max-loras 16 --max-lora-rank 64", "args.lora_large", True),
    (f"vllm serve {Q} --enable-lora --max-loras 15 --max-lora-rank 64", "args.lora_large", False),
    (f"vllm serve {Q} --enable-lora --max-loras 64", "args.lora_large", True),
    (f"vllm serve {Q} --enable-lora --max-loras 63", "args.lora_large", False),
    (f"vllm serve {Q} --enable-lora --max-lora-rank 512", "args.lora_large", False),
    (f"vllm serve {Q} --max-loras 64 --max-lora-rank 64", "args.lora_large", False),
    (f"vllm serve {Q} --enable-lora --max-lora-rank 17", "args.lora_rank_odd", True),
    (f"vllm serve {Q} --enable-lora --max-lora-rank 16", "args.lora_rank_odd", False),
    (f"vllm serve {Q}", "args.lora_rank_odd", None),
    (
        "python -m sglang.launch_server --model-path a/b --chunked-prefill-size 100 --page-size 64",
        "args.chunk_off_page",
        True,
    ),
    (
        "python -m sglang.launch_server --model-path a/b --chunked-prefill-size 128 --page-size 64",
        "args.chunk_off_page",
        False,
    ),
    (
        "python -m sglang.launch_server --model-path a/b --chunked-prefill-size -1 --page-size 64",
        "args.chunk_off_page",
        False,
    ),
    (
        "text-generation-launcher --model-id a/b --max-input-tokens 9 --max-total-tokens 9",
        "args.input_not_below_total",
        True,
    ),
    (
        "text-generation-launcher --model-id a/b --max-input-tokens 8 --max-total-tokens 9",
        "args.input_not_below_total",
        False,
    ),
    (
        "text-generation-launcher --model-id a/b --max-batch-total-tokens 8 --max-total-tokens 9",
        "args.batch_total_below_total",
        True,
    ),
    (
        "text-generation-launcher --model-id a/b --max-batch-total-tokens 9 --max-total-tokens 9",
        "args.batch_total_below_total",
        False,
    ),
    ("text-generation-launcher --model-id a/b --sharded true --num-shard 1", "args.sharded_one", True),
    ("text-generation-launcher --model-id a/b --sharded true --num-shard 2", "args.sharded_one", False),
    ("text-generation-launcher --model-id a/b --sharded false --num-shard 1", "args.sharded_one", False),
    ("text-generation-launcher --model-id a/b --sharded true", "args.sharded_one", False),
    ("text-generation-launcher --model-id a/b --quantize awq", "args.tgi_quantize", "awq"),
    ("text-generation-launcher --model-id a/b", "args.tgi_quantize", None),
    # what words say
    (f'vllm serve {Q} --speculative-config \'{{"method": "ngram"}}\'', "json.speculative", "ngram"),
    (f"vllm serve {Q}", "json.speculative", None),
    (f'vllm serve {Q} --kv-transfer-config \'{{"kv_connector": "NixlConnector"}}\'', "args.kv_connector", True),
    (f'vllm serve {Q} --kv-transfer-config \'{{"kv_connector": "Other"}}\'', "args.kv_connector", False),
    (f"vllm serve {Q}", "args.kv_connector", False),
    (f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve {Q}", "args.expandable_segments", True),
    (f"PYTORCH_ALLOC_CONF=expandable_segments:true vllm serve {Q}", "args.expandable_segments", True),
    (f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False vllm serve {Q}", "args.expandable_segments", False),
    (f"vllm serve {Q} --rope-scaling '{{}}'", "args.rope_changed", True),
    (f"vllm serve {Q}", "args.rope_changed", False),
    (f"vllm serve {Q} --hf-overrides '{{\"rope_theta\": 1}}'", "args.rope_changed", True),
    (f'vllm serve {Q} --hf-overrides \'{{"x": "yarn"}}\'', "args.rope_changed", True),
    (f"vllm serve {Q} --hf-overrides '{{\"x\": 1}}'", "args.rope_changed", False),
    (f"VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve {Q}", "args.long_allowed", True),
    (f"VLLM_ALLOW_LONG_MAX_MODEL_LEN=0 vllm serve {Q}", "args.long_allowed", False),
    (f"vllm serve {Q} --allowed-origins '[\"*\"]'", "args.origins_wildcard", True),
    (f"vllm serve {Q} --allowed-origins '[\"https://a.b\"]'", "args.origins_wildcard", False),
    ("OLLAMA_ORIGINS='*' ollama serve", "args.origins_wildcard", True),
    ("ollama serve", "args.origins_wildcard", False),
    (f"vllm serve {Q} --api-key k", "args.key_given", True),
    (f"VLLM_API_KEY=k vllm serve {Q}", "args.key_given", True),
    (f"vllm serve {Q}", "args.key_given", False),
    (f"vllm serve {Q} $MORE", "args.key_given", None),
    (f"vllm serve --port 1 {Q}", "args.model_after_flags", True),
    (f"vllm serve {Q} --port 1", "args.model_after_flags", False),
    (f"vllm serve --model {Q} --port 1", "args.model_after_flags", False),
    ("llama-server --port 1 -m a.gguf", "args.model_after_flags", False),
    ("vllm serve moonshotai/Kimi-K2-Instruct --tool-call-parser kimi_k2", "args.tool_parser_odd", False),
    ("vllm serve moonshotai/Kimi-K2-Instruct --tool-call-parser hermes", "args.tool_parser_odd", True),
    ("vllm serve zai-org/GLM-4.5-Air --tool-call-parser glm45", "args.tool_parser_odd", False),
    ("vllm serve MiniMaxAI/MiniMax-M2 --tool-call-parser hermes", "args.tool_parser_odd", True),
    (
        "vllm serve meta-llama/Llama-4-Scout-17B-16E-Instruct --tool-call-parser llama3_json",
        "args.tool_parser_odd",
        True,
    ),
    # batches
    (f"vllm serve {Q} --max-num-batched-tokens 4095 --max-model-len 4096", "args.batch_below_length", True),
    (f"vllm serve {Q} --max-num-batched-tokens 4096 --max-model-len 4096", "args.batch_below_length", False),
    (f"vllm serve {Q} --max-num-batched-tokens 40959", "args.batch_below_length", True),
    (f"vllm serve {Q} --max-num-batched-tokens 40960", "args.batch_below_length", False),
    (f"vllm serve {Q} --max-model-len 4096", "args.batch_below_length", False),
    ("vllm serve a/b --max-num-batched-tokens 4096", "args.batch_below_length", None),
    (f"vllm serve {Q} --max-num-batched-tokens 63 --max-num-seqs 64", "args.batch_below_sequences", True),
    (f"vllm serve {Q} --max-num-batched-tokens 64 --max-num-seqs 64", "args.batch_below_sequences", False),
    (f"vllm serve {Q} --max-num-seqs 64", "args.batch_below_sequences", False),
    (f"vllm serve {Q} --max-num-seqs 64", "args.sequences", 64.0),
    (f"vllm serve {Q}", "args.sequences", None),
    (
        f"vllm serve {Q} --long-prefill-token-threshold 4097 --max-model-len 4096",
        "args.prefill_threshold_above_length",
        True,
    ),
    (
        f"vllm serve {Q} --long-prefill-token-threshold 4096 --max-model-len 4096",
        "args.prefill_threshold_above_length",
        False,
    ),
    (f"vllm serve {Q} --max-num-batched-tokens 256 --max-num-seqs 64 {FOUR}", "args.draft_slots", True),
    (f"vllm serve {Q} --max-num-batched-tokens 257 --max-num-seqs 64 {FOUR}", "args.draft_slots", False),
    (f"vllm serve {Q} --max-num-seqs 64 {FOUR}", "args.draft_slots", False),
    (f"vllm serve {Q} --max-num-batched-tokens 1 --max-num-seqs 64", "args.draft_slots", False),
    (f"vllm serve {Q} --max-num-batched-tokens 1 --speculative-config '{{}}'", "args.draft_slots", None),
    # slots of llama-server
    ("llama-server -m a.gguf -c 8192 -np 2 --no-kv-unified", "llama.slot_context", 4096.0),
    ("llama-server -m a.gguf -c 8192 -np 1", "llama.slot_context", None),
    ("llama-server -m a.gguf -np 2", "llama.slot_context", None),
    ("llama-server -m a.gguf -c 8192 -np 2 -kvu", "llama.slot_context", None),
    ("llama-server -m a.gguf -c 8192 -np 2", "llama.split_by_slots", True),
    ("llama-server -m a.gguf -c 8192 -np 1", "llama.split_by_slots", False),
    ("llama-server -m a.gguf -np 2", "llama.split_by_slots", False),
    ("llama-server -m a.gguf -c 8192 -np 2 -kvu", "llama.split_by_slots", False),
    ("llama-server -m a.gguf -c 8192 -np $N", "llama.split_by_slots", None),
    ("llama-server -m a.gguf -c 8192 -np 2", "llama.slot_context_small", False),
    ("llama-server -m a.gguf -c 8191 -np 2", "llama.slot_context_small", True),
    ("llama-server -m a.gguf -c 8191", "llama.slot_context_small", False),
    ("llama-server -m a.gguf -ctv q4_0", "llama.kv_quantized", True),
    ("llama-server -m a.gguf -ctv f16", "llama.kv_quantized", False),
    ("llama-server -m a.gguf", "llama.kv_quantized", False),
    ("llama-server -m a.gguf -ctv $T", "llama.kv_quantized", None),
    ("llama-server -m a.gguf -ctk q8_0 -ctv $T", "llama.kv_types_differ", None),
    ("llama-server -hf Qwen/Qwen3-8B-GGUF -c 81920 -np 2", "llama.slot_above_model", False),
    ("llama-server -hf Qwen/Qwen3-8B-GGUF -c 81922 -np 2", "llama.slot_above_model", True),
    ("llama-server -hf Qwen/Qwen3-8B-GGUF -c 40961", "llama.slot_above_model", True),
    ("llama-server -hf Qwen/Qwen3-8B-GGUF -c 40961 -np -1", "llama.slot_above_model", True),
    ("llama-server -hf Qwen/Qwen3-8B-GGUF", "llama.slot_above_model", False),
    ("llama-server -m a.gguf -c 9", "llama.slot_above_model", None),
    # what fits on 24 GB, with 0.9 of the card for vLLM: 8.19e9 weights of 16 bit are 15.3 GiB
    (f"vllm serve {Q} --max-model-len 8192", "fit.weights_gib", 15.3),
    (f"vllm serve {Q} --max-model-len 8192", "fit.verdict", True),
    ("vllm serve Qwen/Qwen3-32B", "fit.verdict", False),
    ("vllm serve a/b", "fit.verdict", None),
    ("vllm serve a/b", "fit.weights_gib", None),
    ("vllm serve a/b", "fit.needed_gib", None),
    ("vllm serve a/b", "fit.budget_gib", None),
    ("vllm serve a/b", "fit.tight", None),
    ("vllm serve a/b", "fit.sequences", None),
    ("vllm serve a/b", "fit.longest", None),
    ("vllm serve a/b", "fit.weights_exceed", None),
    ("vllm serve a/b", "fit.request_exceeds", None),
    ("vllm serve a/b", "fit.too_long", None),
    ("vllm serve Qwen/Qwen3-32B", "fit.tight", False),
    ("vllm serve /models/Qwen3-8B --max-model-len 65536", "fit.too_long", None),
    (f"vllm serve {Q} $MORE", "fit.length_defaulted", None),
    (f'vllm serve {Q} --speculative-config \'{{"model": "a/b"}}\'', "fit.draft", True),
    (f"vllm serve {Q}", "fit.draft", False),
    ("python -m sglang.launch_server --model-path a/b --speculative-draft-model-path c/d", "fit.draft", True),
    (f'vllm serve {Q} --speculative-config \'{{"method": "ngram"}}\'', "fit.draft", False),
    # devices
    (f"vllm serve {Q} -tp 2", "ranks.above_devices", True),
    (f"vllm serve {Q}", "ranks.above_devices", False),
    (f"vllm serve {Q} -tp 2 --nnodes 2", "ranks.above_devices", False),
    (f"vllm serve {Q} -tp 2 --distributed-executor-backend ray", "ranks.above_devices", False),
    (f"vllm serve {Q} -tp 2 --distributed-executor-backend mp", "ranks.above_devices", True),
    (VLLM.format("--gpus 2", f"--model {Q} -tp 2"), "ranks.above_devices", False),
    (VLLM.format("--gpus 2 -e CUDA_VISIBLE_DEVICES=1", f"--model {Q} -tp 2"), "ranks.above_devices", True),
    (VLLM.format("--gpus 2 -e CUDA_VISIBLE_DEVICES=0,1,", f"--model {Q} -tp 2"), "ranks.above_devices", False),
    (f"CUDA_VISIBLE_DEVICES=0 vllm serve {Q} -tp 2", "ranks.above_devices", True),
    (VLLM.format("--gpus 2", f"--model {Q}"), "devices.given", 2),
    (f"vllm serve {Q}", "devices.given", 1),
    (f"vllm serve {Q}", "devices.unused", False),
    (VLLM.format("--gpus 2", f"--model {Q} -tp $N"), "devices.unused", None),
    # addresses and ports
    (f"vllm serve {Q} --host 0.0.0.0", "setup.exposure", "--host 0.0.0.0"),
    (f"vllm serve {Q} --host ::", "setup.exposed", True),
    (f"vllm serve {Q} --host 10.0.0.1", "setup.exposed", False),
    (f"vllm serve {Q}", "setup.exposed", False),
    ("OLLAMA_HOST=0.0.0.0 ollama serve", "setup.exposure", "OLLAMA_HOST=0.0.0.0"),
    ("ollama serve", "setup.exposed", False),
    (f"vllm serve {Q} --host 127.0.0.1", "setup.loopback", True),
    (f"vllm serve {Q} --host localhost", "setup.loopback", True),
    (f"vllm serve {Q} --host ::1", "setup.loopback", True),
    (f"vllm serve {Q} --host 0.0.0.0", "setup.loopback", False),
    (f"vllm serve {Q} --host $H", "setup.loopback", None),
    (f"vllm serve {Q} $MORE", "setup.loopback", None),
    ("llama-server -m a.gguf", "setup.loopback", True),
    (LLAMA.format("", "-m a.gguf"), "setup.loopback", False),
    (f"vllm serve {Q}", "port.own", 8000),
    (f"vllm serve {Q} --port 9", "port.own", 9),
    (f"vllm serve {Q} --port $P", "port.own", None),
    (f"vllm serve {Q} $MORE", "port.own", None),
    ("ollama serve", "port.own", 11434),
    ("OLLAMA_HOST=0.0.0.0:1234 ollama serve", "port.own", 1234),
    ("OLLAMA_HOST=0.0.0.0 ollama serve", "port.own", 11434),
    ("llama-server -m a.gguf", "port.own", 8080),
    (VLLM.format("-p 8000:8000", f"--model {Q}"), "port.mismatch", False),
    (VLLM.format("-p 8000:8001", f"--model {Q}"), "port.mismatch", True),
    (VLLM.format("-p 80:8001 -p 81:8000", f"--model {Q}"), "port.mismatch", False),
    (VLLM.format("", f"--model {Q}"), "port.mismatch", False),
    (VLLM.format("-p 8000:8001 --network host", f"--model {Q}"), "port.mismatch", False),
    (VLLM.format("-p 8000:8001", f"--model {Q} --port $P"), "port.mismatch", None),
    (VLLM.format("-p 80:8001 -p 81:8000", f"--model {Q}"), "port.published", "8001, 8000"),
    (VLLM.format("-p 80:8000", f"--model {Q}"), "setup.published", True),
    (VLLM.format("", f"--model {Q}"), "setup.published", False),
    (VLLM.format("-p 80:8000 --network host", f"--model {Q}"), "setup.published", False),
    (VLLM.format("--ulimit memlock=-1", f"--model {Q}"), "fabric.locks_memory", True),
    (VLLM.format("", f"--model {Q}"), "fabric.locks_memory", False),
    (VLLM.format("--privileged", f"--model {Q}"), "fabric.locks_memory", True),
    (VLLM.format("-e FI_EFA_USE_HUGE_PAGE=0", f"--model {Q}"), "fabric.huge_pages", True),
    (VLLM.format("", f"--model {Q}"), "fabric.huge_pages", False),
    (VLLM.format("--device /dev/infiniband/uverbs0", f"--model {Q}"), "fabric.efa", False),
    (VLLM.format("", f"--model {Q}"), "fabric.rdma", False),
    # models by their names
    (f"vllm serve {Q}", "model.hub_id", True),
    ("vllm serve /models/x", "model.hub_id", False),
    ("vllm serve $M", "model.hub_id", None),
    ("vllm serve /models/x", "model.local", True),
    (f"vllm serve {Q}", "model.local", False),
    ("vllm serve s3://a/b", "model.local", False),
    ("vllm serve s3://a/b", "model.object_store", True),
    ("vllm serve gs://a/b", "model.object_store", True),
    (f"vllm serve {Q}", "model.object_store", False),
    ("llama-server -m a.gguf", "model.gguf", True),
    ("vllm serve a/b-GGUF", "model.gguf", True),
    (f"vllm serve {Q}", "model.gguf", False),
    ("vllm serve /m/a.safetensors", "model.safetensors", True),
    (f"vllm serve {Q}", "model.safetensors", False),
    (f"vllm serve {Q}", "model.known", True),
    ("vllm serve a/b", "model.known", False),
    ("vllm serve $M", "model.known", None),
    ("vllm serve /models/Qwen3-8B", "model.assumed", True),
    (f"vllm serve {Q}", "model.assumed", False),
    (f"vllm serve {Q}", "model.heads", 32),
    (f"vllm serve {Q}", "model.kv_heads", 8),
    (f"vllm serve {Q}", "model.moe", False),
    ("vllm serve Qwen/Qwen3-30B-A3B", "model.moe", True),
    ("vllm serve a/b", "model.moe", None),
    ("vllm serve deepseek-ai/DeepSeek-V3", "model.mla", True),
    (f"vllm serve {Q}", "model.mla", False),
    ("vllm serve a/b", "model.mla", None),
    ("vllm serve google/gemma-3-27b-it", "model.vision", True),
    (f"vllm serve {Q}", "model.vision", False),
    ("vllm serve BAAI/bge-m3", "model.encoder", True),
    (f"vllm serve {Q}", "model.encoder", False),
    (f"vllm serve {Q}", "model.quantization", "none"),
    (f"vllm serve {Q}", "model.quantized", False),
    ("vllm serve deepseek-ai/DeepSeek-V3", "model.quantization", "FP8"),
    ("vllm serve deepseek-ai/DeepSeek-V3", "model.quantized", True),
    ("vllm serve Qwen/Qwen3-8B-AWQ", "model.quantization", "AWQ"),
    ("vllm serve a/b", "model.quantized", None),
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct", "model.gated", True),
    (f"vllm serve {Q}", "model.gated", False),
    ("vllm serve $M", "model.gated", None),
    (f"vllm serve {Q}", "load.seconds", 8190735360 * 2 / 0.5e9 + 60),
    ("vllm serve Qwen/Qwen3-8B-AWQ --quantization gptq", "quant.flag_differs", True),
    ("vllm serve Qwen/Qwen3-8B-AWQ --quantization awq_marlin", "quant.flag_differs", False),
    ("vllm serve Qwen/Qwen3-8B-AWQ", "quant.flag_differs", False),
    (f"vllm serve {Q} --quantization awq", "quant.flag_differs", False),
    (f"vllm serve {Q} --quantization awq", "quant.on_plain", True),
    (f"vllm serve {Q} --quantization fp8", "quant.on_plain", False),
    ("vllm serve Qwen/Qwen3-8B-AWQ --quantization awq", "quant.on_plain", False),
    ("vllm serve /m/x --quantization awq", "quant.on_plain", None),
    (f"vllm serve {Q}", "kv.type", "auto"),
    (f"vllm serve {Q} --kv-cache-dtype fp8", "kv.type", "fp8"),
    (f"vllm serve {Q} --kv-cache-dtype $T", "kv.type", None),
    (f"vllm serve {Q} --kv-cache-dtype float16", "kv.differs_from_model", True),
    (f"vllm serve {Q} --kv-cache-dtype bfloat16", "kv.differs_from_model", False),
    (f"vllm serve {Q} --kv-cache-dtype float16 --dtype half", "kv.differs_from_model", False),
    (f"vllm serve {Q} --kv-cache-dtype fp8", "kv.differs_from_model", False),
    # cards and images
    (f"vllm serve {Q}", "gpu.sm", "8.9"),
    (f"vllm serve {Q}", "gpu.vendor", "nvidia"),
    (f"vllm serve {Q}", "os.wsl", False),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0-cu129 --model a/b", "image.cuda", "12.9"),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0-cu128 --model a/b", "image.cuda", "12.8"),
    ("docker run --gpus all vllm/vllm-openai:cuda12 --model a/b", "image.cuda", "12.0"),
    ("vllm serve a/b", "image.cuda", None),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model a/b", "image.official", True),
    ("vllm serve a/b", "image.official", False),
    ("docker run --gpus all vllm/vllm-openai@sha256:" + "0" * 64 + " --model a/b", "image.floating", False),
    ("vllm serve a/b", "image.floating", False),
    ("docker run --gpus all vllm/vllm-openai:$TAG --model a/b", "image.floating", None),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model a/b", "image.tag", "v0.33.0"),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model a/b", "image.repository", "vllm/vllm-openai"),
    ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model a/b", "image.vendor", "nvidia"),
    ("vllm serve a/b", "image.vendor", None),
    # downloads
    (f"HF_TOKEN=x vllm serve {Q}", "hub.token", True),
    (f"vllm serve {Q}", "hub.token", None),
    (VLLM.format("-e HF_TOKEN=x", f"--model {Q}"), "hub.token", True),
    (VLLM.format("", f"--model {Q}"), "hub.token", False),
    (VLLM.format("-e HF_TOKEN=", f"--model {Q}"), "hub.token", False),
    (VLLM.format("-v ~/.cache/huggingface:/root/.cache/huggingface", f"--model {Q}"), "hub.token", None),
    (f"HF_HUB_OFFLINE=1 vllm serve {Q}", "hub.offline", True),
    (f"TRANSFORMERS_OFFLINE=yes vllm serve {Q}", "hub.offline", True),
    (f"HF_HUB_OFFLINE=0 vllm serve {Q}", "hub.offline", False),
    (f"vllm serve {Q}", "hub.offline", False),
    (VLLM.format("-v hf:/root/.cache/huggingface", f"--model {Q}"), "cache.mounted", True),
    (VLLM.format("", f"--model {Q}"), "cache.mounted", False),
    (f"vllm serve {Q}", "cache.mounted", None),
    (VLLM.format("-v hf:/data -e HF_HOME=/data", f"--model {Q}"), "cache.mounted", True),
    (VLLM.format("-v hf:/data", f"--model {Q} --download-dir /data"), "cache.mounted", True),
    (VLLM.format("-v hf:/data", f"--model {Q}"), "cache.mounted", False),
    (VLLM.format("-v hf:/data", f"--model {Q}"), "cache.wrong_path", True),
    (VLLM.format("-v x:/y", f"--model {Q}"), "cache.wrong_path", False),
    (VLLM.format("-v hf:/root/.cache/huggingface", f"--model {Q}"), "cache.wrong_path", False),
    (VLLM.format("-v m:/models", "--model /models/a"), "model.path_not_mounted", False),
    (VLLM.format("-v m:/other", "--model /models/a"), "model.path_not_mounted", True),
    (VLLM.format("", f"--model {Q}"), "model.path_not_mounted", False),
    ("vllm serve /models/a", "model.path_not_mounted", False),
    (VLLM.format("", f"--model {Q}"), "setup.all_mounts", True),
    ("docker run --gpus all me/vllm:1 --model a/b", "setup.all_mounts", False),
    # host memory: 1.9 times what is offloaded, of 64 GB
    (f"vllm serve {Q} --cpu-offload-gb 10", "offload.exceeds_host", False),
    (f"vllm serve {Q} --cpu-offload-gb 40", "offload.exceeds_host", True),
    (f"vllm serve {Q}", "offload.exceeds_host", False),
    (f"vllm serve {Q} --cpu-offload-gb 10", "memory.host_need_gib", 27.0),
    (f"vllm serve {Q} --swap-space 4 -tp 2", "memory.host_need_gib", 16.0),
    (f"vllm serve {Q} $MORE", "memory.host_need_gib", None),
    (LLAMA.format("-m 8191m", "-m a.gguf"), "memory.prompt_cache_exceeds", True),
    (LLAMA.format("-m 8g", "-m a.gguf"), "memory.prompt_cache_exceeds", False),
    (LLAMA.format("-m 8191m", "-m a.gguf --cache-ram 0"), "memory.prompt_cache_exceeds", False),
    (LLAMA.format("", "-m a.gguf"), "memory.prompt_cache_exceeds", False),
    (LLAMA.format("-m 8191m -e LLAMA_ARG_CACHE_RAM=0", "-m a.gguf"), "memory.prompt_cache_exceeds", False),
    # names of facts that any flag or variable has
    (f"vllm serve {Q} --max-num-seqs 4", "arg.max-num-seqs", 4.0),
    (f"vllm serve {Q}", "arg.max-num-seqs", ABSENT),
    (f"vllm serve {Q} $MORE", "arg.max-num-seqs", None),
    (f"vllm serve {Q} --max-num-seqs $N", "arg.max-num-seqs", None),
    (f"vllm serve {Q} --enforce-eager", "arg.enforce-eager", True),
    (f"vllm serve {Q} --no-enforce-eager", "arg.enforce-eager", False),
    (f"vllm serve {Q} --max-num-seqs 4", "given.max-num-seqs", True),
    (f"vllm serve {Q}", "given.max-num-seqs", False),
    (f"vllm serve {Q} $MORE", "given.max-num-seqs", None),
    (f"A=b vllm serve {Q}", "env.A", "b"),
    (f"vllm serve {Q}", "env.A", ABSENT),
    (f"A=b vllm serve {Q}", "has.A", True),
    (f"vllm serve {Q}", "has.A", False),
]


@pytest.mark.parametrize(("text", "name", "value"), COMMANDS, ids=[f"{n}: {t}" for t, n, _ in COMMANDS])
def test_facts_of_commands(text: str, name: str, value: Any) -> None:
    found = find_fact(text, name)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)
    assert type(found) is type(value) or isinstance(value, float)


def test_fields_of_facts() -> None:
    """Registered facts have theirs; flags and variables get one when they are asked for."""
    fields = LaunchFields(knowledge(), ("vllm",))
    assert fields.get("arg.max-num-seqs").type == "float"
    assert fields["arg.enforce-eager"].type == "bool"
    assert fields["arg.nothing-of-this-name"].type == "str"
    assert fields["given.port"].type == fields["has.A"].type == "bool"
    assert fields["env.A"].type == "str"
    assert fields.get("other.x") is None
    assert fields.get("word", 5) == 5
    assert fields["tp"] is FACTS["tp"].field
    with pytest.raises(KeyError):
        fields["other.x"]
    asked = LaunchCheckOptions("RTX 4090, 64GB RAM", "--on", True, None, speed=False)
    (launch,) = launches(f"vllm serve {Q}", "x.sh")
    checked = check_launch(launch, knowledge(), asked, {})
    facts = LaunchFacts(checked, knowledge(), [checked], "")
    assert set(facts) == set(FACTS)
    assert len(facts) == len(FACTS)
    with pytest.raises(KeyError):
        facts["other.x"]
    assert repr(ABSENT) == "absent"


DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: d}}
spec:
  {}
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
      {}
      containers:
      - name: v
        image: vllm/vllm-openai:v0.33.0
        args: [--model, Qwen/Qwen3-8B]
        resources: {{limits: {{nvidia.com/gpu: '1'}}}}
"""


@pytest.mark.parametrize(
    ("spec", "pod", "name", "value"),
    [
        # 16.38 GB at 0.5 GB/s and a minute: 92.8 s
        ("progressDeadlineSeconds: 92", "", "rollout.deadline_short", True),
        ("progressDeadlineSeconds: 93", "", "rollout.deadline_short", False),
        ("replicas: 1", "", "rollout.deadline_short", False),
        ("replicas: 1", "", "rollout.surges", True),
        ("strategy: {type: Recreate}", "", "rollout.surges", False),
        ("replicas: 1", "", "pod.untolerated", True),
        ("replicas: 1", "tolerations: [{key: nvidia.com/gpu, operator: Exists}]", "pod.untolerated", False),
        ("replicas: 1", "nodeSelector: {gpu: 'yes'}", "pod.untolerated", False),
        ("replicas: 1", "", "setup.standard_pod", True),
        ("replicas: 1", "", "setup.cluster", True),
        ("replicas: 1", "hostNetwork: true", "setup.host_network", True),
        ("replicas: 1", "hostIPC: true", "setup.ipc_host", True),
        ("replicas: 1", "hostPID: true", "setup.host_pid", True),
        ("replicas: 1", "", "setup.host_pid", False),
        ("replicas: 1", "", "hub.token", False),
        ("replicas: 1", "", "pod.host_path", False),
    ],
)
def test_facts_of_rollouts(spec: str, pod: str, name: str, value: Any) -> None:
    assert find_fact(DEPLOYMENT.format(spec, pod), name, file="d.yaml") == value


@pytest.mark.parametrize(
    ("more", "name", "value"),
    [
        # 93 s are enough to load; to download at 0.2 GB/s are 82 s more
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 93}", "probe.ends_download", True),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 174}", "probe.ends_download", True),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 175}", "probe.ends_download", False),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 92}", "probe.ends_download", False),
        ("", "probe.ends_download", False),
        ("", "download.seconds", 82),
        (
            "    livenessProbe: {initialDelaySeconds: 5, periodSeconds: 7, failureThreshold: 4}",
            "probe.budget_seconds",
            33.0,
        ),
        ("    livenessProbe: {}", "probe.budget_seconds", 30.0),
        ("    livenessProbe: {httpGet: {path: /x, port: 8000}}", "probe.path", "/x"),
        ("", "probe.health", "/health"),
        ("", "port.own", 8000),
        ("", "port.mismatch", False),
        ("", "memory.limit_gib", None),
    ],
)
def test_facts_of_probes(more: str, name: str, value: Any) -> None:
    assert find_fact(POD.format(more), name, file="pod.yaml") == value


UNIT = "[Unit]\n{}\n[Service]\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B\n{}\n"


@pytest.mark.parametrize(
    ("unit", "service", "name", "value"),
    [
        ("After=network-online.target", "Restart=always", "unit.no_network_order", False),
        ("", "Restart=always", "unit.no_network_order", True),
        ("After=network-online.target", "", "unit.no_network_order", True),
        ("", "", "unit.present", True),
        ("", "PrivateDevices=yes", "unit.no_device_access", True),
        ("", "PrivateDevices=no", "unit.no_device_access", False),
        ("", "", "unit.no_device_access", False),
        ("", "MemoryMax=16G", "memory.limit_gib", 16.0),
    ],
)
def test_facts_of_units(unit: str, service: str, name: str, value: Any) -> None:
    assert find_fact(UNIT.format(unit, service), name, file="v.service") == value


@pytest.mark.parametrize(
    ("words", "on", "name", "value"),
    [
        ("-tp 8", "8x H100 PCIe", "tp.across_slow_link", None),  # bridges are rare, and may be there
        ("-tp 4", "8x H100 PCIe", "tp.across_slow_link", False),
        ("-tp 8", "8x H100 80GB SXM", "tp.across_slow_link", False),
        ("-tp $N", "8x H100 PCIe", "tp.across_slow_link", None),
        ("--quantization fp8", "V100", "quant.floor_missed", True),
        ("--quantization fp8", "RTX 2080 Ti", "quant.floor_missed", False),
        ("--quantization experts_int8", "RTX 2080 Ti", "quant.floor_missed", True),
        ("--quantization fp8", "H100", "quant.floor_missed", False),
        ("--quantization fp8", "RX 7900 XTX", "quant.floor_missed", False),
        ("", "RTX 2080 Ti", "quant.floor_missed", False),
        ("--quantization nothing-known", "RTX 2080 Ti", "quant.floor_missed", False),
        ("", "RX 7900 XTX", "gpu.sm", None),
        ("", "RTX 2080 Ti", "gpu.sm", "7.5"),
    ],
)
def test_facts_of_cards(words: str, on: str, name: str, value: Any) -> None:
    assert (
        find_fact(f"vllm serve {Q} {words}", name, on) is value
        or find_fact(f"vllm serve {Q} {words}", name, on) == value
    )


def test_without_hardware_nothing_is_known_of_it() -> None:
    for name in ("gpu.vendor", "gpu.count", "gpu.compute_capability", "host.memory_gib", "fit.above_free", "gpu.sm"):
        assert find_fact(f"vllm serve {Q}", name, None) is None
    assert find_fact(f"vllm serve {Q} -tp 8", "tp.across_slow_link", None) is None
    assert find_fact(f"vllm serve {Q} -tp 8", "ranks.above_devices", None) is None


SHARED = """services:
  a:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-0.6B {}
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ['0'], capabilities: [gpu]}}]}}}}}}
  b:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-0.6B {}
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ['{}'], capabilities: [gpu]}}]}}}}}}
"""


@pytest.mark.parametrize(
    ("one", "other", "card", "above"),
    [
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.5", 0, False),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.51", 0, True),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.51", 1, False),
        ("", "--gpu-memory-utilization .2", 0, True),
        ("", "--gpu-memory-utilization .05", 0, False),
        ("--gpu-memory-utilization 1.0", "", 1, False),
    ],
)
def test_shares_of_one_card(one: str, other: str, card: int, above: bool) -> None:
    assert find_fact(SHARED.format(one, other, card), "gpu.shared_overcommit", file="compose.yaml") is above


@pytest.mark.parametrize(
    ("text", "name", "on", "value"),
    [
        # without hardware the size is that of parameters and format: 8,190,735,360 at 16 bit
        (f"vllm serve {Q}", "model.gib", None, 8190735360 * 2 / 2**30),
        ("vllm serve a/b", "model.gib", None, None),
        (f"vllm serve {Q}", "load.seconds", None, 8190735360 * 2 / 0.5e9 + 60),
        # 1.24e9 weights of 16 bit are 2.3 GiB: from 2 GiB on a limit below 8 GiB is small
        (VLLM.format("-m 7g", "--model meta-llama/Llama-3.2-1B-Instruct"), "memory.limit_small", None, True),
        (VLLM.format("-m 7g", "--model Qwen/Qwen3-0.6B"), "memory.limit_small", None, False),
        (VLLM.format("-m 7g", "--model a/b"), "memory.limit_small", None, True),
        (f"vllm serve {Q} --kv-cache-dtype bfloat16 --dtype half", "kv.differs_from_model", None, True),
        (f"vllm serve {Q} --kv-cache-dtype half --dtype float16", "kv.differs_from_model", None, False),
        (f"vllm serve {Q} --kv-cache-dtype float16 --dtype auto", "kv.differs_from_model", None, True),
        ("vllm serve a/b --kv-cache-dtype float16", "kv.differs_from_model", None, None),
        ("vllm serve a/b --kv-cache-dtype float16 --dtype float16", "kv.differs_from_model", None, False),
        # a volume that is called like a cache is no fault where the model is a path
        (VLLM.format("-v hf:/data", "--model /data/x"), "cache.wrong_path", None, False),
        (f"vllm serve {Q} --swap-space 4", "memory.host_need_gib", None, 12.0),
        (f"vllm serve {Q} --cpu-offload-gb 10 -tp 2", "memory.host_need_gib", None, 46.0),
        ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model a/b", "version.certain", None, True),
        ("vllm serve a/b", "version.certain", None, True),
        ("docker run --gpus all vllm/vllm-openai:latest --model a/b", "version.certain", None, True),
        ("docker run --gpus all me/vllm:latest vllm serve a/b", "version.certain", None, False),
        ("vllm serve a/b", "engine.reserves", None, True),
        ("ollama serve", "engine.reserves", None, False),
        ("vllm serve a/b", "engine.name", None, "vllm"),
        ("vllm serve a/b", "program", None, "vllm serve"),
        # what a file of hardware in words leaves open, and the loopback of an engine that listens everywhere
        ("vllm serve a/b", "setup.loopback", None, False),
        ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model $M", "model.path_not_mounted", None, None),
        (f"vllm serve {Q} --kv-cache-dtype fp8", "kv.type", None, "fp8"),
        (f"vllm serve {Q}", "offload.exceeds_host", None, False),
        (f"vllm serve {Q} --cpu-offload-gb 10", "offload.exceeds_host", None, None),
    ],
)
def test_facts_without_hardware(text: str, name: str, on: str | None, value: Any) -> None:
    found = find_fact(text, name, on)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)


CUSTOM = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: s}
spec:
  predictor:
    containers:
    - name: v
      image: vllm/vllm-openai:v0.33.0
      args: [--model, meta-llama/Llama-3.1-8B-Instruct]
      resources: {limits: {nvidia.com/gpu: '1'}}
"""


def test_what_a_resource_of_an_operator_leaves_open() -> None:
    """The operator may hand over a token, mounts and arguments."""
    for name, value in (("hub.token", None), ("setup.standard_pod", False), ("setup.all_mounts", False)):
        assert find_fact(CUSTOM, name, file="s.yaml") is value, name
