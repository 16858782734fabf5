"""Speeds that servers tell themselves: the text of /metrics, and timings in their logs.

What an engine calls them stands in its entry (`speed_figures`, advisor/catalog/launch_types.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from advisor.catalog.launch_types import MetricNames
from advisor.catalog.types import Engine
from advisor.errors import BadInput
from advisor.record import Value
from advisor.speed.measured_load import MeasuredLoad

MOST_RUNS = 2000  # of one file
LEAST_PROMPT = 64  # tokens: a shorter prompt, or a cached one, says nothing of prompts
LEAST_OUTPUT = 8
MOST_TOKENS, MOST_SECONDS = 10**9, 1e7  # of one request; beyond it a log is damaged
PROMPT, OUTPUT = 512, 128  # tokens, where a server tells only sums over all requests


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


def find_tool_engine(tool: str, engines: Mapping[str, Engine]) -> str | None:
    """The engine that a tool, or a backend as a tool calls it, runs; None where that can be any."""
    known = (tool, tool.partition("-")[0])
    return next((e for e, entry in engines.items() if any(k in entry.speed_figures.tools for k in known)), None)


_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^{}]{0,4000})\})? ([-+]?[\d.]+(?:[eE][-+]?\d+)?)(?:\s|$)")
_MODEL = re.compile(r'\bmodel_name="([^"\\]{1,300})"')


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


_PIECE = re.compile(r"(\d+(?:\.\d+)?)(h|ms|µs|us|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


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
    told: dict[str, str] = {}
    for line in text.splitlines():
        found = next((m for p in patterns if (m := p.search(line[:2000]))), None)
        if found is None:
            continue
        new = {k: v for k, v in found.groupdict().items() if v is not None}
        if told.keys() & new.keys():
            out += _timed(told, tool)
            told = {}
        told |= new
    out += _timed(told, tool)
    return out[:MOST_RUNS]


def _timed(told: Mapping[str, str], tool: str) -> list[MeasuredLoad]:
    """One request; none where the answer is too short."""

    def seconds(name: str) -> float:
        return float(told[f"{name}_ms"]) / 1000 if f"{name}_ms" in told else read_duration(told.get(f"{name}_time", ""))

    try:
        prompt, output = int(told.get("prompt_tokens", 0)), int(told.get("output_tokens", 0))
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
