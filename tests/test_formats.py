"""What a weight format's name means on an engine."""

from __future__ import annotations

import pytest

from advisor import formats
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import BadInput, UnknownName

RULES = catalog([shipped_root()])
L8 = RULES.find_model("llama3.1:8b")


def meant(name: str | None, engine: str, model: str = "llama3.1:8b") -> str:
    return formats.choose_format(name, RULES.engine(engine), RULES.find_model(model), RULES).quantization.id


@pytest.mark.parametrize(
    ("name", "engine", "want"),
    [
        ("q4", "llama.cpp", "Q4_K_M"),
        ("q4", "ollama", "Q4_K_M"),
        ("q4", "vllm", "AWQ"),
        ("q4", "mlx-lm", "MLX-4bit"),
        ("Q8", "llama.cpp", "Q8_0"),
        ("8-bit", "vllm", "FP8"),
        ("16bit", "vllm", "BF16"),
        ("Q5_K_M", "llama.cpp", "Q5_K_M"),
        ("q5_k_m", "llama.cpp", "Q5_K_M"),
        ("awq", "vllm", "AWQ"),
        ("MXFP4", "llama.cpp", "MXFP4_MOE"),
        ("MXFP4", "vllm", "MXFP4"),
    ],
)
def test_names_and_shorthands(name: str, engine: str, want: str) -> None:
    assert meant(name, engine) == want


@pytest.mark.parametrize(
    ("model", "engine", "want"),
    [
        ("llama3.1:8b", "llama.cpp", "Q4_K_M"),
        ("llama3.1:8b", "vllm", "BF16"),
        ("gpt-oss:20b", "llama.cpp", "MXFP4_MOE"),
        ("gpt-oss:20b", "vllm", "MXFP4"),
        ("deepseek-ai/DeepSeek-V3", "sglang", "FP8"),
        ("llama3.1:8b", "mlx-lm", "MLX-4bit"),
    ],
)
def test_without_a_name_the_checkpoints_own_or_the_usual_download(model: str, engine: str, want: str) -> None:
    chosen = formats.choose_format(None, RULES.engine(engine), RULES.find_model(model), RULES)
    assert chosen.quantization.id == want
    assert chosen.note
    assert want in chosen.note


def test_a_shorthand_is_said_and_an_exact_name_is_not() -> None:
    assert formats.choose_format("q4", RULES.engine("vllm"), L8, RULES).note == "q4 is taken as AWQ on vLLM"
    assert formats.choose_format("AWQ", RULES.engine("vllm"), L8, RULES).note is None


def test_a_shorthand_the_engine_has_nothing_for() -> None:
    with pytest.raises(BadInput, match=r"means nothing for vLLM; it has .*q4"):
        meant("q5", "vllm")


def test_an_unknown_format_lists_near_names() -> None:
    with pytest.raises(UnknownName) as e:
        meant("Q4_K_MM", "llama.cpp")
    assert "Q4_K_M" in e.value.near
    assert formats.is_shorthand("4-bit", RULES)
    assert not formats.is_shorthand("Q4_K_M", RULES)


def test_every_engine_has_a_family_and_every_default_is_in_the_catalogue() -> None:
    for entry in RULES.engines().values():
        assert formats.format_family(entry, RULES)
        chosen = formats.choose_format(None, entry, L8, RULES)
        assert RULES.quantization(chosen.quantization.id) is chosen.quantization


def test_a_format_that_nobody_publishes_of_a_quantized_model_is_said() -> None:
    """gpt-oss comes in MXFP4: an AWQ of it would be a quantization of a quantization."""
    vllm = RULES.engine("vllm")
    odd = formats.choose_format("AWQ", vllm, RULES.find_model("gpt-oss-120b"), RULES)
    assert odd.note is not None
    assert "published as MXFP4" in odd.note
    assert formats.choose_format("MXFP4", vllm, RULES.find_model("gpt-oss-120b"), RULES).note is None
    assert formats.choose_format("AWQ", vllm, RULES.find_model("Qwen/Qwen3-8B"), RULES).note is None
    assert (
        formats.choose_format("Q4_K_M", RULES.engine("llama.cpp"), RULES.find_model("gpt-oss-120b"), RULES).note is None
    )
