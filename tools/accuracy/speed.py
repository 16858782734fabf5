"""The speed section of docs/accuracy.md: errors on unseen rows by class, compared with the simplest roofline."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from advisor.catalog import Catalog
from advisor.record import Value
from advisor.speed.efficiencies import HeldOutSpread, SpeedRules, find_error_bound, load_speed_rules
from tools.speed.calibration_text import LEAST, quantile
from tools.speed.rows import FitSample, make_samples, predict_sample, read_measured_rows

NAMES = {
    "decode": "Decode, one request",
    "prefill": "Prefill",
    "closed": "Output of all requests, closed loop",
    "static": "Decode of a batch, prompts timed apart",
    "offline": "Output of all requests, everything queued at once",
    "tpot": "Time between tokens, data centre",
    "ttft": "Time to first token, data centre",
}
# The simplest roofline per class on rows kept apart, as published with the rows: median / 90th percentile, percent
PUBLISHED_ROOFLINE = {
    "decode, one request": "27 / 104",
    "prefill": "40 / 99",
    "closed loop": "31 / 103",
    "offline throughput": "55 / 217",
}


class SpeedComparison(Value, frozen=True):
    """A row with our answer and the roofline's (None where it has none)."""

    sample: FitSample
    ours: float
    roofline: float | None
    held: bool


def make_speed_section(data: Path, rules: Catalog) -> list[str]:
    """Lines of the page."""
    table = load_speed_rules(rules)
    rows = make_samples(list(read_measured_rows(data / "speed_rows.csv")), rules)
    judged = _judged(rows, table)
    return [
        "## Speed",
        "",
        f"{len(rows)} measured figures of `speed_rows.csv` (published up to {table.as_of}). What is modelled and what",
        "is not: [speed.md](speed.md). *Unseen*: each model family predicted by a fit without it; *fitted*: by the",
        "rules as shipped. Median / 90th percentile of the absolute error, percent.",
        "*Roofline*: one efficiency per hardware class, peak bandwidth or peak compute and active parameters only; its",
        "efficiencies are fitted to the very rows it is judged on. Inside: share of rows within our [low, high].",
        "",
        *_overall(judged, table),
        "",
        *_left_out(table),
        *_published(data),
        "",
        "The simplest roofline on rows kept apart, as published with the rows:",
        f"{', '.join(f'{k} {v}' for k, v in PUBLISHED_ROOFLINE.items())}.",
        "",
        *(line for kind in NAMES for line in _by_class(kind, judged, table)),
        *_by_engine(judged),
        "",
        *_where_not(judged, table),
        "",
    ]


