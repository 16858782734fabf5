"""What benchmark tools and servers write of speed, as measured loads.

Six kinds: llama-bench (`-o json` and `jsonl`), guidellm 0.8, aiperf and genai-perf (profile_export_*.json), `vllm bench
serve --save-result` and sglang.bench_serving, the Prometheus text of a server's /metrics (vLLM, SGLang, llama-server),
and the timings in logs of llama-server and Ollama.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from advisor.catalog.launch_types import MetricNames
from advisor.catalog.types import Engine
from advisor.decoding import Json
from advisor.errors import BadInput
from advisor.record import Value
from advisor.speed.measured_load import MeasuredLoad

KINDS = (
    "llama-bench -o json, guidellm, aiperf or genai-perf, vllm bench serve or sglang.bench_serving, the text of "
    "/metrics, timings of llama-server or Ollama"
)
MOST_RUNS = 2000  # of one file
LEAST_PROMPT = 64  # tokens: a shorter prompt, or a cached one, says nothing of prompts
LEAST_OUTPUT = 8
MOST_TOKENS, MOST_SECONDS = 10**9, 1e7  # of one request; beyond it a log is damaged
PROMPT, OUTPUT = 512, 128  # tokens, where a server tells only sums over all requests
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^{}]{0,4000})\})? ([-+]?[\d.]+(?:[eE][-+]?\d+)?)(?:\s|$)")
_MODEL = re.compile(r'\bmodel_name="([^"\\]{1,300})"')
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(h|ms|µs|us|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
_Fits = Callable[[Json], bool]


class ResultFile(Value, frozen=True):
    """A file's loads, and what it says of the deployment. None = it does not say."""

    tool: str
    loads: tuple[MeasuredLoad, ...]
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None  # as the tool calls it: a path, a served name
    model_type: str | None = None  # llama.cpp's description: `llama 8B Q4_K - Medium`
    settings: Mapping[str, str] = {}
    log: bool = False  # of a server's run: its start may be described, too
    notes: tuple[str, ...] = ()  # what was taken for granted


_Read = Callable[[Sequence[Json]], ResultFile]


def read_result_file(text: str, engines: Mapping[str, Engine]) -> ResultFile | None:
    """The loads of a file; None where it is of no kind that is known. Raises BadInput where it is one, but broken."""
    documents = _documents(text)
    if documents is None:
        return read_metrics(text, engines) or read_timings(text, engines)
    for fits, read in _READERS:
        if fits(documents[0]):
            try:
                found = read(documents)
                return replace(found, engine=find_tool_engine(found.engine or found.tool, engines))
            except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as e:
                raise BadInput(f"the result file is not as known: {type(e).__name__} {e}"[:200]) from None
    return None


def _documents(text: str) -> list[Json] | None:
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
    return rows[:MOST_RUNS] if rows and all(isinstance(r, dict) for r in rows) else None


def _positive(value: object) -> float | None:
    """A positive, finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 < number < 1e15 else None


def _count(value: object) -> int:
    """A count of at least 1. Raises ValueError where it is none."""
    number = _positive(value)
    if number is None:
        raise ValueError(f"{str(value)[:40]} is not a count")
    return max(1, round(number))


def _whole(value: object) -> int:
    """A whole number of tokens. Raises ValueError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
        raise ValueError(f"{str(value)[:40]} is not a number of tokens")
    return value


def _seconds(milliseconds: object) -> float | None:
    number = _positive(milliseconds)
    return None if number is None else number / 1000


def _read_llama_bench(rows: Sequence[Json]) -> ResultFile:
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
            MeasuredLoad(
                tool="llama-bench",
                concurrency=1,
                prompt_tokens=prompt or 1,
                output_tokens=output or 1,
                depth_tokens=depth,
                **{"prefill_tps" if prompt else "decode_tps": rate},
            )
        )
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


def _read_guidellm(rows: Sequence[Json]) -> ResultFile:
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


