"""What a calibration leaves: the text of rules/speed.yaml, and its errors per class in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from advisor.record import Value
from advisor.speed.efficiencies import UNMEASURED
from tools.speed.rows import FitSample

COVERED = 0.76  # share of rows of unseen model families that the bounds are made to hold; of seen ones some 0.88
LENT = 15  # rows of the parent that count next to a class's own when its bounds are made
LEAST = 5  # rows a class needs for bounds of its own
SMALL = 0.005  # logarithm below which a factor is not worth a line


# what is reported together -> kinds of rows
QUANTITIES = {
    "decode, one request": ("decode",),
    "prefill": ("prefill",),
    "closed loop": ("closed", "static"),
    "offline throughput": ("offline",),
    "time between tokens": ("tpot",),
    "time to first token": ("ttft",),
}


class HeldOutPrediction(Value, frozen=True):
    """A row predicted by a fit that had not seen its like."""

    sample: FitSample
    predicted: float
    rate: float = 0.0  # output tokens a second of all requests, as predicted for the same load

    @property
    def log(self) -> float:
        """Logarithm of predicted over measured."""
        return math.log(self.predicted / self.sample.row.value)

    @property
    def relative(self) -> float:
        """|predicted - measured| / measured."""
        return abs(self.predicted / self.sample.row.value - 1)


class JudgedFits(Value, frozen=True):
    """What was left out of the fit -> errors of its rows by quantity, and how well the predictions choose."""

    left_out: dict[str, dict[str, dict[str, float]]]
    choices: dict[str, dict[str, float]]


def quantile(values: Sequence[float], p: float) -> float:
    """The nearest-rank quantile of values, which must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(p * (len(ordered) - 1)))]


def held_out_errors(errors: Sequence[HeldOutPrediction]) -> dict[str, dict[str, float]]:
    """Rows and errors in percent of each quantity."""
    out = {}
    for name, kinds in QUANTITIES.items():
        mine = [100 * e.relative for e in errors if e.sample.row.kind in kinds]
        if mine:
            out[name] = {
                "rows": len(mine),
                "median_error": round(quantile(mine, 0.5), 1),
                "p90_error": round(quantile(mine, 0.9), 1),
            }
    return out


def spread_by_class(
    errors: Sequence[HeldOutPrediction], unseen: Sequence[HeldOutPrediction] = ()
) -> dict[str, dict[str, dict[str, float]]]:
    """Per kind of quantity and class: rows, errors in percent, the bound's factor, what it covers. `unseen`: the same
    rows, each predicted without any of its class and kind, for bounds of what nobody measured."""
    by_kind: dict[str, dict[str, list[HeldOutPrediction]]] = defaultdict(lambda: defaultdict(list))
    for prediction in errors:
        keys = prediction.sample.keys
        for name in dict.fromkeys(
            ("all", keys.family, f"{keys.family}/{keys.vendor}", f"{keys.family}/{keys.hardware}", *keys.cells)
        ):
            by_kind[prediction.sample.row.kind][name].append(prediction)
    out: dict[str, dict[str, dict[str, float]]] = {}
    for kind, classes in by_kind.items():
        whole = [abs(e.log) for e in classes["all"]]
        out[kind] = {}
        for name, mine in sorted(classes.items()):
            if len(mine) < LEAST and name != "all":
                continue
            lent = [quantile(whole, (i + 0.5) / LENT) for i in range(LENT)] if name != "all" else []
            out[kind][name] = _spread(mine, lent)
        left_out = [e for e in unseen if e.sample.row.kind == kind]
        if left_out:
            out[kind][UNMEASURED] = _spread(_even_out(left_out), [])
    return out


def _spread(mine: Sequence[HeldOutPrediction], lent: Sequence[float]) -> dict[str, float]:
    """Errors of a class; `lent`: logarithms of its parent's that count next to its own."""
    logs = [abs(e.log) for e in mine]
    bound = math.exp(max(0.03, quantile([*logs, *lent], COVERED)))
    return {
        "rows": len(mine),
        "median_error": round(100 * quantile([e.relative for e in mine], 0.5), 1),
        "p90_error": round(100 * quantile([e.relative for e in mine], 0.9), 1),
        "bound": round(bound, 3),
        "covered": round(100 * sum(x <= math.log(bound) for x in logs) / len(logs)),
    }


def _even_out(errors: Sequence[HeldOutPrediction]) -> list[HeldOutPrediction]:
    """The same number of rows of each class, evenly over its errors: the next class is as any of these."""
    by_class: dict[str, list[HeldOutPrediction]] = defaultdict(list)
    for e in errors:
        by_class[next(iter(e.sample.keys.cells))].append(e)
    out = []
    for mine in by_class.values():
        ordered = sorted(mine, key=lambda e: e.log)
        out += [ordered[int((i + 0.5) * len(ordered) / LENT)] for i in range(LENT)]
    return out


