"""Tables of rotations, against what logs load beyond the parameters (tests/data/startup_logs.csv)."""

from __future__ import annotations

import json

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.working_memory import size_rotary_tables
from advisor.models.hf_config import model_from_config
from advisor.units import GIB

RULES = catalog([shipped_root()])


@pytest.mark.parametrize(
    ("model", "gib"),
    [  # positions x rotated width x 2 bytes, by hand
        ("meta-llama/Llama-3.1-8B-Instruct", 131072 * 128 * 2 / GIB),
        ("google/gemma-3-12b-it", 8 * 131072 * 256 * 2 / GIB),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 10485760 * 128 * 2 / GIB),
        ("deepseek-ai/DeepSeek-V3", 163840 * 64 * 2 / GIB),
    ],
)
def test_sizes(model: str, gib: float) -> None:
    assert size_rotary_tables(RULES.find_model(model)) / GIB == pytest.approx(gib)


@pytest.mark.parametrize(
    ("said", "factor"),
    [
        ({"rope_scaling": {"rope_type": "linear", "factor": 8.0}}, 8.0),
        ({"rope_scaling": {"type": "linear", "factor": 4}}, 4.0),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}, 8.0),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, None),  # its context counts the factor already
        ({"rope_scaling": {"rope_type": "linear", "factor": "many"}}, None),
        ({"rope_scaling": None}, None),
    ],
)
def test_the_factor_of_a_config(said: dict[str, object], factor: float | None) -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256,
        "max_position_embeddings": 4096, "torch_dtype": "bfloat16", **json.loads(json.dumps(said)),
    }  # fmt: skip
    assert model_from_config(config, "x", catalog().config_classes).rope_factor == factor
