"""Start-up logs as engines write them, around figures that their users published (tests/data/*startup_logs.csv).

The lines are those of the engines' sources: vLLM 0.6.6 (worker.py), 0.19 and 0.33 (v1/worker/gpu_worker.py,
v1/core/kv_cache_utils.py), SGLang 0.5.23 (srt/model_executor, srt/mem_cache), llama.cpp b8193 and Ollama 0.13.
"""

# ruff: noqa: E501  lines of logs are as long as they are

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from advisor.engines.versions import version_key
from tools.accuracy.rows import TableRow


def write_log(row: TableRow) -> str:
    """The log of a row."""
    writers = {"vllm": _vllm, "sglang": _sglang, "llama.cpp": _llama, "ollama": _ollama}
    return "\n".join(writers[row["engine"]](row)) + "\n"


def _vllm(row: TableRow) -> Iterator[str]:
    settings = json.loads(row["settings"])
    given = {k.replace("-", "_"): _python(v) for k, v in settings.items()}
    old = version_key(row["engine_version"]) < (0, 8)
    who = "INFO 01-16 09:40:00" if old else "(APIServer pid=1) INFO 07-06 22:50:34"
    yield f"{who} api_server.py:712] vLLM API server version {row['engine_version']}"
    shown = ", ".join(f"'{k}': {v}" for k, v in given.items())
    yield f"{who} [utils.py:273] non-default args: {{'model': '{row['model']}', 'api_key': '<redacted>', {shown}}}"
    name = "an LLM engine" if old else "a V1 LLM engine"
    yield (
        f"{who} [core.py:114] Initializing {name} (v{row['engine_version']}) with config: model='{row['model']}', "
        f"speculative_config=None, tokenizer='{row['model']}', max_seq_len={settings.get('max-model-len', 4096)}, "
        f"tensor_parallel_size={settings.get('tensor-parallel-size', 1)}, "
        f"pipeline_parallel_size={settings.get('pipeline-parallel-size', 1)}, "
        f"quantization=None, enforce_eager={bool(settings.get('enforce-eager'))}, "
        f"kv_cache_dtype={settings.get('kv-cache-dtype', 'auto')}"
    )
    yield from _vllm_v0(row) if old else _vllm_v1(row, int(settings.get("tensor-parallel-size", 1)))


def _vllm_v0(row: TableRow) -> Iterator[str]:
    at = "INFO 01-16 09:40:00 worker.py:238]"
    yield f"{at} the current vLLM instance can use total_gpu_memory ({row['total']}GiB) x gpu_memory_utilization (0.90) = 40.0GiB"
    yield (
        f"{at} model weights take {row['weights']}GiB; non_torch_memory takes {row['outside']}GiB; PyTorch activation "
        f"peak memory takes {row['activation']}GiB; the rest of the memory reserved for KV Cache is {row['pool']}GiB."
    )


def _vllm_v1(row: TableRow, ranks: int) -> Iterator[str]:
    for rank in range(ranks):
        at = (
            f"(Worker_TP{rank} pid={50 + rank}) INFO 07-06 22:52:09" if ranks > 1 else "(EngineCore pid=107) INFO 07-06"
        )
        if row["weights"]:
            yield f"{at} [gpu_model_runner.py:4216] Model loading took {row['weights']} GiB memory and 4.360672 seconds"
        more = 0.01 * rank  # the ranks differ a little; the smallest counts
        yield f"{at} [gpu_worker.py:508] Available KV cache memory: {float(row['pool']) + more:.4g} GiB"
        if row["activation"] and row["outside"]:
            yield (
                f"{at} [gpu_worker.py:777] Free memory on device (78.68/{row['total'] or 79.19} GiB) on startup. Desired "
                f"GPU memory utilization is (0.95, 75.23 GiB). Actual usage is {row['weights']} GiB for weight, "
                f"{row['activation']} GiB for peak activation, {row['outside']} GiB for non-torch memory, and "
                f"{row['graphs'] or 0} GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1`"
            )
    if row["tokens"]:
        yield f"(EngineCore pid=107) INFO 07-06 [kv_cache_utils.py:2146] GPU KV cache size: {int(row['tokens']):,} tokens"


