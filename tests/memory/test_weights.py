"""File sizes and bits per weight that llama-quantize really produces, against figures measured on its own output."""

from __future__ import annotations

import math

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory import gguf_weights
from advisor.memory.ggml import device_bytes, tensor_bytes
from advisor.memory.gguf_tensors import list_tensors
from advisor.memory.gguf_weights import BASE, more_bits

RULES = catalog([shipped_root()])
MIXES = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_K_S", "Q4_0", "IQ4_XS", "Q3_K_M", "Q2_K")
# bits per weight (file bytes x 8 / parameters) and part of the file that lies on the GPU at Q4_K_M, full offload.
# Source: llama-quantize b11434 without importance matrix, measured 2026-11-21.
TABLE = {
    "meta-llama/Llama-3.2-1B-Instruct": (8.50, 6.56, 5.85, 5.18, 4.97, 4.94, 4.79, 4.42, 3.71, 1.000),
    "meta-llama/Llama-3.1-8B-Instruct": (8.50, 6.56, 5.70, 4.89, 4.67, 4.64, 4.46, 4.00, 3.16, 0.940),
    "meta-llama/Llama-3.3-70B-Instruct": (8.50, 6.56, 5.66, 4.82, 4.57, 4.53, 4.34, 3.88, 2.99, 0.986),
    "mistralai/Mistral-7B-Instruct-v0.3": (8.50, 6.56, 5.67, 4.83, 4.57, 4.54, 4.36, 3.89, 3.00, 0.983),
    "mistralai/Mistral-Small-24B-Instruct-2501": (8.50, 6.56, 5.69, 4.86, 4.60, 4.56, 4.37, 3.89, 3.01, 0.974),
    "Qwen/Qwen2.5-7B-Instruct": (8.50, 6.56, 5.71, 4.91, 4.68, 4.65, 4.46, 3.99, 3.16, 0.934),
    "Qwen/Qwen2.5-14B-Instruct": (8.50, 6.56, 5.69, 4.87, 4.64, 4.61, 4.43, 3.97, 3.12, 0.951),
    "Qwen/Qwen3-8B": (8.50, 6.56, 5.71, 4.90, 4.68, 4.66, 4.48, 4.02, 3.20, 0.930),
    "Qwen/Qwen3-30B-A3B": (8.51, 6.57, 5.69, 4.86, 4.57, 4.53, 4.34, 3.85, 2.95, 0.991),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (8.52, 6.58, 5.70, 4.87, 4.57, 4.53, 4.34, 3.84, 2.94, 0.996),
    "Qwen/Qwen3.5-35B-A3B": (8.52, 6.58, 5.71, 4.88, 4.59, 4.55, 4.37, 3.87, 2.98, 0.986),
    "Qwen/Qwen3.5-27B": (8.50, 6.57, 5.72, 4.92, 4.63, 4.60, 4.52, 3.95, 3.18, 0.957),
    "google/gemma-2-9b-it": (8.50, 6.56, 5.75, 4.98, 4.74, 4.71, 4.52, 4.12, 3.29, 1.000),
    "google/gemma-3-12b-it": (8.50, 6.56, 5.74, 4.96, 4.71, 4.68, 4.49, 4.08, 3.24, 1.000),
    "google/gemma-3-27b-it": (8.50, 6.56, 5.71, 4.90, 4.64, 4.61, 4.41, 3.98, 3.11, 1.000),
    "microsoft/phi-4": (8.50, 6.56, 5.73, 4.94, 4.62, 4.57, 4.51, 4.02, 3.23, 0.968),
    "openai/gpt-oss-20b": (8.51, 8.48, 6.46, 6.04, 5.60, 4.62, 4.68, 4.94, 4.61, 0.975),
    "openai/gpt-oss-120b": (8.51, 8.50, 6.43, 6.01, 5.54, 4.53, 4.59, 4.87, 4.53, 0.995),
    "deepseek-ai/DeepSeek-V2-Lite-Chat": (8.51, 7.17, 6.04, 5.28, 4.86, 4.53, 4.40, 4.14, 3.28, 0.989),
    "deepseek-ai/DeepSeek-V3": (8.50, 6.57, 5.67, 4.82, 4.53, 4.51, 4.29, 3.81, 2.91, 0.999),
    "zai-org/GLM-4.5-Air": (8.51, 7.17, 6.04, 5.28, 4.84, 4.52, 4.39, 4.13, 3.26, 0.962),
    "tiiuae/falcon-mamba-7b-instruct": (8.54, 6.61, 5.58, 4.62, 4.62, 4.62, 4.38, 3.60, 2.82, 0.964),
    "tiiuae/Falcon-H1-7B-Instruct": (8.50, 6.57, 5.68, 4.84, 4.64, 4.61, 4.41, 3.88, 3.05, 0.951),
}
# parameters of the same files, billions
PARAMS = {
    "meta-llama/Llama-3.3-70B-Instruct": 70.554, "openai/gpt-oss-120b": 116.829, "deepseek-ai/DeepSeek-V3": 671.026,
    "zai-org/GLM-4.5-Air": 110.469, "Qwen/Qwen3.5-27B": 26.896, "microsoft/phi-4": 14.660,
}  # fmt: skip


