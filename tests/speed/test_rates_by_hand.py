"""Peak rates, links and host memory against what makers state; both sides of each bound."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from speed_asking import RULES, made, with_device

from advisor.catalog import Catalog
from advisor.catalog.types import Accelerator
from advisor.deployment import Deployment
from advisor.machines.types import Cpu, Device, HostMemory, Machine
from advisor.speed.parallel_plan import ParallelPlan
from advisor.speed.rates import (
    compute_peak_rates,
    device_bandwidth,
    host_tflops,
    link_gbs,
    machine_host_bandwidth,
    peak_tflops,
)

GIB = 2**30


def device(**more: Any) -> Device:
    given: dict[str, Any] = {"index": 0, "name": "x", "vendor": "nvidia", "accelerator": "x"} | more
    return Device(**given)


def on(machine: Machine | None) -> Deployment:
    d, _ = made("8B", "Q4_K_M", "RTX 4090")
    found: Deployment = msgspec.structs.replace(d, machine=machine)
    return found


class Known:
    """A catalogue with one card."""

    def __init__(self, **more: Any) -> None:
        base = RULES.accelerators()["rtx-4090"]
        self.card: Accelerator = msgspec.structs.replace(base, **more)

    def accelerators(self) -> dict[str, Accelerator]:
        return {"x": self.card}


def known(**more: Any) -> Catalog:
    return cast("Catalog", Known(**more))


SIXTEEN, EIGHT, FOUR, INTEGER, SUMMED = 16.0, 8.0, 4.0, 7.0, 15.0
FULL = {"fp32": 80.0, "fp16": 160.0, "bf16": 150.0, "fp8": 320.0, "fp4": 640.0, "int8": 600.0}


@pytest.mark.parametrize(
    ("tflops", "bits", "rate"),
    [
        (FULL, SIXTEEN, 160.0),
        (FULL, EIGHT, 320.0),
        (FULL, FOUR, 640.0),
        (FULL, INTEGER, 600.0),
        (FULL, SUMMED, 300.0),
        ({"bf16": 150.0, "fp32": 80.0}, SIXTEEN, 150.0),
        ({"fp32": 14.2}, SIXTEEN, 14.2),
        ({"fp16": 160.0}, EIGHT, 160.0),  # no narrower products: those of 16 bit
        ({"fp16": 160.0, "fp4": 640.0}, FOUR, 640.0),
        ({"fp16": 160.0, "fp8": 320.0}, FOUR, 160.0),  # weights of 4 bits are widened to 16
        # cards whose integer rate is not stated, or is lower: twice the 16-bit products that are summed in 16 bit
        ({"fp16": 160.0}, INTEGER, 320.0),
        ({"fp16": 160.0, "int8": 160.0}, INTEGER, 320.0),
        ({"fp16": 160.0, "int8": 161.0}, INTEGER, 161.0),
        ({"fp16": 160.0}, SUMMED, 160.0),
        ({"fp4": 1000.0}, SIXTEEN, 250.0),
        ({"fp8": 500.0, "fp4": 1200.0}, SIXTEEN, 250.0),
        ({"fp8": 500.0, "fp4": 1200.0}, FOUR, 1200.0),
        ({}, SIXTEEN, None),
        ({"int8": 50.0}, SIXTEEN, None),
        ({"int8": 50.0}, INTEGER, 50.0),
    ],
)
def test_peak_rates_of_products(tflops: dict[str, float], bits: float, rate: float | None) -> None:
    assert peak_tflops(device(), known(tflops=tflops), bits) == rate
    assert peak_tflops(device(accelerator=None), known(tflops=tflops), bits) is None
    half = peak_tflops(device(), known(tflops=tflops, devices_per_card=2), bits)
    assert half == (rate / 2 if rate else None)
    slice_ = device(mig_profile="3g", total_bytes=10 * GIB)
    part = peak_tflops(slice_, known(tflops=tflops, memory_bytes=40 * GIB), bits)
    assert part == (rate / 4 if rate else None)


def test_a_slice_is_no_more_than_its_card() -> None:
    whole = known(tflops=FULL, memory_bytes=40 * GIB, bandwidth_gbs=1000.0)
    assert peak_tflops(device(mig_profile="7g", total_bytes=80 * GIB), whole, SIXTEEN) == 160.0
    assert device_bandwidth(device(mig_profile="7g", total_bytes=80 * GIB), whole) == 1000.0
    assert device_bandwidth(device(mig_profile="3g", total_bytes=10 * GIB), whole) == 250.0
    assert device_bandwidth(device(mig_profile="3g"), whole) is None
    unsized = known(tflops=FULL, memory_bytes=None, bandwidth_gbs=1000.0)
    assert device_bandwidth(device(mig_profile="3g", total_bytes=10 * GIB), unsized) is None
    # a slice of unknown size is given its card's products, and a whole card is never cut
    assert peak_tflops(device(mig_profile="3g"), whole, SIXTEEN) == 160.0
    assert peak_tflops(device(mig_profile="3g", total_bytes=10 * GIB), unsized, SIXTEEN) == 160.0
    assert peak_tflops(device(total_bytes=10 * GIB), whole, SIXTEEN) == 160.0
    assert device_bandwidth(device(total_bytes=10 * GIB), whole) == 1000.0


def test_bandwidth_of_a_card() -> None:
    assert device_bandwidth(device(bandwidth_gbs=777.0), known(bandwidth_gbs=1000.0)) == 777.0
    assert device_bandwidth(device(), known(bandwidth_gbs=1000.0, devices_per_card=2)) == 500.0
    assert device_bandwidth(device(), known(bandwidth_gbs=None)) is None
    assert device_bandwidth(device(accelerator="y"), known(bandwidth_gbs=1000.0)) is None


@pytest.mark.parametrize(
    ("more", "facts", "nvlink", "found"),
    [
        # a module is linked, a card needs a bridge; half of both directions together
        ({"nvlink_gbs": 900.0, "form": "module"}, {}, None, (450.0, True)),
        ({"nvlink_gbs": 900.0, "form": None}, {}, None, (450.0, True)),
        ({"nvlink_gbs": 112.0, "form": "card", "pcie": "4.0 x16"}, {}, None, (31.5, False)),
        ({"nvlink_gbs": 112.0, "form": "card"}, {}, True, (56.0, True)),
        ({"nvlink_gbs": 900.0, "form": "module", "pcie": "5.0 x16"}, {}, False, (63.0, False)),
        ({"nvlink_gbs": None, "pcie": "4.0 x16"}, {}, True, (31.5, False)),
        # generations: each about twice the one before it, of 16 lanes
        ({"pcie": "1.0 x16"}, {}, None, (4.0, False)),
        ({"pcie": "2.0 x16"}, {}, None, (8.0, False)),
        ({"pcie": "3.0 x16"}, {}, None, (15.75, False)),
        ({"pcie": "5.0 x16"}, {}, None, (63.0, False)),
        ({"pcie": "6.0 x16"}, {}, None, (121.0, False)),
        ({"pcie": None}, {}, None, (15.75, False)),
        ({"pcie": "OAM"}, {}, None, (15.75, False)),
        ({"pcie": "9.0 x16"}, {}, None, (15.75, False)),
        # what a probe has read wins
        ({"pcie": "4.0 x16"}, {"pcie_generation": 3}, None, (15.75, False)),
        ({"pcie": "4.0 x16"}, {"pcie_width": 8}, None, (15.75, False)),
        ({"pcie": "4.0 x16"}, {"pcie_generation": 1, "pcie_width": 1}, None, (0.25, False)),
        ({"pcie": "4.0 x16"}, {"accelerator": None}, None, (15.75, False)),
    ],
)
def test_links(more: dict[str, Any], facts: dict[str, Any], nvlink: bool | None, found: tuple[float, bool]) -> None:
    assert link_gbs(device(**facts), known(**more), nvlink) == found


def test_rates_of_ranks() -> None:
    """Two unlike cards: a tensor split waits for the slower; stages take their times one after the other."""
    d, _ = made("8B", "Q4_K_M", "1x RTX 4090 + 1x RTX 3090")
    plan = ParallelPlan(family="x", devices=2, stages=2, shares=(0.25, 0.75))
    quantization = RULES.quantization("BF16")
    assert d.machine is not None
    cards = [RULES.accelerators()[x.accelerator or ""] for x in d.machine.devices]
    widths, products = [c.bandwidth_gbs or 0 for c in cards], [max(c.tflops["fp16"], c.tflops["bf16"]) for c in cards]
    found = compute_peak_rates(d, plan, quantization, RULES)
    assert found is not None
    assert found.gbs == pytest.approx(1 / (0.25 / widths[0] + 0.75 / widths[1]))
    assert found.tflops == pytest.approx(1 / (0.25 / products[0] + 0.75 / products[1]))
    assert (found.link_gbs, found.direct) == (15.75, False)  # stages hand over little
    for whole in (
        msgspec.structs.replace(plan, stages=1, tensor=2),
        msgspec.structs.replace(plan, shares=(1.0,)),  # shares of another number of cards say nothing
    ):
        found = compute_peak_rates(d, whole, quantization, RULES)
        assert found is not None
        assert (found.gbs, found.tflops) == (min(widths), min(products))
    alone = compute_peak_rates(d, msgspec.structs.replace(plan, devices=1, stages=1), quantization, RULES)
    assert alone is not None
    assert (alone.gbs, alone.tflops) == (widths[0], products[0])
    # one card whose figures are not known is enough for no answer; a bandwidth alone is not
    assert compute_peak_rates(with_device(d, accelerator=None), plan, quantization, RULES) is None
    assert compute_peak_rates(with_device(d, accelerator=None, bandwidth_gbs=9.0), plan, quantization, RULES) is None


def test_links_between_ranks() -> None:
    """Four ranks share the way through the host: each has half of what two have. A direct link is each rank's own."""
    quantization = RULES.quantization("BF16")

    def link(d: Deployment, **more: Any) -> tuple[float, bool]:
        found = compute_peak_rates(d, ParallelPlan(family="x", devices=4, **more), quantization, RULES)
        assert found is not None
        return found.link_gbs, found.direct

    cards, _ = made("70B", "AWQ", "4x RTX 3090", "vllm", settings={"tensor-parallel-size": 4})
    modules, _ = made("70B", "BF16", "4x H100 80GB SXM", "vllm", settings={"tensor-parallel-size": 4})
    assert link(cards, tensor=2) == (31.5, False)
    assert link(cards, tensor=4) == (15.75, False)
    assert link(cards, expert_ranks=4) == (31.5, False)
    assert link(cards, tensor=1) == (15.75, False)
    assert link(modules, tensor=4) == (450.0, True)
    assert link(modules, tensor=1) == (15.75, False)
    assert cards.machine is not None
    for said, direct in (("nvlink bridge", True), ("xgmi", True), ("pcie", False)):
        joined = msgspec.structs.replace(cards, machine=msgspec.structs.replace(cards.machine, interconnect=said))
        assert link(joined, tensor=2)[1] is direct
        assert modules.machine is not None
        joined = msgspec.structs.replace(modules, machine=msgspec.structs.replace(modules.machine, interconnect=said))
        assert link(joined, tensor=2)[1] is direct


