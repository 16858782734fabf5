"""Engines without a share of the device: reserved caches, cache types by bits, experts kept on the device."""

from __future__ import annotations

import pytest
from asking import RULES, asked, deployed

from advisor import engines
from advisor.errors import BadInput

L8 = "llama3.1:8b"
ROW = 32 * 8 * 128  # elements of keys (and of values) a token: 32 layers, 8 heads of 128


def test_tabbyapi_reserves_its_cache_size_whatever_the_requests_are() -> None:
    m = asked("exllamav3", L8, "RTX 4090", context=8192, cache_size=32_000)
    assert m.devices[0].kv_cache_bytes == 2 * ROW * 2 * 32_000  # a multiple of 256 already
    m = asked("exllamav3", L8, "RTX 4090", context=8192, cache_size=32_001)
    assert m.devices[0].kv_cache_bytes == 2 * ROW * 2 * 32_256
    m = asked("exllamav3", L8, "RTX 4090", context=8192, sequences=3)
    assert m.devices[0].kv_cache_bytes == 2 * ROW * 2 * 3 * 8192
    m = asked("exllamav3", L8, "RTX 4090")
    assert m.devices[0].kv_cache_bytes == 2 * ROW * 2 * 4096  # the default of its own configuration


def test_a_cache_smaller_than_one_request_is_said() -> None:
    m = asked("exllamav3", L8, "RTX 4090", context=8192, cache_size=4096)
    assert m.fits is None
    assert "less than one request" in m.warnings[0]


@pytest.mark.parametrize(
    ("mode", "bits"), [("FP16", 32), ("Q8", 17), ("Q4", 9), ("8,4", 8.5 + 4.5), ("2,3", 2.5 + 3.5)]
)
def test_tabbyapi_cache_modes(mode: str, bits: float) -> None:
    m = asked("exllamav3", L8, "RTX 4090", cache_size=8192, cache_mode=mode)
    assert m.devices[0].kv_cache_bytes == ROW * bits / 8 * 8192


@pytest.mark.parametrize("mode", ["Q3", "9,4", "4,4,4", "1,2"])
def test_cache_modes_that_are_none(mode: str) -> None:
    with pytest.raises(BadInput, match=r"cache"):
        asked("exllamav3", L8, "RTX 4090", cache_mode=mode)


def test_the_reserved_cache_is_written_out() -> None:
    d = deployed("exllamav3", L8, "RTX 4090", context=8192, sequences=4)
    module, entry = engines.find_engine_module(d.engine, RULES.engines())
    said = {s.name: s.value for s in module.launch_settings(d, entry, RULES.quantization(d.quantization))}
    assert said["max_seq_len"] == 8192
    assert said["cache_size"] == 32768
    assert said["cache_mode"] == "FP16"


def test_ktransformers_experts_on_the_device_leave_the_host() -> None:
    ask = ("ktransformers", "deepseek-r1:671b", "RTX 4090, 512GB RAM")
    none, some = (asked(*ask, quant="INT4", context=4096, **{"kt-num-gpu-experts": n}) for n in (0, 64))
    assert none.host
    assert some.host
    moved = none.host.weights_bytes - some.host.weights_bytes  # type: ignore[operator]
    assert some.devices[0].weights_bytes - none.devices[0].weights_bytes == moved  # type: ignore[operator]
    assert moved == pytest.approx(64 / 256 * none.host.weights_bytes, rel=1e-6)  # type: ignore[operator]


def test_exllamav3_keeps_windows_and_states_in_slots_of_the_batch() -> None:
    """SWALayerState of exllamav3 1.6.5: window and 512 tokens in pages of 256, 16 bit, for each slot; a state is
    float32. Gemma 3 27B: 10 of 62 layers keep all, 16 heads of 128; Qwen3-Next: 36 layers of 32 x 128 x 128."""
    full = 10 * 2 * 16 * 128 * 2 * 8192
    ring = 52 * 2 * 16 * 128 * 2 * 1536
    for given, slots in (({}, 4), ({"max_batch_size": 2}, 2)):
        m = asked("exllamav3", "google/gemma-3-27b-it", "RTX 4090", cache_size=8192, **given)
        assert m.devices[0].kv_cache_bytes == full + slots * ring
    m = asked("exllamav3", "Qwen/Qwen3-Next-80B-A3B-Instruct", "RTX 6000 Ada", cache_size=8192)
    assert m.devices[0].recurrent_state_bytes == 4 * 36 * (4 * 32 * 128 * 128 + 2 * 8192 * 3)