def elements(model: str) -> int:
    """Parameters of the file, from the F32 file: four bytes each."""
    return gguf_weights.weights_from_model(RULES.find_model(model), "F32").file_bytes // 4


@pytest.mark.parametrize("model", TABLE)
def test_bits_per_weight(model: str) -> None:
    n = elements(model)
    for mix, want in zip(MIXES, TABLE[model], strict=False):
        size = gguf_weights.weights_from_model(RULES.find_model(model), mix).file_bytes
        assert size * 8 / n == pytest.approx(want, abs=0.0051), mix


@pytest.mark.parametrize(("model", "billions"), PARAMS.items())
def test_parameters_of_the_file(model: str, billions: float) -> None:
    assert elements(model) / 1e9 == pytest.approx(billions, abs=0.0006)


@pytest.mark.parametrize("model", TABLE)
def test_part_of_the_file_on_the_gpu(model: str) -> None:
    """The token embedding stays in host memory; tied models put a copy on the GPU; a next-token block stays on disk."""
    w = gguf_weights.weights_from_model(RULES.find_model(model), "Q4_K_M")
    on_device = sum(x.device_bytes for x in w.weights if not x.mtp and x.name != "token_embd.weight")
    if w.tied:
        on_device += next(x.device_bytes for x in w.weights if x.name == "token_embd.weight")
    assert on_device / w.file_bytes == pytest.approx(TABLE[model][-1], abs=0.0011)


def test_published_file_sizes() -> None:
    """Sizes people know from download pages, GB."""
    for model, mix, gb in (
        ("meta-llama/Llama-3.3-70B-Instruct", "Q4_K_M", 42.5),
        ("openai/gpt-oss-20b", "MXFP4_MOE", 12.1),
        ("openai/gpt-oss-120b", "MXFP4_MOE", 63.4),
        ("meta-llama/Llama-3.1-8B-Instruct", "Q4_K_M", 4.92),
    ):
        size = gguf_weights.weights_from_model(RULES.find_model(model), mix).file_bytes
        assert size / 1e9 == pytest.approx(gb, rel=0.003), (model, mix)


def test_rows_and_device_padding_by_hand() -> None:
    assert tensor_bytes("Q4_K", (4096, 10)) == 4096 * 10 // 256 * 144
    assert tensor_bytes("F16", (3, 5)) == 30
    # 1408 = 5.5 blocks of 256: Q8_0 rows, and the last one padded to 1536 elements
    assert (
        device_bytes("Q8_0", (1408, 4)) == 1408 * 4 // 32 * 34 + 128 // 32 * 34 + (-(1408 * 4 // 32 * 34 + 136)) % 128
    )
    assert device_bytes("F32", (1,)) == 128


def test_unknown_mix_is_a_key_error_and_dynamic_mixes_are_said_to_be_estimates() -> None:
    model = RULES.find_model("Qwen/Qwen3-8B")
    with pytest.raises(KeyError):
        gguf_weights.weights_from_model(model, "Q9_X")
    dynamic = gguf_weights.weights_from_model(model, "UD-Q4_K_XL")
    assert not dynamic.exact
    assert dynamic.note


