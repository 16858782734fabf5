"""The fit of the efficiencies on rows made by hand: it ends where its cost is least, and predicts by the same laws."""

from __future__ import annotations

import csv
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml
from judged_samples import off_by, one_pass, passes, sample
from msgspec.structs import replace
from speed_asking import ROWS, RULES

from advisor.errors import BadFile
from advisor.speed.efficiencies import (
    DECODE,
    PREFILL,
    WAITS,
    Coefficient,
    SpeedRules,
    load_engine_rules,
    load_speed_rules,
)
from tools.speed import calibrate, evidence_check, fit, held_out
from tools.speed.calibration_text import HeldOutPrediction
from tools.speed.fit import (
    PRIORS,
    ROBUST,
    WEIGHTS,
    FitProblem,
    fit_coefficients,
    make_coefficients,
    make_problem,
    predict_rows,
    row_logs,
    select_rows,
)
from tools.speed.rows import FitSample, predict_sample

KINDS = ("decode", "prefill", "closed", "tpot", "ttft", "offline", "static")
TABLE = load_speed_rules(RULES)


def rules_of(problem: FitProblem, unknowns: Any) -> SpeedRules:
    found = {c: Coefficient(*x) for c, x in make_coefficients(problem, unknowns).items()}
    return replace(TABLE, coefficients=found)


def made_rows(count: int = 28, noise: float = 0.3) -> list[FitSample]:
    """Rows of two cards and two engines with all that a pass may need; what was measured is off at random."""
    draw = random.Random(5)
    out = []
    for i in range(count):
        resources = ("weights_s", "experts_s", "cache_s", "scores_s", "products_s", "attention_s", "link_s")
        decode, prefill = (
            one_pass(**{r: draw.uniform(0.001, 0.01) for r in resources}, layers=32, moe_layers=8, exchanges=64)
            for _ in range(2)
        )
        keys = {"hardware": "sm89"} if i % 2 else {"engine": "sglang", "generation": "old"}
        steps = passes(decode, prefill, batch=8.0, running=16.0, asked=20.0, side_by_side=2.0, chunks=3.0, joins=0.5)
        one = sample(KINDS[i % len(KINDS)], 1.0, keys=keys, steps=steps, prompt=700, output=50, of=f"m{i % 3}")
        value = predict_sample(one, TABLE) * math.exp(draw.gauss(0, noise))
        out.append(replace(one, row=replace(one.row, value=value)))
    return out


def cost(problem: FitProblem, rows: list[FitSample], unknowns: Any) -> float:
    """Errors that count as squares when small and linearly when large, and the pull of the priors."""
    table = rules_of(problem, unknowns)
    total = 0.0
    for row in rows:
        off = math.log(predict_sample(row, table) / row.row.value)
        total += WEIGHTS.get(row.row.kind, 1.0) * 2 * (math.sqrt(1 + (off / ROBUST) ** 2) - 1)
    pulls = zip(unknowns, problem.prior, problem.width, strict=True)
    return float(total + sum(((u - p) / w) ** 2 for u, p, w in pulls))


def test_rows_are_predicted_as_by_the_rules_that_are_written() -> None:
    rows = made_rows()
    problem = make_problem(rows)
    draw = random.Random(1)
    unknowns = problem.prior + np.array([0.0] + [draw.uniform(-0.3, 0.3) for _ in problem.names[1:]])
    found = predict_rows(problem, row_logs(problem, unknowns))
    table = rules_of(problem, unknowns)
    assert list(found) == [pytest.approx(predict_sample(s, table)) for s in rows]
    some = [3, 0, 17]
    part = select_rows(problem, np.array(some))
    assert list(predict_rows(part, row_logs(part, unknowns))) == [pytest.approx(found[i]) for i in some]
    assert list(part.measured) == [rows[i].row.value for i in some]


