"""Types of tensors as llama-quantize chooses them (llama_tensor_get_type of llama.cpp); sizes of captured graphs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.gguf_tensors import GgufTensor, list_file_tensors
from advisor.memory.gguf_weights import (
    BASE,
    _attention_output,
    _down,
    _embedding,
    _MixInputs,
    _output,
    _read_mix_inputs,
    _small_iq,
    _value,
    _wanted,
    _whole_blocks,
    choose_types,
    heads_per_kv_head,
    more_bits,
)
from advisor.memory.working_memory import CapturedGraphs, count_capture_sizes, size_graphs

RULES = catalog([shipped_root()])
LLAMA = RULES.find_model("llama3.1:8b")  # 32 layers, four query heads for each of keys


def inputs(mix: str, **more: Any) -> _MixInputs:
    """What the choice depends on: a dense model of 32 layers, two query heads for each of keys, or what is given."""
    return replace(_read_mix_inputs(LLAMA, mix), **({"gqa": 2, "n_expert": 1, "is_70b": False} | more))


def tensor(name: str, *ne: int, layer: int | None = None) -> GgufTensor:
    return GgufTensor(name=name, ne=ne or (4096, 4096), layer=layer)


def test_layers_that_deserve_more_bits() -> None:
    """Of 32: the first four, the last four, and every third between."""
    assert [i for i in range(32) if more_bits(i, 32)] == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]


VALUES: list[tuple[str, dict[str, Any], int, str]] = [
    ("Q2_K", {"gqa": 4}, 9, "Q4_K"), ("Q2_K", {"gqa": 3}, 9, "Q3_K"),
    ("Q2_K_S", {"gqa": 4}, 9, "Q4_K"), ("Q2_K_S", {"gqa": 3}, 9, "Q2_K"),
    ("IQ3_XS", {"gqa": 4}, 9, "Q4_K"), ("IQ3_XS", {"gqa": 3}, 9, "IQ3_S"),
    ("IQ3_S", {"gqa": 4}, 9, "Q4_K"), ("IQ3_S", {"gqa": 3}, 9, "IQ3_S"),
    ("IQ3_XXS", {"gqa": 4}, 9, "Q4_K"), ("IQ3_XXS", {"gqa": 3}, 9, "IQ3_S"),
    ("IQ3_M", {}, 9, "Q4_K"),
    ("Q3_K_M", {}, 1, "Q5_K"), ("Q3_K_M", {}, 2, "Q4_K"), ("Q3_K_L", {}, 9, "Q5_K"), ("Q3_K_S", {}, 0, "Q3_K"),
    ("IQ4_NL", {"gqa": 4}, 9, "Q5_K"), ("IQ4_NL", {"gqa": 3}, 9, "IQ4_NL"),
    ("IQ4_XS", {"gqa": 4}, 9, "Q5_K"), ("IQ4_XS", {"gqa": 3}, 9, "IQ4_XS"),
    ("Q4_K_M", {}, 0, "Q6_K"), ("Q4_K_M", {}, 4, "Q4_K"), ("Q5_K_M", {}, 6, "Q6_K"), ("Q5_K_M", {}, 7, "Q5_K"),
    ("Q4_K_S", {}, 3, "Q5_K"), ("Q4_K_S", {}, 4, "Q4_K"), ("Q5_K_S", {}, 0, "Q5_K"), ("Q6_K", {}, 0, "Q6_K"),
    # 80 layers of the 70B: eight heads share keys, and values get more
    ("Q4_K_M", {"is_70b": True}, 4, "Q5_K"), ("Q3_K_M", {"is_70b": True}, 9, "Q5_K"),
    ("Q3_K_S", {"is_70b": True}, 9, "Q5_K"),
    ("Q4_K_M", {"is_70b": True}, 0, "Q6_K"), ("Q2_K_S", {"is_70b": True}, 9, "Q2_K"),
    # eight experts: values are small next to them
    ("Q4_K_M", {"n_expert": 8}, 4, "Q8_0"), ("Q2_K", {"n_expert": 8}, 9, "Q8_0"),
    ("Q4_K_M", {"n_expert": 9}, 4, "Q4_K"),
]  # fmt: skip


@pytest.mark.parametrize(("mix", "more", "number", "kind"), VALUES)
def test_types_of_values(mix: str, more: dict[str, Any], number: int, kind: str) -> None:
    assert _value(inputs(mix, **more), number) == kind
    seen = {"value": number, "down": 0}
    assert _wanted(inputs(mix, **more), tensor("blk.9.attn_v.weight", layer=9), seen) == kind
    assert seen == {"value": number + 1, "down": 0}


DOWNS: list[tuple[str, dict[str, Any], int, str]] = [
    ("Q2_K", {}, 9, "Q3_K"), ("Q2_K_S", {}, 3, "Q4_K"), ("Q2_K_S", {}, 4, "Q2_K"),
    ("IQ3_XXS", {}, 3, "Q4_K"), ("IQ3_XXS", {}, 4, "Q3_K"),
    ("Q3_K_M", {}, 1, "Q5_K"), ("Q3_K_M", {}, 2, "Q4_K"), ("Q3_K_L", {}, 9, "Q5_K"), ("Q3_K_S", {}, 0, "Q3_K"),
    ("IQ3_M", {}, 3, "Q4_K"), ("IQ3_M", {}, 6, "IQ3_S"), ("IQ3_M", {"n_expert": 8}, 6, "Q4_K"),
    ("IQ3_M", {"n_expert": 8}, 7, "IQ3_S"),
    ("Q4_K_M", {}, 6, "Q6_K"), ("Q4_K_M", {}, 7, "Q4_K"), ("Q5_K_M", {}, 3, "Q6_K"), ("Q5_K_M", {}, 5, "Q5_K"),
    ("Q4_K_S", {}, 3, "Q5_K"), ("Q4_K_S", {}, 4, "Q4_K"), ("IQ4_NL", {}, 3, "Q5_K"), ("IQ4_NL", {}, 4, "IQ4_NL"),
    ("IQ4_XS", {}, 3, "Q5_K"), ("IQ4_XS", {}, 4, "IQ4_XS"), ("Q6_K", {}, 0, "Q6_K"), ("IQ3_S", {}, 0, "IQ3_S"),
]  # fmt: skip


@pytest.mark.parametrize(("mix", "more", "number", "kind"), DOWNS)
def test_types_of_what_leads_out_of_the_feed_forward_part(
    mix: str, more: dict[str, Any], number: int, kind: str
) -> None:
    assert _down(inputs(mix, **more), number) == kind
    # a dense model counts them as they are written, one with experts by the layer
    dense = {"value": 0, "down": number}
    if "n_expert" not in more:
        assert _wanted(inputs(mix), tensor("blk.31.ffn_down.weight", layer=31), dense) == kind
        assert dense["down"] == number + 1
    experts = inputs(mix, **{"n_expert": 64, **more})
    assert _wanted(experts, tensor("blk.0.ffn_down_exps.weight", layer=number), {"value": 0, "down": 31}) == kind


@pytest.mark.parametrize(
    ("mix", "experts", "kind"),
    [("Q2_K", 1, "Q3_K"), ("IQ3_XXS", 1, "IQ3_S"), ("Q3_K_M", 1, "Q4_K"), ("Q3_K_L", 1, "Q5_K"), ("IQ3_M", 1, "Q4_K"),
     ("Q4_K_M", 1, "Q4_K"), ("Q3_K_S", 1, "Q3_K"), ("Q2_K_S", 1, "Q2_K"),
     ("Q2_K", 8, "Q5_K"), ("Q4_K_M", 8, "Q5_K"), ("IQ4_XS", 8, "Q5_K"), ("Q3_K_L", 8, "Q3_K"), ("Q5_K_M", 8, "Q5_K"),
     ("Q6_K", 8, "Q6_K"), ("Q4_K_M", 9, "Q4_K")],
)  # fmt: skip
def test_types_of_what_leads_out_of_attention(mix: str, experts: int, kind: str) -> None:
    assert _attention_output(inputs(mix, n_expert=experts)) == kind
    found = _wanted(inputs(mix, n_expert=experts), tensor("blk.9.attn_output.weight", layer=9), {"value": 0, "down": 0})
    assert found == kind


SMALL: list[tuple[str, dict[str, Any], str, int, str]] = [
    ("IQ2_XS", {"gqa": 4}, "attn_v", 0, "Q4_K"), ("IQ2_XS", {"gqa": 3}, "attn_v", 0, "Q2_K"),
    ("IQ2_S", {"gqa": 3}, "attn_v", 0, "IQ3_S"), ("IQ2_M", {"gqa": 3}, "attn_v", 0, "IQ3_S"),
    ("IQ2_M", {"gqa": 4}, "attn_v", 0, "Q4_K"),
    ("IQ1_S", {"gqa": 3, "n_expert": 4}, "attn_v", 0, "Q4_K"),
    ("IQ1_S", {"gqa": 3, "n_expert": 3}, "attn_v", 0, "Q2_K"),
    ("IQ2_XS", {"n_expert": 8}, "attn_k", 0, "Q4_K"), ("IQ2_XS", {"n_expert": 7}, "attn_k", 0, "IQ2_XS"),
    ("IQ2_XS", {}, "ffn_down", 3, "Q2_K"), ("IQ2_XS", {}, "ffn_down", 4, "IQ2_XS"),
    ("IQ2_S", {}, "ffn_down", 3, "IQ3_S"),
    ("IQ1_M", {}, "ffn_down", 3, "Q2_K"),
    ("IQ2_XS", {"n_expert": 8}, "attn_output", 0, "Q5_K"), ("IQ1_S", {}, "attn_output", 0, "IQ2_XXS"),
    ("IQ1_M", {}, "attn_output", 0, "IQ2_XXS"), ("IQ2_S", {}, "attn_output", 0, "IQ3_S"),
    ("IQ2_M", {}, "attn_output", 0, "IQ3_S"), ("IQ2_XS", {}, "attn_output", 0, "IQ2_XS"),
    ("IQ2_XXS", {}, "ffn_up", 0, "IQ2_XXS"), ("IQ2_XXS", {}, "attn_q", 0, "IQ2_XXS"),
]  # fmt: skip


@pytest.mark.parametrize(("mix", "more", "name", "number", "kind"), SMALL)
def test_types_of_the_smallest_mixes(mix: str, more: dict[str, Any], name: str, number: int, kind: str) -> None:
    seen = {"value": 0, "down": number}
    assert _small_iq(inputs(mix, **more), f"blk.9.{name}.weight", seen) == kind
    assert seen["down"] == number + (name == "ffn_down")
    again = {"value": 0, "down": number}
    assert _wanted(inputs(mix, **more), tensor(f"blk.9.{name}.weight", layer=9), again) == kind


OTHERS: list[tuple[str, dict[str, Any], GgufTensor, str]] = [
    ("IQ3_XS", {}, tensor("blk.9.attn_k.weight", layer=9), "IQ3_XXS"),
    ("IQ3_XS", {}, tensor("blk.9.attn_q.weight", layer=9), "IQ3_XXS"),
    ("IQ3_XXS", {}, tensor("blk.9.attn_k.weight", layer=9), "IQ2_S"),
    ("IQ3_XXS", {}, tensor("blk.9.attn_q.weight", layer=9), "IQ2_S"),
    ("Q4_K_M", {}, tensor("blk.9.attn_q.weight", layer=9), "Q4_K"),
    ("Q4_K_M", {"n_expert": 8}, tensor("blk.9.attn_k.weight", layer=9), "Q8_0"),
    ("Q4_K_M", {"n_expert": 8}, tensor("blk.9.attn_q.weight", layer=9), "Q4_K"),
    # the middle of the layers, from an eighth to seven eighths
    ("IQ3_XS", {}, tensor("blk.3.ffn_up.weight", layer=3), "IQ3_S"),
    ("IQ3_XS", {}, tensor("blk.4.ffn_up.weight", layer=4), "IQ3_XXS"),
    ("IQ3_XS", {}, tensor("blk.27.ffn_gate.weight", layer=27), "IQ3_XXS"),
    ("IQ3_XS", {}, tensor("blk.28.ffn_gate.weight", layer=28), "IQ3_S"),
    ("IQ3_S", {}, tensor("blk.9.ffn_up.weight", layer=9), "IQ3_S"),
    ("MXFP4_MOE", {}, tensor("blk.9.ffn_up_exps.weight", 4096, 64, 8, layer=9), "MXFP4"),
    ("MXFP4_MOE", {}, tensor("blk.9.ffn_up_exps.weight", 4096, 64, 1, layer=9), "Q8_0"),
    ("MXFP4_MOE", {}, tensor("blk.9.attn_q.weight", layer=9), "Q8_0"),
    ("Q4_K_M", {}, tensor("altup_proj.weight", 4096, 4096, 3), "F16"),
    ("Q4_K_M", {}, tensor("per_layer_model_proj.weight"), "F16"),
    ("Q4_K_M", {}, tensor("per_layer_token_embd.weight"), "Q6_K"),
    ("Q4_K_M", {}, tensor("output.weight"), "Q6_K"),
    ("Q4_K_M", {}, tensor("token_embd.weight"), "Q4_K"),
    ("Q4_K_M", {"has_output": False}, tensor("token_embd.weight"), "Q6_K"),
]  # fmt: skip


@pytest.mark.parametrize(("mix", "more", "of", "kind"), OTHERS)
def test_types_of_other_tensors(mix: str, more: dict[str, Any], of: GgufTensor, kind: str) -> None:
    assert _wanted(inputs(mix, **more), of, {"value": 0, "down": 0}) == kind


@pytest.mark.parametrize(
    ("mix", "output", "embedding"),
    [("Q4_K_M", "Q6_K", "Q4_K"), ("Q8_0", "Q8_0", "Q8_0"), ("MXFP4_MOE", "Q8_0", "MXFP4"), ("IQ3_XXS", "Q5_K", "IQ3_S"),
     ("IQ2_XXS", "Q5_K", "Q2_K"), ("IQ2_XS", "Q5_K", "Q2_K"), ("IQ1_S", "Q5_K", "Q2_K"), ("IQ1_M", "Q5_K", "Q2_K"),
     ("IQ2_S", "Q5_K", "IQ3_S"), ("IQ2_M", "Q5_K", "IQ3_S"), ("TQ1_0", "Q6_K", "Q4_K"), ("TQ2_0", "Q6_K", "Q4_K"),
     ("IQ3_XS", "Q6_K", "IQ3_S"), ("Q2_K", "Q6_K", "Q2_K")],
)  # fmt: skip
def test_types_of_output_and_embedding(mix: str, output: str, embedding: str) -> None:
    assert _output(inputs(mix), tensor("output.weight")) == output
    assert _embedding(inputs(mix)) == embedding
    if mix != "Q8_0":
        assert _output(inputs(mix), tensor("output.weight", 4096 + 16, 8)) == "Q8_0"  # no whole blocks


def test_rows_that_are_no_whole_blocks() -> None:
    for kind, row, found in (
        ("Q4_K", 512, "Q4_K"), ("Q4_K", 544, "Q5_0"), ("Q6_K", 96, "Q8_0"), ("Q2_K", 96, "Q4_0"),
        ("IQ4_XS", 96, "IQ4_NL"),
        ("Q4_K", 100, "F16"), ("Q8_0", 96, "Q8_0"), ("Q8_0", 100, "F16"), ("F16", 7, "F16"),
    ):  # fmt: skip
        assert _whole_blocks(kind, row) == found, (kind, row)


def test_what_is_read_from_a_model() -> None:
    """Mixtral has eight experts and four query heads for each of keys; the 70B is known by its 80 layers."""
    mixtral = RULES.find_model("mistralai/Mixtral-8x7B-Instruct-v0.1")
    found = _read_mix_inputs(mixtral, "Q4_K_M")
    assert (found.n_expert, found.gqa, found.n_layer, found.n_value) == (8, 4, 32, 32)
    assert not found.is_70b
    dense = _read_mix_inputs(LLAMA, "Q4_K_M")
    assert (dense.n_expert, dense.gqa, dense.has_output, dense.base) == (1, 4, True, "Q4_K")
    large = RULES.find_model("meta-llama/Llama-3.1-70B-Instruct")
    assert _read_mix_inputs(large, "Q4_K_M").is_70b
    assert heads_per_kv_head(large) == 8
    latent = RULES.find_model("deepseek-ai/DeepSeek-V3")
    assert heads_per_kv_head(latent) == 1


@pytest.mark.parametrize("mix", BASE)
def test_norms_and_biases_stay_as_they_are(mix: str) -> None:
    for x, kind in zip(list_file_tensors(LLAMA), choose_types(LLAMA, mix), strict=True):
        if len(x.ne) == 1:
            assert kind == "F32"
        elif mix in ("F32", "F16", "BF16"):
            assert kind == mix


# --- captured graphs


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 247, 248, 255, 256, 257, 271, 272, 512])
def test_sizes_that_are_captured(largest: int) -> None:
    """1, 2, 4; steps of 8 below 256; steps of 16 from there on."""
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16)]
    assert count_capture_sizes(largest) == len([x for x in sizes if x <= largest])


def test_bytes_of_captured_graphs() -> None:
    """Up to twice the running requests, at most 512, or 1,024 from capability 10.0 on: 83 sizes then."""
    graphs = CapturedGraphs(
        low=0.001, value=0.002, high=0.004, base_gib=0.5, largest_from_capability={"10.0": 1024}, source="s"
    )
    assert (graphs.largest, graphs.before) == (512, None)
    assert CapturedGraphs(low=1.0, value=1.0, high=1.0, source="s").base_gib == 0.0

    def sizes(sequences: int, capability: float, largest: int | None = None) -> float:
        low, value, high = size_graphs(graphs, 10, sequences, capability, largest)
        assert value - 0.5 == pytest.approx(2 * (low - 0.5))
        assert high - 0.5 == pytest.approx(2 * (value - 0.5))
        return (value - 0.5) / 0.02

    assert sizes(1000, 9.0) == pytest.approx(51)
    assert sizes(1000, 10.0) == pytest.approx(83)
    assert sizes(1000, 12.0) == pytest.approx(83)
    assert sizes(2, 9.0) == pytest.approx(3)  # 1, 2, 4
    assert sizes(1000, 9.0, 8) == pytest.approx(4)
    assert size_graphs(graphs, 10, 1000, 9.0, 0) == (0.0, 0.0, 0.0)
    assert size_graphs(graphs, 0, 1000, 9.0, None) == (0.0, 0.0, 0.0)
