"""Ways to lay a model out over cards, against lists worked out by hand from heads, experts, layers and nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment
from advisor.engines import settings_entry
from advisor.estimation import find_machine
from advisor.planning import layouts
from advisor.planning.layouts import (
    Unit,
    copy_unit,
    count_copy_nodes,
    count_experts,
    list_card_sets,
    list_servers,
    list_units,
    share_devices,
    spread_over_cards,
    with_visible_devices,
)
from advisor.planning.types import CardLayout

RULES = catalog([shipped_root()])


def make(model: str, hardware: str, engine: str = "vllm", quantization: str = "BF16", **more: Any) -> Deployment:
    machine = find_machine(hardware, RULES)
    return Deployment(model=RULES.find_model(model), engine=engine, quantization=quantization, machine=machine, **more)


def units(model: str, hardware: str, engine: str = "vllm") -> list[Unit]:
    return list(list_units(make(model, hardware, engine), settings_entry(engine, RULES.engines())))


def shape(unit: Unit) -> tuple[int, ...]:
    """(cards, tensor, pipeline, data, expert, nodes), 1 where last resort."""
    x = unit.layout
    return (unit.cards, x.tensor, x.pipeline, x.data, x.expert, x.nodes, int(unit.last_resort))


# 32 heads, 8 of keys: 1, 2, 4, 8 ranks; sizes that divide are stages of these
DENSE_8 = [(1, 1, 1, 1, 1, 1, 0), (2, 2, 1, 1, 1, 1, 0), (4, 4, 1, 1, 1, 1, 0), (8, 8, 1, 1, 1, 1, 0)]


def test_a_dense_model_on_eight_cards() -> None:
    found = [shape(u) for u in units("llama3.1:8b", "8x L40S")]
    assert [s for s in found if not s[-1]] == DENSE_8
    # every other number of cards in stages, of as many ranks as divide it
    assert [s for s in found if s[-1]] == [(3, 1, 3, 1, 1, 1, 1), (5, 1, 5, 1, 1, 1, 1), (6, 2, 3, 1, 1, 1, 1),
                                           (7, 1, 7, 1, 1, 1, 1)]  # fmt: skip
    two = units("llama3.1:8b", "8x L40S")[1]
    assert two.deployment.settings == {"tensor-parallel-size": 2}
    assert two.deployment.device_count == 2
    assert two.layout.devices == (0, 1)
    six = next(u for u in units("llama3.1:8b", "8x L40S") if u.cards == 6)
    assert six.deployment.settings == {"tensor-parallel-size": 2, "pipeline-parallel-size": 3}
    assert six.layout.devices == (0, 1, 2, 3, 4, 5)


def test_one_card_and_a_processor() -> None:
    (one,) = units("llama3.1:8b", "1x L40S")
    assert (shape(one), one.deployment.settings, one.layout.devices) == ((1, 1, 1, 1, 1, 1, 0), {}, (0,))
    (cpu,) = units("llama3.1:8b", "cpu, 64GB RAM")
    assert (shape(cpu), cpu.layout.devices) == ((1, 1, 1, 1, 1, 1, 0), ())


def test_experts_on_ranks_of_their_own() -> None:
    """128 experts, 32 heads, 4 of keys on 4 cards: whole experts, with attention split or copied."""
    found = [shape(u) for u in units("Qwen/Qwen3-30B-A3B", "4x H100") if not u.last_resort]
    assert (2, 2, 1, 1, 2, 1, 0) in found
    assert (4, 4, 1, 1, 4, 1, 0) in found
    assert (4, 1, 1, 4, 4, 1, 0) in found  # replicas that share the experts
    apart = next(u for u in units("Qwen/Qwen3-30B-A3B", "4x H100") if u.layout.data == 4)
    assert apart.layout.dp_attention
    assert apart.deployment.settings == {"enable-expert-parallel": True, "data-parallel-size": 4}
    own = next(u for u in units("Qwen/Qwen3-30B-A3B", "4x H100", "sglang") if u.layout.data == 4)
    assert (own.layout.tensor, own.layout.expert) == (4, 4)
    assert count_experts(RULES.find_model("Qwen/Qwen3-30B-A3B")) == 128
    assert count_experts(RULES.find_model("llama3.1:8b")) == 0
    assert not [u for u in units("llama3.1:8b", "4x H100") if u.layout.expert > 1]


def test_several_nodes_split_each_layer_or_are_stages() -> None:
    found = [shape(u) for u in units("llama3.1:8b", "8x H100 80GB SXM, 2 nodes, nvlink+infiniband")]
    assert found == [*DENSE_8, (16, 16, 1, 1, 1, 2, 0), (16, 8, 2, 1, 1, 2, 0)]
    last = units("llama3.1:8b", "8x H100 80GB SXM, 2 nodes, nvlink+infiniband")[-1]
    assert last.deployment.settings["pipeline-parallel-size"] == 2
    assert last.deployment.settings["tensor-parallel-size"] == 8
    assert last.layout.devices == tuple(range(8))


def test_unlike_cards_alone_and_together() -> None:
    mixed = find_machine("2x RTX 3090 + 1x RTX 4090, 64GB RAM", RULES)
    sets = [[d.name for d in m.usable_devices] for m in list_card_sets(mixed)]
    assert [len(s) for s in sets] == [2, 1, 3]
    assert {*sets[0]} != {*sets[1]}
    alike = find_machine("2x RTX 3090, 64GB RAM", RULES)
    assert list_card_sets(alike) == (alike,)


def test_copies() -> None:
    base = make("llama3.1:8b", "4x L40S")
    entry = RULES.engine("vllm")
    unit = Unit(base, 1, CardLayout(devices=(0,)))
    assert copy_unit(unit, 1, entry) == (base, unit.layout, 1)
    made, layout, servers = copy_unit(unit, 4, entry)
    assert (made.settings, made.device_count, servers) == ({"data-parallel-size": 4}, 4, 1)
    assert (layout.data, layout.devices) == (4, (0, 1, 2, 3))
    moe = Unit(make("Qwen/Qwen3-30B-A3B", "4x H100"), 2, CardLayout(tensor=2, devices=(0, 1)))
    made, layout, servers = copy_unit(moe, 2, entry)
    assert (made.settings, servers, layout.data, layout.devices) == ({}, 2, 1, (0, 1, 2, 3))
    llama = Unit(make("llama3.1:8b", "4x L40S", "llama.cpp", "Q4_K_M"), 1, CardLayout(devices=(0,)))
    assert copy_unit(llama, 3, RULES.engine("llama.cpp"))[2] == 3


@pytest.mark.parametrize(
    ("hardware", "cards", "copies", "nodes"),
    [("4x L40S", 1, 4, 1), ("4x L40S, 2 nodes", 1, 4, 1), ("4x L40S, 2 nodes", 1, 5, 2), ("4x L40S, 2 nodes", 2, 3, 2),
     ("4x L40S, 2 nodes", 4, 2, 2), ("cpu, 64GB RAM", 1, 3, 1)],
)  # fmt: skip
def test_nodes_of_copies(hardware: str, cards: int, copies: int, nodes: int) -> None:
    unit = Unit(make("llama3.1:8b", hardware), cards, CardLayout())
    assert count_copy_nodes(unit, copies) == nodes
    over = Unit(make("llama3.1:8b", hardware), cards, CardLayout(nodes=2))
    assert count_copy_nodes(over, copies) == 1


def test_cards_and_ports_of_servers() -> None:
    layout = CardLayout(devices=(0, 1, 2, 3))
    assert share_devices(layout, 2) == [(0, 1), (2, 3)]
    assert share_devices(layout, 4) == [(0,), (1,), (2,), (3,)]
    assert share_devices(CardLayout(devices=(0, 1), nodes=2), 4) == [(0,), (1,)]
    base = make("llama3.1:8b", "4x L40S", "llama.cpp", "Q4_K_M")
    servers = list_servers(base, layout, 2, 8080)
    assert [s.port for s in servers] == [8080, 8081]
    assert [s.environment for s in servers] == [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2,3"}]
    assert list_servers(base, layout, 1, 8080) == [base]


def test_visible_devices_of_a_part() -> None:
    whole = find_machine("2x RTX 3090 + 1x RTX 4090, 64GB RAM", RULES)
    base = make("llama3.1:8b", "2x RTX 3090 + 1x RTX 4090, 64GB RAM")
    assert with_visible_devices(base, whole) == base
    first, second, _ = list_card_sets(whole)
    shown = [with_visible_devices(msgspec.structs.replace(base, machine=m), whole).environment for m in (first, second)]
    assert shown == [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2"}]


def test_spread_over_all_cards() -> None:
    vllm = RULES.engine("vllm")
    assert spread_over_cards(make("llama3.1:8b", "8x L40S"), vllm).settings == {"tensor-parallel-size": 8}
    assert spread_over_cards(make("llama3.1:8b", "6x L40S"), vllm).settings == {"tensor-parallel-size": 4}
    cpu = make("llama3.1:8b", "cpu, 64GB RAM")
    assert spread_over_cards(cpu, vllm) == cpu
    llama = make("llama3.1:8b", "2x L40S", "llama.cpp", "Q4_K_M")
    assert spread_over_cards(llama, RULES.engine("llama.cpp")).settings == {"n-gpu-layers": "all"}


@pytest.mark.parametrize(
    ("prompt", "context", "sizes"),
    [
        (512, 8192, [None]),
        (513, 8192, [1024, None]),
        (1024, 8192, [1024, None]),
        (1025, 8192, [2048, None]),
        (9000, 32768, [4096, None]),
        (9000, 1000, [1024, None]),
    ],
)
def test_sizes_of_a_pass(prompt: int, context: int, sizes: list[int | None]) -> None:
    """The next power of two that takes the prompt, above the usual 512 and up to 4,096 or the context."""
    base = make("gpt-oss:120b", "RTX 4090, 128GB RAM", "llama.cpp", "MXFP4", context_length=context)
    passes = list(layouts._list_passes(base, RULES.engine("llama.cpp"), "ubatch-size", prompt))
    assert [p.get("ubatch-size") for p in passes] == sizes
    assert [p.get("batch-size") for p in passes] == [s if s and s > 2048 else None for s in sizes]
    given = make(
        "gpt-oss:120b", "RTX 4090, 128GB RAM", "llama.cpp", "MXFP4", context_length=context,
        settings={"ubatch-size": 256},
    )  # fmt: skip
    assert list(layouts._list_passes(given, RULES.engine("llama.cpp"), "ubatch-size", prompt)) == [{}]
