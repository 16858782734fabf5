"""Plans over linked nodes, over equal cards and with drafts, and rates of classes that the fit has no rows of, against
published ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from commands import advise

from advisor.catalog import catalog
from advisor.estimation import EstimateRequest, estimate, find_machine, resolve_request
from advisor.planning.recipes import find_draft_recipe, load_recipes
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad

RULES = catalog()
ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data/linked_nodes.csv").read_text("utf-8").splitlines()))


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['model']} {r['hardware']} {r['quantization']}" for r in ROWS])
def test_published_rates(row: dict[str, str]) -> None:
    settings: dict[str, str | int] = {}
    for name, _, value in (x.partition("=") for x in row["settings"].split("; ") if x):
        settings[name] = int(value) if value.isdigit() else value
    request = EstimateRequest(
        model=row["model"], quantization=row["quantization"], hardware=row["hardware"], engine=row["engine"],
        context_length=16384, sequences=int(row["users"]), settings=settings,
    )  # fmt: skip
    deployment, _ = resolve_request(request, RULES)
    users, prompt, output = (int(row[k]) for k in ("users", "prompt", "output"))
    load = RequestLoad(concurrency=users, prompt=prompt, output=output)
    speed = estimate_speed(deployment, estimate(deployment, Session(RULES)), Session(RULES), load)
    assert speed is not None
    assert speed.tpot_s is not None
    assert 1 / 1.55 < 1 / speed.tpot_s.value / float(row["tokens_per_s"]) < 1.55


def plan(*words: str) -> dict[str, object]:
    chosen: dict[str, object] = json.loads(advise("recommend", *words, "--json").stdout)["chosen"]
    return chosen


@pytest.mark.parametrize("users", ["1", "2", "4"])
def test_linked_computers_split_each_layer(users: str) -> None:
    words = ("--on", "2x DGX Spark", "--use-case", "agent", "--concurrency", users)
    layout = plan(*words, "--model", "MiniMaxAI/MiniMax-M2.7")["layout"]
    assert isinstance(layout, dict)
    assert (layout["tensor"], layout["pipeline"], layout["nodes"]) == (2, 1, 2)


def test_recipes_draft_where_they_say_so() -> None:
    h100, mi300 = (find_machine(x, RULES) for x in ("8x H100", "8x MI300X"))
    qwen = RULES.find_model("Qwen/Qwen3.5-397B-A17B")
    assert json.loads(str(find_draft_recipe("vllm", qwen, h100, RULES)["speculative-config"])) == {
        "method": "mtp", "num_speculative_tokens": 3,
    }  # fmt: skip
    assert find_draft_recipe("vllm", qwen, mi300, RULES) == {}
    assert find_draft_recipe("sglang", qwen, h100, RULES)["speculative-algorithm"] == "EAGLE"
    assert find_draft_recipe("vllm", RULES.find_model("llama3.1:70b"), h100, RULES) == {}
    known = load_recipes("vllm", RULES)
    assert known is not None
    for row in known.drafts:
        asked = json.loads(str(row.settings["speculative-config"]))
        assert asked["num_speculative_tokens"] >= 1
        assert "method" in asked or "model" in asked


def test_few_users_get_the_drafts_of_the_recipe() -> None:
    words = ("--model", "Qwen/Qwen3.6-27B", "--use-case", "code", "--concurrency")
    few, many = (str(plan("--on", "H100 80GB SXM", *words, n)["command"]) for n in ("8", "128"))
    assert '"num_speculative_tokens": 3' in few
    assert "speculative" not in many


def test_equal_cards_split_each_layer_in_llama_cpp() -> None:
    words = ("--model", "Qwen/Qwen3.6-27B", "--engine", "llama.cpp", "--concurrency", "1", "--on")
    assert "--split-mode tensor" in str(plan(*words, "2x RTX 5060 Ti 16GB, 64GB RAM, linux")["command"])
    for other in ("RTX 3090 + RTX 4090, 64GB RAM, linux", "2x RX 7900 XTX, 64GB RAM, linux", "RTX 5090, linux"):
        assert "split-mode" not in str(plan(*words, other)["command"])


def test_backends_by_measured_pairs() -> None:
    words = ("--model", "Qwen/Qwen3.6-35B-A3B", "--engine", "llama.cpp", "--on")
    assert "server-vulkan" in str(plan(*words, "Ryzen AI Max+ 395 128GB, linux")["command"])
    assert "server-rocm" in str(plan(*words, "Ryzen AI Max+ 395 128GB, linux", "--backend", "rocm")["command"])
    dense = ("--model", "Qwen/Qwen3-8B", "--engine", "llama.cpp", "--on", "RX 7900 XTX, 64GB RAM, linux")
    assert "server-rocm" in str(plan(*dense)["command"])


def test_no_draft_where_it_lies_worse_over_the_cards() -> None:
    """Four cards without NVLink: tensor parallel, no expert parallel (local-inference-lab/rtx6kpro, qwen35-397b.md)."""
    words = (
        "--on",
        "4x RTX PRO 6000 Blackwell 96GB",
        "--model",
        "Qwen3.5-397B-A17B",
        "--use-case",
        "agent",
        "--users",
        "16",
    )
    layout = plan(*words, "--engine", "vllm")["layout"]
    assert isinstance(layout, dict)
    assert (layout["tensor"], layout["expert"]) == (4, 1)


def test_a_second_socket_adds_nothing_to_what_does_not_place_by_socket() -> None:
    def rate(hardware: str) -> float:
        asked = EstimateRequest(
            model="openai/gpt-oss-20b",
            quantization="MXFP4_MOE",
            hardware=hardware,
            engine="llama.cpp",
            context_length=4096,
        )
        deployment, _ = resolve_request(asked, RULES)
        load = RequestLoad(concurrency=1, prompt=512, output=256)
        speed = estimate_speed(deployment, estimate(deployment, Session(RULES)), Session(RULES), load)
        assert speed is not None
        assert speed.tpot_s is not None
        return 1 / speed.tpot_s.value

    one, two = (rate(f"{x} EPYC 9334, 384GB DDR5-4800, 32 cores") for x in ("1x", "2x"))
    assert two == pytest.approx(one)


def test_limits_are_those_of_all_copies() -> None:
    words = (
        "--on",
        "8x H200",
        "--model",
        "MiMo-V2.5",
        "--use-case",
        "agent",
        "--users",
        "64",
        "--prompt-tokens",
        "12000",
    )
    answer = json.loads(advise("recommend", *words, "--json").stdout)
    beyond = next(x for x in answer["growth"] if "at once" in x and x.startswith("beyond"))
    assert answer["chosen"]["copies"] == 2
    assert int(beyond.split()[1]) >= 64


def test_rounds_of_whole_plans_are_kept() -> None:
    rounds = list(csv.DictReader((Path(__file__).parents[1] / "data/plan_rounds.csv").read_text("utf-8").splitlines()))
    signed = {n: sum(r["verdict"] == "sign" for r in rounds if r["round"] == n) for n in ("2", "3", "4", "5", "6")}
    assert (len(rounds), signed) == (100, {"2": 10, "3": 11, "4": 8, "5": 8, "6": 5})
    assert all(r["source"] and r["date"] and r["hardware"] for r in rounds)
