"""What benchmark tools and servers write of speed, as measured loads.

Six kinds: llama-bench (`-o json` and `jsonl`), guidellm 0.8, aiperf and genai-perf (profile_export_*.json), `vllm bench
serve --save-result` and sglang.bench_serving, the Prometheus text of a server's /metrics (vLLM, SGLang, llama-server),
and the timings in logs of llama-server and Ollama.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from advisor.calibration import server_figures
from advisor.calibration.server_figures import ResultFile
from advisor.catalog.types import Engine
from advisor.errors import BadInput
from advisor.speed.measured_load import MeasuredLoad

KINDS = (
    "llama-bench -o json, guidellm, aiperf or genai-perf, vllm bench serve or sglang.bench_serving, the text of "
    "/metrics, timings of llama-server or Ollama"
)


def read_result_file(text: str, engines: Mapping[str, Engine]) -> ResultFile | None:
    """The loads of a file; None where it is of no kind that is known. Raises BadInput where it is one, but broken."""
    documents = _documents(text)
    if documents is None:
        return server_figures.read_metrics(text, engines) or server_figures.read_timings(text, engines)
    for fits, read in _READERS:
        if fits(documents[0]):
            try:
                return _with_engine(read(documents), engines)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as e:
                raise BadInput(f"the result file is not as known: {type(e).__name__} {e}"[:200]) from None
    return None


def _with_engine(found: ResultFile, engines: Mapping[str, Engine]) -> ResultFile:
    """The engine that the tool, or what it calls its backend, stands for."""
    return replace(found, engine=server_figures.find_tool_engine(found.engine or found.tool, engines))


def _documents(text: str) -> list[dict[str, Any]] | None:
    """The objects of a JSON file, an array's or one of each line; None for other text."""
    begin = text.lstrip("\ufeff \t\r\n")[:1]
    if begin not in ("{", "["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return None
    rows = found if isinstance(found, list) else [found]
    return rows[: server_figures.MOST_RUNS] if rows and all(isinstance(r, dict) for r in rows) else None


def _positive(value: Any) -> float | None:
    """A positive, finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 < number < 1e15 else None


def _count(value: Any) -> int:
    """A count of at least 1. Raises ValueError where it is none."""
    number = _positive(value)
    if number is None:
        raise ValueError(f"{str(value)[:40]} is no count")
    return max(1, round(number))


def _whole(value: Any) -> int:
    """A whole number of tokens. Raises ValueError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
        raise ValueError(f"{str(value)[:40]} is no number of tokens")
    return value


def _seconds(milliseconds: Any) -> float | None:
    number = _positive(milliseconds)
    return None if number is None else number / 1000


def _read_llama_bench(rows: Sequence[Mapping[str, Any]]) -> ResultFile:
    """Fields as ggml-org/llama.cpp, tools/llama-bench (`test`)."""
    first = rows[0]
    same = ("model_filename", "n_gpu_layers", "type_k", "type_v", "flash_attn", "split_mode", "n_ubatch")
    if any(r.get(k) != first.get(k) for r in rows for k in same):
        raise BadInput("the file has runs of several models or settings: give one of them at a time")
    loads = []
    for r in rows:
        rate, depth = _positive(r["avg_ts"]), _whole(r.get("n_depth") or 0)
        prompt, output = _whole(r["n_prompt"]), _whole(r["n_gen"])
        if rate is None or (prompt > 0) == (output > 0):
            continue  # a prompt and an answer timed together are neither
        loads.append(
            MeasuredLoad(tool="llama-bench", concurrency=1, prompt_tokens=prompt, output_tokens=1, depth_tokens=depth,
                         prefill_tps=rate)
            if prompt else
            MeasuredLoad(tool="llama-bench", concurrency=1, prompt_tokens=1, output_tokens=output, depth_tokens=depth,
                         decode_tps=rate)
        )  # fmt: skip
    settings = {"n-gpu-layers": str(first["n_gpu_layers"]), "ubatch-size": str(first["n_ubatch"])}
    if first.get("type_k") and first.get("type_v"):
        settings |= {"cache-type-k": str(first["type_k"]), "cache-type-v": str(first["type_v"])}
    if isinstance(first.get("flash_attn"), bool | int):
        settings["flash-attn"] = {1: "on", 0: "off"}.get(int(first["flash_attn"]), "auto")
    build = first.get("build_number")
    return ResultFile(
        "llama-bench", tuple(loads), None, f"b{build}" if build else None, str(first["model_filename"]),
        str(first.get("model_type") or "") or None,
        settings,
    )  # fmt: skip


def _read_guidellm(rows: Sequence[Mapping[str, Any]]) -> ResultFile:
    """A report of guidellm 0.8, one load for each benchmark."""
    version = rows[0].get("metadata", {}).get("guidellm_version")
    tool = f"guidellm {version}" if version else "guidellm"
    loads = []
    for b in rows[0]["benchmarks"]:
        m = b["metrics"]
        if not m["request_totals"]["successful"]:
            continue
        at_once = m.get("request_concurrency", {}).get("successful", {}).get("mean")
        between = m["inter_token_latency_ms"]["successful"]
        loads.append(
            MeasuredLoad(
                tool=tool,
                concurrency=_count(at_once or _streams(b) or 1),
                prompt_tokens=_count(m["prompt_token_count"]["successful"]["mean"]),
                output_tokens=_count(m["output_token_count"]["successful"]["mean"]),
                ttft_s=_seconds(m["time_to_first_token_ms"]["successful"]["median"]),
                tpot_s=_seconds(between["median"]) if between["count"] else None,
                output_tps=_positive(m["output_tokens_per_second"]["successful"]["mean"]),
            )
        )
    return ResultFile(tool, tuple(loads))


def _streams(benchmark: Mapping[str, Any]) -> Any:
    strategy = (benchmark.get("config") or {}).get("strategy") or {}
    return strategy.get("streams") or strategy.get("max_concurrency")


def _read_aiperf(rows: Sequence[Mapping[str, Any]]) -> ResultFile:
    """profile_export_aiperf.json and profile_export_genai_perf.json: metrics with `unit`, `avg` and percentiles."""
    first = rows[0]
    metrics = first["records"] if isinstance(first.get("records"), dict) else first
    config = first.get("input_config") or {}
    tool = "aiperf" if "endpoint" in config or "loadgen" in config else "genai-perf"
    names = (config.get("endpoint") or {}).get("model_names") or config.get("model") or config.get("model_names") or []
    at_once = (config.get("loadgen") or {}).get("concurrency") or _stimulus(config)
    load = MeasuredLoad(
        tool=tool,
        concurrency=_count(at_once),
        prompt_tokens=_count(_statistic(metrics, "input_sequence_length", "avg")),
        output_tokens=_count(
            _statistic(metrics, "output_sequence_length", "avg") or _statistic(metrics, "output_token_count", "avg")
        ),
        ttft_s=_time(metrics, "time_to_first_token"),
        tpot_s=_time(metrics, "inter_token_latency"),
        output_tps=_positive(_statistic(metrics, "output_token_throughput", "avg")),
    )
    name = names[0] if isinstance(names, list) and names else names if isinstance(names, str) else None
    return ResultFile(tool, (load,), model=name)


def _stimulus(config: Mapping[str, Any]) -> Any:
    """Requests at once as genai-perf has them."""
    stimulus = (config.get("perf_analyzer") or {}).get("stimulus") or config.get("stimulus") or {}
    return stimulus.get("concurrency") if isinstance(stimulus, dict) else None


def _statistic(metrics: Mapping[str, Any], name: str, which: str) -> Any:
    found = metrics.get(name)
    return found.get(which) if isinstance(found, dict) else None


def _time(metrics: Mapping[str, Any], name: str) -> float | None:
    """Seconds: the median, else the mean, by the unit that the file gives."""
    found = metrics.get(name)
    if not isinstance(found, dict):
        return None
    value = _positive(found.get("p50") if found.get("p50") is not None else found.get("avg"))
    scale = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}.get(str(found.get("unit")))
    return None if value is None or scale is None else value * scale


