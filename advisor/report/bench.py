"""`advise bench` as text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.bench.guidellm import Spread
from advisor.bench.run import Answer
from advisor.deployment import Interval
from advisor.report.text import paint, table, wrap
from advisor.speed.local import Run
from advisor.units import rate


def benched(x: Answer) -> str:
    """What was measured beside what was predicted, and what becomes of it."""
    m, p = x.measured, x.predicted
    engine = " ".join(w for w in (x.engine or "engine not known", x.endpoint.engine_version) if w)
    named = f"{x.model} {x.quantization or ''}".strip() if x.model else x.endpoint.models[0]
    out = [paint(f"{named} on {engine} at {x.endpoint.url}", "bold")]
    failed = f", {m.failed} failed" if m.failed else ""
    out.append(wrap(
        f"{m.requests} requests{failed}, {m.concurrency} at once, {m.prompt_tokens:.0f} tokens of prompt and "
        f"{m.output_tokens:.0f} of answer each, in {m.seconds:.0f} s ({m.tool})", "  "))  # fmt: skip
    rows = []
    if x.alone is not None:
        rows = [
            ["alone: first token, s", *_spread(x.alone.ttft_s, 1), ""],
            ["alone: between tokens, ms", *_spread(x.alone.tpot_s, 1000), ""],
        ]
    rows += [
        ["first token, s", *_spread(m.ttft_s, 1), _interval(p.ttft_s if p else None, 1)],
        ["between tokens, ms", *_spread(m.tpot_s, 1000), _interval(p.tpot_s if p else None, 1000)],
        ["tokens/s all", rate(m.output_tps), "", "", "", _interval(p.output_tps if p else None, 1)],
        ["requests/s", f"{m.requests_per_second:.3g}", "", "", "", ""],
    ]
    out += ["", table(rows, ("", "mean", "P50", "P95", "P99", "predicted"), "lrrrrr")]
    if x.unpredicted:
        out += ["", wrap(f"No prediction: {x.unpredicted}.", "  ")]
    if x.calibration is not None:
        c = x.calibration
        said = f"Decoding runs at x{c.decode:.2f} and prompts at x{c.prefill:.2f} of the predicted rate."
        if x.kept:
            said += (f" Kept in {x.kept}: predictions for this machine (`--on this`) use it from now on; "
                     "`advise bench --forget` removes it.")  # fmt: skip
        out += ["", wrap(said, "  ")]
    if x.unkept:
        out += ["", wrap(f"Not kept as a calibration: {x.unkept.rstrip('.?')}.", "  ")]
    return "\n".join(out)


def runs(kept: Sequence[Run]) -> str:
    """All runs that are kept."""
    if not kept:
        return "Nothing was measured on this machine yet: `advise bench URL`."
    rows = [
        [r.date, r.engine, f"{r.model.rpartition('/')[2][:26]} {r.quantization}", r.concurrency,
         f"{r.prompt_tokens}+{r.output_tokens}", f"x{r.decode:.2f}", f"x{r.prefill:.2f}"]
        for r in kept
    ]  # fmt: skip
    return table(rows, ("date", "engine", "model", "at once", "tokens", "decode", "prompt"), "lllrrrr", indent="")


def _spread(s: Spread | None, scale: float) -> list[str]:
    return ["-"] * 4 if s is None else [f"{v * scale:.3g}" for v in (s.mean, s.p50, s.p95, s.p99)]


def _interval(i: Interval | None, scale: float) -> str:
    if i is None:
        return "-"
    return f"{i.value * scale:.3g} ({i.low * scale:.3g}-{i.high * scale:.3g})"