def test_a_vendor_s_mix_has_the_size_that_a_loader_stated_of_its_file() -> None:
    """Llama-4-Scout's file of 57.728 GiB (llama-bench): every tensor alike, as nobody knows which are wider."""
    model = RULES.find_model("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    stated = gguf_weights.weights_from_model(model, "UD-Q4_K_XL")
    plain = gguf_weights.weights_from_model(model, "Q4_K_M")
    assert stated.file_bytes == pytest.approx(57.728 * 2**30, rel=1e-6)
    assert not stated.exact
    assert 0 < stated.spread < 0.05
    pairs = [(a.file_bytes, b.file_bytes) for a, b in zip(stated.weights, plain.weights, strict=True)]
    shares = [a / b for a, b in pairs if b > 10**6]
    assert max(shares) - min(shares) < 1e-6
    assert "57.7 GiB" in (stated.note or "")


def test_stated_sizes_of_two_sources_agree() -> None:
    """A list of downloads has 23.3 GB with the projector, llama-bench stated 21.27 GiB of the file without."""
    model = RULES.find_model("Qwen/Qwen3.6-35B-A3B")
    stated = gguf_weights.weights_from_model(model, "UD-Q4_K_XL")
    assert stated.file_bytes == pytest.approx(21.27 * 2**30, rel=stated.spread)


def test_dynamic_mixes_without_a_name_of_their_own_are_their_plain_mix() -> None:
    model = RULES.find_model("Qwen/Qwen3-8B")
    named = gguf_weights.weights_from_model(model, "UD-Q3_K_S")
    assert named.file_bytes == gguf_weights.weights_from_model(model, "Q3_K_S").file_bytes
    assert not named.exact
    assert named.spread == gguf_weights.UD_SPREAD


def test_every_mix_gives_more_bytes_than_one_with_fewer_bits() -> None:
    model = RULES.find_model("meta-llama/Llama-3.1-8B-Instruct")
    size = {m: gguf_weights.weights_from_model(model, m).file_bytes for m in BASE if m != "MXFP4_MOE"}
    order = (
        "IQ1_S",
        "IQ2_XXS",
        "Q2_K",
        "Q3_K_S",
        "Q3_K_M",
        "Q3_K_L",
        "Q4_K_S",
        "Q4_K_M",
        "Q5_K_S",
        "Q5_K_M",
        "Q6_K",
        "Q8_0",
    )
    assert [size[m] for m in order] == sorted(size[m] for m in order)
    assert size["F16"] == size["BF16"] < size["F32"]


def test_layers_that_get_more_bits() -> None:
    """32 layers: the first four, the last four, and every third between."""
    assert [i for i in range(32) if more_bits(i, 32)] == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]


def test_models_of_eighty_layers_have_wider_values() -> None:
    """llama.cpp's own plan of Qwen1.5-72B, whose heads share nothing: 43,397,480,448 bytes of Q4_K_M on one device."""
    weights = gguf_weights.weights_from_model(RULES.find_model("Qwen/Qwen1.5-72B-Chat"), "Q4_K_M").weights
    assert sum(x.device_bytes for x in weights if x.name != "token_embd.weight") == 43_397_480_448


def test_compressed_attention_in_a_published_file() -> None:
    """antirez's IQ2XXS-w2Q2K-AProjQ8-SExpQ8-OutQ8 file of V4 Flash 0731 is 86,720,111,488 bytes (ds4 issue 635):
    gate and up of the experts IQ2_XXS, down Q2_K, other matrices Q8_0, the embedding F16. All parameters are there but
    hyper-connections and the tables of the first layers."""
    model = RULES.find_model("deepseek-ai/DeepSeek-V4-Flash")
    tensors = [x for x in list_tensors(model) if not x.mtp]
    size, counted = 0.0, 0
    for tensor in tensors:
        elements = math.prod(tensor.ne)
        counted += elements
        bits = 8.5 if not tensor.expert else 2.625 if "down" in tensor.name else 2.0625
        size += elements * (16 if tensor.name == "token_embd.weight" else bits) / 8
    assert counted == pytest.approx(model.params_total, rel=2e-4)
    assert size == pytest.approx(86_720_111_488, rel=0.01)


@pytest.mark.parametrize(
    ("model", "mix", "gb"),
    [
        ("mistralai/Ministral-8B-Instruct-2410", "Q6_K_L", 6.85),
        ("google/gemma-2-9b-it", "Q5_K_L", 6.87),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "Q6_K_L", 27.26),
        ("meta-llama/Llama-3.1-70B-Instruct", "Q4_K_L", 43.30),
        ("meta-llama/Llama-3.1-70B-Instruct", "Q3_K_XL", 38.06),
    ],
)
def test_wide_ends_have_their_published_sizes(model: str, mix: str, gb: float) -> None:
    """Sizes as bartowski's model cards list them, in GB with two digits; the file's metadata is in theirs."""
    made = gguf_weights.weights_from_model(RULES.find_model(model), mix)
    assert made.file_bytes / 1e9 == pytest.approx(gb, abs=0.015)
    assert not made.exact
    assert made.spread == gguf_weights.WIDE_ENDS_SPREAD
