"""The shipped efficiencies are judged by their error on measured rows; the calibration finds known ones again.

Nothing is compared with what a fresh fit writes: another numpy or processor rounds differently, and predicts as well.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import pytest
from speed_asking import ROWS, RULES

from advisor.report.speed_accuracy import PUBLISHED_ROOFLINE
from advisor.speed.calibrate import Calibration, calibrate
from advisor.speed.calibration_text import QUANTITIES, HeldOutPrediction, held_out_errors, quantile
from advisor.speed.efficiencies import Coefficient, SpeedRules, find_efficiencies, load_speed_rules
from advisor.speed.intervals import find_error_bound
from advisor.speed.rows import FitSample, make_samples, predict_sample, read_measured_rows

TABLE = load_speed_rules(RULES)
# quantity -> (median, 90th percentile) of the absolute error, percent, on rows a fit had not seen
BARS = {
    "decode, one request": (15, 50),
    "prefill": (25, 80),
    "closed loop": (20, 60),
    "offline throughput": (30, 100),
    "time between tokens": (20, 60),
}
JUDGED = 15  # rows from which a class is judged by itself
Figures = tuple[float, float]  # median and 90th percentile of the absolute error, percent


@pytest.fixture(scope="module")
def rows() -> list[FitSample]:
    return make_samples(list(read_measured_rows(ROWS)), RULES)


@pytest.fixture(scope="module")
def shipped(rows: list[FitSample]) -> list[HeldOutPrediction]:
    """Every row as the shipped rules predict it."""
    return [HeldOutPrediction(s, predict_sample(s, TABLE)) for s in rows]


def figures(errors: Iterable[HeldOutPrediction]) -> Figures:
    found = [100 * e.relative for e in errors]
    return quantile(found, 0.5), quantile(found, 0.9)


def by_class(errors: Iterable[HeldOutPrediction]) -> dict[tuple[str, str], Figures]:
    """Figures of each kind of row and class (engine family, with vendor, with hardware) that has rows enough."""
    found: dict[tuple[str, str], list[HeldOutPrediction]] = defaultdict(list)
    for e in errors:
        k = e.sample.keys
        for name in dict.fromkeys(("all", k.family, f"{k.family}/{k.vendor}", f"{k.family}/{k.hardware}")):
            found[e.sample.row.kind, name].append(e)
    return {c: figures(mine) for c, mine in found.items() if len(mine) >= JUDGED}


def changed(**factors: float) -> SpeedRules:
    """The shipped rules with some bases multiplied."""
    other = dict(TABLE.coefficients)
    for name, factor in factors.items():
        c = other[name]
        other[name] = Coefficient(unit=c.unit, means=c.means, base=c.base * factor, factors=c.factors)
    return msgspec.structs.replace(TABLE, coefficients=other)


def test_nearly_every_row_can_be_asked(rows: list[FitSample]) -> None:
    assert len(rows) >= 0.99 * sum(1 for _ in read_measured_rows(ROWS))


def test_known_efficiencies_are_found_again(rows: list[FitSample]) -> None:
    """Rows made by the laws with other efficiencies: a fit from the same priors must predict them."""
    table = changed(memory=0.8, prompt_products=0.6, layer=1.5, products=0.7)
    some = [s for s in rows if s.row.kind in ("decode", "prefill", "tpot")][::3]
    known = [FitSample(s.row._replace(value=predict_sample(s, table)), s.steps, s.keys) for s in some]
    off = [e.relative for e in calibrate(known, validate=False).fitted]
    assert quantile(off, 0.5) < 0.03
    assert quantile(off, 0.9) < 0.1


@pytest.mark.parametrize("quantity", BARS)
def test_bars_hold_fitted_and_unseen(quantity: str, shipped: list[HeldOutPrediction]) -> None:
    median, most = BARS[quantity]
    mine = [e for e in shipped if e.sample.row.kind in QUANTITIES[quantity]]
    found = figures(mine)
    assert found[0] <= median
    held = TABLE.unseen[quantity]
    assert held.rows == len(mine)
    assert held.median_error <= median
    assert max(found[1], held.p90_error) <= most


@pytest.mark.parametrize("quantity", PUBLISHED_ROOFLINE)
def test_better_than_the_published_roofline(quantity: str, shipped: list[HeldOutPrediction]) -> None:
    median, most = (float(x) for x in PUBLISHED_ROOFLINE[quantity].split(" / "))
    found = figures(e for e in shipped if e.sample.row.kind in QUANTITIES[quantity])
    assert found[0] < 0.75 * median
    assert found[1] < 0.75 * most


def worse_than_said(errors: Iterable[HeldOutPrediction]) -> dict[tuple[str, str], Figures]:
    """Classes with an error above what `spread` states of rows that a fit had not seen, by more than a margin."""
    out = {}
    for (kind, name), (median, most) in by_class(errors).items():
        said = TABLE.spread[kind][name]
        if median > 1.1 * said.median_error + 2 or most > 1.1 * said.p90_error + 5:
            out[kind, name] = (median, most)
    return out


def test_no_class_is_predicted_worse_than_the_rules_say(shipped: list[HeldOutPrediction]) -> None:
    """Rows that a fit had seen are not predicted worse than those it had not."""
    assert worse_than_said(shipped) == {}


@pytest.mark.parametrize(
    ("name", "factor"), [("memory", 1.25), ("memory", 0.8), ("prompt_products", 0.6), ("layer", 3)]
)
def test_a_coefficient_that_is_off_shows(rows: list[FitSample], name: str, factor: float) -> None:
    table = changed(**{name: factor})
    assert worse_than_said(HeldOutPrediction(s, predict_sample(s, table)) for s in rows)


def test_bounds_hold_most_rows_and_are_narrow(shipped: list[HeldOutPrediction]) -> None:
    inside, wide = [], []
    for e in shipped:
        b = find_error_bound(TABLE, e.sample.keys, e.sample.row.kind).factor
        inside.append(1 / b <= e.sample.row.value / e.predicted <= b)
        wide.append(b * b)
    assert 0.75 <= sum(inside) / len(inside) <= 0.95
    assert statistics.median(wide) <= 2.5


def test_efficiencies_are_possible(rows: list[FitSample]) -> None:
    """Shares of peak bandwidth stay below 1 for every deployment of the rows; launches cost microseconds."""
    for k in {s.keys for s in rows}:
        e = find_efficiencies(TABLE, k)
        assert 0.05 < e.decode.memory < 1
        assert 0.1 < e.decode.cache <= 1
        assert 1e-6 < e.decode.layer < 1e-3
        assert e.prefill.products < 2


@pytest.fixture(scope="module")
def fresh(rows: list[FitSample]) -> Calibration:
    """A fit of all rows, and each group by a fit without it."""
    return calibrate(rows)


@pytest.mark.slow
def test_the_shipped_rules_predict_as_well_as_a_fresh_fit(shipped: list[HeldOutPrediction], fresh: Calibration) -> None:
    """By their errors, class by class: coefficients may differ, and do from one numpy to another."""
    assert set(fresh.coefficients) == set(TABLE.coefficients)
    best = by_class(fresh.fitted)
    found = by_class(shipped)
    assert found.keys() == best.keys()
    worse = {
        c: (found[c], best[c])
        for c in best
        if found[c][0] > 1.15 * best[c][0] + 1.5 or found[c][1] > 1.15 * best[c][1] + 4
    }
    assert worse == {}, "python -m advisor.speed.calibrate tests/data/speed_rows.csv rules/speed.yaml --force"
    ratio = math.exp(statistics.mean(abs(e.log) for e in shipped) - statistics.mean(abs(e.log) for e in fresh.fitted))
    assert ratio < 1.02


@pytest.mark.slow
def test_the_errors_that_the_rules_state_are_not_better_than_a_cross_validation(fresh: Calibration) -> None:
    for name, found in held_out_errors(fresh.unseen).items():
        written = TABLE.unseen[name]
        assert written.rows == found["rows"]
        assert written.median_error >= 0.93 * found["median_error"] - 0.5
        assert written.p90_error >= 0.9 * found["p90_error"] - 1