def _sglang(row: TableRow) -> Iterator[str]:
    settings = json.loads(row["settings"])
    shown = ", ".join(f"{k.replace('-', '_')}={_python(v)}" for k, v in settings.items())
    yield f"[2026-05-25 10:00:00] server_args=ServerArgs(model_path='{row['model']}', tokenizer_path='/home/me/t', {shown})"
    ranks = int(settings.get("tp-size", 1))
    for rank in range(ranks):
        at = f"[2026-05-25 10:00:10 TP{rank}]" if ranks > 1 else "[2026-05-25 10:00:10]"
        yield f"{at} Load weight begin. avail mem=22.98 GB"
        if row["weights"]:
            yield f"{at} Load weight end. type=SomeModel, dtype=torch.bfloat16, avail mem=9.00 GB, mem usage={row['weights']} GB."
        if row["state"]:
            yield (
                f"{at} Mamba Cache is allocated. max_mamba_cache_size: 40, conv_state size: 0.00GB, "
                f"ssm_state size: {row['state']}GB "
            )
        half = float(row["pool"]) / 2
        yield f"{at} KV Cache is allocated. #tokens: {row['tokens'] or 1}, K size: {half} GB, V size: {half} GB"
        yield f"{at} Memory pool end. avail mem=3.00 GB"
        yield (
            f"{at} max_total_num_tokens={row['tokens'] or 1}, chunked_prefill_size={settings.get('chunked-prefill-size', 2048)}, "
            f"max_prefill_tokens=16384, max_running_requests={settings.get('max-running-requests', 48)}, "
            f"context_len={settings.get('context-length', 4096)}, available_gpu_mem=3.00 GB"
        )


def _llama_buffers(row: TableRow) -> Iterator[str]:
    settings, places = json.loads(row["settings"]), json.loads(row["places"])
    yield "load_tensors: loading model tensors, this can take a while... (mmap = true)"
    layers = settings.get("gpu-layers") or settings.get("num_gpu") or settings.get("n-gpu-layers")
    if layers:
        yield f"load_tensors: offloaded {layers}/{layers} layers to GPU"
    for place, parts in places.items():
        if "weights" in parts:
            yield f"load_tensors: {place:>12} model buffer size = {parts['weights']:8.2f} MiB"
    slots = settings.get("parallel") or settings.get("OLLAMA_NUM_PARALLEL") or 1
    total = settings.get("ctx-size") or int(settings.get("num_ctx", 4096)) * int(slots)
    yield "llama_context: constructing llama_context"
    yield f"llama_context: n_seq_max     = {slots}"
    yield f"llama_context: n_ctx         = {total}"
    for flag, word in (("batch-size", "n_batch"), ("ubatch-size", "n_ubatch"), ("flash-attn", "flash_attn")):
        if flag in settings:
            shown = {"on": "enabled", "off": "disabled"}.get(str(settings[flag]), settings[flag])
            yield f"llama_context: {word:13} = {shown}"
    if "kv-unified" in settings:
        yield f"llama_context: kv_unified    = {str(settings['kv-unified']).lower()}"
    for place, parts in places.items():
        if "kv_cache" in parts:
            yield f"llama_kv_cache: {place:>10} KV buffer size = {parts['kv_cache']:8.2f} MiB"
        kinds = [settings.get(f"cache-type-{x}") or settings.get("OLLAMA_KV_CACHE_TYPE", "f16") for x in "kv"]
        yield (
            f"llama_kv_cache: size = {parts.get('kv_cache', 0):8.2f} MiB ({total:>6} cells, 32 layers, {slots}/1 seqs), "
            f"K ({kinds[0]}): 1.00 MiB, V ({kinds[1]}): 1.00 MiB"
        )
        if "state" in parts:
            yield f"llama_memory_recurrent: {place:>10} RS buffer size = {parts['state']:8.2f} MiB"
    for place, parts in places.items():
        if "compute" in parts:
            yield f"llama_context: {place:>10} compute buffer size = {parts['compute']:8.2f} MiB"


def _llama(row: TableRow) -> Iterator[str]:
    yield f"build: {row['engine_version'].lstrip('b')} (0123abc) with GNU 13.3.0 for Linux x86_64"
    yield f"main: loading model '/home/me/{row['model'].rpartition('/')[2]}-{row['quantization']}.gguf'"
    yield (
        "llama_model_loader: loaded meta data with 33 key-value pairs and 236 tensors from "
        f"/home/me/{row['model'].rpartition('/')[2]}-{row['quantization']}.gguf (version GGUF V3 (latest))"
    )
    yield from _llama_buffers(row)


def _ollama(row: TableRow) -> Iterator[str]:
    at = "time=2026-05-25T10:00:00.000+02:00 level=INFO source="
    yield f'{at}routes.go:1297 msg="Listening on 127.0.0.1:11434 (version {row["engine_version"]})"'
    yield f'{at}server.go:432 msg="starting llama server" cmd="/usr/bin/ollama runner --model /root/.ollama/models/blobs/sha256-1"'
    yield (
        "llama_model_loader: loaded meta data with 33 key-value pairs and 236 tensors from "
        f"/home/me/{row['model'].rpartition('/')[2]}-{row['quantization']}.gguf (version GGUF V3 (latest))"
    )
    yield from _llama_buffers(row)


def _python(value: Any) -> str:
    """A setting as Python shows it; JSON texts are the dicts that they stand for."""
    if isinstance(value, str) and value.startswith("{"):
        return repr(json.loads(value))
    return repr(value)
