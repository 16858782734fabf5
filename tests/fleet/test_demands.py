"""Demands in the words in which they are stated: lengths, percentiles, places, what may be lost, models that embed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fleets import RULES, ask
from inventories import make_node

from advisor.errors import AdvisorError, BadFile, BadInput
from advisor.fleet.demand import list_labels, load_fleet_rules, read_demand
from advisor.fleet.inventory.kubernetes import NodeOptions
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import parse_inventory
from advisor.fleet.plan_types import FleetPlan
from advisor.fleet.render import read_plan_file, render_fleet
from advisor.session import Session

QWEN = {"model": "Qwen/Qwen3-8B", "rate": 5, "tpot_s": 0.05}
BIG = {"name": "big", "count": 2, "hardware": "2x H100 80GB SXM, 512GB RAM, linux", "price_per_hour": 5}
SMALL = {"name": "small", "count": 2, "hardware": "1x L4, 64GB RAM, linux", "price_per_hour": 0.6}
H100 = {"name": "h", "count": 1, "hardware": "1x H100 80GB SXM, 128GB RAM, linux", "price_per_hour": 2}


def read(folder: Path, entry: dict[str, Any]) -> Any:
    (folder / "d.json").write_text(json.dumps({"models": [{"model": "Qwen/Qwen3-8B", **entry}]}))
    return read_demand(folder / "d.json", RULES)[0]


def nodes_of(plan: FleetPlan) -> set[str]:
    return {n.rpartition("-")[0] for r in plan.replicas for n in r.nodes}


@pytest.mark.parametrize("share", [99, "p99", "99%", 0.99, "P 99"])
def test_lengths_and_percentiles_as_people_write_them(share: object, tmp_path: Path) -> None:
    if share == "P 99":
        with pytest.raises(BadFile, match="percentile"):
            read(tmp_path, {"rate": 1, "percentile": share})
        return
    found = read(tmp_path, {"rate": 1, "percentile": share, "context": "128k", "prompt_tokens": "1,000"})
    assert found.percentile == 0.99
    assert (found.workload.context, found.workload.prompt_tokens) == (131072, 1000)


def test_words_of_others_are_named(tmp_path: Path) -> None:
    for word, ours in load_fleet_rules(RULES).other_words.items():
        with pytest.raises(BadFile, match=rf"unknown key '{word}' \({ours}\?\)"):
            read(tmp_path, {word: 1})


def test_replicas_stand_where_they_may(tmp_path: Path) -> None:
    """Spot nodes are cheaper, and only what says so stays off them."""
    cheap = {**BIG, "name": "cheap", "price_per_hour": 1, "labels": {"karpenter.sh/capacity-type": "spot", "zone": "a"}}
    sure = {**BIG, "name": "sure", "labels": {"karpenter.sh/capacity-type": "on-demand", "zone": "b"}}
    asked: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"cheap"}), ({"spot": False}, {"sure"}), ({"spot": True}, {"cheap"}), ({"where": {"zone": "b"}}, {"sure"}),
    ]  # fmt: skip
    models = [{**QWEN, "name": str(k), **more} for k, (more, _) in enumerate(asked)]
    plan = ask(tmp_path, [cheap, sure], [*models, {**QWEN, "name": "c", "where": {"zone": "c"}}])
    for k, (_, nodes) in enumerate(asked):
        assert {n.rpartition("-")[0] for r in plan.replicas if r.name == str(k) for n in r.nodes} == nodes
    assert [(u.name, u.code) for u in plan.unserved] == [("c", "where")]
    assert "zone=c" in plan.unserved[0].why


def test_what_stays_up_serves_the_demand(tmp_path: Path) -> None:
    """Any node may be lost; without that, one strong replica and weak ones are `spread`, which the notes say."""
    plan = ask(tmp_path, [BIG, SMALL], [{**QWEN, "survive": 1}])
    nodes = {n for r in plan.replicas for n in r.nodes}
    for lost in nodes:
        assert sum(r.capacity for r in plan.replicas if lost not in r.nodes) >= QWEN["rate"]
    weak = ask(tmp_path, [BIG, SMALL], [{**QWEN, "spread": 3}])
    assert any("after the loss of one node" in n for n in weak.notes)
    none = ask(tmp_path, [{**BIG, "count": 1}], [{**QWEN, "survive": 1}])
    assert [u.code for u in none.unserved] == ["no_room"]


def test_at_least_so_many_replicas(tmp_path: Path) -> None:
    plan = ask(tmp_path, [BIG, SMALL], [{**QWEN, "least": 3}])
    assert len(plan.replicas) == 3
    assert all(r.capacity > r.load for r in plan.replicas)


def test_models_that_embed_and_score_share_a_fleet_with_the_others(tmp_path: Path) -> None:
    models = [
        {"model": "BAAI/bge-m3", "rate": 50},
        {"model": "BAAI/bge-reranker-v2-m3", "rate": 5, "use_case": "rerank"},
    ]
    plan = ask(tmp_path, [{**H100, "count": 2}], [*models])
    assert {r.name for r in plan.replicas} == {"BAAI/bge-m3", "BAAI/bge-reranker-v2-m3"}
    assert any("no measured row" in n for n in plan.notes)
    with pytest.raises(BadInput, match="no reranker"):
        ask(tmp_path, [H100], [{"model": "BAAI/bge-m3", "rate": 5, "use_case": "rerank"}])


def test_taints_that_pods_tolerate_and_labels_that_are_asked_for(tmp_path: Path) -> None:
    taint = {"key": "dedicated", "value": "inference", "effect": "NoSchedule"}
    said = {"labels": {"nvidia.com/gpu.product": "NVIDIA-L40S", "team": "a"}, "resources": {"nvidia.com/gpu": "4"}}
    node = make_node(0, {**said, "spec": {"taints": [taint]}})
    data = json.dumps({"kind": "List", "items": [node]}).encode()
    assert make_fleet(parse_inventory(data, "x", RULES)).set_aside[0].reason.startswith("tainted: dedicated=inference")
    keep = list_labels([read(tmp_path, {"rate": 1, "where": {"team": "a"}})])
    for said_taint in ("dedicated", "dedicated=inference"):
        (pool,) = make_fleet(parse_inventory(data, "x", RULES, None, NodeOptions((said_taint,), keep))).pools
        assert pool.tolerations == ("dedicated=inference:NoSchedule",)
        assert pool.labels["team"] == "a"
    assert make_fleet(parse_inventory(data, "x", RULES, None, NodeOptions(("dedicated=web",)))).set_aside


def test_adapters_of_tenants_share_one_model(tmp_path: Path) -> None:
    """vLLM issue 17003: sixteen adapters, sixteen requests, one card; a hundred of rank 64 leave too little for all at
    once beside a model of 70B on four cards (1.66 GB a slot)."""
    plan = ask(tmp_path, [H100], [{"model": "meta-llama/Llama-2-7b-hf", "users": 16, "lora_adapters": 16}])
    assert len(plan.replicas) == 1
    assert "--max-loras 16" in str(plan.replicas[0].command)
    a100 = {"name": "a", "count": 2, "hardware": "8x A100 80GB SXM, 2TB RAM, linux", "price_per_hour": 10}
    base = {"model": "meta-llama/Llama-3.1-70B-Instruct", "users": 32, "quantizations": ["bf16"]}
    plan = ask(tmp_path, [a100], [{**base, "least": 2, "lora_adapters": 100, "lora_rank": 64}])
    assert [r.devices for r in plan.replicas] == [4, 4]
    slots = re.search(r"--max-loras (\d+)", str(plan.replicas[0].command))
    assert slots is not None
    assert int(slots[1]) * 161_792 * 64 * 80 * 2 < 4 * 80 * 2**30 - 131 * 2**30


def test_a_server_in_host_memory_does_not_keep_a_model_off_two_nodes(tmp_path: Path) -> None:
    """KTransformers holds DeepSeek-V3 in FP8 beside eight H100, far too slowly; two nodes hold it on their cards."""
    node = {"name": "n", "count": 4, "hardware": "8x H100 80GB SXM, 2TB RAM, linux", "price_per_hour": 20}
    model = {"model": "deepseek-ai/DeepSeek-V3", "rate": 4, "prompt_tokens": 2000, "output_tokens": 500}
    plan = ask(tmp_path, [node], [{**model, "quantizations": ["fp8"]}])
    assert plan.exit_status == 0
    assert {len(r.nodes) for r in plan.replicas} == {2}


def test_a_target_that_a_long_prompt_misses_names_the_prompt(tmp_path: Path) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "users": 2, "prompt_tokens": 4000, "output_tokens": 100, "ttft_s": 0.2}
    nodes = [{"name": "n", "hardware": "1x L4, 64GB RAM, linux"}]
    assert "a prompt of 12,000 tokens" in ask(tmp_path, nodes, [asked]).unserved[0].why
    assert "prompt_p95" not in ask(tmp_path, nodes, [{**asked, "prompt_p95": 5000}]).unserved[0].why


SMALL_MODELS = [
    {"model": "Qwen/Qwen3-Reranker-0.6B", "users": 4, "use_case": "rerank"},
    {"model": "Qwen/Qwen3-Embedding-0.6B", "users": 4, "use_case": "embeddings"},
    {"model": "llama3.1:8b", "rate": 1, "prompt_tokens": 500, "output_tokens": 200},
]


def test_small_models_share_a_card_where_they_may(tmp_path: Path) -> None:
    """On one card of 48 GB all three stand, each with its part; a card of its own for each is refused."""
    one = {"name": "a", "count": 1, "hardware": "1x RTX 6000 Ada 48GB, 128GB RAM, linux", "price_per_hour": 1}
    assert len(ask(tmp_path, [one], SMALL_MODELS).unserved) == 2
    plan = ask(tmp_path, [one], [{**m, "share_card": True} for m in SMALL_MODELS])
    assert not plan.unserved
    assert sum(r.card_share for r in plan.replicas) <= 1
    shares = [float(re.findall(r"--gpu-memory-utilization (\S+)", r.command)[0]) for r in plan.replicas]
    assert sum(shares) < 0.98
    assert all(s <= r.card_share for s, r in zip(shares, plan.replicas, strict=True))
    assert len({r.port for r in plan.replicas}) == 3
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    planned = read_plan_file(str(tmp_path / "plan.json"))
    assert len(render_fleet(planned, "compose", Session(RULES))) == 1
    with pytest.raises(BadInput, match="shares a card"):
        render_fleet(planned, "kubernetes", Session(RULES))


@pytest.mark.parametrize("rate", [pytest.param(1, marks=pytest.mark.slow), 8, pytest.param(60, marks=pytest.mark.slow)])
def test_sharing_costs_no_more_and_no_card_is_full_twice(rate: int, tmp_path: Path) -> None:
    nodes = [{**SMALL, "count": 6}, {**BIG, "hardware": "3x L40S, 256GB RAM, linux"}]
    models = [{**SMALL_MODELS[2], "rate": rate}, {**QWEN, "rate": 1, "name": "b"}]
    alone, shared = (ask(tmp_path, nodes, [{**m, "share_card": s} for m in models]) for s in (False, True))
    assert not alone.unserved
    assert not shared.unserved
    assert (shared.cost_per_hour.likely or 0) <= (alone.cost_per_hour.likely or 0) * 1.002
    full: dict[tuple[str, int], float] = {}
    for r in shared.replicas:
        for node in r.nodes:
            for i in r.device_indices:
                full[node, i] = full.get((node, i), 0.0) + r.card_share
    assert max(full.values()) <= 1


def test_a_part_of_a_card_serves_no_more_than_its_part(tmp_path: Path) -> None:
    """What two halves serve in time is no more than a whole card does."""
    whole, half = (
        {**SMALL_MODELS[2], "rate": 0.01, "ttft_s": 4, "tpot_s": 0.1, "share_card": s} for s in (False, True)
    )
    card = {**SMALL, "hardware": "1x L40S, 64GB RAM, linux"}
    amounts = [ask(tmp_path, [card], [m]).replicas[0] for m in (whole, half)]
    assert amounts[1].card_share < 1
    assert amounts[1].capacity <= amounts[1].card_share * amounts[0].capacity * 1.02


def test_a_smaller_cache_holds_more_users_and_no_number_of_them_is_the_most(tmp_path: Path) -> None:
    """360 sequences of 4,096 tokens on H100s (ai-runway/airunway#139): at 320 KiB a token 2 cards hold about 55 next to
    FP8 weights, and with a cache of 8 bits twice as many, more than the 64 that a launch is sized for first."""
    node = {**H100, "hardware": "8x H100 80GB SXM, 2TB RAM, linux"}
    users = {"model": "meta-llama/Llama-3.3-70B-Instruct", "users": 360, "prompt_tokens": 3584, "output_tokens": 512,
             "use_case": "batch", "quantizations": ["fp8"]}  # fmt: skip
    wide, small = ask(tmp_path, [node], [users]), ask(tmp_path, [node], [{**users, "kv_bits": 8}])
    assert (len(wide.unserved), len(small.unserved)) == (1, 0)
    assert max(r.capacity for r in small.replicas) > 64
    assert all("--kv-cache-dtype fp8" in r.command for r in small.replicas)


def test_what_nothing_sizes_does_not_keep_the_others_from_a_plan(tmp_path: Path) -> None:
    speech = {"model": "openai/whisper-large-v3", "users": 1}
    plan = ask(tmp_path, [H100], [QWEN, speech])
    assert [r.model for r in plan.replicas] == [QWEN["model"]]
    assert [(u.name, u.code) for u in plan.unserved] == [("openai/whisper-large-v3", "speech_model")]
    assert plan.exit_status == 1
    with pytest.raises(AdvisorError, match="reads speech"):
        ask(tmp_path, [H100], [speech])
