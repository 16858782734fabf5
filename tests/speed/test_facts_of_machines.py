"""Measured pairs that differ in one fact of the machine: predictions move as far, in the same direction."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from speed_asking import RULES, ask, made

from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, find_machine, resolve_request
from advisor.speed.efficiencies import load_speed_rules
from advisor.speed.rates import clock_share, expect_host_bandwidth
from tools.speed.rows import FitSample, MeasuredRow, make_samples, predict_sample, read_measured_rows

ROWS = Path(__file__).parents[1] / "data" / "speed_rows.csv"
LIMIT = r", power limit \d+ W"
# what a row says besides the fact, with the fact left out of the hardware's words
FACTS: dict[str, tuple[Callable[[MeasuredRow], str], str]] = {
    "backend": (lambda r: r.request.backend or "", r"$^"),
    "power limit": (lambda r: "".join(re.findall(LIMIT, r.request.hardware)), LIMIT),
}
NEAR = 1.3  # ratio of the two predictions against that of the two measurements
SAME = 1.05  # measured ratios below have no direction


def _alike(row: MeasuredRow, words: str) -> tuple[object, ...]:
    asked = row.request
    return (
        row.kind, row.load, row.source, asked.model, asked.engine, asked.engine_version, asked.quantization,
        str(sorted(asked.settings.items())), asked.kv_cache_type, re.sub(words, "", asked.hardware),
    )  # fmt: skip


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, float, float]]:
    """(fact, measured ratio, predicted ratio) of rows that differ in a fact alone."""
    table, out = load_speed_rules(RULES), []
    rows = [r for r in read_measured_rows(ROWS) if not r.doubtful and r.source != "own measurement"]
    for fact, (read, words) in FACTS.items():
        groups: dict[tuple[object, ...], dict[str, MeasuredRow]] = defaultdict(dict)
        for row in rows:
            groups[_alike(row, words)].setdefault(read(row), row)
        chosen = [r for g in groups.values() if len(g) > 1 and all(g) for r in (g[min(g)], g[max(g)])]
        samples: list[FitSample] = make_samples(chosen, RULES)
        for a, b in zip(samples[::2], samples[1::2], strict=True):
            out.append((fact, a.row.value / b.row.value, predict_sample(a, table) / predict_sample(b, table)))
    return out


def test_one_fact_moves_a_prediction_as_it_moved_the_measurement(pairs: list[tuple[str, float, float]]) -> None:
    held = [
        (fact, measured, found)
        for fact, measured, found in pairs
        if 1 / NEAR <= found / measured <= NEAR and (abs(measured - 1) < SAME - 1 or (found > 1) == (measured > 1))
    ]
    assert len(held) >= 20
    assert len(held) >= 0.6 * len(pairs)
    assert {fact for fact, _, _ in held} == set(FACTS)


def rates(hardware: str, engine: str = "llama.cpp", **more: Any) -> tuple[float, float]:
    """(tokens a second of one request, of a prompt)."""
    found = ask(*made("8B", more.pop("quant", "Q4_K_M"), hardware, engine, **more), prompt=2048)
    assert found.decode_tps is not None
    assert found.prefill_tps is not None
    return found.decode_tps.value, found.prefill_tps.value


def test_a_power_limit_takes_clock_from_a_card_that_works_alone() -> None:
    limited, plain = rates("RTX 3090, power limit 220 W"), rates("RTX 3090")
    assert all(0.55 < a / b < 0.8 for a, b in zip(limited, plain, strict=True))
    assert rates("4x RTX 3090, power limit 220 W") == rates("4x RTX 3090")  # each rests while others work
    assert rates("RTX 3090, power limit 350 W") == plain
    device = find_machine("RTX 3090, power limit 220 W", RULES).devices[0]
    assert clock_share(device, RULES) == pytest.approx((220 / 350) ** 0.85)


def test_each_split_of_llama_cpp_has_a_law_of_its_own() -> None:
    layer, row, tensor = (rates("2x RTX 4090", settings={"split-mode": m}) for m in ("layer", "row", "tensor"))
    assert layer[0] < row[0] < tensor[0] < 2 * layer[0]
    assert row[1] < tensor[1]  # each product's result goes over the link
    slow = rates("2x RTX 4090, PCIe 3.0 x4", settings={"split-mode": "tensor"})
    assert slow[1] < tensor[1]
    assert rates("2x RTX 4090, PCIe 3.0 x4") == layer


def test_a_network_between_machines_is_as_fast_as_it_is_called() -> None:
    for words, kind, gbs in (
        ("10GbE", "ethernet", 1.25), ("2.5 GbE", "ethernet", 0.3125), ("400 Gb/s InfiniBand", "infiniband", 50.0),
        ("thunderbolt", "thunderbolt", None),
    ):  # fmt: skip
        found = find_machine(f"2 nodes of 1x RTX 4090, {words}", RULES)
        assert (found.interconnect, found.network_gbs) == (kind, gbs), words
    asked: dict[str, Any] = {"engine": "vllm", "quant": "BF16", "settings": {"tensor-parallel-size": 2}}
    slow, usual, fast = (rates(f"2 nodes of 1x RTX 4090, {x}", **asked)[1] for x in ("1GbE", "10GbE", "100GbE"))
    assert slow < usual < fast


def test_an_unnamed_host_is_as_fast_as_others_with_its_memory() -> None:
    some = [expect_host_bandwidth(find_machine(f"RTX 4090, {n}GB RAM", RULES), RULES) for n in (64, 128, 1152)]
    for usual in some:
        assert list(usual) == sorted(usual)
    assert [x[1] for x in some] == sorted(x[1] for x in some)
    assert expect_host_bandwidth(find_machine("RTX 4090", RULES), RULES)[::2] == (40.0, 600.0)
    # ktransformers 797: 17.3 tokens/s of DeepSeek-R1 in 4 bits from the memory of a server that it does not name
    found = ask(*made("deepseek-ai/DeepSeek-R1", "Q4_K_M", "RTX 4090, 1152GB RAM", "ktransformers", context=4096))
    assert found.decode_tps is not None
    assert found.decode_tps.low < 17.3 < found.decode_tps.high


def test_a_backend_is_one_that_the_engine_has() -> None:
    def read(hardware: str, backend: str | None, engine: str = "llama.cpp") -> str | None:
        asked = EstimateRequest(model="8B", engine=engine, hardware=hardware, backend=backend)
        return resolve_request(asked, RULES)[0].backend

    assert [read("R9700", x) for x in (None, "Vulkan", "ROCm")] == [None, "vulkan", "rocm"]
    assert read("H100", "cuda", "vllm") == "cuda"
    assert read("RTX 4090", "vulkan", "ollama") == "vulkan"
    for hardware, backend, engine in (
        ("R9700", "cuda", "llama.cpp"),
        ("H100", "vulkan", "vllm"),
        ("R9700", "", "ollama"),
    ):
        with pytest.raises(BadInput, match=r"^backend: "):
            read(hardware, backend, engine)


def test_what_is_not_stated_widens_the_bounds() -> None:
    """A backend, lanes and GPU cores; the values do not move."""
    for stated, open_ in (
        ("M3 Ultra (80-core GPU)", "M3 Ultra"),
        ("2x RTX 4090, PCIe 4.0 x16", "2x RTX 4090"),
    ):
        asked = {"split-mode": "tensor"} if "4090" in stated else {}
        one, other = (ask(*made("8B", "Q4_K_M", x, settings=asked), prompt=2048).prefill_tps for x in (stated, open_))
        assert one is not None
        assert other is not None
        assert one.value == other.value
        assert other.low < one.low