def _read_serving(rows: Sequence[Mapping[str, Any]]) -> ResultFile:
    """`vllm bench serve --save-result` and the lines of sglang.bench_serving, one load for each."""
    loads, backend = [], str(rows[0].get("backend") or rows[0].get("endpoint_type") or "")
    tool = "bench_serving" if "output_throughput_retokenized" in rows[0] else "bench serve"
    for r in rows:
        done = _count(r["completed"])
        rate = r.get("request_rate")
        endless = rate in (None, "inf", "Infinity") or rate == float("inf")
        if not endless and not r.get("max_concurrency"):
            continue  # at a rate of requests, how many run at once is not told
        loads.append(
            MeasuredLoad(
                tool=tool,
                concurrency=_count(min(r["max_concurrency"] or done, done)),
                prompt_tokens=_count(r["total_input_tokens"] / done),
                output_tokens=_count(r["total_output_tokens"] / done),
                ttft_s=_seconds(r.get("median_ttft_ms")),
                tpot_s=_seconds(r.get("median_tpot_ms")),
                output_tps=_positive(r.get("output_throughput")),
            )
        )
    if not loads:
        raise BadInput("the runs are at a rate of requests: give --max-concurrency to the tool")
    return ResultFile(tool, tuple(loads), backend or None, None, rows[0].get("model_id"))


_Fits = Callable[[Mapping[str, Any]], bool]
_Read = Callable[[Sequence[Mapping[str, Any]]], ResultFile]
_READERS: tuple[tuple[_Fits, _Read], ...] = (
    (lambda d: "avg_ts" in d and "n_gen" in d, _read_llama_bench),
    (lambda d: isinstance(d.get("benchmarks"), list), _read_guidellm),
    (lambda d: "total_output_tokens" in d and "completed" in d, _read_serving),
    (lambda d: "time_to_first_token" in d or "output_token_throughput" in d
     or (isinstance(d.get("records"), dict) and "input_config" in d), _read_aiperf),
)  # fmt: skip