def test_every_coefficient_has_a_base_and_factors_of_what_the_rows_have() -> None:
    problem = make_problem(made_rows())
    assert problem.names[0] == ("", "")
    assert len(set(problem.names)) == len(problem.names) == len(problem.prior) == len(problem.width)
    assert {c for c, f in problem.names[1:] if not f} == set(PRIORS) == {*DECODE, *PREFILL, *WAITS}
    memory = {f for c, f in problem.names if c == "memory"}
    # family, engines, the old generation, vendor, cards, format, link, family with card
    assert memory == {
        "", "server", "vllm", "sglang", "old", "nvidia", "sm90", "sm89", "16-bit", "alone", "server/sm90",
        "server/sm89",
    }  # fmt: skip
    assert {f for c, f in problem.names if c == "host"} == {""}
    for (name, factor), prior in list(zip(problem.names, problem.prior, strict=True))[1:]:
        assert prior == pytest.approx(0.0 if factor else math.log(PRIORS[name][2]))


def test_a_fit_ends_where_its_cost_is_least() -> None:
    rows = made_rows()
    problem = make_problem(rows)
    found = fit_coefficients(problem)
    least = cost(problem, rows, found)
    assert least < 0.93 * cost(problem, rows, problem.prior)
    for i in range(1, len(found)):
        for step in (-0.02, 0.02):
            moved = found.copy()
            moved[i] += step
            assert cost(problem, rows, moved) > least - 1e-4, problem.names[i]
    # what no row tells of stays where it was
    untold = {i for i, (c, _) in enumerate(problem.names) if c == "host"}
    assert untold
    assert all(found[i] == pytest.approx(problem.prior[i]) for i in untold)
    assert found[0] == pytest.approx(0.0)
    # another start, the same end
    other = fit_coefficients(problem, problem.prior + 0.2)
    assert cost(problem, rows, other) == pytest.approx(least, rel=1e-4)
    assert list(problem.prior) == list(make_problem(rows).prior)  # the start is not changed


def test_a_fit_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(made_rows())
    monkeypatch.setattr(fit, "ROUNDS", 2)
    with pytest.raises(ArithmeticError, match="no minimum after 2 steps"):
        fit_coefficients(problem)


def test_a_measurement_that_is_listed_twice_counts_once() -> None:
    """Under another name of the model as well; the same figure of another card is another measurement."""
    one, other = sample("decode", 40.0), sample("decode", 41.0)
    named = replace(one, row=replace(one.row, request=replace(one.row.request, model="another/name")))
    elsewhere = replace(one, row=replace(one.row, request=replace(one.row.request, hardware="1x RTX 4090")))
    assert list(make_problem([one, named, other, elsewhere]).weight) == [0.5, 0.5, 1.0, 1.0]


def test_a_row_that_is_wrong_pulls_no_harder_than_two() -> None:
    """One coefficient alone decides each row: 20 that agree, and one that is off by a factor of a hundred."""
    steps = passes(one_pass(weights_s=0.01), one_pass(products_s=0.01))
    rows = [sample("decode", 60.0 + i / 1e6, steps=steps) for i in range(20)]
    wrong = sample("decode", 6000.0, steps=steps)
    alone, together = (fit_coefficients(make_problem(x)) for x in (rows, [*rows, wrong]))
    before, after = (math.log(predict_sample(rows[0], rules_of(make_problem(rows), x))) for x in (alone, together))
    assert abs(before - math.log(60)) < 0.02
    assert 0 < after - before < 2 * ROBUST / 20 * 1.5


def test_priors_and_weights_are_possible() -> None:
    """Shares below 1, launches of microseconds, requests of milliseconds; factors vary less than the bases may."""
    for name, (unit, means, base, width, factors) in PRIORS.items():
        assert means
        assert (0.04 <= base <= 1.0) if unit == "share" else (5e-6 <= base <= 0.05), name
        assert unit in ("share", "seconds")
        assert 0.2 <= width <= 0.7
        assert all(0.05 <= w <= 1.0 for w in factors.values()), name
        assert set(factors) <= {"f", "e", "g", "v", "c", "q", "x", "b", "u", "f/v", "f/c", "q/b"}
    assert 0.05 <= ROBUST <= 0.2
    # first tokens depend on what nobody wrote down, rates of all requests on the client as well; prompts have few rows
    assert 0.1 <= WEIGHTS["ttft"] < WEIGHTS["offline"] <= WEIGHTS["closed"] < 1 < WEIGHTS["prefill"] < 2


