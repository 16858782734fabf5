"""What a buyer has already (places, power, cards), and what is offered where nothing good can be had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.advice.hardware.budget import load_budget_rules
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.estimation import find_machine
from advisor.machines.types import CardRoom

RULES = catalog([shipped_root()])
BUDGET = load_budget_rules(RULES)


def ask(tmp_path: Path, prices: dict[str, float], *words: str, counts: tuple[int, ...] = (1,)) -> dict[str, Any]:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"unit": "EUR once", "counts": list(counts), "prices": prices}))
    done = CliRunner().invoke(root, ["hardware", *words, "--prices", str(path), "--json"], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return dict(json.loads(done.stdout))


def list_cards(answer: dict[str, Any]) -> set[tuple[str, int]]:
    return {(o["accelerator"], o["count"]) for o in answer["options"]}


def list_refused(answer: dict[str, Any]) -> dict[tuple[str, int], str]:
    return {(r["accelerator"], r["count"]): r["code"] for r in answer["rejected"]}


@pytest.mark.parametrize(
    ("words", "room"),
    [
        ("desktop, 32GB RAM, 750W power supply, one free slot", CardRoom(psu_watts=750, free_slots=1)),
        ("RTX 3070 8GB, 32GB RAM, 650W power supply, two slots", CardRoom(psu_watts=650, slots=2)),
        ("RTX 3090, 64GB RAM, 1000 W PSU, second slot free", CardRoom(psu_watts=1000, free_slots=1)),
        ("RTX 3060 with 850W PSU and two free slots", CardRoom(psu_watts=850, free_slots=2)),
        ("RTX 3060, psu: Corsair 850W", CardRoom(psu_watts=850)),
        ("RTX 3060, 3 free PCIe x16 slots", CardRoom(free_slots=3)),
        ("i7-7700K, RX 7600 8GB, 48GB DDR4, one double slot", CardRoom(slots=1)),
        ("desktop, RTX 3090 24GB, 64GB RAM, one free double slot", CardRoom(free_slots=1)),
        ("Tiger Lake mini board, 32GB DDR4-3200, no PCIe slot", CardRoom(free_slots=0)),
        ("Strix Halo mini PC, 128GB unified memory, no slots", CardRoom(free_slots=0)),
        (
            "desktop, RTX 5070 Ti 16GB, 64GB DDR5, no free slot",
            CardRoom(slots=1),
        ),  # the card that is there may come out
        ("office pc 16GB RAM 300W psu low profile", CardRoom(psu_watts=300, low_profile=True)),
        ("sff pc, half-height slot, without a power lead", CardRoom(low_profile=True, no_lead=True)),
        (
            "2U rack server, 3 double-wide slots, passive cooling, 2x 1100W power supplies, 256GB RAM",
            CardRoom(psu_watts=1100, slots=3, passive=True),
        ),
    ],
)
def test_room_for_cards_is_read(words: str, room: CardRoom) -> None:
    assert find_machine(words, RULES).place == room


def test_a_limit_of_a_card_is_no_power_supply() -> None:
    found = find_machine("RTX 3090, 64GB RAM, power limit 250W", RULES)
    assert found.place is None
    assert found.devices[0].power_limit_watts == 250


def test_cards_go_where_there_is_a_place(tmp_path: Path) -> None:
    words = ("--on", "desktop, 64GB RAM, 1500W power supply, one free slot", "--model", "qwen3:32b", "--cards-only")
    found = ask(tmp_path, {"rtx-3090": 700}, *words, "--budget", "3000EUR", counts=(1, 2))
    assert list_cards(found) == {("rtx-3090", 1)}
    assert list_refused(found)["rtx-3090", 2] == "no_place"


def test_a_slot_without_a_lead_gives_75_watts(tmp_path: Path) -> None:
    """70 W each of the RTX A2000 and the RTX 2000 Ada, 170 W of the RTX 3060: NVIDIA's data sheets."""
    prices: dict[str, float] = {"rtx-a2000": 300, "rtx-3060-12gb": 200, "rtx-2000-ada": 600}
    words = ("--model", "qwen3:8b", "--users", "1", "--budget", "1000EUR")
    found = ask(tmp_path, prices, "--on", "pc, 16GB RAM, no PCIe power connector", *words)
    assert list_cards(found) == {("rtx-a2000", 1), ("rtx-2000-ada", 1)}
    assert all((RULES.accelerators()[a].tdp_watts or 0) <= 75 for a, _ in list_cards(found))


def test_low_profile_cards_are_small_and_known() -> None:
    known = RULES.accelerators()
    assert set(BUDGET.place.low_profile) <= set(known)
    assert all((known[a].tdp_watts or 0) <= 75 for a in BUDGET.place.low_profile)


def test_a_case_that_moves_the_air_takes_cards_without_a_fan(tmp_path: Path) -> None:
    prices: dict[str, float] = {"rtx-pro-6000-ws": 9000, "rtx-pro-6000-server": 9000, "a100-80gb-pcie": 8000}
    words = ("--on", "2U rack server, 256GB RAM, passive cooling", "--model", "gpt-oss:120b", "--users", "8")
    found = ask(tmp_path, prices, *words, "--budget", "10000EUR")
    assert list_cards(found) == {("rtx-pro-6000-server", 1), ("a100-80gb-pcie", 1)}


