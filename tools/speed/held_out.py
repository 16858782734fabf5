"""Judge the speed model by what its fit has not seen: each family, hardware class or source left out whole.

    python -m tools.speed.held_out tests/data/speed_rows.csv --by family

The rows of each label are predicted by a fit of all other rows; their bounds are made from the errors of the other
labels. Prints the errors by quantity and hardware class, the coverage, and how well the predictions choose.
`--overlays DIR` writes the rules of each fold as DIR/<fold>/speed.yaml, to be given to any command with `--rules`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.catalog import catalog
from advisor.errors import BadInput
from advisor.record import Value
from advisor.speed.efficiencies import HeldOutSpread, find_bound_in
from tools.speed.calibration_text import (
    QUANTITIES,
    HeldOutPrediction,
    held_out_errors,
    make_speed_rules,
    quantile,
    spread_by_class,
)
from tools.speed.fit import (
    Coefficients,
    FitProblem,
    fit_coefficients,
    make_coefficients,
    make_problem,
    predict_rows,
    row_logs,
    select_rows,
)
from tools.speed.rows import FitSample, make_samples, read_measured_rows


def name_device(sample: FitSample) -> str:
    """The device without its count."""
    return re.sub(r"^\d+x ", "", sample.row.request.hardware or "")


PROMPTS = ("prefill", "ttft")  # quantities that prompts decide; the others are of answers
LABELS: dict[str, Callable[[FitSample], str]] = {
    "family": lambda s: s.family,
    "class": lambda s: f"{next(iter(s.keys.cells))}: {'prompts' if s.row.kind in PROMPTS else 'answers'}",
    "source": lambda s: s.row.source,
    "machine": lambda s: f"{s.row.source}: {name_device(s)}",
}
OWN_FOLD = 30  # rows from which a label is left out alone
SHARED_FOLDS = 4  # the others are dealt out over these
TARGETS_S = (0.010, 0.015, 0.020, 0.030, 0.050, 0.080, 0.120)  # between tokens of a request
LATE = 1.1  # a pick violates its target when it was measured so much above


class HeldOut(Value, frozen=True):
    """A fit of all rows, and each row as a fit without its label predicts it."""

    coefficients: Coefficients
    fitted: list[HeldOutPrediction]
    unseen: list[HeldOutPrediction]
    fold: list[str]  # of each row: its label, or the name of a shared fold
    of_fold: dict[str, Coefficients]


def assign_folds(rows: Sequence[FitSample], by: str) -> list[str]:
    """The fold of each row. Labels with few rows share folds: several are left out at once."""
    labels = [LABELS[by](s) for s in rows]
    count = Counter(labels)
    few = sorted(x for x, n in count.items() if n < OWN_FOLD)
    place = {x: f"others-{i % SHARED_FOLDS + 1}" for i, x in enumerate(few)}
    return [place.get(x, x) for x in labels]


def leave_out(rows: Sequence[FitSample], by: str | None) -> HeldOut:
    """Fits all rows, and once more without each fold; `by` None: the fit's own predictions stand in for the unseen."""
    import numpy as np

    problem = make_problem(rows)
    whole = fit_coefficients(problem)
    fitted = _predictions(rows, problem, whole)
    if by is None:
        return HeldOut(make_coefficients(problem, whole), fitted, fitted, ["all"] * len(rows), {})
    fold = assign_folds(rows, by)
    if len(set(fold)) < 2:
        raise BadInput(f"all rows are of one {by}: nothing is left to fit without it")
    unseen: list[HeldOutPrediction | None] = [None] * len(rows)
    of_fold = {}
    for name in sorted(set(fold)):
        held = np.array([i for i, f in enumerate(fold) if f == name])
        seen = np.array([i for i, f in enumerate(fold) if f != name])
        found = fit_coefficients(select_rows(problem, seen), whole, nearly=True)
        of_fold[name] = make_coefficients(problem, found)
        for i, p in zip(held, _predictions([rows[i] for i in held], select_rows(problem, held), found), strict=True):
            unseen[i] = p
    return HeldOut(make_coefficients(problem, whole), fitted, [p for p in unseen if p is not None], fold, of_fold)


