"""`advise bench` as text."""

from __future__ import annotations

from advisor.bench.guidellm import RequestStatistics
from advisor.bench.run import BenchResult
from advisor.deployment import Interval
from advisor.report.measured_speed import describe_compared
from advisor.report.text import align_table, paint, wrap_text
from advisor.units import format_rate


def describe_bench(result: BenchResult) -> str:
    """What was measured compared with what was predicted, and what becomes of it."""
    measured, speed = result.measured, result.predicted
    engine = " ".join(w for w in (result.engine or "engine not known", result.endpoint.engine_version) if w)
    named = f"{result.model} {result.quantization or ''}".strip() if result.model else result.endpoint.models[0]
    out = [paint(f"{named} on {engine} at {result.endpoint.url}", "bold")]
    failed = f", {measured.failed} failed" if measured.failed else ""
    out.append(
        wrap_text(
            f"{measured.requests} requests{failed}, {measured.concurrency} at once, {measured.prompt_tokens:.0f} "
            "tokens "
            "of prompt and "
            f"{measured.output_tokens:.0f} of answer each, in {measured.seconds:.0f} s ({measured.tool})",
            "  ",
        )
    )
    rows = []
    if result.alone is not None:
        rows = [
            ["alone: first token, s", *_spread(result.alone.ttft_s, 1), ""],
            ["alone: between tokens, ms", *_spread(result.alone.tpot_s, 1000), ""],
        ]
    rows += [
        ["first token, s", *_spread(measured.ttft_s, 1), _interval(speed.ttft_s if speed else None, 1)],
        ["between tokens, ms", *_spread(measured.tpot_s, 1000), _interval(speed.tpot_s if speed else None, 1000)],
        [
            "tokens/s all",
            format_rate(measured.output_tps),
            "",
            "",
            "",
            _interval(speed.output_tps if speed else None, 1),
        ],
        ["requests/s", f"{measured.requests_per_second:.3g}", "", "", "", ""],
    ]
    out += ["", align_table(rows, ("", "mean", "P50", "P95", "P99", "predicted"), "lrrrrr")]
    if result.unpredicted:
        out += ["", wrap_text(f"No prediction: {result.unpredicted}.", "  ")]
    if any(c.after is not None for c in result.compared):
        out += ["", describe_compared(result.compared)]
    if result.kept:
        said = (f"Kept in {result.kept}: predictions for this machine (`--on this`) use it from now on; "
                "`advise bench --forget` removes it.")  # fmt: skip
        out += ["", wrap_text(said, "  ")]
    if result.unkept:
        out += ["", wrap_text(f"Not kept as a calibration: {result.unkept.rstrip('.?')}.", "  ")]
    return "\n".join(out)


def _spread(statistics: RequestStatistics | None, scale: float) -> list[str]:
    return (
        ["-"] * 4
        if statistics is None
        else [f"{v * scale:.3g}" for v in (statistics.mean, statistics.p50, statistics.p95, statistics.p99)]
    )


def _interval(interval: Interval | None, scale: float) -> str:
    if interval is None:
        return "-"
    return f"{interval.value * scale:.3g} ({interval.low * scale:.3g}-{interval.high * scale:.3g})"