@pytest.mark.parametrize(("watts", "offered"), [(1700, True), (1600, True), (1200, False)])
def test_a_supply_that_is_a_little_too_small_is_said(tmp_path: Path, watts: int, offered: bool) -> None:
    """Four cards of 350 W and 250 W for the rest are 1,650 W; a quarter less a card needs 1,300 W."""
    words = ("--on", f"2x RTX 3090, 64GB RAM, {watts}W power supply, 4 slots", "--model", "70B", "--users", "2")
    found = ask(tmp_path, {"rtx-3090": 700}, *words, "--budget", "3000EUR", counts=(4,))
    assert (("rtx-3090", 4) in list_cards(found)) is offered
    option = next((o for o in found["options"] if o["count"] == 4), None)
    assert option is None or option["price"] == 1400
    assert option is None or any("limit of 338 W" in w for w in option["why"]) is (watts == 1600)


def test_a_card_of_the_same_maker_stays(tmp_path: Path) -> None:
    prices: dict[str, float] = {"rtx-4060-ti-16gb": 450, "rx-7900-xtx": 800}
    words = ("--on", "RTX 4070 Ti Super 16GB, 64GB RAM, 1000W power supply, second slot free")
    found = ask(tmp_path, prices, *words, "--model", "Qwen/Qwen3.6-27B", "--context", "65536", "--budget", "1200EUR")
    of = {o["accelerator"]: o for o in found["options"]}
    assert of["rtx-4060-ti-16gb"]["hardware"] == (
        "1x GeForce RTX 4060 Ti 16GB, 1x GeForce RTX 4070 Ti SUPER, 64GB RAM, linux"
    )
    assert of["rtx-4060-ti-16gb"]["price"] == 450
    assert "SUPER" not in of.get("rx-7900-xtx", {}).get("hardware", "")  # no engine splits a model over both makers


def test_what_is_no_better_than_what_is_there_is_not_offered(tmp_path: Path) -> None:
    words = ("--on", "RTX 4090, 64GB RAM", "--model", "qwen3:8b", "--users", "1", "--budget", "2000EUR")
    found = ask(tmp_path, {"rx-9060-xt-16gb": 400}, *words)
    assert found["options"] == []
    assert list_refused(found) == {("rx-9060-xt-16gb", 1): "no_better"}


def test_narrow_weights_stand_apart_where_nothing_good_can_be_had(tmp_path: Path) -> None:
    """70 billion parameters at four bits and a half are 39.4 GB: 40 GiB take less than that, with a cache."""
    prices: dict[str, float] = {"a100-40gb-pcie": 3000, "rtx-pro-6000-ws": 15000}
    words = ("--model", "70B", "--users", "1")
    poor = ask(tmp_path, prices, *words, "--budget", "6000EUR")
    assert poor["options"] == []
    assert [(o["accelerator"], o["weak"]) for o in poor["weak"]] == [("a100-40gb-pcie", "too_narrow")]
    assert RULES.quantization(poor["weak"][0]["quantization"]).bits_nominal < 4.5
    good = ask(tmp_path, prices, *words, "--budget", "20000EUR")
    assert [o["accelerator"] for o in good["options"]] == ["rtx-pro-6000-ws"]
    assert good["weak"] == []


def test_a_low_end_far_below_the_likeliest_rate_does_not_refuse(tmp_path: Path) -> None:
    words = (
        "--model",
        "MiniMaxAI/MiniMax-M3",
        "--use-case",
        "agent",
        "--users",
        "12",
        "--prompt-tokens",
        "12000",
        "--budget",
        "80000EUR",
    )
    found = ask(tmp_path, {"rtx-pro-6000-maxq": 15000}, *words, counts=(4,))
    each = found["options"][0]["speed"]["tpot_s"]
    assert found["weak"] == []
    assert 1 / each["high"] < 8 <= BUDGET.least_known / each["value"]


def test_nothing_used_where_new_goods_are_asked() -> None:
    words = ("--model", "qwen3:14b", "--users", "1", "--budget", "2500EUR", "--new", "--json")
    found = json.loads(CliRunner().invoke(root, ["hardware", *words]).stdout)
    used = {h.words for h in BUDGET.hosts if h.price.kind == "used"}
    assert found["options"]
    assert not any(o["price_kind"] == "used" or o["host"] in used for o in found["options"])


def test_an_architecture_that_has_ended_is_not_rented_unasked() -> None:
    words = ["hardware", "--model", "qwen3:8b", "--rent", "300EUR/month", "--json"]
    found = json.loads(CliRunner().invoke(root, words).stdout)
    ended = {"Maxwell", "Maxwell 2.0", "Pascal", "Volta"}  # CUDA 13.0's release notes
    assert found["options"]
    assert not any(RULES.accelerators()[o["accelerator"]].architecture in ended for o in found["options"])
    asked = json.loads(CliRunner().invoke(root, [*words, "--engine", "llama.cpp"]).stdout)
    assert any(RULES.accelerators()[o["accelerator"]].architecture == "Volta" for o in asked["options"])


