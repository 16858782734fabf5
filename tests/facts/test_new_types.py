"""The reader of new types of models: it has the weights of the modules that were read, or says why not."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from reading import read_yaml

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root

TOP = Path(__file__).resolve().parents[2]
import layouts  # noqa: E402

from tools.starts.package import Package  # noqa: E402

CONFIG = """
raise SystemExit("nothing of a wheel is run")

@auto_docstring(checkpoint="org/New-1B")
class NewConfig(PreTrainedConfig):
    model_type = "new"
    vocab_size: int = 1000
    hidden_size: int = 64
    intermediate_size: int = 128
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 16
    sliding_window: int = 32
    attention_bias: bool = True
    tie_word_embeddings: bool = False
    layer_types: list | None = None
    MORE

    def __post_init__(self, **kwargs):
        every = kwargs.pop("every", 3)
        if self.layer_types is None:
            kinds = ["sliding_attention" if bool(i % every) else "full_attention" for i in range(1, 99)]
            self.layer_types = [kinds[i] for i in range(self.num_hidden_layers)]
"""
MODELING = """
class NewRMSNorm(nn.Module):
    def __init__(self, n):
        self.weight = nn.Parameter(torch.ones(n))

class NewMLP(nn.Module):
    def __init__(self, config):
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

class NewAttention(nn.Module):
    def __init__(self, config, layer_idx):
        self.q_proj = nn.Linear(
            config.hidden_size, config.num_attention_heads * self.head_dim, bias=config.attention_bias
        )
        self.k_proj = nn.Linear(
            config.hidden_size, config.num_key_value_heads * self.head_dim, bias=config.attention_bias
        )
        self.v_proj = nn.Linear(
            config.hidden_size, config.num_key_value_heads * self.head_dim, bias=config.attention_bias
        )
        self.o_proj = nn.Linear(config.num_attention_heads * self.head_dim, config.hidden_size, bias=False)
        self.q_norm = NewRMSNorm(self.head_dim)
        self.k_norm = NewRMSNorm(self.head_dim)
        OTHER

class NewDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        self.self_attn = NewAttention(config, layer_idx)
        self.mlp = NewMLP(config)
        self.input_layernorm = NewRMSNorm(config.hidden_size)
        self.post_attention_layernorm = NewRMSNorm(config.hidden_size)

class NewForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = NewDecoderLayer(config, 0)
"""


def make_wheel(folder: Path, more: str = "", other: str = "pass") -> Package:
    names = {
        "auto/modeling_auto.py": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict([('new', 'NewForCausalLM')])\n"
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES = OrderedDict([])\n",
        "auto/auto_mappings.py": "CONFIG_MAPPING_NAMES = OrderedDict([('new', 'NewConfig')])\n",
        "auto/configuration_auto.py": "CONFIG_MAPPING_NAMES = OrderedDict([])\n",
        "new/configuration_new.py": CONFIG.replace("MORE", more),
        "new/modeling_new.py": MODELING.replace("OTHER", other),
    }
    wheel = folder / "transformers-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as z:
        for name, text in names.items():
            z.writestr(f"transformers/models/{name}", text)
        z.writestr("transformers-9.9.9.dist-info/METADATA", "Version: 9.9.9\n\n")
    return Package(wheel)


def test_a_type_is_read_without_being_run(tmp_path: Path) -> None:
    rows, unread, configs = layouts.read_release(make_wheel(tmp_path), {})
    assert not unread
    assert layouts.as_plain(rows["new"]) == {
        "model_types": ["new"], "qkv_bias": "attention_bias", "qk_norm": "head", "window": "pattern"
    }  # fmt: skip
    model = layouts.describe("new", rows["new"], configs["new"])
    # two embeddings, six layers of four projections, biases of three, two norms of heads, the MLP, two norms; one norm
    layer = 64 * 16 * (8 + 2 + 2 + 8) + 16 * (8 + 2 + 2) + 2 * 16 + 3 * 64 * 128 + 2 * 64
    assert model.params_total == 2 * 1000 * 64 + 6 * layer + 64
    assert model.layout is not None
    assert {type(g).__name__: g.n for g in model.layout.attention} == {"Sliding": 4, "Full": 2}
    assert configs["new"].checkpoint == "org/New-1B"


@pytest.mark.parametrize(
    ("more", "other", "says"),
    [
        ("", "self.extra = nn.Linear(config.hidden_size, 9 * config.hidden_size)", "NewAttention.extra"),
        ("num_loops: int = 2", "pass", "more than once"),
        ("num_hidden_layers: int = 10**9", "pass", "num_hidden_layers"),
        (
            "",
            "self.mixer = NewMambaMixer(config)\n\nclass NewMambaMixer(nn.Module):\n    pass",
            "layers of a kind of its own",
        ),
    ],
)
def test_what_is_not_known_is_not_guessed(more: str, other: str, says: str, tmp_path: Path) -> None:
    rows, unread, _ = layouts.read_release(make_wheel(tmp_path, more, other), {})
    assert not rows
    assert says in unread["new"]


def test_what_is_by_hand_is_left_to_the_hand() -> None:
    generated = read_yaml(layouts.OUT.read_text(encoding="utf-8"))
    types = [t for row in generated["classes"] for t in row["model_types"]]
    by_hand = read_yaml((TOP / "rules" / "hf.yaml").read_text(encoding="utf-8"))
    assert not set(types) & {t for row in by_hand["classes"] for t in row["model_types"]}
    assert not set(types) & set(generated["unread"])
    assert set(types) <= set(catalog([shipped_root()]).config_classes)
    for model in read_yaml(layouts.MODELS_OUT.read_text(encoding="utf-8"))["models"]:
        size = re.search(r"(\d+(?:\.\d+)?)B", model["id"])
        assert size is not None
        assert abs(model["params_total"] / float(size[1]) / 1e9 - 1) <= 0.07
