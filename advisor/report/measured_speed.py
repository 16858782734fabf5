"""Measured speeds as text: next to their predictions, and those that are kept."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.deployment import Interval
from advisor.report.text import align_table
from advisor.speed.evidence import TIMES, SpeedMeasurement
from advisor.speed.measured_load import ComparedSpeed

NAMES = {
    "decode": "tokens/s, one request",
    "prefill": "prompt tokens/s",
    "ttft": "first token, ms",
    "tpot": "between tokens, ms",
    "closed": "tokens/s, all requests",
}


def describe_compared(compared: Sequence[ComparedSpeed]) -> str:
    """A table: measured, predicted before, and predicted now."""
    rows = [
        [NAMES[c.kind], f"{c.concurrency} x {c.prompt_tokens}+{c.output_tokens}", _number(c.measured * _scale(c.kind)),
         _interval(c.before, _scale(c.kind)), _interval(c.after, _scale(c.kind)) if c.after else "-"]
        for c in compared
    ]  # fmt: skip
    return align_table(rows, ("", "load", "measured", "predicted before", "now"), "llrrr")


def describe_measurements(kept: Sequence[SpeedMeasurement]) -> str:
    """All measurements that are kept."""
    if not kept:
        return "No speed was measured on this machine yet: `advise bench URL`, or\n`advise calibrate FILE`."
    rows = [
        [m.date, m.engine[:12], f"{m.model.rpartition('/')[2][:20]} {m.quantization}"[:27],
         f"{m.concurrency} x {m.prompt_tokens}+{m.output_tokens}", m.kind,
         "-" if m.measured is None else _number(m.measured * _scale(m.kind)), f"x{m.ratio:.2f}"]
        for m in kept
    ]  # fmt: skip
    heads = ("date", "engine", "model", "load", "kind", "measured", "rate")
    return align_table(rows, heads, "lllllrr", indent="") + "\nRate: measured over predicted. Times in milliseconds."


def _scale(kind: str) -> float:
    return 1000.0 if kind in TIMES else 1.0


def _number(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def _interval(interval: Interval, scale: float) -> str:
    low, value, high = (_number(x * scale) for x in (interval.low, interval.value, interval.high))
    return f"{value} ({low}-{high})"