def test_the_danish_crown_keeps_to_its_peg() -> None:
    """ERM II: 7.46038 for one euro, within 2.25 %."""
    rates = BUDGET.rates.per_usd
    assert rates["DKK"] / rates["EUR"] == pytest.approx(7.46038, rel=0.0225)
    assert {"CHF", "CAD", "AUD", "SEK", "NOK", "PLN", "JPY"} <= set(rates)


def test_a_wish_that_is_met_asks_for_no_card(tmp_path: Path) -> None:
    """A second card beside one that meets the target changes nothing, and a faster one is not needed."""
    words = ("--on", "RTX 4090, 64GB RAM", "--model", "qwen3:8b", "--users", "1", "--budget", "9000EUR")
    prices: dict[str, float] = {"rtx-3060-12gb": 260, "rtx-5090": 4500}
    found = ask(tmp_path, prices, *words, "--target-tps", "40")
    assert (found["options"], found["buy_nothing"]) == ([], True)
    assert set(list_refused(found).values()) == {"no_better"}
    assert ("rtx-5090", 1) in list_cards(ask(tmp_path, prices, *words))  # without a target what is quicker is offered


@pytest.mark.parametrize(("words", "beside"), [("one slot", False), ("one free slot", True)])
def test_a_card_makes_place_where_no_slot_is_free(tmp_path: Path, words: str, beside: bool) -> None:
    on = ("--on", f"desktop, RTX 2080 8GB, 32GB RAM, 850W power supply, {words}")
    found = ask(tmp_path, {"rtx-5060-ti-16gb": 700}, *on, "--model", "gpt-oss:20b", "--budget", "800EUR")
    assert [("RTX 2080" in o["hardware"]) for o in found["options"]] == [beside]


def test_no_card_goes_where_no_slot_is(tmp_path: Path) -> None:
    on = ("--on", "Tiger Lake mini board, 32GB DDR4-3200, no PCIe slot")
    found = ask(tmp_path, {"rtx-3060-12gb": 260}, *on, "--model", "Qwen/Qwen3-4B", "--budget", "300USD")
    assert not found["options"]
    assert list_refused(found)["rtx-3060-12gb", 1] == "no_place"


@pytest.mark.slow
def test_a_second_box_of_the_same_kind_is_not_faster() -> None:
    """Two coupled Strix Halo measured no more than one with Qwen3.8-Flash-Next (antirez/ds4 issue 1026, 2026-09-11)."""
    words = ["--on", "GMKtec EVO-X2 / Strix Halo mini PC, 128GB unified memory, no PCIe slot", "--budget", "3800USD"]
    ask_for = ["hardware", "--users", "1", "--context", "65536", "--json", "--model", "Qwen3.8-Flash-Next"]
    found = json.loads(CliRunner().invoke(root, [*ask_for, *words]).stdout)
    assert "ryzen-ai-max-395" not in {o["accelerator"] for o in found["options"]}


def test_no_card_goes_into_a_laptop() -> None:
    words = ("--model", "gpt-oss:120b", "--users", "1", "--budget", "5000EUR", "--json", "--on")
    found = json.loads(CliRunner().invoke(root, ["hardware", *words, "laptop"]).stdout)
    assert {o["accelerator"] for o in found["options"]} >= {"ryzen-ai-max-395"}
    assert all(RULES.accelerators()[o["accelerator"]].unified for o in found["options"])
    assert any("laptops have no prices here" in note for note in found["notes"])
    assert find_machine("laptop, eGPU", RULES).place == CardRoom(free_slots=1)


def test_a_small_card_is_not_bought_for_a_part_of_a_model() -> None:
    """Buyers' guides of autumn 2026 name no card of 8 GB for a model that it does not hold by itself."""
    ask_for = ["hardware", "--users", "1", "--json", "--budget", "900USD", "--cards-only"]
    words = ["--on", "desktop, RTX 5060 Ti 16GB, 32GB RAM, 750W power supply, one free slot", "--context", "32768"]
    split = json.loads(CliRunner().invoke(root, [*ask_for, *words, "--model", "Qwen/Qwen3.8-27B"]).stdout)
    assert split["options"]
    assert all((RULES.accelerators()[o["accelerator"]].memory_bytes or 0) > 8 * 2**30 for o in split["options"])
    alone = json.loads(CliRunner().invoke(root, [*ask_for, "--model", "qwen3:4b"]).stdout)
    assert any((RULES.accelerators()[o["accelerator"]].memory_bytes or 0) == 8 * 2**30 for o in alone["options"])


@pytest.mark.slow
def test_two_dgx_spark_are_offered_linked() -> None:
    words = ["hardware", "--model", "deepseek-ai/DeepSeek-V4-Flash", "--use-case", "agent", "--users", "1"]
    found = json.loads(
        CliRunner().invoke(root, [*words, "--budget", "14000USD", "--context", "131072", "--json"]).stdout
    )
    assert {("gb10-dgx-spark", 2), ("apple-m5-ultra", 1)} <= list_cards(found)
