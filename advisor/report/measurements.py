"""What was measured as text, next to its prediction: `advise bench`, `calibrate` and `run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.bench.guidellm import RequestStatistics
from advisor.bench.run import BenchResult
from advisor.calibration.calibrate import ComparedPart, FileCalibration, LogCalibration, SpeedCalibration
from advisor.decoding import Json
from advisor.deployment import SpeedEstimate
from advisor.history import MemoryResidual, SpeedMeasurement
from advisor.report.text import align_table, bullets, format_bounds, list_section, paint, wrap_text
from advisor.speed.evidence import TIMES
from advisor.speed.measured_load import ComparedSpeed
from advisor.units import GIB, MIB, format_rate

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
         format_bounds(c.before, _numbers(c.kind)), format_bounds(c.after, _numbers(c.kind))]
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


def _numbers(kind: str) -> Callable[[float], str]:
    """How quantities of a kind are written."""
    return lambda x: _number(x * _scale(kind))


def _scale(kind: str) -> float:
    return 1000.0 if kind in TIMES else 1.0


def _number(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def describe_bench(result: BenchResult) -> str:
    """What was measured compared with what was predicted, and what becomes of it."""
    measured, predicted = result.measured, result.predicted or SpeedEstimate()
    engine = " ".join(w for w in (result.engine or "engine not known", result.endpoint.engine_version) if w)
    named = f"{result.model} {result.quantization or ''}".strip() if result.model else result.endpoint.models[0]
    out = [paint(f"{named} on {engine} at {result.endpoint.url}", "bold")]
    failed = f", {measured.failed} failed" if measured.failed else ""
    load = f"{measured.prompt_tokens:.0f} tokens of prompt and {measured.output_tokens:.0f} of answer each"
    asked = f"{measured.requests} requests{failed}, {measured.concurrency} at once, {load}"
    out.append(wrap_text(f"{asked}, in {measured.seconds:.0f} s ({measured.tool})", "  "))
    rows = []
    if result.alone is not None:
        rows = [
            ["alone: first token, s", *_spread(result.alone.ttft_s, 1), ""],
            ["alone: between tokens, ms", *_spread(result.alone.tpot_s, 1000), ""],
        ]
    rows += [
        ["first token, s", *_spread(measured.ttft_s, 1), format_bounds(predicted.ttft_s, _digits)],
        [
            "between tokens, ms",
            *_spread(measured.tpot_s, 1000),
            format_bounds(predicted.tpot_s, lambda seconds: _digits(1000 * seconds)),
        ],
        ["tokens/s all", format_rate(measured.output_tps), "", "", "", format_bounds(predicted.output_tps, _digits)],
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


def _digits(x: float) -> str:
    return f"{x:.3g}"


def _spread(statistics: RequestStatistics | None, scale: float) -> list[str]:
    return (
        ["-"] * 4
        if statistics is None
        else [f"{v * scale:.3g}" for v in (statistics.mean, statistics.p50, statistics.p95, statistics.p99)]
    )


def describe_calibrations(found: FileCalibration) -> str:
    """What a file reports about memory and speed."""
    memory = describe_calibration(found.memory) if found.memory is not None else ""
    speed = describe_speed_calibration(found.speed) if found.speed is not None else ""
    return "\n\n".join(x for x in (memory, speed) if x)


def describe_speed_calibration(calibration: SpeedCalibration) -> str:
    """Speeds that were measured compared with those predicted before and now."""
    engine = " ".join(w for w in (calibration.engine, calibration.engine_version) if w)
    out = [
        paint(f"{calibration.model} {calibration.quantization} on {engine}, by {calibration.tool}", "bold"),
        wrap_text(calibration.hardware, "  "),
        "",
        describe_compared(calibration.compared),
    ]
    return "\n".join([*out, *_after(calibration, "this machine and engine")])


def describe_calibration(calibration: LogCalibration) -> str:
    """What was predicted compared with what was logged, and what becomes of it."""
    engine = " ".join(w for w in (calibration.engine, calibration.engine_version) if w)
    out = [
        paint(f"{calibration.model} {calibration.quantization} on {engine}", "bold"),
        wrap_text(calibration.hardware, "  "),
    ]
    if calibration.settings:
        out.append(wrap_text(", ".join(f"{k} {v}" for k, v in calibration.settings.items()), "  "))
    large = any(p.logged >= GIB for p in calibration.parts if p.unit == "bytes")
    unit, name = (GIB, "GiB") if large else (MIB, "MiB")
    rows = [_row(p, unit) for p in calibration.parts]
    out += ["", align_table(rows, ("place", name, "predicted", "bounds", "logged", "difference"), "llrrrr")]
    return "\n".join([*out, *_after(calibration, "this machine, engine release and class of model")])


def _after(calibration: LogCalibration | SpeedCalibration, of: str) -> list[str]:
    """What becomes of it, and what was taken for granted."""
    out = []
    if calibration.kept is not None:
        said = (f"Kept in {calibration.kept}: answers for {of} use it from now on and say so; `advise calibrate "
                "--forget` removes it.")  # fmt: skip
        out += ["", wrap_text(said, "  ")]
    if calibration.unkept:
        out += ["", wrap_text(f"Not kept: {calibration.unkept.rstrip('.?')}.", "  ")]
    return out + list_section("Notes", calibration.notes)


def _row(part: ComparedPart, unit: int) -> list[str]:
    if part.unit == "tokens":
        delta = "" if part.predicted is None else f"{part.logged - part.predicted:+,}"
        return [part.place, part.part, "-" if part.predicted is None else f"{part.predicted:,}", "",
                f"{part.logged:,}", delta]  # fmt: skip
    bounds = "" if part.low is None or part.high is None else f"{part.low / unit:.2f}-{part.high / unit:.2f}"
    predicted = "-" if part.predicted is None else f"{part.predicted / unit:.2f}"
    delta = "" if part.predicted is None else f"{(part.logged - part.predicted) / unit:+.2f}"
    return [part.place[:24], part.part, predicted, bounds, f"{part.logged / unit:.2f}", delta]


def describe_residuals(kept: Sequence[MemoryResidual]) -> str:
    """All that is kept."""
    if not kept:
        return "No start-up log was read on this machine yet: `advise calibrate FILE`."
    rows = [
        [r.date, r.machine.partition(";")[0][:22], f"{r.engine} {r.engine_version or ''}".strip()[:18],
         f"{r.model.rpartition('/')[2][:20]} {r.quantization}"[:28], f"{r.weights_bytes / GIB:+.2f}",
         f"{r.beside_bytes / GIB:+.2f}"]
        for r in kept
    ]  # fmt: skip
    heads = ("date", "machine", "engine", "model", "weights", "beside")
    return align_table(rows, heads, "llllrr", indent="") + "\nGiB of each device, logged less predicted."


def describe_run(answer: Json) -> str:
    """The answer in a few lines."""
    first, interval = answer["answer"], answer["answer"]["predicted_tps"]
    lines = [f"answers at {answer['url']} after {answer['started_s']:.0f} s"]
    rate = f"{format_rate(first['output_tps'])} tokens/s over {first['output_tokens']} tokens of one request"
    if interval is not None:
        inside = interval["low"] <= first["output_tps"] <= interval["high"]
        expected = f"{format_rate(interval['value'])} ({format_rate(interval['low'])}-{format_rate(interval['high'])})"
        rate += f"; predicted {expected}: {'within' if inside else 'outside'} the bounds"
    lines.append(rate)
    for part in (answer["memory"] or {}).get("parts", []):
        if part["unit"] == "bytes" and part["predicted"] is not None:
            both = f"{part['logged'] / MIB:,.0f} MiB logged, {part['predicted'] / MIB:,.0f} predicted"
            lines.append(f"{part['part']} on {part['place']}: {both}")
    return "\n".join([f"{answer['engine']} with {answer['model']}", *bullets(lines)])
