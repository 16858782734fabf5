"""Weights that llama.cpp rearranges for a processor, against its own planner (tests/planner/llama_repacking.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import DeviceMemory
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.session import Session
from tools.accuracy.rows import TableRow, read_rows

RULES = catalog([shipped_root()])
ROWS = read_rows(Path(__file__).parent.parent / "data" / "llamacpp_repacking.csv")
NEAR = 4096  # the engine rounds buffers up
# families whose embedding the engine counts a second time where nothing rearranges it: the same pages of one file
TWICE = ("google/gemma-4-", "google/gemma-3n-")


def host(model: str, quantization: str, hardware: str, **settings: str | bool) -> DeviceMemory:
    request = EstimateRequest(
        model=model, quantization=quantization, hardware=hardware, context_length=512, settings={**settings}
    )
    row = estimate(resolve_request(request, RULES)[0], Session(RULES)).host
    assert row is not None
    return row


def differs(row: TableRow) -> bool:
    ours = host(row["model"], row["quantization"], f"cpu, 4000GB RAM, {row['flags']}")
    mapped, repacked = int(row["mapped"]), int(row["repacked"])
    assert ours.mapped_bytes is not None
    assert ours.weights_bytes is not None
    return abs(ours.mapped_bytes - mapped) > NEAR or abs(ours.weights_bytes - mapped - repacked) > NEAR


def test_rearranged_and_mapped_bytes_are_the_engines_own() -> None:
    assert len(ROWS) >= 1000
    sample = [r for i, r in enumerate(ROWS) if i % 7 == 0 and not r["model"].startswith(TWICE)]
    assert not [(r["model"], r["quantization"], r["flags"]) for r in sample if differs(r)]


@pytest.mark.parametrize("setting", [{"no-repack": True}, {"repack": "off"}])
def test_nothing_is_rearranged_where_it_is_switched_off(setting: dict[str, str | bool]) -> None:
    on = host("meta-llama/Llama-3.2-1B-Instruct", "Q4_0", "cpu, 64GB RAM, amx_tile, amx_int8")
    off = host("meta-llama/Llama-3.2-1B-Instruct", "Q4_0", "cpu, 64GB RAM, amx_tile, amx_int8", **setting)
    assert on.weights_bytes is not None
    assert off.weights_bytes == off.mapped_bytes
    assert off.weights_bytes is not None
    assert on.weights_bytes > off.weights_bytes  # the tied output matrix lies there twice


def test_a_processor_of_unknown_instruction_sets_has_room_for_rearranging_in_its_upper_bound() -> None:
    unknown = host("meta-llama/Llama-3.2-1B-Instruct", "Q8_0", "cpu, 64GB RAM")
    amx = host("meta-llama/Llama-3.2-1B-Instruct", "Q8_0", "cpu, 64GB RAM, amx_tile, amx_int8")
    assert unknown.mapped_bytes == unknown.weights_bytes
    assert unknown.high_bytes is not None
    assert amx.total_bytes is not None
    assert unknown.high_bytes >= amx.total_bytes


def test_pages_of_a_file_that_is_not_mapped_are_no_reclaimable_memory() -> None:
    row = host("meta-llama/Llama-3.2-1B-Instruct", "Q4_0", "cpu, 64GB RAM", **{"load-mode": "none"})
    assert row.mapped_bytes is None
    row = host("meta-llama/Llama-3.2-1B-Instruct", "Q4_0", "cpu, 64GB RAM", **{"load-mode": "mmap+mlock"})
    assert row.mapped_bytes is None


def test_beside_an_accelerator_weights_in_host_memory_stay_as_they_are_in_the_file() -> None:
    row = host("meta-llama/Llama-3.2-1B-Instruct", "Q4_0", "RTX 4090, 64GB RAM, avx2", **{"n-gpu-layers": 4})
    assert row.mapped_bytes == row.weights_bytes
