"""`advise compare --speed` as text."""

from __future__ import annotations

from advisor.advice.compare import EngineSpeeds
from advisor.deployment import Interval
from advisor.report.text import align_table, bullets, paint, wrap_text

WORDS = {"decode_tps": "one request", "output_tps": "all requests"}


def describe_engine_speeds(speeds: EngineSpeeds) -> str:
    """A table in the order that was asked for, and which order is certain."""
    load = f"{speeds.concurrency} at once, {speeds.prompt_tokens} tokens of prompt and {speeds.output_tokens} of answer"
    rows = [
        [e.engine, e.quantization or "-", {True: "yes", False: "no", None: "?"}[e.fits], _interval(e.decode_tps, 1),
         _interval(e.output_tps, 1), _interval(e.ttft_s, 1000)]
        for e in speeds.engines
    ]  # fmt: skip
    out = [
        paint(f"{speeds.model} on {speeds.hardware}", "bold"),
        wrap_text(load, "  "),
        "",
        align_table(rows, ("engine", "format", "fits", "tokens/s, one", "tokens/s, all", "first, ms"), "lllrrr"),
    ]
    missing = [f"{e.engine}: {e.why}" for e in speeds.engines if e.why]
    if missing:
        out += ["", "Without a figure:", *bullets(missing)]
    if speeds.faster:
        said = [f"{p.faster} is faster than {p.slower} ({WORDS[p.quantity]})" for p in speeds.faster]
        out += ["", "Beyond the bounds of both:", *bullets(said)]
    known = sum(e.decode_tps is not None for e in speeds.engines)
    if known > 1 and not speeds.faster:
        out += [
            "",
            wrap_text("No order: the bounds overlap. `advise bench` measures your own server and narrows them.", "  "),
        ]
    return "\n".join(out)


def _interval(interval: Interval | None, scale: float) -> str:
    if interval is None:
        return "-"
    low, value, high = (f"{x * scale:.0f}" if x * scale >= 10 else f"{x * scale:.2g}" for x in
                        (interval.low, interval.value, interval.high))  # fmt: skip
    return f"{value} ({low}-{high})"
