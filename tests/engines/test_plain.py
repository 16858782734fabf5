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