# --- left out


def test_a_family_is_predicted_by_a_fit_that_has_not_seen_it() -> None:
    """Of 64 rows the family of 30 is twice as fast as the others: only a fit that has seen it knows."""
    usual = passes(one_pass(weights_s=0.01, layers=32), one_pass(products_s=0.1, layers=32))
    rows = [sample("decode", 40.0, steps=usual, of="slow", id=str(i)) for i in range(34)]
    fast = [sample("decode", 80.0, steps=usual, of="fast", id=str(i)) for i in range(30)]
    mixed = [x for two in zip(rows, fast, strict=False) for x in two] + rows[30:]
    made = held_out.leave_out(mixed, "family")
    assert made.fold == [s.family for s in mixed]
    assert [p.sample for p in made.unseen] == mixed == [p.sample for p in made.fitted]
    assert set(made.of_fold) == {"slow", "fast"}
    unseen = {s.family: p.predicted for s, p in zip(mixed, made.unseen, strict=True)}
    assert unseen["fast"] == pytest.approx(40.0, rel=0.05)
    assert unseen["slow"] == pytest.approx(80.0, rel=0.05)
    assert 40 < made.fitted[0].predicted < 80
    # the rate of all requests by the same coefficients, as for a row of a closed loop
    table = replace(TABLE, coefficients={c: Coefficient(*x) for c, x in made.coefficients.items()})
    closed = replace(mixed[0], row=replace(mixed[0].row, kind="closed"))
    assert made.fitted[0].rate == pytest.approx(predict_sample(closed, table))
    assert made.fitted[0].predicted == pytest.approx(predict_sample(mixed[0], table))
    whole = held_out.leave_out(mixed, None)
    assert (whole.fold, whole.of_fold) == (["all"] * 64, {})
    assert whole.unseen == whole.fitted
    assert whole.coefficients == made.coefficients


# --- the commands