def _streams(benchmark: Json) -> Any:
    strategy = (benchmark.get("config") or {}).get("strategy") or {}
    return strategy.get("streams") or strategy.get("max_concurrency")


def _read_aiperf(rows: Sequence[Json]) -> ResultFile:
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


def _stimulus(config: Json) -> Any:
    """Requests at once as genai-perf has them."""
    stimulus = (config.get("perf_analyzer") or {}).get("stimulus") or config.get("stimulus") or {}
    return stimulus.get("concurrency") if isinstance(stimulus, dict) else None


def _statistic(metrics: Json, name: str, which: str) -> Any:
    found = metrics.get(name)
    return found.get(which) if isinstance(found, dict) else None


def _time(metrics: Json, name: str) -> float | None:
    """Seconds: the median, else the mean, by the unit that the file gives."""
    found = metrics.get(name)
    if not isinstance(found, dict):
        return None
    value = _positive(found.get("p50") if found.get("p50") is not None else found.get("avg"))
    scale = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}.get(str(found.get("unit")))
    return None if value is None or scale is None else value * scale


def _read_serving(rows: Sequence[Json]) -> ResultFile:
    """`vllm bench serve --save-result` and the lines of sglang.bench_serving, one load for each."""
    loads, backend = [], str(rows[0].get("backend") or rows[0].get("endpoint_type") or "")
    tool = "bench_serving" if "output_throughput_retokenized" in rows[0] else "bench serve"
    for r in rows:
        done = _count(r["completed"])
        rate = r.get("request_rate")
        endless = rate in (None, "inf", "Infinity") or rate == float("inf")
        if not endless and not r.get("max_concurrency"):
            continue  # at a rate of requests, how many run at once is not reported
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


def find_tool_engine(tool: str, engines: Mapping[str, Engine]) -> str | None:
    """The engine that a tool, or a backend as a tool calls it, runs; None where that can be any."""
    known = (tool, tool.partition("-")[0])
    return next((e for e, entry in engines.items() if any(k in entry.speed_figures.tools for k in known)), None)


def read_metrics(text: str, engines: Mapping[str, Engine]) -> ResultFile | None:
    """Sums over all requests since the server began; None for other text. Raises BadInput where there were none."""
    sums: dict[str, float] = defaultdict(float)
    model = None
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        try:
            number = float(sample[3])
        except ValueError:
            continue
        if abs(number) < 1e18:
            sums[sample[1]] += number
        named = _MODEL.search(sample[2] or "")
        model = named[1] if named else model
    for engine, entry in engines.items():
        names = entry.speed_figures.metrics
        if names is not None and any(k.startswith(names.prefix) for k in sums):
            load, notes = _read_sums(names, sums, entry.name)
            return ResultFile("/metrics", (load,), engine, None, model, notes=notes)
    return None


def _read_sums(names: MetricNames, sums: Mapping[str, float], engine: str) -> tuple[MeasuredLoad, tuple[str, ...]]:
    def value(name: str | None) -> float | None:
        return sums.get(names.prefix + name) if name else None

    def count(name: str | None) -> float | None:
        return value(f"{name}_count") if name else None

    def mean(name: str | None) -> float | None:
        return _ratio(value(f"{name}_sum"), count(name)) if name else None

    produced = value(names.output_tokens)
    between = next((x for x in map(mean, names.between_tokens) if x), None)
    between = between or _ratio(value(names.output_seconds), produced)
    if not between:
        raise BadInput(f"the metrics of {engine} have no finished request: measure a load first")
    running = _ratio(produced, count(names.steps)) or value(names.running)
    if not running:
        raise BadInput(f"the metrics of {engine} do not tell how many requests ran at once: take them under load")
    alone = running < 1.5  # means over a changing queue say little of prompts
    requests = count(names.first_token)
    prompt = mean(names.request_prompt) or _ratio(value(names.prompt_tokens), requests)
    output = mean(names.request_output) or _ratio(produced, requests)
    assumed = f"the metrics do not tell how long prompts and answers are: {PROMPT} and {OUTPUT} tokens are assumed"
    load = MeasuredLoad(
        tool="/metrics",
        concurrency=max(1, round(running)),
        prompt_tokens=max(1, round(prompt or PROMPT)),
        output_tokens=max(1, round(output or OUTPUT)),
        tpot_s=between,
        ttft_s=mean(names.first_token) if alone else None,
        prefill_tps=_ratio(value(names.prompt_tokens), value(names.prompt_seconds)) if alone else None,
    )
    return load, () if prompt and output else (assumed,)


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over and under and over > 0 and under > 0 else None


