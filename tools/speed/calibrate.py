"""Write rules/speed.yaml from measured rows, with how well rows are predicted that the fit had not seen.

    python -m tools.speed.calibrate tests/data/speed_rows.csv rules/speed.yaml --force

The efficiencies are fitted to all rows (coefficient_fit). The errors and bounds are those of rows whose model family
was left out of the fit whole (held_out): what is reported about a model that nobody measured. Where an engine has no
rows of prompts or of answers on a class of hardware, bounds are those of rows whose class was left out so. The errors
with sources left out stand next to them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec.structs import asdict

from advisor.catalog import catalog
from tools.speed.calibration_text import (
    JudgedFits,
    describe_errors,
    held_out_errors,
    make_speed_rules,
    spread_by_class,
)
from tools.speed.held_out import judge_choices, leave_out
from tools.speed.rows import make_samples, read_measured_rows

SOURCE = "published measurements (tests/data/speed_rows.csv names each source)"
COMMAND = "python -m tools.speed.calibrate tests/data/speed_rows.csv rules/speed.yaml --force"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.speed.calibrate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rows", nargs="+", type=Path, help="CSV with the columns of tests/data/speed_rows.csv")
    parser.add_argument("rules", type=Path, help="YAML file to write")
    parser.add_argument("--force", action="store_true", help="overwrite RULES where it exists")
    options = parser.parse_args(arguments)
    if options.rules.exists() and not options.force:
        parser.error(f"{options.rules} exists: --force overwrites it")
    measured = [r for path in options.rows for r in read_measured_rows(path)]
    rows = make_samples(measured, catalog())
    labels = ("family", "class", "source")
    with ProcessPoolExecutor(min(len(labels), os.cpu_count() or 1)) as pool:  # each takes minutes
        fits = dict(zip(labels, pool.map(leave_out, [rows] * len(labels), labels), strict=True))
    made = fits["family"]
    for line in describe_errors(made.fitted, made.unseen):
        sys.stdout.write(line + "\n")
    sys.stdout.write(f"{len(measured) - len(rows)} of {len(measured)} rows could not be asked, or are doubtful\n")
    head = {"source": SOURCE, "as_of": max(r.date for r in measured), "command": COMMAND}
    predictions = {"nothing": made.fitted, **{by: fit.unseen for by, fit in fits.items()}}
    chosen = {by: judge_choices(p) for by, p in predictions.items()}
    judged = JudgedFits(
        {by: held_out_errors(fit.unseen) for by, fit in fits.items() if by != "family"},
        {by: asdict(figures) for by, figures in chosen.items() if figures is not None},
    )
    spread = spread_by_class(made.unseen, fits["class"].unseen)
    text = make_speed_rules(head, made.coefficients, held_out_errors(made.unseen), spread, judged)
    options.rules.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