def memory(transfers: int | None = None, channels: int | None = None) -> HostMemory:
    return HostMemory(transfers_mts=transfers, channels=channels)


@pytest.mark.parametrize(
    ("platform", "sockets", "transfers", "channels", "gbs"),
    [
        # the platform has 2 channels of DDR4-2666
        ("desktop-ddr4-2666", 1, None, None, 42.7),
        ("desktop-ddr4-2666", None, None, None, 42.7),
        ("desktop-ddr4-2666", 2, None, None, 85.4),
        ("desktop-ddr4-2666", 1, 2000, None, 2 * 2000 * 8 / 1000),
        ("desktop-ddr4-2666", 2, 2000, None, 4 * 2000 * 8 / 1000),
        ("desktop-ddr4-2666", 1, 2000, 1, 1 * 2000 * 8 / 1000),
        ("desktop-ddr4-2666", 1, 2000, 3, 2 * 2000 * 8 / 1000),  # never more than the platform has
        # without a platform: what the machine says, else two channels
        (None, 1, 2000, None, 2 * 2000 * 8 / 1000),
        (None, 1, 2000, 6, 6 * 2000 * 8 / 1000),
        (None, 1, 2000, 1, 1 * 2000 * 8 / 1000),
        (None, 1, None, 4, None),
    ],
)
def test_bandwidth_of_host_memory(
    platform: str | None, sockets: int | None, transfers: int | None, channels: int | None, gbs: float | None
) -> None:
    machine = Machine(cpu=Cpu(platform=platform, sockets=sockets), memory=memory(transfers, channels))
    found = machine_host_bandwidth(machine, RULES)
    assert found == (pytest.approx(gbs) if gbs is not None else None)


