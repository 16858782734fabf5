"""Slots of llama.cpp: one cache for all, fewer whole ones, and what cannot fit, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from test_layouts import make
from test_traffic_parts import make_traffic

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import settings_entry
from advisor.planning import slots

RULES = catalog([shipped_root()])
LLAMA = settings_entry("llama.cpp", RULES.engines())


def share(mean: int, p95: int | None = None, users: int = 4, model: str = "llama3.1:8b", **more: Any) -> Any:
    base = make(model, "RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M")
    traffic = make_traffic((mean, p95 or mean), (100, 100), users=users, **more)
    found = slots._share_cache(base, LLAMA, traffic)
    return None if found is None else (found.settings, found.sequences)


def test_one_cache_for_all() -> None:
    """8,192 tokens at least, as many as the typical requests take together, in steps of 256; fewer than whole slots."""
    assert share(100) == ({"parallel": 4, "ctx-size": 8192, "kv-unified": True}, 1)
    assert share(1948) == ({"parallel": 4, "ctx-size": 8192, "kv-unified": True}, 1)
    assert share(1949) == ({"parallel": 4, "ctx-size": 8448, "kv-unified": True}, 1)  # 4 x 2,049 = 8,196
    assert share(4000) == ({"parallel": 4, "ctx-size": 16640, "kv-unified": True}, 2)  # 16,400
    assert share(8028) == ({"parallel": 4, "ctx-size": 32512, "kv-unified": True}, 3)  # 32,512 exactly
    assert share(8029) is None  # the next step is 32,768: four whole slots
    # lengths that differ: 4 x 1,100 and 2.326 deviations of 2 x 3,000
    assert share(1000, 1000 + 4935) == ({"parallel": 4, "ctx-size": 18432, "kv-unified": True}, 2)
    assert share(100, full_length=True) is None
    assert share(100, model="BAAI/bge-m3") is None


@pytest.mark.parametrize(("users", "fewer"), [(9, [4, 2]), (8, [4, 2]), (5, [2]), (4, [2]), (3, []), (2, [])])
def test_fewer_whole_slots(users: int, fewer: list[int]) -> None:
    base = make("llama3.1:8b", "RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M")
    found = slots._list_fewer(base, make_traffic((100, 100), (100, 100), users=users))
    assert [d.sequences for d in found] == fewer


def make_memory(budget: int | None, host: int | None = None) -> MemoryEstimate:
    row = DeviceMemory(name="c", budget_bytes=budget, weights_bytes=60, kv_cache_bytes=10)
    rest = DeviceMemory(name="h", budget_bytes=host, weights_bytes=0, kv_cache_bytes=0) if host is not None else None
    return MemoryEstimate(
        fits=True, devices=(row,), host=rest, kv_cache=KvCache(), context_length=1, sequences=1, basis={}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sequences", "memory", "much"),
    [
        (4, make_memory(100), False),
        (5, make_memory(100), True),
        (5, make_memory(100, host=10), False),
        (6, make_memory(100, host=10), True),
        (9, make_memory(None), False),
    ],
)
def test_caches_that_exceed_all_memory(sequences: int, memory: MemoryEstimate, much: bool) -> None:
    wanted = make("llama3.1:8b", "RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M", sequences=sequences)
    assert slots._is_too_much(wanted, memory) is much
