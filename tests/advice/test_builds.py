"""Whole computers: cards with a host that carries them, each with the plan that `recommend` has for it."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import pytest
from click.testing import CliRunner

import advisor
from advisor.advice.hardware.budget import load_budget_rules
from advisor.advice.hardware.builds import find_host
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.errors import BadInput

RULES = catalog([shipped_root()])
BUDGET = load_budget_rules(RULES)


def ask(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(root, ["hardware", *words, "--json"], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return dict(json.loads(done.stdout))


def list_fitting(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [o for o in answer["options"] if o["fits"]]


@pytest.mark.parametrize(
    ("card", "count", "places", "watts"),
    [
        ("rtx-3060-12gb", 1, 1, 170),
        ("rtx-3090", 1, 1, 350),
        ("rtx-3090", 2, 2, 700),
        ("rtx-5090", 1, 1, 575),
        ("rtx-pro-6000-maxq", 4, 4, 1200),
        ("h200-sxm", 8, 8, 5600),
    ],
)
def test_a_host_has_places_and_power_for_all_cards(card: str, count: int, places: int, watts: int) -> None:
    """Board powers are those of the makers' data sheets."""
    entry = RULES.accelerators()[card]
    host = find_host(entry, count, 0, BUDGET)
    assert host is not None
    assert entry.form in host.forms
    assert host.cards >= places
    assert host.card_watts >= watts
    cheaper = [h for h in BUDGET.hosts if entry.form in h.forms and h.price.low + (h.price.high or h.price.low) < (
        host.price.low + (host.price.high or host.price.low))]  # fmt: skip
    assert all(h.cards < places or h.card_watts < watts for h in cheaper)


def test_no_host_carries_what_it_has_no_place_for() -> None:
    assert find_host(RULES.accelerators()["rtx-5090"], 8, 0, BUDGET) is None  # three slots wide each
    assert find_host(RULES.accelerators()["apple-m3-ultra"], 1, 0, BUDGET) is None  # a whole computer


def test_a_dear_card_is_not_put_into_a_used_tower() -> None:
    entry = RULES.accelerators()["rtx-pro-6000-maxq"]
    one = find_host(entry, 1, 15_000, BUDGET)
    assert one is not None
    assert one.price.kind == "new"


@pytest.mark.slow
def test_a_price_holds_the_cards_and_their_host() -> None:
    words = ("--model", "qwen3-32b", "--users", "1", "--budget", "3000EUR")
    whole = {(o["accelerator"], o["count"]): o for o in ask(*words)["options"]}
    cards = {(o["accelerator"], o["count"]): o for o in ask(*words, "--cards-only")["options"]}
    both = whole.keys() & cards.keys()
    assert ("rtx-3090", 1) in both
    hosts = {h.words: h for h in BUDGET.hosts}
    for key in both:
        one, other = whole[key], cards[key]
        if one["host"] is None:  # a whole computer costs the same
            assert one["price"] == other["price"]
            continue
        price = hosts[one["host"]].price
        middle = (price.low + (price.high or price.low)) / 2 * BUDGET.rates.per_usd["EUR"]
        assert one["host_price"] == pytest.approx(middle, abs=0.02)
        assert one["price"] == pytest.approx(other["price"] + middle, abs=0.02)
        assert one["price_range"]["low"] <= one["price"] <= one["price_range"]["high"]
        assert f"{hosts[one['host']].ram_gb}GB RAM" in one["hardware"]


def test_more_memory_for_experts_costs_what_a_gibibyte_costs() -> None:
    found = ask("--model", "gpt-oss-120b", "--users", "1", "--budget", "2500USD")
    option = next(o for o in found["options"] if o["hardware"] == "1x GeForce RTX 3090, 64GB RAM, linux")
    host = next(h for h in BUDGET.hosts if h.words == option["host"])
    low, high = (p + (64 - host.ram_gb) * gb for p, gb in zip((250, 600), host.usd_per_gb, strict=True))
    assert (host.price.low, host.price.high) == (250, 600)
    assert option["host_price"] == pytest.approx((low + high) / 2, abs=0.02)


@pytest.mark.slow
def test_an_option_is_the_plan_that_recommend_has() -> None:
    for o in list_fitting(ask("--model", "70B", "--users", "4", "--budget", "9000EUR"))[:4]:
        chosen = advisor.recommend(o["hardware"], model="70B", concurrency=4).chosen
        assert chosen is not None
        assert (chosen.engine, chosen.quantization, chosen.settings) == (o["engine"], o["quantization"], o["settings"])
        assert chosen.speed is not None
        assert chosen.speed.decode_tps is not None
        assert chosen.speed.decode_tps.value == pytest.approx(o["speed"]["decode_tps"]["value"])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["qwen3:14b", pytest.param("gpt-oss-120b", marks=pytest.mark.slow)])