def make_speed_rules(
    head: Mapping[str, str],
    coefficients: Mapping[str, tuple[str, str, float, Mapping[str, float]]],
    figures: Mapping[str, Mapping[str, float]],
    errors: Mapping[str, Mapping[str, Mapping[str, float]]],
    judged: JudgedFits | None = None,
) -> str:
    """rules/speed.yaml. `coefficients`: name -> unit, meaning, base, factors."""
    out = [
        "# How much of the hardware's peak rates inference reaches. Made by the command below from measured rows; a",
        "# value is the base times every factor that applies (engine family, engine, vendor, hardware class, format",
        "# class, or two of them); what is not listed has factor 1. Change rows and run the command, not this file.",
        *(f"{k}: {_quoted(v)}" for k, v in head.items()),
        "coefficients:",
    ]
    for name, (unit, means, base, factors) in coefficients.items():
        out += [f"  {name}:", f"    unit: {unit}", f"    means: {_quoted(means)}", f"    base: {_number(base)}"]
        kept = {f: x for f, x in factors.items() if abs(math.log(x)) >= SMALL}
        if not kept:
            out.append("    factors: {}")
            continue
        out.append("    factors:")
        out += _wrapped([f"{f}: {_number(x)}" for f, x in sorted(kept.items())], "      ")
    out += ["# Errors of rows predicted by a fit without any model of their family, percent.", _head("unseen", figures)]
    out += [f"  {name}: {_flow(e)}" for name, e in figures.items()]
    out += ["# The same per kind of row and class; bounds: value / bound, value x bound.", _head("spread", errors)]
    for kind, classes in errors.items():
        out.append(f"  {kind}:")
        for name, e in classes.items():
            out.append(f"    {name}: {_flow(e)}")
    if judged is not None:
        out += [
            "# The errors of `unseen` with something else left out of the fit whole.",
            _head("left_out", judged.left_out),
        ]
        for by, quantities in judged.left_out.items():
            out.append(f"  {by}:")
            out += [f"    {name}: {_flow(e)}" for name, e in quantities.items()]
        out += ["# Choices between measured configurations (tools/speed/held_out.py), percent."]
        out += [_head("choices", judged.choices)]
        out += [f"  {by}: {_flow(figures)}" for by, figures in judged.choices.items()]
    return "\n".join(out) + "\n"


def _head(name: str, entries: Mapping[str, object]) -> str:
    """The key of a block; of one without entries the whole of it."""
    return f"{name}:" if entries else f"{name}: {{}}"


def _flow(numbers: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{k}: {round(v, 3):g}" for k, v in numbers.items()) + "}"


def _number(x: float) -> str:
    """Three digits, in a form that YAML 1.1 reads as a number too (`2.0e-05`)."""
    shown = f"{x:.3g}"
    mantissa, e, exponent = shown.partition("e")
    return shown if not e or "." in mantissa else f"{mantissa}.0e{exponent}"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _wrapped(items: Sequence[str], indent: str) -> list[str]:
    """One item a line: YAML's block form, so that a change shows as the lines it touches."""
    return [indent + x for x in items]


def describe_errors(fitted: Sequence[HeldOutPrediction], unseen: Sequence[HeldOutPrediction]) -> list[str]:
    """Errors per kind of quantity and hardware class: fitted, and unseen."""
    out = [
        f"{'quantity, class':34} {'rows':>5}  {'fitted':>13}  {'unseen':>13}  bias %   (median / 90th percentile, %)"
    ]
    for kind, kinds in QUANTITIES.items():
        pairs = [(a, b) for a, b in zip(fitted, unseen, strict=True) if a.sample.row.kind in kinds]
        if not pairs:
            continue
        out.append(_line(kind, pairs))
        for name in sorted({a.sample.row.hardware_class for a, _ in pairs}):
            out.append(_line(f"  {name}", [x for x in pairs if x[0].sample.row.hardware_class == name]))
    return out


def _line(label: str, pairs: Sequence[tuple[HeldOutPrediction, HeldOutPrediction]]) -> str:
    def two(k: int) -> str:
        errors = [100 * x[k].relative for x in pairs]
        return f"{quantile(errors, 0.5):6.1f} {quantile(errors, 0.9):6.1f}"

    bias = 100 * (math.exp(quantile([b.log for _, b in pairs], 0.5)) - 1)
    return f"{label:34} {len(pairs):5}  {two(0)}  {two(1)}  {bias:6.1f}"