def _predictions(rows: Sequence[FitSample], problem: FitProblem, unknowns: Any) -> list[HeldOutPrediction]:
    import numpy as np

    logs = row_logs(problem, unknowns)
    values = predict_rows(problem, logs)
    rates = predict_rows(replace(problem, kind=np.full(len(rows), "closed")), logs)
    return [HeldOutPrediction(s, float(v), float(r)) for s, v, r in zip(rows, values, rates, strict=True)]


class BoundFigures(Value, frozen=True):
    """Share of rows within bounds (percent), and the median of high over low, without times to first token."""

    covered: float
    high_over_low: float


def judge_bounds(made: HeldOut) -> BoundFigures:
    """Each row's bound comes from the errors of rows of other folds."""
    inside, wide = [], []
    for name in sorted(set(made.fold)):
        others = [p for p, f in zip(made.unseen, made.fold, strict=True) if f != name]
        spread = {
            kind: {c: HeldOutSpread(**e) for c, e in classes.items()}  # type: ignore[arg-type]
            for kind, classes in spread_by_class(others).items()
        }
        for p, f in zip(made.unseen, made.fold, strict=True):
            if f == name:
                bound = find_bound_in(spread, p.sample.keys, p.sample.row.kind).factor
                inside.append(1 / bound <= p.sample.row.value / p.predicted <= bound)
                if p.sample.row.kind != "ttft":
                    wide.append(bound**2)
    return BoundFigures(100 * sum(inside) / len(inside), statistics.median(wide))


def describe_held_out(made: HeldOut, by: str) -> list[str]:
    """Lines of text: all figures, fitted and held out."""
    names = sorted(set(made.fold))
    out = [
        f"{len(made.unseen)} figures, {len(names)} folds by {by}; absolute error, percent: median and 90th percentile",
        f"{'quantity':24} {'rows':>5}  {'fitted':>13}  {'left out':>13}",
    ]
    for quantity, kinds in QUANTITIES.items():
        pairs = [(a, b) for a, b in zip(made.fitted, made.unseen, strict=True) if a.sample.row.kind in kinds]
        if pairs:
            out.append(f"{quantity:24} {len(pairs):5}  {_two([a for a, _ in pairs])}  {_two([b for _, b in pairs])}")
    out += ["", "time between tokens by device, left out"]
    devices: dict[str, list[HeldOutPrediction]] = {}
    for p in made.unseen:
        if p.sample.row.kind == "tpot":
            devices.setdefault(name_device(p.sample), []).append(p)
    out += [f"  {name:22} {len(mine):5}  {'':13}  {_two(mine)}" for name, mine in sorted(devices.items())]
    bounds = judge_bounds(made)
    out += [
        "",
        f"inside bounds of other folds: {bounds.covered:.0f} %; median of high over low: {bounds.high_over_low:.2f}",
        f"choices, fitted:   {_choice(judge_choices(made.fitted))}",
        f"choices, left out: {_choice(judge_choices(made.unseen))}",
    ]
    return out


def _two(predictions: Sequence[HeldOutPrediction]) -> str:
    errors = [100 * p.relative for p in predictions]
    return f"{quantile(errors, 0.5):6.1f} {quantile(errors, 0.9):6.1f}"


def _choice(figures: ChoiceFigures | None) -> str:
    if figures is None:
        return "no sweep of several layouts"
    return (
        f"{figures.questions} questions, violations {figures.violations:.1f} %, "
        f"regret mean {figures.mean_regret:.1f} %, P90 {figures.p90_regret:.1f} %"
    )


def write_overlays(made: HeldOut, head: Mapping[str, str], folder: Path) -> int:
    """The rules of each fold below `folder`, their bounds from the other folds; how many were written."""
    for name, coefficients in made.of_fold.items():
        others = [p for p, f in zip(made.unseen, made.fold, strict=True) if f != name]
        where = folder / re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") / "speed.yaml"
        where.parent.mkdir(parents=True, exist_ok=True)
        text = make_speed_rules(head, coefficients, held_out_errors(others), spread_by_class(others))
        where.write_text(text, encoding="utf-8")
    return len(made.of_fold)


class MeasuredLayout(Value, frozen=True):
    """A measured configuration: what was measured and what is predicted; rates are tokens a second a device."""

    layout: str
    tpot_s: float
    rate: float
    predicted_tpot_s: float
    predicted_rate: float


