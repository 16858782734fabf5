"""Efficiencies of the rules for a deployment, generations of engines and classes of formats, by hand."""

from __future__ import annotations

import pytest
from speed_asking import RULES

from advisor.speed.efficiencies import (
    AT_MOST,
    EfficiencyKeys,
    engine_generation,
    find_efficiencies,
    find_generation,
    format_class,
    limit_share,
    load_speed_rules,
)

# --- efficiencies


def test_shares_stay_below_their_limit() -> None:
    """Far below it nothing changes; at it, the sixteenth root of two remains."""
    assert limit_share(0.5, 1.0) == pytest.approx(0.5, rel=1e-4)
    assert limit_share(1.0, 1.0) == pytest.approx(2 ** (-1 / 16))
    assert limit_share(0.97, 0.97) == pytest.approx(0.97 * 2 ** (-1 / 16))
    assert 0.99 < limit_share(5.0, 1.0) < 1.0
    # no more than the memory gives, and than the unit that multiplies does
    assert AT_MOST == {
        "memory": 0.97, "experts": 1.0, "cache": 1.0, "latent": 1.0, "unpacking": 1.0, "link": 1.0,
        "prompt_products": 0.93,
    }  # fmt: skip


def test_a_base_is_multiplied_by_every_factor_that_applies() -> None:
    table = load_speed_rules(RULES)
    keys = EfficiencyKeys("server", "vllm", "vllm-v0", "nvidia", "sm90", "fp8", "direct")
    every = ["server", "vllm", "vllm-v0", "nvidia", "sm90", "fp8", "direct", "server/nvidia", "server/sm90"]
    assert keys.names("memory") == keys.names("prompt_products") == every
    same = EfficiencyKeys("mlx", "mlx", "", "apple", "m3", "16-bit", "alone")
    assert same.names("memory") == ["mlx", "apple", "m3", "16-bit", "alone", "mlx/apple", "mlx/m3"]
    found = find_efficiencies(table, keys)
    for name, value in (
        ("products", found.decode.products),
        ("layer", found.decode.layer),
        ("fixed", found.waits.fixed),
    ):
        coefficient = table.coefficients[name]
        expected = coefficient.base
        for key in every:
            expected *= coefficient.factors.get(key, 1.0)
        assert value == pytest.approx(expected)
    memory_ = table.coefficients["memory"]
    share = memory_.base
    for key in every:
        share *= memory_.factors.get(key, 1.0)
    assert found.decode.memory == found.prefill.memory == pytest.approx(limit_share(share, 0.97))
    assert found.decode.products != found.prefill.products


def test_prompts_that_are_widened_have_the_factors_of_16_bit() -> None:
    """An old llama.cpp widens the weights of a prompt: its products are those of F16, its decoding is not."""
    table = load_speed_rules(RULES)
    keys = EfficiencyKeys("ggml", "llama.cpp", "", "nvidia", "sm89", "k-quant", "alone")
    wide, plain = keys._replace(prompt_format="16-bit"), find_efficiencies(table, keys)
    found, sixteen = find_efficiencies(table, wide), find_efficiencies(table, keys._replace(format="16-bit"))
    assert found.decode == plain.decode
    assert found.prefill.memory == plain.prefill.memory != sixteen.prefill.memory
    assert found.prefill.products == sixteen.prefill.products != plain.prefill.products


def test_generations_of_engines() -> None:
    llama, vllm = RULES.engine("llama.cpp"), RULES.engine("vllm")
    for version, name, wide in (
        ("b3139", "llama.cpp-2024", True),
        ("b3140", "llama.cpp-2024", False),
        ("b4000", "llama.cpp-2025", False),
        ("b8064", "", None),
    ):
        assert engine_generation(llama, version) == name
        found = find_generation(llama, version)
        assert (found.wide_products if found else None) is wide
    assert engine_generation(llama, None) == ""
    assert engine_generation(vllm, "0.7.3") == "vllm-v0"
    assert engine_generation(vllm, "0.8.0") == ""


def test_formats_that_have_no_class_of_servers_or_ggml() -> None:
    found = {format_class(q) for q in RULES.quantizations().values()}
    assert found >= {
        "16-bit", "mxfp4", "exl3", "mlc", "mlx-8bit", "mlx-4bit", "nvfp4", "fp8", "int8", "int4",
        "bitsandbytes", "q8_0", "q4_0", "i-quant", "k-quant",
    }  # fmt: skip
    for q in RULES.quantizations().values():
        name = format_class(q)
        if name in ("mlx-8bit", "int8"):
            assert q.bits_nominal >= 8
        if name in ("mlx-4bit", "int4"):
            assert q.bits_nominal <= 7
        if name == "k-quant":
            assert q.bits_nominal >= 4