def _left_out(table: SpeedRules) -> list[str]:
    """Errors with something left out of the fit whole, and choices."""
    if not table.left_out:
        return []
    kinds = ("family", *table.left_out)
    out = [
        "**Left out of the fit whole**, median / 90th percentile of the error of its rows, percent:",
        "",
        f"| quantity | {' | '.join(f'model {k}' if k == 'family' else k for k in kinds)} |",
        "| --- |" + " --- |" * len(kinds),
    ]
    for quantity in table.unseen:
        cells = [(table.unseen if k == "family" else table.left_out[k]).get(quantity) for k in kinds]
        out.append(
            f"| {quantity} | {' | '.join(f'{c.median_error:.0f} / {c.p90_error:.0f}' if c else '-' for c in cells)} |"
        )
    out += [
        "",
        "Choosing between measured configurations of one engine, model and device under a target for the time between",
        "tokens: how often the choice misses the target by over a tenth, and how far its measured rate is below the",
        "best that meets it.",
        "",
        "| left out of the fit | questions | misses | regret, mean | regret, P90 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, c in table.choices.items():
        out.append(f"| {name} | {c.questions} | {c.violations:.1f} % | {c.mean_regret:.1f} % | {c.p90_regret:.1f} % |")
    return [*out, ""]


def _published(data: Path) -> list[str]:
    """What others publish of theirs: on other rows, so no ranking."""
    with (data / "published_errors.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    out = [
        "What others publish of their own predictions (other rows, so no ranking):",
        "",
        "| tool | quantity | error | judged on | source |",
        "| --- | --- | --- | --- | --- |",
    ]
    return out + [f"| {r['tool']} | {r['quantity']} | {r['error']} | {r['judged_on']} | {r['source']} |" for r in rows]


def _judged(rows: Sequence[FitSample], table: SpeedRules) -> list[SpeedComparison]:
    fits: dict[tuple[str, str], list[float]] = defaultdict(list)
    ideals = [_ideal(s) for s in rows]
    for sample, ideal in zip(rows, ideals, strict=True):
        if ideal:
            fits[sample.row.kind, sample.row.hardware_class].append(sample.row.value / ideal)
    share = {k: statistics.median(v) for k, v in fits.items()}
    out = []
    for sample, ideal in zip(rows, ideals, strict=True):
        ours = predict_sample(sample, table)
        wide = find_error_bound(table, sample.keys, sample.row.kind).factor
        roofline = ideal * share[sample.row.kind, sample.row.hardware_class] if ideal else None
        out.append(SpeedComparison(sample, ours, roofline, ours / wide <= sample.row.value <= ours * wide))
    return out


def _ideal(sample: FitSample) -> float | None:
    """Rate at peak bandwidth over weights (decode), at peak compute over products without attention (prefill)."""
    if sample.row.kind == "decode":
        seconds = sample.steps.decode.weights_s + sample.steps.decode.experts_s
        return 1 / seconds if seconds else None
    if sample.row.kind == "prefill":
        seconds = sample.steps.prefill.products_s * sample.steps.chunks
        return sample.row.load.prompt / seconds if seconds else None
    return None


def _error(pairs: Sequence[tuple[float, float]]) -> str:
    if not pairs:
        return "-"
    errors = [100 * abs(a / b - 1) for a, b in pairs]
    return f"{quantile(errors, 0.5):.0f} / {quantile(errors, 0.9):.0f}"


def _ours(rows: Sequence[SpeedComparison]) -> str:
    return _error([(j.ours, j.sample.row.value) for j in rows])


def _roofline(rows: Sequence[SpeedComparison]) -> str:
    return _error([(j.roofline, j.sample.row.value) for j in rows if j.roofline is not None])


def _inside(rows: Sequence[SpeedComparison]) -> str:
    return f"{100 * sum(j.held for j in rows) / len(rows):.0f} %"


def _overall(judged: Sequence[SpeedComparison], table: SpeedRules) -> list[str]:
    out = [
        "| quantity | rows | unseen | fitted | roofline | inside | bounds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, name in NAMES.items():
        rows = [j for j in judged if j.sample.row.kind == kind]
        if not rows:
            continue
        held_out_spread = table.spread[kind]["all"]
        wide = statistics.median(find_error_bound(table, j.sample.keys, kind).factor for j in rows)
        cells = (str(len(rows)), _two(held_out_spread), _ours(rows), _roofline(rows), _inside(rows), f"x/÷ {wide:.2f}")
        out.append(f"| {name} | {' | '.join(cells)} |")
    return out


def _two(held_out_spread: HeldOutSpread) -> str:
    return f"{held_out_spread.median_error:.0f} / {held_out_spread.p90_error:.0f}"


def _by_class(kind: str, judged: Sequence[SpeedComparison], table: SpeedRules) -> list[str]:
    groups: dict[str, list[SpeedComparison]] = defaultdict(list)
    for speed_comparison in judged:
        if speed_comparison.sample.row.kind == kind:
            groups[f"{speed_comparison.sample.keys.family}/{speed_comparison.sample.keys.hardware}"].append(
                speed_comparison
            )
    known = {k: v for k, v in sorted(groups.items()) if k in table.spread[kind] and len(v) >= LEAST}
    if not known:
        return []
    head = f"**{NAMES[kind]}**, by engine family and hardware class:"
    out = [head, "", "| class | rows | unseen | fitted | roofline | inside |", "| --- | --- | --- | --- | --- | --- |"]
    for name, rows in known.items():
        held_out_spread = table.spread[kind][name]
        out.append(
            f"| {name} | {len(rows)} | {_two(held_out_spread)} | {_ours(rows)} | {_roofline(rows)} | {_inside(rows)} |"
        )
    return [*out, ""]


def _by_engine(judged: Sequence[SpeedComparison]) -> list[str]:
    groups: dict[str, dict[str, list[SpeedComparison]]] = defaultdict(lambda: defaultdict(list))
    for speed_comparison in judged:
        groups[speed_comparison.sample.keys.engine][speed_comparison.sample.row.kind].append(speed_comparison)
    shown = ("decode", "prefill", "closed", "offline", "tpot")
    out = [
        "**Fitted, by engine** (rows: error):",
        "",
        f"| engine | {' | '.join(shown)} |",
        "| --- |" + " --- |" * len(shown),
    ]
    for engine, kinds in sorted(groups.items()):
        cells = [f"{len(kinds[k])}: {_ours(kinds[k])}" if kinds[k] else "-" for k in shown]
        out.append(f"| {engine} | {' | '.join(cells)} |")
    return out


def _where_not(judged: Sequence[SpeedComparison], table: SpeedRules) -> list[str]:
    """Classes where unseen rows are predicted no better than by the roofline fitted to them."""
    worse = []
    for kind in ("decode", "prefill"):
        groups: dict[str, list[SpeedComparison]] = defaultdict(list)
        for speed_comparison in judged:
            if speed_comparison.sample.row.kind == kind and speed_comparison.roofline is not None:
                groups[f"{speed_comparison.sample.keys.family}/{speed_comparison.sample.keys.hardware}"].append(
                    speed_comparison
                )
        for name, rows in sorted(groups.items()):
            held_out_spread = table.spread[kind].get(name)
            simple = quantile([100 * abs((j.roofline or 0) / j.sample.row.value - 1) for j in rows], 0.5)
            if held_out_spread is not None and held_out_spread.median_error >= simple:
                worse.append(
                    f"{kind} on {name} ({held_out_spread.median_error:.0f} against {simple:.0f} %, {len(rows)} rows)"
                )
    if not worse:
        return ["In every class above the median error is below the roofline's."]
    return ["No better than a roofline fitted to the same rows: " + "; ".join(worse) + "."]