class ChoiceFigures(Value, frozen=True):
    """Violations in percent of the questions; regret in percent of the best measured rate, where the target held."""

    questions: int
    violations: float
    mean_regret: float
    p90_regret: float


def judge_choices(predictions: Sequence[HeldOutPrediction]) -> ChoiceFigures | None:
    """How good the choice between measured configurations is that predictions lead to; None where there is none.

    A group is one engine, model, format and device at one prompt and output length; its candidates are the measured
    layouts and concurrencies. Under a target (most seconds between tokens of a request) the predicted best candidate,
    most output tokens a second a device among those predicted to meet the target, is looked up in what was measured.
    """
    late, regrets, questions = 0, [], 0
    for candidates in _groups(predictions):
        for target in TARGETS_S:
            meeting = [c for c in candidates if c.tpot_s <= target]
            if not meeting:
                continue
            picked = pick_candidate(candidates, target)
            questions += 1
            if picked.tpot_s > LATE * target:
                late += 1
            else:
                regrets.append(max(0.0, 1 - picked.rate / max(c.rate for c in meeting)))
    if not regrets:
        return None
    mean = sum(regrets) / len(regrets)
    return ChoiceFigures(questions, 100 * late / questions, 100 * mean, 100 * quantile(regrets, 0.9))


def pick_candidate(candidates: Sequence[MeasuredLayout], target_s: float) -> MeasuredLayout:
    """The predicted best one; where none is predicted to meet the target, the one nearest to it."""
    meeting = [c for c in candidates if c.predicted_tpot_s <= target_s]
    if not meeting:
        return min(candidates, key=lambda c: c.predicted_tpot_s)
    return max(meeting, key=lambda c: c.predicted_rate)


def _groups(predictions: Sequence[HeldOutPrediction]) -> Iterator[list[MeasuredLayout]]:
    pairs: dict[str, dict[str, HeldOutPrediction]] = defaultdict(dict)
    for p in predictions:
        if p.sample.row.kind in ("tpot", "ttft"):
            pairs[p.sample.row.id][p.sample.row.kind] = p
    groups: dict[tuple[object, ...], list[MeasuredLayout]] = defaultdict(list)
    for pair in pairs.values():
        if len(pair) == 2:
            sample = pair["tpot"].sample
            groups[_group(sample)].append(_candidate(pair["tpot"], pair["ttft"].sample.row.value))
    for _, candidates in sorted(groups.items(), key=lambda x: str(x[0])):
        if len({c.layout for c in candidates}) > 1:
            yield candidates


def _group(sample: FitSample) -> tuple[object, ...]:
    r = sample.row.request
    device = re.sub(r"^\d+x ", "", r.hardware or "")
    return r.engine, r.model, r.quantization, device, sample.row.load.prompt, sample.row.load.output


def _candidate(tpot: HeldOutPrediction, ttft_s: float) -> MeasuredLayout:
    row = tpot.sample.row
    found = re.match(r"(\d+)x ", row.request.hardware or "")
    devices = int(found[1]) if found else 1
    seconds = ttft_s + (row.load.output - 1) * row.value
    return MeasuredLayout(
        layout=f"{row.request.hardware} {sorted(row.request.settings.items())}",
        tpot_s=row.value,
        rate=row.load.concurrency * row.load.output / seconds / devices,
        predicted_tpot_s=tpot.predicted,
        predicted_rate=tpot.rate / devices,
    )


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.speed.held_out", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rows", nargs="+", type=Path, help="CSV with the columns of tests/data/speed_rows.csv")
    parser.add_argument("--by", choices=sorted(LABELS), default="family", help="what is left out whole (%(default)s)")
    parser.add_argument("--overlays", type=Path, metavar="DIR", help="write the rules of each fold below DIR")
    options = parser.parse_args(arguments)
    measured = [r for path in options.rows for r in read_measured_rows(path)]
    made = leave_out(make_samples(measured, catalog()), options.by)
    sys.stdout.write("\n".join(describe_held_out(made, options.by)) + "\n")
    if options.overlays:
        head = {
            "source": f"published measurements without one {options.by}",
            "as_of": max(r.date for r in measured),
            "command": f"python -m tools.speed.held_out {' '.join(map(str, options.rows))} --by {options.by}",
        }
        sys.stdout.write(f"{write_overlays(made, head, options.overlays)} overlays in {options.overlays}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
