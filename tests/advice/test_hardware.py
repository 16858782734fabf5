"""`advise hardware`: money, price lists, what is offered and refused, tiers; against arithmetic done here."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import money
from advisor.advice.hardware.budget import load_budget_rules
from advisor.advice.hardware.prices import count_days_old
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.errors import BadInput, UnknownName

SCHEMA = Path(__file__).parents[2] / "advisor" / "schemas" / "hardware.json"
RULES = catalog([shipped_root()])
BUDGET = load_budget_rules(RULES)
RATES = BUDGET.rates.per_usd


def run(*words: str) -> Result:
    return CliRunner().invoke(root, ["hardware", *words], standalone_mode=False)


def asked(tmp_path: Path, offers: dict[str, Any], *words: str) -> tuple[int, dict[str, Any]]:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(offers))
    done = run(*words, "--prices", str(path), "--json")
    assert done.exception is None, done.exception
    return int(done.return_value), json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "amount", "currency", "per"),
    [
        ("3000EUR", 3000, "EUR", "once"),
        ("3,000 EUR", 3000, "EUR", "once"),
        ("3k EUR", 3000, "EUR", "once"),
        ("€3000", 3000, "EUR", "once"),
        ("1500USD/month", 1500, "USD", "month"),
        ("1500 USD a month", 1500, "USD", "month"),
        ("18000USD/year", 1500, "USD", "month"),
        ("$2.5k", 2500, "USD", "once"),
    ],
)
def test_amounts(text: str, amount: float, currency: str, per: str) -> None:
    m = money.parse_money(text, "--budget", RATES)
    assert (m.amount, m.currency, m.per) == (pytest.approx(amount), currency, per)


@pytest.mark.parametrize("text", ["3000", "EUR", "-5EUR", "0EUR", "3000XYZ", "lots", "1e9EUR", "3000EUR/decade"])
def test_amounts_that_are_none(text: str) -> None:
    with pytest.raises(BadInput):
        money.parse_money(text, "--budget", RATES)


@given(st.floats(1, 1e6), st.sampled_from(sorted(RATES)), st.sampled_from(sorted(RATES)))
@settings(max_examples=50)
def test_conversion_goes_back(amount: float, a: str, b: str) -> None:
    assert money.convert_currency(money.convert_currency(amount, a, b, RATES), b, a, RATES) == pytest.approx(amount)


def test_ages_of_dates() -> None:
    today = datetime.date(2026, 11, 21)
    assert count_days_old("2026-11-20", today) == 1
    assert count_days_old("2026-10", today) == 24
    assert count_days_old("2026", today) == 0  # some day of the year: not called old
    assert count_days_old("unknown", today) is None


def test_the_budget_is_a_limit_and_the_reason_is_said(tmp_path: Path) -> None:
    offers = {"unit": "EUR once", "counts": [1, 2], "prices": {"rtx-3090": 700, "rtx-4090": 2100}}
    code, x = asked(
        tmp_path, offers, "--model", "qwen3:32b", "--engine", "llama.cpp", "--context", "8k", "--budget", "1500EUR"
    )
    assert code == 0
    assert {(o["accelerator"], o["count"]) for o in x["options"]} == {("rtx-3090", 1), ("rtx-3090", 2)}
    assert [o["price"] for o in x["options"]] == [700, 1400]
    refused = {(r["accelerator"], r["count"]): r["code"] for r in x["rejected"]}
    assert refused == {("rtx-4090", 1): "over_budget", ("rtx-4090", 2): "over_budget"}


def test_rent_is_hours_times_price_and_converts(tmp_path: Path) -> None:
    offers = {"unit": "USD per GPU-hour", "counts": [1], "prices": {"a100-80gb-sxm": 1.29, "h100-sxm": 2.29}}
    words = (
        "--model",
        "70B",
        "--users",
        "4",
        "--context",
        "4k",
        "--quant",
        "AWQ",
        "--rent",
        "900EUR/month",
        "--rate",
        "EUR=0.9",
    )
    code, x = asked(tmp_path, offers, *words)
    assert code == 0
    assert [o["accelerator"] for o in x["options"]] == ["a100-80gb-sxm"]
    assert x["options"][0]["monthly_cost"] == pytest.approx(1.29 * 730 * 0.9, abs=0.01)
    assert [r["code"] for r in x["rejected"]] == ["over_budget"]  # 2.29 x 730 x 0.9 = 1504
    _, part_time = asked(tmp_path, offers, *words, "--hours", "160")
    assert {o["accelerator"] for o in part_time["options"]} == {"a100-80gb-sxm", "h100-sxm"}


def test_break_even_is_price_over_rent(tmp_path: Path) -> None:
    offers = {"unit": "USD", "prices": {"rtx-pro-6000-ws": 8600}, "rent_per_hour": {"rtx-pro-6000-server": 1.69}}
    _, x = asked(tmp_path, offers, "--model", "gpt-oss:120b", "--users", "4", "--context", "8k", "--budget", "8600USD")
    assert x["options"][0]["break_even_hours"] == pytest.approx(8600 / 1.69, abs=0.1)


def test_few_hours_are_rented_and_many_are_bought(tmp_path: Path) -> None:
    offers = {"unit": "USD", "prices": {"rtx-3090": 900}, "rent_per_hour": {"rtx-3090": 0.2}}
    words = ("--model", "Qwen/Qwen3-14B", "--context", "8k", "--budget", "900USD", "--rent", "200USD/month", "--hours")
    for hours, axis, after in (("730", "buy", "after"), ("200", "rent", "never")):
        _, x = asked(tmp_path, offers, *words, hours)
        picked = x["options"][x["named"]["value"]]
        assert picked["axis"] == axis
        # 146 a month pays for 900 within seven months; 40 is less than the electricity of a host that is always on
        assert any(f"rented for {hours} hours a month, " in n and after in n for n in x["notes"])


def test_a_wanted_rate_refuses_with_the_bandwidth(tmp_path: Path) -> None:
    offers = {"unit": "EUR once", "counts": [1], "prices": {"gb10-dgx-spark": 4600, "rtx-pro-6000-ws": 8800}}
    words = ("--model", "70B", "--quant", "Q4_K_M", "--engine", "llama.cpp", "--context", "4k", "--budget", "10000EUR")
    _, x = asked(tmp_path, offers, *words, "--tokens-per-second", "20")
    assert [o["accelerator"] for o in x["options"]] == ["rtx-pro-6000-ws"]
    assert x["rejected"][0]["code"] == "too_slow"
    assert "273 GB/s" in x["rejected"][0]["text"]


def test_nothing_fits_says_what_would(tmp_path: Path) -> None:
    offers = {"unit": "EUR once", "counts": [1], "prices": {"rtx-3060-12gb": 280, "rtx-pro-6000-ws": 8800}}
    code, x = asked(tmp_path, offers, "--model", "70B", "--quant", "AWQ", "--context", "4k", "--budget", "1000EUR")
    assert code == 1
    assert x["options"] == []
    assert x["beyond"] == ["fits beyond the budget: 1x RTX PRO 6000 Blackwell Workstation, linux, AWQ: 8,800 EUR"]


def test_more_money_never_takes_an_option_away(tmp_path: Path) -> None:
    offers = {"unit": "EUR once", "counts": [1, 2, 4], "prices": {"rtx-3090": 700, "rtx-5090": 3000, "l40s": 7000}}
    seen: set[tuple[str, int]] = set()
    for amount in (1000, 3000, 6000, 12000, 30000):
        _, x = asked(
            tmp_path, offers, "--model", "qwen3:32b", "--quant", "AWQ", "--users", "4", "--budget", f"{amount}EUR"
        )
        now = {(o["accelerator"], o["count"]) for o in x["options"]}
        assert seen <= now
        seen = now
    assert seen


@pytest.mark.parametrize(
    ("offers", "said"),
    [
        ({"prices": {"rtx-3090": 700}}, "`unit` says"),
        ({"unit": "EUR once", "prices": {"rtx-3o90": 700}}, "rtx-3090"),
        ({"unit": "EUR once", "prices": {"rtx-3090": -1}}, "above zero"),
        ({"unit": "EUR once", "prices": {"rtx-3090": 700}, "count": [1]}, "counts"),
        ({"unit": "EUR once", "prices": {}}, "no prices"),
        ({"unit": "XYZ once", "prices": {"rtx-3090": 700}}, "XYZ"),
        ([1], "mapping"),
    ],
)
def test_price_files_that_are_wrong(tmp_path: Path, offers: Any, said: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(offers))
    done = run("--model", "8B", "--prices", str(path))
    assert done.exception is not None
    assert said in str(done.exception) + " ".join(getattr(done.exception, "near", ()))


@pytest.mark.parametrize(
    ("tier", "author", "corrected"),
    [
        ("very-tight", "rent NVIDIA", "A100 80GB"),
        ("tight", "Intel or AMD", "RTX 3090"),
        ("moderate", "RTX 40", "RTX 5090"),
        ("average", "RTX PRO", "RTX PRO 6000"),
        ("high", "Grace Blackwell or Hopper", "four RTX PRO 6000"),
    ],
)
def test_every_tier_has_the_authors_answer_and_ours(tier: str, author: str, corrected: str) -> None:
    t = next(t for t in BUDGET.tiers.rows if t.id == tier)
    assert author in t.author
    assert corrected in t.corrected
    assert all(a in RULES.accelerators() for a in t.accelerators)
    assert (t.axis == "per_month") == (tier == "very-tight")
    shown = " ".join(run("--tiers").stdout.split())
    assert author in shown
    assert t.claim in ("S3-B1", "S3-B2", "S3-B3", "S3-B4", "S3-B5")


@pytest.mark.parametrize(
    "words",
    [
        # a second and more each
        pytest.param(("--model", "70B", "--users", "20", "--budget", "10000EUR"), marks=pytest.mark.slow),
        pytest.param(
            ("--model", "qwen3:30b-a3b", "--users", "10", "--context", "8k", "--budget", "3000EUR"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("--model", "70B", "--users", "8", "--rent", "1500USD/month"), marks=pytest.mark.slow),
        pytest.param(
            ("--model", "gpt-oss:120b", "--budget", "9000USD", "--rent", "1300USD/month"), marks=pytest.mark.slow
        ),
        pytest.param(("--model", "deepseek-r1", "--users", "32"), marks=pytest.mark.slow),
        ("--on", "RTX 3060, 64GB RAM", "--model", "qwen3:32b", "--budget", "1500EUR"),
    ],
)
def test_documented_questions_print_a_table_in_80_columns(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.exception is None, done.exception
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    body = json.loads(run(*words, "--json").stdout)
    assert all(o["price_date"] and o["fits"] in (True, None) for o in body["options"])
    if body["options"]:
        assert body["options"][0]["hardware"].split(" ", 1)[1][:6] in done.stdout


@pytest.mark.parametrize(
    ("text", "amount", "currency", "per"),
    [
        ("3k EUR", 3000, "EUR", "once"),
        ("3kEUR", 3000, "EUR", "once"),
        ("3.000 EUR", 3000, "EUR", "once"),
        ("3.00 EUR", 3, "EUR", "once"),
        ("3,000 USD", 3000, "USD", "once"),
        ("USD 3000", 3000, "USD", "once"),
        ("EUR3.000,50", 3000.5, "EUR", "once"),
        ("$3,000.50", 3000.5, "USD", "once"),
        ("1.234.567 EUR", 1234567, "EUR", "once"),
        ("1 500 EUR", 1500, "EUR", "once"),
        ("2,5k EUR", 2500, "EUR", "once"),
        ("3.125k EUR", 3125, "EUR", "once"),
        ("3000 euros", 3000, "EUR", "once"),
        ("1500 dollars a month", 1500, "USD", "month"),
        ("€2k/month", 2000, "EUR", "month"),
        ("1,500 EUR monthly", 1500, "EUR", "month"),
    ],
)
def test_amounts_as_people_write_them(text: str, amount: float, currency: str, per: str) -> None:
    found = money.parse_money(text, "--budget", {"EUR": 0.9, "USD": 1.0})
    assert (found.amount, found.currency, found.per) == (amount, currency, per)


@pytest.mark.parametrize(
    "text",
    ["3.0.0 EUR", "3,00,0 EUR", "1.23.456 EUR", "3..000 EUR", "EUR 3000 USD", ", EUR", "3k", "3 000 000 000 000 EUR"],
)
def test_amounts_that_mean_nothing(text: str) -> None:
    with pytest.raises(BadInput):
        money.parse_money(text, "--budget", {"EUR": 0.9, "USD": 1.0})


def test_an_unknown_format_is_no_question_of_money() -> None:
    done = run("--model", "8B", "--quant", "Q4_KMM", "--budget", "3000EUR")
    assert isinstance(done.exception, UnknownName)
    assert "Q4_K_M" in done.exception.near


def test_several_models_stay_loaded_on_what_is_bought(tmp_path: Path) -> None:
    """Two cards hold two 8B models in 16 bit (2 x 16 GB of 24 GB cards), one of them does not."""
    offers = {"unit": "EUR once", "counts": [1, 2], "prices": {"rtx-3090": 700}}
    code, found = asked(tmp_path, offers, "--models", "qwen3:8b,llama3.1:8b", "--quant", "BF16", "--budget", "3000EUR")
    assert code == 0
    (option,) = found["options"]
    assert (option["count"], option["fits"]) == (2, True)
    (other,) = option["also"]
    assert (other["model"], other["quantization"]) == ("meta-llama/Llama-3.1-8B-Instruct", "BF16")
    assert found["others"] == ["meta-llama/Llama-3.1-8B-Instruct"]
    refused = next(r for r in found["rejected"] if r["count"] == 1)
    assert refused["code"] == "does_not_fit"
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))


def test_a_model_alone_has_no_others(tmp_path: Path) -> None:
    offers = {"unit": "EUR once", "counts": [1], "prices": {"rtx-3090": 700}}
    _, found = asked(tmp_path, offers, "--models", "qwen3:8b", "--budget", "3000EUR")
    assert found["others"] == []
    assert all(o["also"] == [] for o in found["options"])


def test_models_and_model_exclude_each_other() -> None:
    done = run("--model", "qwen3:8b", "--models", "qwen3:8b", "--budget", "3000EUR")
    assert isinstance(done.exception, BadInput)
    unknown = run("--models", "qwen3:8b,nobody-knows-this", "--budget", "3000EUR")
    assert isinstance(unknown.exception, UnknownName)
