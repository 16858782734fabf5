"""Configs with the keys that publishers use, against the element counts that repositories state and derived KV sizes.

The configs in configs/ are written by hand, with only the keys that describe the architecture. tests/data/models_kv.csv
holds published element counts and KV elements computed elsewhere (its header names the source).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.catalog.documents import decode_document
from advisor.errors import AdvisorError, BadFile, BadInput
from advisor.models import types as t
from advisor.models.hf_config import model_from_config, read_model_dir
from advisor.models.hf_keys import ConfigClasses

CLASSES = catalog().config_classes
CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.json"))
WITHOUT_ROW = {"microsoft--phi-2"}
DATA = Path(__file__).parent.parent / "data"
COUNTED = [json.loads(x) for x in (DATA / "transformers_counts.jsonl").read_text().splitlines()]


def rows() -> dict[str, dict[str, str]]:
    path = Path(__file__).parent.parent / "data" / "models_kv.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {r["id"]: r for r in csv.DictReader(lines)}


ROWS = rows()


def load(path: Path) -> tuple[str, dict[str, Any]]:
    return path.stem.replace("--", "/", 1), json.loads(path.read_text())


def kv(layout: t.Layout) -> dict[str, int]:
    """Cache elements of one sequence, written out once more from the definitions of the layer kinds."""
    sums = {"elems_per_token": 0, "window_elems": 0, "state_elems": 0, "conv_elems": 0, "index_elems_per_token": 0}
    for group in layout.attention:
        parts = group.parts if isinstance(group, t.Parallel) else (group,)
        for p in parts:
            n = group.n
            if isinstance(p, (t.Full, t.Sliding, t.Chunked)) and not p.kv_shared:
                row = p.n_kv_heads * (p.head_dim + (p.v_head_dim or p.head_dim))
                if isinstance(p, t.Full):
                    sums["elems_per_token"] += n * row
                else:
                    sums["window_elems"] += n * row * (p.window or 0)
            elif isinstance(p, t.Mla):
                sums["elems_per_token"] += n * (p.kv_lora_rank + p.qk_rope_head_dim)
                if p.indexer and not p.indexer.shared:
                    sums["index_elems_per_token"] += n * p.indexer.dim
            elif isinstance(p, t.GatedDeltaNet):
                sums["state_elems"] += n * p.v_heads * p.k_dim * p.v_dim
                sums["conv_elems"] += n * (2 * p.k_heads * p.k_dim + p.v_heads * p.v_dim) * (p.conv_kernel - 1)
            elif isinstance(p, t.Kda):
                sums["state_elems"] += n * p.n_heads * p.head_dim**2
                sums["conv_elems"] += n * 3 * p.n_heads * p.head_dim * (p.conv_kernel - 1)
            elif isinstance(p, t.Mamba2):
                inner = p.heads * p.head_dim
                sums["state_elems"] += n * inner * p.state
                sums["conv_elems"] += n * (inner + 2 * p.groups * p.state) * (p.conv_kernel - 1)
            elif isinstance(p, t.Mamba1):
                sums["state_elems"] += n * p.inner * p.state
                sums["conv_elems"] += n * p.inner * (p.conv_kernel - 1)
            elif isinstance(p, t.Lightning):
                sums["state_elems"] += n * p.n_heads * p.head_dim**2
            elif isinstance(p, t.ShortConv):
                sums["conv_elems"] += n * layout.hidden_size * (p.conv_kernel - 1)
    return sums


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_counts_and_kv(path: Path) -> None:
    id, config = load(path)
    model = model_from_config(config, id, CLASSES)
    assert model.layout is not None
    if path.stem in WITHOUT_ROW:
        assert model.params_total == 2779683840  # element count of microsoft/phi-2
        return
    row = ROWS[id]
    assert model.params_text == int(row["params_text"])
    assert model.params_active == int(row["params_active"])
    assert kv(model.layout) == {k: int(row[k] or 0) for k in kv(model.layout)}
    assert len(model.layout.attention_order) <= model.layout.n_layers
    for groups, order in (
        (model.layout.attention, model.layout.attention_order),
        (model.layout.ffn, model.layout.ffn_order),
    ):
        layers = [order[i % len(order)] for i in range(model.layout.n_layers)]
        assert [layers.count(k) for k in range(len(groups))] == [g.n for g in groups]


@pytest.mark.parametrize(
    ("name", "kind", "params"),
    [  # published totals less the text part
        ("Qwen--Qwen2.5-VL-3B-Instruct", "qwen2_5_vl", 3754622976 - 3085938688),
        ("Qwen--Qwen3.5-35B-A3B", "qwen3_vl", 35951822704 - 34660610688 - 844640768),  # less its MTP layer
        ("google--gemma-3-4b-it", "siglip", 4300079472 - 3880263168),
        ("mistralai--Mistral-Small-3.1-24B-Instruct-2503", "pixtral", 24011361280 - 23572403200),
        ("moonshotai--Kimi-VL-A3B-Instruct", "moonvit", 447545840),
        ("meta-llama--Llama-4-Maverick-17B-128E-Instruct", "llama4", 401583781376 - 400711848960 + 448),
    ],
)
def test_vision_towers(name: str, kind: str, params: int) -> None:
    id, config = load(Path(__file__).parent / "configs" / f"{name}.json")
    model = model_from_config(config, id, CLASSES)
    assert model.vision is not None
    assert (model.vision.kind, model.params_total) == (kind, (model.params_text or 0) + model.vision.params)
    assert model.vision.params == pytest.approx(params, rel=1e-6)


def test_layer_order() -> None:
    def order(name: str) -> list[type]:
        layout = model_from_config(*reversed(load(Path(__file__).parent / "configs" / f"{name}.json")), CLASSES).layout
        assert layout is not None
        o = layout.attention_order
        return [type(layout.attention[o[i % len(o)]]) for i in range(layout.n_layers)]

    gemma = order("google--gemma-3-4b-it")
    assert [i for i, k in enumerate(gemma) if k is t.Full] == [5, 11, 17, 23, 29]
    nemotron = order("nvidia--NVIDIA-Nemotron-Nano-9B-v2")
    assert [i for i, k in enumerate(nemotron) if k is t.Full] == [14, 21, 30, 39]
    kimi = order("moonshotai--Kimi-Linear-48B-A3B-Instruct")
    assert [i for i, k in enumerate(kimi) if k is t.Mla] == [3, 7, 11, 15, 19, 23, 26]
    assert order("mistralai--Mistral-7B-Instruct-v0.1") == [t.Sliding] * 32
    assert order("mistralai--Mistral-7B-Instruct-v0.2") == [t.Full] * 32


PLAIN = {
    "model_type": "newthing",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}


def test_unknown_type_of_standard_shape_is_read_and_said() -> None:
    model = model_from_config({**PLAIN, "tie_word_embeddings": False}, "org/new", CLASSES)
    assert not model.verified
    assert "'newthing' is not known" in (model.notes or "")
    attention = 512 * 512 * 2 + 2 * 512 * 128
    assert model.params_total == 2 * 1000 * 512 + 512 + 4 * (attention + 3 * 512 * 1024 + 2 * 512)


def test_layers_with_keys_of_their_own() -> None:
    """`per_layer_config`, as transformers 5 writes what some layers have otherwise."""
    plain = model_from_config(PLAIN, "x", CLASSES)
    wide = model_from_config({**PLAIN, "per_layer_config": {"03": {"head_dim": 128}}}, "x", CLASSES)
    assert plain.layout is not None
    assert wide.layout is not None
    assert [g.n for g in wide.layout.attention] == [3, 1]
    assert wide.params_text - plain.params_text == 64 * 512 * (8 + 2 + 2 + 8)
    for wrong in ({"4": {}}, {"x": {}}, {"0": 3}):
        with pytest.raises(BadInput, match=r"per_layer_config|`0`"):
            model_from_config({**PLAIN, "per_layer_config": wrong}, "x", CLASSES)


@pytest.mark.parametrize(
    "hint",
    [
        {"num_experts": 8},
        {"kv_lora_rank": 64},
        {"mamba_d_state": 16},
        {"sliding_window": 128},
        {"layer_types": ["wkv"] * 4},
        {"moe_intermediate_size": 64},
        {"linear_num_heads": 4},
        {"num_experts": 8, "num_experts_per_tok": 2, "is_moe": False},
    ],
)
def test_unknown_type_with_unmodelled_parts_is_refused(hint: dict[str, Any]) -> None:
    with pytest.raises(AdvisorError) as e:
        model_from_config({**PLAIN, **hint}, "org/new", CLASSES)
    assert e.value.code == "unknown_architecture"
    assert "\n" not in e.value.message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": None}, "`hidden_size` is missing"),
        ({"hidden_size": "big"}, "`hidden_size` must be a whole number"),
        ({"num_hidden_layers": 10**9}, "`num_hidden_layers` must be a whole number"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` must be a whole number"),
        ({"num_attention_heads": 7}, "`head_dim` is missing"),
        ({"num_key_value_heads": 9}, "more than the 8"),
        ({"vocab_size": True}, "`vocab_size` must be a whole number"),
        ({"tie_word_embeddings": "yes"}, "`tie_word_embeddings` must be true or false"),
        ({"layer_types": ["full_attention"] * 3}, "3 entries for 4 layers"),
        ({"model_type": None}, "`model_type` is missing"),
        ({"quantization_config": 4}, "`quantization_config` must be an object"),
    ],
)
def test_bad_keys_are_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as e:
        model_from_config(
            {**PLAIN, "model_type": "llama", "layer_types": ["full_attention"] * 4, **change}, "org/new", CLASSES
        )
    assert says in e.value.line()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq int4"),
        ({"quant_method": "gptq", "bits": 8}, "gptq int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes 4bit"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
                "ignore": ["lm_head", "re:.*self_attn.*"],
            },
            "int4 (experts)",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "mxfp4 (experts)"),
    ],
)
def test_native_quantization(config: dict[str, Any], text: str) -> None:
    model = model_from_config({**PLAIN, "model_type": "llama", "quantization_config": config}, "org/new", CLASSES)
    assert model.native_quant == text


@pytest.mark.parametrize(
    ("sides", "block"),
    [([128, 128], 128), ([128, 64], None), ([1, 128], None), (128, None), (["128", "128"], None), (None, None)],
)
def test_weight_blocks(sides: object, block: int | None) -> None:
    """Only square blocks are known to be divided like that; whatever else stands there is not known."""
    config = {"quant_method": "fp8", **({} if sides is None else {"weight_block_size": sides})}
    model = model_from_config({**PLAIN, "model_type": "llama", "quantization_config": config}, "org/new", CLASSES)
    assert model.weight_blocks == ({"org/new": block} if block else {})


def test_braces_end_quickly(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 1_000_000)
    with pytest.raises(BadFile, match="nested too deeply"):
        read_model_dir(deep, CLASSES)
    huge = tmp_path / "huge.json"
    with huge.open("wb") as f:
        f.write(b"{" * 1000)
        f.truncate(2**30)
    with pytest.raises(BadFile, match="larger than 4 MiB"):
        read_model_dir(huge, CLASSES)
    with pytest.raises(BadFile, match="no such file"):
        read_model_dir(tmp_path, CLASSES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda c: st.lists(c, max_size=4) | st.dictionaries(st.text(max_size=8), c, max_size=4),
    max_leaves=8,
)


@settings(max_examples=80)
@given(data=st.data())
def test_any_value_in_any_key_is_read_or_refused(data: st.DataObject) -> None:
    _, config = load(data.draw(st.sampled_from(CONFIGS)))
    target = config
    if "text_config" in config and data.draw(st.booleans()):
        target = config["text_config"]
    for _ in range(data.draw(st.integers(1, 3))):
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JSON)
    try:
        model = model_from_config(config, "fuzz/model", CLASSES)
    except AdvisorError as e:
        problem = e.message
    else:
        problem = ""
        assert model.layout is not None
        assert sum(g.n for g in model.layout.attention) == model.layout.n_layers
    assert "\n" not in problem
    assert len(problem) < 1000


@pytest.mark.parametrize("line", COUNTED, ids=lambda x: str(x["config"]["model_type"]))
def test_parameters_that_transformers_makes(line: dict[str, Any]) -> None:
    """Default configurations of transformers 5.23.0 and 5.24.0, whose parameters were counted on torch's meta device.

    Rotary sizes, token ids and the like are left out. Norms without weights and a router's bias (a buffer there) may
    differ.
    """
    model = model_from_config(line["config"], "x", catalog().config_classes)
    assert model.guessed is None
    assert model.params_text == pytest.approx(line["parameters"], rel=3e-6)


@pytest.mark.parametrize("line", COUNTED, ids=lambda x: str(x["config"]["model_type"]))
def test_a_class_in_no_table_is_read_by_its_keys_or_refused(line: dict[str, Any]) -> None:
    """As if its type were new: what is sized is as near as rules/hf.yaml says."""
    within = decode_document(catalog(), "hf.yaml", ConfigClasses).unlisted_within
    try:
        model = model_from_config({**line["config"], "model_type": "new"}, "x", CLASSES)
    except AdvisorError as e:
        problem = e.code
    else:
        problem = ""
        assert model.guessed
        assert model.params_text == pytest.approx(line["parameters"], rel=within)
    assert problem in ("", "unknown_architecture")