def a_sweep(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The first rows of one model at one load that have both times and differ in their settings."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for r in rows:
        if r["tpot"] and r["ttft"]:
            groups[tuple(r[k] for k in ("engine", "model", "hardware", "prompt_tokens", "output_tokens"))].append(r)
    return next(found[:4] for found in groups.values() if len({r["settings"] for r in found[:4]}) > 1)


@pytest.fixture(scope="module")
def few_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measured rows of several models, cards and sources, and one that is doubtful."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    chosen = [r for r in rows if r["engine"] == "llama.cpp" and (r["decode"] or r["prefill"])]
    chosen = [r for r in chosen if not r["quality"].startswith("doubtful:")]
    chosen = chosen[:: len(chosen) // 9] + a_sweep(rows)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([*chosen, {**chosen[0], "id": "odd", "quality": "doubtful: a note", "date": "2031-01-01"}])
    return path


@pytest.mark.slow
def test_rules_are_made_from_rows(few_rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "speed.yaml"
    assert calibrate.main([str(few_rows), str(target)]) == 0
    written = target.read_text()
    rules = msgspec.convert(yaml.safe_load(written), SpeedRules)
    assert rules.as_of == "2031-01-01"
    assert "--force" in rules.command
    assert set(rules.coefficients) == set(PRIORS)
    assert set(rules.left_out) == {"class", "source"}
    assert set(rules.choices) == {"nothing", "family", "class", "source"}
    assert sum(x.rows for x in rules.unseen.values()) == sum(x["all"].rows for x in rules.spread.values())
    printed = capsys.readouterr().out
    assert printed.startswith("quantity, class")
    last = printed.splitlines()[-1].split()
    left, of = int(last[0]), int(last[2])
    assert left >= 1
    assert of - left == sum(x.rows for x in rules.unseen.values())
    with pytest.raises(SystemExit):
        calibrate.main([str(few_rows), str(target)])
    assert "--force overwrites it" in capsys.readouterr().err
    assert target.read_text() == written
    with pytest.raises(BadFile):  # it goes on to the rows
        calibrate.main([str(tmp_path / "none.csv"), str(target), "--force"])


def test_what_is_left_out_is_reported(few_rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert held_out.main([str(few_rows), "--overlays", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    files = list(tmp_path.glob("*/speed.yaml"))
    assert f"{len(files)} overlays in {tmp_path}" in printed
    assert f"{len(files)} folds by family" in printed
    rules = msgspec.convert(yaml.safe_load(files[0].read_text()), SpeedRules)
    assert rules.as_of == "2031-01-01"
    assert rules.source.endswith("without one family")
    assert rules.command.endswith(f"{few_rows} --by family")


# --- evidence of a machine


def of_machine(count: int, ratio: float, source: str = "paper", **more: Any) -> list[HeldOutPrediction]:
    return [off_by(ratio, source=source, **more) for _ in range(count)]


def narrowed(rows: list[HeldOutPrediction], share: float = 0.5, **more: int) -> evidence_check.NarrowedBounds:
    return evidence_check.narrow_bounds(rows, TABLE, load_engine_rules(RULES).evidence, share, **more)


def test_measurements_of_a_machine_narrow_its_bounds() -> None:
    """All rows of a machine are a tenth slower than predicted: of ten half are given, and the rest is known by them."""
    found = narrowed(of_machine(10, 1 / 0.9))
    assert (found.machines, found.rows) == (1, 5)
    assert found.error_before == pytest.approx(100 * (1 / 0.9 - 1))
    assert found.error < found.error_before / 4
    assert (found.covered_before, found.covered) == (100.0, 100.0)
    assert found.width < 0.5
    times = narrowed(of_machine(10, 0.9, kind="tpot"))  # longer times, the same rate
    assert times.error < times.error_before / 4
    third = narrowed(of_machine(10, 1 / 0.9), 0.3)
    assert third.rows == 7
    assert found.width < third.width < 1


def test_without_measurements_nothing_changes() -> None:
    found = narrowed(of_machine(10, 5.0), 0.0)
    assert (found.rows, found.width) == (10, 1.0)
    assert (found.covered_before, found.covered) == (0.0, 0.0)
    assert found.error == found.error_before == pytest.approx(400.0)


def test_which_rows_are_of_one_machine() -> None:
    """Six rows at least; one source and device; of a source that collects runs, one engine, version and model, too."""
    assert narrowed([*of_machine(6, 1.1), *of_machine(5, 1.1, "other")]).machines == 1
    assert narrowed([*of_machine(6, 1.1), *of_machine(6, 1.1, "other")]).machines == 2
    assert narrowed([*of_machine(3, 1.1), *of_machine(3, 1.1, hardware="2x H100")]).machines == 1
    assert narrowed([*of_machine(6, 1.1), *of_machine(6, 1.1, hardware="1x L4")]).machines == 2
    assert narrowed([*of_machine(6, 1.1), *of_machine(6, 1.1, model="70B")]).machines == 1
    for other in ({"model": "70B"}, {"engine": "sglang"}, {"engine_version": "0.9"}):
        runs = [*of_machine(6, 1.1, "a silicon_sample"), *of_machine(6, 1.1, "a silicon_sample", **other)]
        assert narrowed(runs).machines == 2, other
    many = [*of_machine(6, 1.1), *of_machine(9, 1.1, "AlexsJones/llmfit 1"), *of_machine(9, 1.1, "localmaxxing")]
    assert narrowed(many).machines == 1
    assert narrowed(of_machine(400, 1.1), 0.9).rows == 16  # of at most 160


def test_another_engine_of_the_machine_says_nothing() -> None:
    """The same seed draws the same rows: those of another engine are no evidence for these."""
    rows = [off_by(1.1, keys={"engine": f"e{i}"}) for i in range(8)]
    found = narrowed(rows)
    assert (found.rows, found.width) == (4, 1.0)


def test_narrowed_bounds_in_words() -> None:
    text = evidence_check.describe_narrowed(evidence_check.NarrowedBounds(3, 40, 0.456, 70.0, 84.56, 20.0, 9.04), 0.5)
    assert text == (
        "50% of the rows of 3 machines given, 40 predicted: bounds x0.46 as wide, 84.6 % inside (70.0 % without), "
        "median error 9.0 % (20.0 % without)"
    )
