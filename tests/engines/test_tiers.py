"""Places below the cards, against what engines and their documentation state of published setups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from asking import GIB, RULES, asked

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.deployment import MemoryEstimate, Workload
from advisor.engines.additions import run_from_disk
from advisor.estimation import EstimateRequest, estimate, estimate_load_speed, find_machine, resolve_request
from advisor.session import Session

SETUPS = yaml.safe_load((Path(__file__).parent.parent / "data" / "tiers.yaml").read_text())


def list_figures(made: MemoryEstimate) -> dict[str, float]:
    host, disk, card = made.host, made.disk, made.devices[0]
    assert host is not None
    pages = (disk.weights_bytes or 0) if disk else 0
    return {
        "card.weights": card.weights_bytes or 0,
        "host.weights": host.weights_bytes or 0,
        "host.cache": host.kv_cache_bytes or 0,
        "host.total": host.total_bytes or 0,
        "disk.total": (disk.total_bytes or 0) if disk else 0,
        "states to cache of the card": (card.recurrent_state_bytes or 0) / (made.kv_cache.available_bytes or 1),
        "file over all places": sum(x.weights_bytes or 0 for x in made.devices) + (host.weights_bytes or 0) + pages,
    }


@pytest.mark.parametrize("setup", SETUPS, ids=lambda x: x["what"])
def test_bytes_of_each_tier_as_published(setup: dict[str, Any]) -> None:
    made = estimate(resolve_request(EstimateRequest(**setup["ask"]), RULES)[0], Session(RULES))
    made = run_from_disk(made) or made
    found = list_figures(made)
    for place, figure in setup["places"].items():
        assert found[place] == pytest.approx(figure, rel=setup["within"] or 1e-9), place


def test_a_copy_is_a_multiple_of_what_the_cards_hold() -> None:
    """The same ratio of cache and states: 4 x (149 / 4 + 134 / 4) GB are 283."""
    settings = {"enable-hierarchical-cache": True, "hicache-ratio": 4}
    made = asked("sglang", "Qwen/Qwen3.5-4B", "1x H100 80GB SXM, 2048GB RAM", quant="BF16", context=8192, **settings)
    pool = (made.kv_cache.available_bytes or 0) + (made.devices[0].recurrent_state_bytes or 0)
    assert made.host is not None
    assert made.host.kv_cache_bytes == 4 * pool


def test_without_a_size_the_copy_leaves_room_on_the_host() -> None:
    """hicache_auto_size.py: at most 0.8 x 0.95 of what is available less 10 GiB, where twice the pool is more; a fifth
    of 64 GiB is the system's."""
    made = asked("sglang", "Qwen/Qwen3-8B", "1x H100 80GB SXM, 64GB RAM", context=8192, enable_hierarchical_cache=True)
    assert made.host is not None
    assert (made.host.kv_cache_bytes or 0) == pytest.approx(0.76 * (0.8 * 64 - 10) * GIB, rel=0.01)
    assert made.fits is not False


@pytest.mark.parametrize(("ram", "fits"), [("32GB", False), ("128GB", True)])
def test_a_copy_that_the_host_does_not_hold_is_refused(ram: str, fits: bool) -> None:
    given = {"tensor-parallel-size": 2, "kv-offloading-size": 64}
    made = asked("vllm", "Qwen/Qwen3-8B", f"2x RTX 3090, {ram} RAM", quant="BF16", context=8192, **given)
    assert made.fits is fits
    assert bool(made.short) is not fits


def test_pages_on_disk_are_where_memory_ends() -> None:
    """Card, host and disk together are what was asked; without mmap nothing may stay on disk, and of a file of which
    memory holds less than half nobody would run it."""
    given: dict[str, Any] = {"quant": "Q2_K", "context": 2048}
    on = "RTX 3090, 128GB RAM, linux"
    made = asked("llama.cpp", "deepseek-ai/DeepSeek-V3", on, **given)
    runs = run_from_disk(made)
    assert made.fits is False
    assert runs is not None
    assert runs.fits is True
    assert runs.host is not None
    assert (runs.host.total_bytes or 0) <= 0.8 * 128 * GIB + 2**20  # a fifth is the system's
    wide = asked("llama.cpp", "deepseek-ai/DeepSeek-V3", on, quant="Q4_K_M", context=2048)
    assert wide.disk is not None
    assert run_from_disk(wide) is None
    for other in (
        asked("llama.cpp", "deepseek-ai/DeepSeek-V3", on, no_mmap=True, **given),
        asked("llama.cpp", "deepseek-ai/DeepSeek-V3", "RTX 3090, 512GB RAM, linux", **given),
        asked(
            "ollama", "deepseek-ai/DeepSeek-V3", on, **given
        ),  # it asks for the memory and refuses (ollama issue 8667)
    ):
        assert other.disk is None
        assert run_from_disk(other) is None


def test_speed_from_disk_follows_its_bandwidth() -> None:
    """Not known without one; at 7 GB/s above what ollama issue 8667 reckons for a 671B with every page read for each
    token (45 s), as it reads all of them and a token needs few; slower on a slower disk."""
    rates = []
    for disk in ("", ", NVMe 7GB/s", ", SSD 550 MB/s"):
        request = EstimateRequest(
            model="deepseek-r1:671b", engine="llama.cpp", quantization="Q4_K_M", context_length=2048,
            hardware=f"RTX 3090, 128GB RAM, linux{disk}",
        )  # fmt: skip
        deployment, session = resolve_request(request, RULES)[0], Session(RULES)
        speed = estimate_load_speed(deployment, estimate(deployment, session), session)
        assert speed is not None
        assert any("disk" in x for x in speed.notes)
        rates.append(speed.decode_tps.value if speed.decode_tps else None)
    assert rates[0] is None
    assert rates[1] is not None
    assert rates[2] is not None
    assert 1 / 45 < rates[1] < 2
    assert rates[2] < rates[1] / 5


@pytest.mark.parametrize(
    ("words", "gbs"),
    [("NVMe 7GB/s", 7.0), ("7.45 GB/s NVMe", 7.45), ("SSD 550 MB/s", 0.55), ("disk: 3.5 GB/s", 3.5), ("linux", None)],
)
def test_a_disks_bandwidth_in_words(words: str, gbs: float | None) -> None:
    machine = find_machine(f"RTX 4090, 64GB RAM, {words}", RULES)
    assert machine.disk_gbs == gbs
    assert machine.memory.total_bytes == 64 * GIB


@pytest.mark.parametrize(
    ("hardware", "disk", "chosen"),
    [
        ("Strix Halo 128GB, GTT 120GiB, linux", False, True),  # antirez/ds4 issue 406 and pull 1036: runs at two bits
        ("RTX 4090, 64GB RAM, linux", True, True),
        ("RTX 3060 12GB, 16GB RAM, linux", False, False),  # less than half of it
    ],
)
def test_nothing_fits_only_where_no_tier_helps(hardware: str, disk: bool, chosen: bool) -> None:
    machine = find_machine(hardware, RULES)
    advice = recommend(RecommendRequest(machine, Workload(use_case="chat"), "deepseek-v4-flash"), Session(RULES))
    assert (advice.chosen is not None) is chosen
    if advice.chosen is not None:
        assert advice.chosen.starts is True
        assert advice.chosen.memory is not None
        assert (advice.chosen.memory.disk is not None) is disk
        assert advice.chosen.memory.fits is not disk