def test_more_money_never_makes_the_first_dearer_nor_takes_an_option_away(model: str) -> None:
    before: list[dict[str, Any]] = []
    for amount in (1200, 2500, 6000):
        now = list_fitting(ask("--model", model, "--users", "2", "--budget", f"{amount}EUR"))
        assert {o["hardware"] for o in before} <= {o["hardware"] for o in now}
        if before:
            assert now[0]["price"] <= before[0]["price"]
        before = now
    assert before


@pytest.mark.slow
def test_without_a_model_each_computer_brings_its_own() -> None:
    found = ask("--use-case", "code", "--budget", "2000EUR")
    options = list_fitting(found)
    assert found["model"] is None
    assert len(options) >= 2
    assert all(RULES.find_model(o["model"]).layout is not None for o in options)
    assert all(o["price"] <= 2000 or o["within_budget"] is None for o in options)
    gain = BUDGET.worth_per_doubling
    order = [o["worth"] - gain * math.log2(o["price"]) for o in options]
    assert order == sorted(order, reverse=True)
    assert options[found["named"]["ablest"]]["worth"] == max(o["worth"] for o in options)


@pytest.mark.slow
def test_experts_in_host_memory_are_for_one_user() -> None:
    """235B at four bits is 130 GB and more: no desktop's cards hold it."""
    words = ("--model", "Qwen3-235B-A22B", "--budget", "5000EUR")
    alone, several = (ask(*words, "--users", n) for n in ("1", "8"))
    assert list_fitting(alone)
    assert "256GB RAM" in list_fitting(alone)[0]["hardware"]
    assert not list_fitting(several)


def test_software_that_is_not_there_yet_is_offered_to_who_asks() -> None:
    words = ("--model", "qwen3:8b", "--users", "1", "--budget", "900EUR")
    assert not any(o["accelerator"].startswith("arc-") for o in ask(*words)["options"])
    asked = ask(*words, "--engine", "llama.cpp")["options"]
    assert any(o["accelerator"].startswith("arc-") for o in asked)


def test_narrow_weights_are_no_reason_to_buy() -> None:
    found = ask("--model", "70B", "--users", "1", "--budget", "4000EUR")
    for kind in (RULES.quantization(o["quantization"]) for o in found["options"]):
        assert kind.bits_nominal >= 4
    asked = ask("--model", "70B", "--users", "1", "--budget", "4000EUR", "--quant", "Q2_K")["options"]
    assert asked
    assert {o["quantization"] for o in asked} == {"Q2_K"}


@pytest.mark.slow
def test_a_card_that_is_there_is_not_bought_again() -> None:
    words = ("--model", "70B", "--users", "1", "--budget", "6000EUR")
    one = next(o for o in ask(*words, "--cards-only")["options"] if (o["accelerator"], o["count"]) == ("rtx-3090", 2))
    more = ask("--on", "RTX 3090, 64GB RAM, linux", *words)
    assert not any((o["accelerator"], o["count"]) == ("rtx-3090", 1) for o in more["options"])
    two = next(o for o in more["options"] if (o["accelerator"], o["count"]) == ("rtx-3090", 2))
    assert two["price"] == pytest.approx(one["price"] / 2, abs=0.02)


def test_a_ladder_climbs_only_for_worth() -> None:
    """Each rung is what is worth the most within it, and a dearer one is worth more."""
    found = ask("--model", "qwen3:14b", "--users", "2", "--ladder")
    options, tie = found["options"], 0.15
    bought = [(rung["budget"], options[rung["option"]]) for rung in found["ladder"] if rung["option"] is not None]
    assert [rung["budget"] for rung in found["ladder"]] == list(BUDGET.ladder)
    assert bought
    for (budget, option), (_, after) in pairwise(bought):
        assert option["price"] <= budget
        assert option["worth"] >= max(o["worth"] for o in options if o["fits"] and o["price"] <= budget) - tie
        assert after is option or after["worth"] > option["worth"]


def test_a_ladder_ends_with_the_budget_and_has_no_rent() -> None:
    words = ("--model", "qwen3:8b", "--ladder")
    assert [r["budget"] for r in ask(*words, "--budget", "1000EUR")["ladder"]] == [500, 1000]
    with pytest.raises(BadInput, match="--rent"):
        ask(*words, "--rent", "100EUR/month")
