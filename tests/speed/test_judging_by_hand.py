"""Errors, bounds and choices that a calibration reports, worked out by hand on a few rows."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
import yaml
from judged_samples import off_by, sample
from msgspec.structs import replace
from test_measured_choices import pair

from advisor.speed.efficiencies import HeldOutSpread, SpeedRules, find_bound_in
from tools.speed.calibration_text import (
    JudgedFits,
    _number,
    describe_errors,
    held_out_errors,
    make_speed_rules,
    quantile,
    spread_by_class,
)
from tools.speed.held_out import (
    LABELS,
    HeldOut,
    assign_folds,
    describe_held_out,
    judge_bounds,
    name_device,
    write_overlays,
)


@pytest.mark.parametrize(
    ("values", "p", "found"),
    [
        ([50, 10, 40, 20, 30], 0.5, 30),
        ([50, 10, 40, 20, 30], 0.0, 10),
        ([50, 10, 40, 20, 30], 1.0, 50),
        ([50, 10, 40, 20, 30], 0.9, 50),  # place 3.6 of 0 to 4
        ([50, 10, 40, 20, 30], 0.8, 40),  # place 3.2
        ([7], 0.9, 7),
    ],
)
def test_quantiles_take_the_nearest_rank(values: list[float], p: float, found: float) -> None:
    assert quantile(values, p) == found


def test_an_error_is_a_logarithm_and_a_share_of_what_was_measured() -> None:
    assert off_by(1.5).relative == pytest.approx(0.5)
    assert off_by(0.5).relative == pytest.approx(0.5)
    assert off_by(1.5).log == pytest.approx(math.log(1.5))
    assert off_by(0.5).log == pytest.approx(-math.log(2))
    assert off_by(1.0).rate == 0.0


def test_errors_of_each_quantity() -> None:
    rows = [off_by(x) for x in (1.1, 0.8, 1.5)] + [
        off_by(1.04, "closed"),
        off_by(0.97, "static"),
        off_by(2.0, "closed"),
    ]
    assert held_out_errors(rows) == {
        "decode, one request": {"rows": 3, "median_error": 20.0, "p90_error": 50.0},
        "closed loop": {"rows": 3, "median_error": 4.0, "p90_error": 100.0},
    }
    assert held_out_errors([]) == {}


def test_bounds_of_a_class_lean_on_all_rows() -> None:
    """Nine rows: five of servers, off by logarithms of 0.2 to 0.6, four of ggml that are right.

    All: place 0.76 x 8 = 6.08 of the ordered nine is 0.4. Servers: their five, and 15 quantiles of all nine, at places
    (i + 0.5) / 15 x 8: seven times 0, then 0.2, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5, 0.6; place 0.76 x 19 = 14.44 of these
    twenty is 0.4 again. ggml has too few rows for bounds of its own.
    """
    servers = [off_by(math.exp(x)) for x in (0.2, -0.3, 0.4, 0.5, 0.6)]
    exact = [off_by(1.0, keys={"family": "ggml", "hardware": "sm89"}) for _ in range(4)]
    found = spread_by_class([*servers, *exact])
    assert set(found) == {"decode"}
    assert set(found["decode"]) == {
        "all", "server", "server/nvidia", "server/sm90", "vllm/nvidia", "vllm/16-bit/dense",
    }  # fmt: skip
    whole, mine = found["decode"]["all"], found["decode"]["server"]
    assert (whole["rows"], mine["rows"]) == (9, 5)
    assert whole["bound"] == mine["bound"] == round(math.exp(0.4), 3)
    assert whole["median_error"] == round(100 * math.expm1(0.2), 1)
    assert whole["p90_error"] == round(100 * math.expm1(0.5), 1)  # place 7.2
    assert mine["median_error"] == round(100 * math.expm1(0.4), 1)
    assert mine["p90_error"] == round(100 * math.expm1(0.6), 1)
    assert mine["covered"] in (40, 60)  # the bound is one of the errors, and lies on itself
    assert whole["covered"] in (67, 78)
    assert found["decode"]["server/sm90"] == mine


def test_few_own_rows_hardly_count_against_many() -> None:
    """Five rows that are right next to 95 that are off by e: of 20 figures 15 are those of all rows."""
    found = spread_by_class(
        [off_by(1.0) for _ in range(5)] + [off_by(math.e, keys={"family": "ggml"}) for _ in range(95)]
    )
    assert found["decode"]["server"]["bound"] == round(math.e, 3)
    assert found["decode"]["server"]["covered"] == 100


def test_no_bound_is_narrower_than_three_percent() -> None:
    found = spread_by_class([off_by(1.01) for _ in range(5)])
    assert found["decode"]["all"] == {
        "rows": 5, "median_error": 1.0, "p90_error": 1.0, "bound": round(math.exp(0.03), 3), "covered": 100,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("x", "text"), [(2e-5, "2.0e-05"), (1.234e-5, "1.23e-05"), (0.7504, "0.75"), (2.0, "2"), (12.345, "12.3")]
)
def test_numbers_are_read_as_numbers_by_yaml(x: float, text: str) -> None:
    assert _number(x) == text
    assert yaml.safe_load(text) == pytest.approx(x, rel=0.005)
    assert isinstance(yaml.safe_load(text), (int, float))


def test_what_is_written_is_read_again() -> None:
    head = {"source": "somebody's rows", "as_of": "2026-01-02", "command": "python -m x"}
    coefficients = {
        "memory": ("share", "of the 'peak'", 0.75, {"vllm": 1.2, "sm90": 1.0001, "server": 0.9}),
        "layer": ("seconds", "per layer", 2e-5, {"sm90": 1.004}),
    }
    figures = {"prefill": {"rows": 3, "median_error": 1.26, "p90_error": 12.3}}
    spread = {"decode": {"all": {"rows": 9, "median_error": 1.0, "p90_error": 2.0, "bound": 1.2345, "covered": 76}}}
    choices = {"nothing": {"questions": 7, "violations": 1.5, "mean_regret": 2.5, "p90_regret": 3.5}}
    judged = JudgedFits({"source": {"prefill": {"rows": 4, "median_error": 5.0, "p90_error": 6.0}}}, choices)
    text = make_speed_rules(head, coefficients, figures, spread, judged)
    read = yaml.safe_load(text)
    rules = msgspec.convert(read, SpeedRules)
    assert (rules.source, rules.as_of, rules.command) == tuple(head.values())
    memory, layer = rules.coefficients["memory"], rules.coefficients["layer"]
    assert (memory.unit, memory.means, memory.base) == ("share", "of the 'peak'", 0.75)
    assert memory.factors == {"server": 0.9, "vllm": 1.2}  # what changes less than half a percent is not written
    assert list(memory.factors) == sorted(memory.factors)
    assert (layer.base, layer.factors) == (2e-5, {})
    assert read["unseen"] == {"prefill": {"rows": 3, "median_error": 1.26, "p90_error": 12.3}}
    assert rules.spread["decode"]["all"].bound in (1.234, 1.235)  # three digits
    assert rules.left_out["source"]["prefill"].median_error == 5.0
    assert rules.choices["nothing"].p90_regret == 3.5
    without = msgspec.convert(yaml.safe_load(make_speed_rules(head, coefficients, figures, spread)), SpeedRules)
    assert (without.left_out, without.choices) == ({}, {})
    assert without.coefficients == rules.coefficients
    assert text.endswith("\n")


def test_factors_that_are_written_change_at_least_half_a_percent() -> None:
    factors = {"a": math.exp(0.0051), "b": math.exp(0.0049), "c": math.exp(-0.0051), "d": math.exp(-0.0049)}
    text = make_speed_rules({}, {"memory": ("share", "m", 0.75, factors)}, {}, {})
    assert set(yaml.safe_load(text)["coefficients"]["memory"]["factors"]) == {"a", "c"}


def words(line: str) -> list[float]:
    return [float(x) for x in line.split()]


def test_errors_in_words() -> None:
    fitted = [off_by(1.1), off_by(1.2, class_="L4"), off_by(1.3, class_="L4"), off_by(1.0, "ttft")]
    unseen = [off_by(0.5), off_by(0.8, class_="L4"), off_by(1.5, class_="L4"), off_by(2.0, "ttft")]
    head, whole, first, second, quantity, of = describe_errors(fitted, unseen)
    assert head.split()[:3] == ["quantity,", "class", "rows"]
    assert whole.startswith("decode, one request")
    # rows; median and 90th percentile, fitted and unseen; the median prediction against what was measured
    assert words(whole[34:]) == [3, 20.0, 30.0, 50.0, 50.0, -20.0]
    assert first.split()[0] == "H100"
    assert words(first[34:]) == [1, 10.0, 10.0, 50.0, 50.0, -50.0]
    assert second.split()[0] == "L4"
    assert words(second[34:]) == [2, 20.0, 30.0, 20.0, 50.0, -20.0]
    assert quantity.startswith("time to first token")
    assert words(of[34:]) == [1, 0.0, 0.0, 100.0, 100.0, 100.0]
    assert {len(x) for x in (whole, first, second, quantity, of)} == {len(whole)}


# --- labels, folds, bounds of other folds


def test_labels() -> None:
    found = sample(source="paper", of="llama-3")
    assert {by: label(found) for by, label in LABELS.items()} == {
        "family": "llama-3", "class": "server/sm90: answers", "source": "paper", "machine": "paper: H100",
    }  # fmt: skip
    assert name_device(sample(hardware="16x H200 141GB")) == "H200 141GB"
    assert name_device(sample(hardware="cpu")) == "cpu"


def test_labels_with_few_rows_share_folds() -> None:
    """From 30 rows on a label has a fold of its own; the others are dealt out over four in the order of their names."""
    rows = [
        sample(of=name) for name, n in (("x", 30), ("e", 29), ("d", 1), ("c", 2), ("b", 3), ("a", 1)) for _ in range(n)
    ]
    found = dict(zip((s.family for s in rows), assign_folds(rows, "family"), strict=True))
    assert found == {"x": "x", "a": "others-1", "b": "others-2", "c": "others-3", "d": "others-4", "e": "others-1"}


def held_out() -> HeldOut:
    """Three rows of one fold and five of another, and a time to first token, which counts for coverage alone."""
    first = [off_by(math.exp(x), of="a") for x in (0.05, -0.05, 0.2)]
    second = [off_by(math.exp(0.1), of="b") for _ in range(5)]
    last = off_by(1.0, "ttft", of="b")
    unseen = [*first, *second, last]
    fitted = [replace(p, predicted=10.0) for p in unseen]
    coefficients = {"memory": ("share", "of", 0.75, {"vllm": 1.2})}
    folds = {"a": {"memory": ("share", "of", 0.5, {"vllm": 1.1})}, "b c/d": coefficients}
    return HeldOut(coefficients, fitted, unseen, ["a"] * 3 + ["b c/d"] * 6, folds)


def test_bounds_come_from_other_folds() -> None:
    """Fold a by the five of b: their class has a bound of e^0.1, 1.105, which holds two of three. Fold b by three rows
    of a: too few for a class, so the bound is 3, and holds all five; so it is for a first token, of which no row of
    another fold tells anything."""
    found = judge_bounds(held_out())
    assert found.covered == pytest.approx(100 * 8 / 9)
    assert found.high_over_low == pytest.approx(3.0**2)  # five of the eight rates


def test_what_was_left_out_in_words() -> None:
    lines = describe_held_out(held_out(), "source")
    text = "\n".join(lines)
    assert lines[0].startswith("9 figures, 2 folds by source")
    decode = next(x for x in lines if x.startswith("decode, one request"))
    assert words(decode[24:]) == [8, 0.0, 0.0, 10.5, 10.5]  # place 6.3 of eight
    first = next(x for x in lines if x.startswith("time to first token"))
    assert words(first[24:]) == [1, 0.0, 0.0, 0.0, 0.0]
    assert "inside bounds of other folds: 89 %; median of high over low: 9.00" in text
    assert text.count("no sweep of several layouts") == 2
    assert "prefill" not in text


def test_devices_and_choices_in_words() -> None:
    """As above: two cards and one, of seven questions two are late."""
    two = pair("a", (0.01, 0.03), 1.0, 600.0, hardware="2x H100", concurrency=10, output=101)
    one = pair("b", (0.02, 0.018), 0.5, 100.0, hardware="1x H100", concurrency=4, output=101)
    rows = [*two, *one]
    lines = describe_held_out(HeldOut({}, rows, rows, ["a", "a", "b", "b"], {}), "machine")
    device = next(x for x in lines if x.startswith("  H100"))
    assert words(device.removeprefix("  H100")) == [2, 10.0, 200.0]  # off by 200 % and 10 %; place 0.5 is rounded down
    for which in ("fitted:  ", "left out:"):
        assert f"choices, {which} 7 questions, violations 28.6 %, regret mean 7.2 %, P90 36.0 %" in lines


def test_rules_of_each_fold_are_written(tmp_path: Path) -> None:
    made = held_out()
    assert write_overlays(made, {"source": "s", "as_of": "2026-01-02", "command": "c"}, tmp_path) == 2
    a, b = (
        msgspec.convert(yaml.safe_load((tmp_path / x / "speed.yaml").read_text()), SpeedRules) for x in ("a", "b-c-d")
    )
    assert a.coefficients["memory"].base == 0.5
    assert a.coefficients["memory"].factors == {"vllm": 1.1}
    assert b.coefficients["memory"].base == 0.75
    assert a.spread["decode"]["all"].rows == 5  # of the other fold
    assert b.spread["decode"]["all"].rows == 3
    assert (a.unseen["decode, one request"].rows, b.unseen["decode, one request"].rows) == (5, 3)


def spread(**bounds: float) -> dict[str, HeldOutSpread]:
    return {
        k.replace("_", "/"): HeldOutSpread(rows=9, median_error=1.0, p90_error=1.0, bound=x, covered=76.0)
        for k, x in bounds.items()
    }


KNOWN = {"vllm_nvidia": 1.4, "vllm_16-bit_dense": 1.4}  # rows of the engine and the format


def test_bounds_of_what_nobody_measured_weigh_classes_alike() -> None:
    """Five rows of one class off by e, ninety of another that are right: each is half of what is left out."""
    mine = [off_by(math.e, keys={"hardware": "sm80"}) for _ in range(5)]
    found = spread_by_class([off_by(1.0)], [*mine, *(off_by(1.0) for _ in range(90))])
    assert found["decode"]["none"]["bound"] == round(math.e, 3)
    assert found["decode"]["none"]["covered"] == 100


@pytest.mark.parametrize(
    ("known", "factor", "text"),
    [
        ({"tpot": spread(**KNOWN, server=1.8, server_sm90=1.6)}, 1.6, "tpot: 9 rows of server/sm90"),
        # another kind of the same hardware, at least as wide as its family is of that kind
        (
            {"tpot": spread(**KNOWN), "static": spread(server=1.5, server_sm90=1.4)},
            1.5,
            "static: 9 rows of server/sm90",
        ),
        # no row of the hardware: as wide as classes that were left out
        ({"tpot": spread(**KNOWN, none=2.5)}, 2.5, "tpot: no measurement of vllm on sm90"),
        # rows of the hardware, and none of the engine on its maker's, or of the format: at least as wide
        (
            {"tpot": spread(none=2.5, server_sm90=1.6, **{"vllm_16-bit_dense": 1.4})},
            2.5,
            "tpot: no measurement of vllm on hardware of nvidia",
        ),
        (
            {"tpot": spread(none=1.5, server_sm90=1.6, vllm_nvidia=1.4)},
            1.6,
            "tpot: no measurement of 16-bit of dense models in vllm",
        ),
        (
            {},
            3.0,
            "tpot: no measurement of vllm on sm90 or of vllm on hardware of nvidia or of 16-bit of dense models "
            "in vllm",
        ),
    ],
)
def test_bounds_of_the_narrowest_class(known: dict[str, dict[str, HeldOutSpread]], factor: float, text: str) -> None:
    found = find_bound_in(known, sample().keys, "tpot", "static")
    assert found.factor == pytest.approx(factor)
    assert found.text == text