@pytest.mark.parametrize(
    ("cpu", "tflops"),
    [
        # two units of 8 multiply-adds at 3 GHz: 2 x 8 x 2 x 3e9 = 0.096e12 of each core
        (Cpu(physical_cores=16), 16 * 0.096),
        (Cpu(physical_cores=16, usable_cores=4.0), 4 * 0.096),
        (Cpu(physical_cores=16, flags=("avx512f",)), 16 * 0.192),
        (Cpu(physical_cores=16, flags=("avx2",)), 16 * 0.096),
        (Cpu(physical_cores=16, flags=("avx512f", "amx_int8")), 16 * 0.768),
        (Cpu(logical_cores=32), None),
    ],
)
def test_products_of_a_processor(cpu: Cpu, tflops: float | None) -> None:
    found = host_tflops(on(Machine(cpu=cpu)), RULES)
    assert found == (pytest.approx(tflops) if tflops is not None else None)
    assert host_tflops(on(None), RULES) is None


def test_host_memory_behind_a_card() -> None:
    """A prompt's pass fetches weights over PCIe, 31.5 GB/s for an RTX 4090; decoding reads where they lie."""
    plan, quantization = ParallelPlan(family="x", devices=1), RULES.quantization("Q4_K_M")
    d, _ = made("8B", "Q4_K_M", "RTX 4090, 64GB RAM")
    assert d.machine is not None

    def rates(transfers: int | None, **facts: Any) -> tuple[float, bool, float]:
        changed = with_device(d, **facts)
        assert changed.machine is not None
        machine = msgspec.structs.replace(changed.machine, memory=memory(transfers), cpu=Cpu())
        found = compute_peak_rates(msgspec.structs.replace(d, machine=machine), plan, quantization, RULES)
        assert found is not None
        return found.host_gbs, found.host_known, found.host_prompt_gbs

    assert rates(4000) == (64.0, True, 31.5)
    assert rates(1000) == (16.0, True, 16.0)
    assert rates(None) == (40.0, False, 31.5)
    assert rates(4000, unified=True) == (64.0, True, 64.0)
    alone, _ = made("8B", "Q4_K_M", "cpu, 64GB RAM, 16 cores")
    found = compute_peak_rates(alone, plan, quantization, RULES)
    assert found is not None
    assert (found.gbs, found.tflops, found.direct) == (0.0, 0.0, False)
    assert found.host_prompt_gbs == found.host_gbs
    assert found.host_tflops == pytest.approx(16 * 0.096)