def read_duration(text: str) -> float:
    """Seconds of `1m2.5s` or `230.1ms`, as Go writes durations."""
    return sum(float(n) * _UNITS[unit] for n, unit in _PIECE.findall(text))


def read_timings(text: str, engines: Mapping[str, Engine]) -> ResultFile | None:
    """Requests that a log times one by one; None for other text."""
    for engine, entry in engines.items():
        if entry.speed_figures.timings:
            patterns = [re.compile(p) for p in entry.speed_figures.timings]
            loads = _timed_requests(text, patterns, entry.speed_figures.tools[-1])
            if loads:
                return ResultFile(loads[0].tool, _typical(loads), engine, log=True)
    return None


def _timed_requests(text: str, patterns: Sequence[re.Pattern[str]], tool: str) -> list[MeasuredLoad]:
    out: list[MeasuredLoad] = []
    values: dict[str, str] = {}
    for line in text.splitlines():
        found = next((m for p in patterns if (m := p.search(line[:2000]))), None)
        if found is None:
            continue
        new = {k: v for k, v in found.groupdict().items() if v is not None}
        if values.keys() & new.keys():
            out += _timed(values, tool)
            values = {}
        values |= new
    out += _timed(values, tool)
    return out[:MOST_RUNS]


def _timed(values: Mapping[str, str], tool: str) -> list[MeasuredLoad]:
    """One request; none where the answer is too short."""

    def seconds(name: str) -> float:
        milliseconds = values.get(f"{name}_ms")
        return read_duration(values.get(f"{name}_time", "")) if milliseconds is None else float(milliseconds) / 1000

    try:
        prompt, output = int(values.get("prompt_tokens", 0)), int(values.get("output_tokens", 0))
        reading, saying = seconds("prompt"), seconds("output")
    except ValueError:  # a line that was damaged: `1080.0.0 ms`
        return []
    if not LEAST_OUTPUT <= output < MOST_TOKENS or prompt >= MOST_TOKENS or not 0 < saying < MOST_SECONDS:
        return []
    return [
        MeasuredLoad(
            tool=tool,
            concurrency=1,
            prompt_tokens=max(1, prompt),
            output_tokens=output,
            decode_tps=output / saying,
            prefill_tps=prompt / reading if prompt >= LEAST_PROMPT and reading > 0 else None,
        )
    ]


def _typical(loads: Sequence[MeasuredLoad]) -> tuple[MeasuredLoad, ...]:
    """Of each size of prompt (by powers of two) the request with the median rate."""
    sizes: dict[int, list[MeasuredLoad]] = defaultdict(list)
    for load in loads:
        sizes[load.prompt_tokens.bit_length()].append(load)
    return tuple(sorted(mine, key=lambda x: x.decode_tps or 0.0)[len(mine) // 2] for _, mine in sorted(sizes.items()))


_READERS: tuple[tuple[_Fits, _Read], ...] = (
    (lambda d: "avg_ts" in d and "n_gen" in d, _read_llama_bench),
    (lambda d: isinstance(d.get("benchmarks"), list), _read_guidellm),
    (lambda d: "total_output_tokens" in d and "completed" in d, _read_serving),
    (lambda d: "time_to_first_token" in d or "output_token_throughput" in d
     or (isinstance(d.get("records"), dict) and "input_config" in d), _read_aiperf),
)  # fmt: skip
