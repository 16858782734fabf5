"""The calibration makes the rules file, finds known efficiencies again, and holds its bars on rows it had not seen."""

from __future__ import annotations

import math
import statistics

import pytest
from speed_asking import ROWS, RULES

from advisor.speed.calibrate import calibrate
from advisor.speed.calibrated import QUANTITIES, quantile, unseen
from advisor.speed.efficiencies import Coefficient, of_table, rules_of
from advisor.speed.intervals import bound
from advisor.speed.rows import Sample, predict, read, samples

TABLE = rules_of(RULES)
SAMPLES = samples(list(read(ROWS)), RULES)
# quantity -> (median, 90th percentile) of the absolute error, percent, on rows a fit had not seen
BARS = {
    "decode, one request": (15, 50),
    "prefill": (25, 80),
    "closed loop": (20, 60),
    "offline throughput": (30, 100),
    "time between tokens": (20, 60),
}


def errors(kinds: tuple[str, ...]) -> list[float]:
    return [100 * abs(predict(s, TABLE) / s.row.value - 1) for s in SAMPLES if s.row.kind in kinds]


def test_nearly_every_row_can_be_asked() -> None:
    assert len(SAMPLES) >= 0.99 * sum(1 for _ in read(ROWS))


def test_the_command_makes_the_rules() -> None:
    """Predictions of a fresh fit and of the file, which rounds to three digits."""
    made = calibrate(SAMPLES, validate=False)
    assert set(made.coefficients) == set(TABLE.coefficients)
    off = [abs(math.log(e.predicted / predict(e.sample, TABLE))) for e in made.fitted]
    assert statistics.median(off) < 0.005
    assert max(off) < 0.2
    for name, (_, _, base, _) in made.coefficients.items():
        assert TABLE.coefficients[name].base == pytest.approx(base, rel=0.05)


def test_known_efficiencies_are_found_again() -> None:
    """Rows made by the laws with other efficiencies: a fit from the same priors must predict them."""
    other = dict(TABLE.coefficients)
    for name, factor in (("memory", 0.8), ("prompt_products", 0.6), ("layer", 1.5), ("products", 0.7)):
        c = other[name]
        other[name] = Coefficient(unit=c.unit, means=c.means, base=c.base * factor, factors=c.factors)
    table = type(TABLE)(**{f: getattr(TABLE, f) for f in TABLE.__struct_fields__} | {"coefficients": other})
    rows = [s for s in SAMPLES if s.row.kind in ("decode", "prefill", "tpot")][::3]
    known = [Sample(s.row._replace(value=predict(s, table)), s.steps, s.keys) for s in rows]
    off = [e.relative for e in calibrate(known, validate=False).fitted]
    assert quantile(off, 0.5) < 0.03
    assert quantile(off, 0.9) < 0.1


@pytest.mark.parametrize("quantity", BARS)
def test_bars_hold_fitted_and_unseen(quantity: str) -> None:
    median, most = BARS[quantity]
    found = errors(QUANTITIES[quantity])
    assert quantile(found, 0.5) <= median
    assert quantile(found, 0.9) <= most
    held = TABLE.unseen[quantity]
    assert held.rows == len(found)
    assert held.median_error <= median
    assert held.p90_error <= most


def test_bounds_hold_most_rows_and_are_narrow() -> None:
    inside, wide = [], []
    for s in SAMPLES:
        b = bound(TABLE, s.keys, s.row.kind).factor
        inside.append(1 / b <= s.row.value / predict(s, TABLE) <= b)
        wide.append(b * b)
    assert 0.75 <= sum(inside) / len(inside) <= 0.95
    assert statistics.median(wide) <= 2.5


def test_efficiencies_are_possible() -> None:
    """Shares of peak bandwidth stay below 1 for every deployment of the rows; launches cost microseconds."""
    for k in {s.keys for s in SAMPLES}:
        e = of_table(TABLE, k)
        assert 0.05 < e.decode.memory < 1
        assert 0.1 < e.decode.cache <= 1
        assert 1e-6 < e.decode.layer < 1e-3
        assert e.prefill.products < 2


@pytest.mark.slow
def test_unseen_figures_are_those_of_a_cross_validation() -> None:
    made = calibrate(SAMPLES)
    for name, figures in unseen(made.unseen).items():
        written = TABLE.unseen[name]
        assert figures["rows"] == written.rows
        assert figures["median_error"] == pytest.approx(written.median_error, abs=1.5)
        assert figures["p90_error"] == pytest.approx(written.p90_error, rel=0.1)
