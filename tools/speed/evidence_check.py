"""Judge how measurements of a machine narrow its predictions: by rows of machines that the fit has not seen.

    python -m tools.speed.evidence_check tests/data/speed_rows.csv --share 0.5

A machine is one source with one device (and one engine version and model, where a source collects runs of many); rows
gathered from many people's machines are left out. A share of each machine's rows is given as measured, chosen at
random; the rest is predicted with them. Prints how wide the bounds are against those without, and what they hold.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from advisor import history
from advisor.catalog import catalog
from advisor.record import Value
from advisor.speed import evidence
from advisor.speed.efficiencies import EvidenceRules, SpeedRules, find_error_bound, load_engine_rules, load_speed_rules
from tools.speed.calibration_text import HeldOutPrediction
from tools.speed.held_out import leave_out, name_device
from tools.speed.rows import FitSample, make_samples, read_measured_rows

MANY_PEOPLE = ("AlexsJones/llmfit", "localmaxxing")  # begin the names of sources that gather rows of many machines
COLLECTED = "silicon_sample"  # in the name of the source with runs of many versions
LEAST = 6  # rows of a machine
MOST = 160  # rows of a machine that are used


class NarrowedBounds(Value, frozen=True):
    """Medians over the rows that were not given: width with evidence over width without, and errors; shares inside."""

    machines: int
    rows: int
    width: float
    covered_before: float
    covered: float
    error_before: float
    error: float


def narrow_bounds(
    predictions: Sequence[HeldOutPrediction], table: SpeedRules, rules: EvidenceRules, share: float, seed: int = 1
) -> NarrowedBounds:
    """`predictions` are those of fits without the machine. All figures are percent but counts and the width."""
    machines: dict[tuple[str, ...], list[HeldOutPrediction]] = defaultdict(list)
    for p in predictions:
        if not p.sample.row.source.startswith(MANY_PEOPLE):
            machines[_machine(p.sample)].append(p)
    generator = random.Random(seed)  # noqa: S311 - a sample
    widths, before, after, errors_before, errors, used = [], [], [], [], [], 0
    for _, mine in sorted(machines.items()):
        if len(mine) < LEAST:
            continue
        used += 1
        chosen = generator.sample(mine, min(MOST, len(mine)))
        given = chosen[: int(share * len(chosen))]
        known = tuple(_measurement(p, table) for p in given)
        for p in chosen[len(given) :]:
            row, bound = p.sample.row, find_error_bound(table, p.sample.keys, p.sample.row.kind).factor
            of = evidence.Evidence(
                tuple(m for m in known if m.engine == p.sample.keys.engine), row.request.model,
                row.request.quantization or "", p.sample.keys.format, _layout(p.sample), rules,
            )  # fmt: skip
            adjustment = of.adjust(row.kind, row.load, bound) if of.measurements else evidence.Adjustment(1.0, bound)
            factor, narrowed = adjustment.factor, adjustment.bound
            off = math.log(_ratio(p))
            widths.append((narrowed - 1 / narrowed) / (bound - 1 / bound))
            before.append(abs(off) <= math.log(bound))
            after.append(abs(off - math.log(factor)) <= math.log(narrowed))
            errors_before.append(abs(math.expm1(-off)))
            errors.append(abs(math.expm1(math.log(factor) - off)))
    return NarrowedBounds(
        used, len(widths), statistics.median(widths), 100 * statistics.mean(before), 100 * statistics.mean(after),
        100 * statistics.median(errors_before), 100 * statistics.median(errors),
    )  # fmt: skip


def _machine(sample: FitSample) -> tuple[str, ...]:
    request, source = sample.row.request, sample.row.source
    more = (request.engine, request.engine_version or "", request.model) if COLLECTED in source else ()
    return (source, name_device(sample), *more)


def _layout(sample: FitSample) -> str:
    settings = sorted(sample.row.request.settings.items()) if sample.keys.family == "server" else ()
    return f"{sample.row.request.hardware} {settings}"


def _ratio(prediction: HeldOutPrediction) -> float:
    """Measured over predicted rate."""
    ratio = prediction.sample.row.value / prediction.predicted
    return 1 / ratio if prediction.sample.row.kind in evidence.TIMES else ratio


def _measurement(prediction: HeldOutPrediction, table: SpeedRules) -> history.SpeedMeasurement:
    row, keys = prediction.sample.row, prediction.sample.keys
    return history.SpeedMeasurement(
        date=row.date, machine="", engine=keys.engine, model=row.request.model,
        quantization=row.request.quantization or "", format=keys.format, layout=_layout(prediction.sample),
        kind=row.kind, concurrency=row.load.concurrency, prompt_tokens=row.load.prompt, output_tokens=row.load.output,
        depth_tokens=row.load.depth, measured=row.value, ratio=_ratio(prediction),
        bound=find_error_bound(table, keys, row.kind).factor, tool="row",
    )  # fmt: skip


def describe_narrowed(found: NarrowedBounds, share: float) -> str:
    """One line."""
    return (
        f"{share:.0%} of the rows of {found.machines} machines given, {found.rows} predicted: "
        f"bounds x{found.width:.2f} as wide, {found.covered:.1f} % inside ({found.covered_before:.1f} % without), "
        f"median error {found.error:.1f} % ({found.error_before:.1f} % without)"
    )


def main(arguments: Sequence[str]) -> int:
    """The command."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.speed.evidence_check", description=about)
    parser.add_argument("rows", nargs="+", type=Path, help="CSV with the columns of tests/data/speed_rows.csv")
    parser.add_argument("--share", type=float, default=0.5, help="of each machine's rows that are given (%(default)s)")
    options = parser.parse_args(arguments)
    rules = catalog()
    rows = make_samples([r for path in options.rows for r in read_measured_rows(path)], rules)
    unseen = leave_out(rows, "machine").unseen
    found = narrow_bounds(unseen, load_speed_rules(rules), load_engine_rules(rules).evidence, options.share)
    sys.stdout.write(describe_narrowed(found, options.share) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
