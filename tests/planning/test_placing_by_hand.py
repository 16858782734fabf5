"""Cards that are filled, slots, servers and users at a rate: against what a search of all possibilities finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from test_layouts import make
from test_search_by_hand import RULES, memory, row
from test_traffic_parts import make_traffic

from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import settings_entry
from advisor.engines.base import own_defaults
from advisor.engines.llama_cpp.plan import read_file_weights
from advisor.engines.llama_cpp.settings import LlamaDefaults
from advisor.memory.gguf_weights import sum_running
from advisor.planning import layouts, slots

MIB = 2**20
LLAMA = settings_entry("llama.cpp", RULES.engines())
MOE = make("Qwen/Qwen3-30B-A3B", "1x RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M", context_length=4096)
SUMS = sum_running(read_file_weights(MOE))
LAYERS = 48
CACHE, OUTPUT = 10 * MIB, 200 * MIB  # of a layer; of the output matrix
Ask = Callable[[Deployment], MemoryEstimate | None]


def sizes(staying: int) -> list[int]:
    """Bytes of each layer on its card: its weights and cache, and its experts unless they stay on the host."""
    return [
        SUMS.device[i + 1] - SUMS.device[i] + CACHE
        + (SUMS.expert_device[i + 1] - SUMS.expert_device[i] if i >= staying else 0)
        for i in range(LAYERS)
    ]  # fmt: skip


def on_cards(d: Deployment, cards: int) -> list[int]:
    """Bytes on each card by the settings; the last has the output matrix."""
    counts = [int(x) for x in str(d.settings.get("tensor-split", LAYERS + 1)).split(",")]
    assert len(counts) == cards
    assert sum(counts) == LAYERS + 1
    left, found = iter(sizes(int(d.settings.get("n-cpu-moe", 0)))), []
    for i, n in enumerate(counts):
        found.append(sum(itertools.islice(left, n)) + (OUTPUT if i == cards - 1 else 0))
    return found


def card_of(budgets: tuple[int, ...]) -> Ask:
    """A machine that does as its settings say."""

    def ask(d: Deployment) -> MemoryEstimate:
        used = on_cards(d, len(budgets))
        rows = [
            row(budget_bytes=b, high_bytes=n, kv_cache_bytes=CACHE * LAYERS // len(budgets),
                weights_bytes=n - CACHE * LAYERS // len(budgets))
            for b, n in zip(budgets, used, strict=True)
        ]  # fmt: skip
        return memory(*rows, fits=all(n <= b for b, n in zip(budgets, used, strict=True)))

    return ask


def fill(*budgets: int) -> Deployment | None:
    base = MOE
    if len(budgets) > 1:  # a first guess, as the engine shares layers out
        base = msgspec.structs.replace(MOE, settings={"tensor-split": f"24,{LAYERS + 1 - 24}"})
    return layouts._fill_cards(base, "n-cpu-moe", "tensor-split" if len(budgets) > 1 else None, card_of(budgets))


@pytest.mark.parametrize("staying", [0, 1, 7, 30, 47])
def test_as_few_layers_stay_on_the_host_as_fit(staying: int) -> None:
    """To the byte: with one less a further layer stays."""
    needed = sum(sizes(staying)) + OUTPUT
    found, fewer = fill(needed), fill(needed - 1)
    assert found is not None
    assert found.settings.get("n-cpu-moe", 0) == staying
    assert (fewer.settings["n-cpu-moe"] if fewer is not None else 48) == staying + 1


def test_a_card_that_is_too_small_for_the_rest() -> None:
    assert fill(sum(sizes(LAYERS)) + OUTPUT - 1) is None


@pytest.mark.parametrize(
    "budgets", [(8000, 6000), (6000, 8000), (3000, 12000), (12000, 3000), (9600, 9600), (2500, 2500)]
)
def test_two_cards_are_filled_as_far_as_a_search_finds(budgets: tuple[int, int]) -> None:
    first, second = (b * MIB for b in budgets)
    found = fill(first, second)

    def possible(n: int) -> bool:
        each = sizes(n)
        return any(sum(each[:k]) <= first and sum(each[k:]) + OUTPUT <= second for k in range(1, LAYERS))

    least = next((n for n in range(LAYERS) if possible(n)), None)
    assert (found is None) is (least is None)
    if found is not None and least is not None:
        answer = card_of((first, second))(found)
        assert answer is not None
        assert answer.fits
        assert int(found.settings.get("n-cpu-moe", 0)) - least in (0, 1)  # the output is not known to the byte


def test_nothing_is_filled_where_sizes_are_not_known() -> None:
    def unknown(d: Deployment) -> MemoryEstimate:
        return memory(row(high_bytes=1))

    assert layouts._fill_cards(MOE, "n-cpu-moe", None, unknown) is None
    assert layouts._fill_cards(MOE, "n-cpu-moe", None, lambda d: None) is None
    lost = msgspec.structs.replace(MOE, model=RULES.find_model("inclusionAI/Ling-2.6-flash"))
    assert layouts._fill_cards(lost, "n-cpu-moe", None, card_of((2**50,))) is None


def test_host_memory_that_is_short_is_no_use() -> None:
    """Everything fits on the card and the whole does not: more on the host makes it worse."""
    calls = []

    def short(d: Deployment) -> MemoryEstimate:
        calls.append(d)
        return memory(row(budget_bytes=2**50, high_bytes=1, weights_bytes=1, kv_cache_bytes=1), fits=False)

    assert layouts._fill_cards(MOE, "n-cpu-moe", None, short) is None
    assert len(calls) == 2


def bring(fits: Callable[[dict[str, Any]], bool], unit: int = 2**36, **settings: Any) -> dict[str, Any]:
    """Settings once a part of one more layer is brought; two cards, the first full, the other with 5 units free."""

    def ask(d: Deployment) -> MemoryEstimate:
        full, empty = (
            row(budget_bytes=10 * unit, high_bytes=12 * unit),
            row(budget_bytes=10 * unit, high_bytes=5 * unit),
        )
        return memory(full, empty, fits=fits(dict(d.settings)))

    placed = msgspec.structs.replace(MOE, settings={"n-gpu-layers": "all", **settings})
    split = "tensor-split" if "tensor-split" in settings else None
    return dict(layouts._bring_part(placed, "n-cpu-moe", "override-tensor", split, ask).settings)


def test_a_part_of_one_more_layer() -> None:
    usual = {"n-gpu-layers": "all", "n-cpu-moe": 5}
    down = {"n-gpu-layers": "all", "n-cpu-moe": 4, "override-tensor": r"blk\.4\.ffn_down_exps=CPU"}
    more = {**down, "override-tensor": r"blk\.4\.ffn_(gate|gate_up|down)_exps=CPU"}
    assert bring(lambda s: False, **{"n-cpu-moe": 5}) == usual
    assert bring(lambda s: True, **{"n-cpu-moe": 5}) == {"n-gpu-layers": "all", "n-cpu-moe": 4}
    assert bring(lambda s: s in (down, more), **{"n-cpu-moe": 5}) == down  # the least on the host first
    assert bring(lambda s: s == more, **{"n-cpu-moe": 5}) == more
    assert bring(lambda s: True, **{"n-cpu-moe": 1}) == {"n-gpu-layers": "all"}
    assert bring(lambda s: "override-tensor" in s, **{"n-cpu-moe": 1}) == {
        "n-gpu-layers": "all", "override-tensor": r"blk\.0\.ffn_down_exps=CPU",
    }  # fmt: skip
    assert bring(lambda s: True) == {"n-gpu-layers": "all"}
    assert bring(lambda s: True, 1, **{"n-cpu-moe": 5}) == usual  # no part finds room, whatever the card
    # a layer moves to the card that has room
    moved = bring(lambda s: s["tensor-split"] == "9,10", **{"n-cpu-moe": 5, "tensor-split": "10,9"})
    assert moved == {"n-gpu-layers": "all", "n-cpu-moe": 4, "tensor-split": "9,10"}
    kept = bring(lambda s: s["tensor-split"] == "8,11", **{"n-cpu-moe": 5, "tensor-split": "10,9"})
    assert kept == {"n-gpu-layers": "all", "n-cpu-moe": 5, "tensor-split": "10,9"}


def test_room_that_the_engine_leaves_free_itself() -> None:
    """`--fit` keeps 1,024 MiB free: where a plan leaves more, the engine may do better."""
    kept = own_defaults(LLAMA, LlamaDefaults).fit_target_mib * MIB
    assert kept == 2**30

    def fuller(*rows: Any) -> bool:
        return layouts._may_be_fuller(MOE, LLAMA, lambda d: memory(*rows))

    parts = {"weights_bytes": 10, "kv_cache_bytes": 20, "recurrent_state_bytes": 30, "compute_bytes": 40}
    assert not fuller(row(high_bytes=100 + kept, **parts))
    assert fuller(row(high_bytes=101 + kept, **parts))
    assert not fuller(row(high_bytes=kept))
    assert not fuller(row(weights_bytes=1))
    assert fuller(row(), row())
    assert layouts._may_be_fuller(MOE, LLAMA, lambda d: None)


def test_what_is_left_to_the_engine() -> None:
    """Without settings for experts, and for models without them, the engine places by itself."""
    dense = make("llama3.1:8b", "1x RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M", context_length=4096)
    assert list(layouts.list_host_placements(dense, LLAMA, lambda d: None, 100)) == [dense]
    vllm = settings_entry("vllm", RULES.engines())
    assert list(layouts.list_host_placements(MOE, vllm, lambda d: None, 100)) == [MOE]
    # nothing can be filled: all experts on the host, and as the engine has it
    found = list(layouts.list_host_placements(MOE, LLAMA, lambda d: None, 100))
    assert [dict(d.settings) for d in found] == [{"n-gpu-layers": "all", "cpu-moe": True}, {}]
    placed = list(layouts.list_host_placements(MOE, LLAMA, card_of((sum(sizes(7)) + OUTPUT,)), 100))
    assert placed[0].settings == {"n-gpu-layers": "all", "n-cpu-moe": 7}


# --- slots


def slots_for(fits: Callable[[Deployment], bool | None], users: int, offloading: bool = False, **more: Any) -> Any:
    base = make("llama3.1:8b", "1x RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M", context_length=8192, sequences=1)
    traffic = make_traffic((1200, 3600), (250, 750), users=users, **more)

    def ask(d: Deployment) -> MemoryEstimate:
        return memory(row(budget_bytes=2**50, weights_bytes=1, kv_cache_bytes=1), fits=fits(d))

    found = slots.place_slots(base, LLAMA, traffic, offloading, ask, lambda d, m: None)
    return None if found.sure is None else (found.sure[0].sequences, "kv-unified" in found.sure[0].settings)


def test_the_most_slots_that_fit() -> None:
    """All of full length; else one cache for all; else half of them, and half of these; else one."""
    assert slots_for(lambda d: True, 1) == (1, False)
    assert slots_for(lambda d: True, 9) == (9, False)
    assert slots_for(lambda d: "kv-unified" in d.settings or d.sequences == 1, 9) == (2, True)  # 23,552 tokens
    assert slots_for(lambda d: d.sequences <= 4 and "kv-unified" not in d.settings, 9) == (4, False)
    assert slots_for(lambda d: d.sequences <= 3 and "kv-unified" not in d.settings, 9) == (2, False)
    assert slots_for(lambda d: d.sequences == 1, 9) == (1, False)
    assert slots_for(lambda d: False, 9) is None
    assert slots_for(lambda d: None, 9) is None
    assert slots_for(lambda d: "kv-unified" in d.settings or d.sequences == 1, 9, full_length=True) == (1, False)
