"""Keys of a config.json with their types, and what the classes of each model type add that no key says.

A missing or ill-typed key is named, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

import msgspec

from advisor.decoding import Json
from advisor.errors import AdvisorError, BadInput
from advisor.record import Record

T = TypeVar("T")
MAX_LAYERS = 4096
MAX_DIM = 2**31


class ConfigSection:
    """One (text) section of a config, with the place it came from for messages. `None` values count as absent."""

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self.data, self.where = data, where

    def has(self, *names: str) -> bool:
        """Whether any of the keys is there and not null."""
        return any(self.data.get(n) is not None for n in names)

    def _find_value(self, names: tuple[str, ...]) -> tuple[str, object]:
        for n in names:
            if self.data.get(n) is not None:
                return n, self.data[n]
        return names[0], None

    def maybe(self, *names: str, least: int = 0, most: int = MAX_DIM) -> int | None:
        """The whole number under the first of `names` that is there; None if none is. Raises BadInput."""
        name, value = self._find_value(names)
        if value is None:
            return None
        if isinstance(value, list) and value and all(v == value[0] for v in value):
            value = value[0]  # per-layer lists of one value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadInput(
                f"{self.where}: `{name}` must be a whole number from {least} to {most}, is {str(value)[:60]!r}"
            )
        return value

    def whole(self, *names: str, least: int = 1, most: int = MAX_DIM) -> int:
        """As `maybe`, but the key must be there."""
        value = self.maybe(*names, least=least, most=most)
        if value is None:
            other = f" (nor {', '.join(f'`{n}`' for n in names[1:])})" if len(names) > 1 else ""
            raise BadInput(f"{self.where}: `{names[0]}` is missing{other}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A true/false key. Raises BadInput."""
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadInput(f"{self.where}: `{name}` must be true or false, is {str(value)[:60]!r}")
        return value

    def text(self, name: str) -> str | None:
        """A text key; None if absent. Raises BadInput."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise BadInput(f"{self.where}: `{name}` must be text, is {str(value)[:60]!r}")
        return value

    def items(self, name: str, of: type[T]) -> list[T] | None:
        """A list whose entries are all of one type; None if absent. Raises BadInput."""
        value = self.data.get(name)
        if value is None:
            return None
        if (
            not isinstance(value, list)
            or len(value) > 4 * MAX_LAYERS
            or any(not isinstance(v, of) or (of is int and isinstance(v, bool)) for v in value)
        ):
            raise BadInput(f"{self.where}: `{name}` must be a list of {of.__name__}, is {str(value)[:60]!r}")
        return value

    def per_layer(self, name: str, of: type[T], n: int) -> list[T] | None:
        """As `items`, with an entry for each of `n` layers."""
        value = self.items(name, of)
        if value is not None and len(value) != n:
            raise BadInput(f"{self.where}: `{name}` has {len(value)} entries for {n} layers")
        return value

    def section(self, name: str) -> ConfigSection | None:
        """A nested object; None if absent. Raises BadInput."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise BadInput(f"{self.where}: `{name}` must be an object, is {str(value)[:60]!r}")
        return ConfigSection(value, f"{self.where}, {name}")

    def layers(self) -> int:
        """Number of layers."""
        return self.layers_of("num_hidden_layers", "n_layer", "num_layers", "n_layers")

    def layers_of(self, *names: str) -> int:
        """A number of layers under one of these names (bounded: lists of that length are built)."""
        return self.whole(*names, most=MAX_LAYERS)

    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole("hidden_size", "n_embd", "d_model")


def unknown_architecture(where: str, why: str) -> AdvisorError:
    """The error for an architecture that cannot be read honestly."""
    return AdvisorError(
        "unknown_architecture",
        f"{where}: {why}, so its memory cannot be computed from the config. "
        "A GGUF file of the model or an entry for it under rules/models/ would help.",
    )


Switch = bool | str  # a constant, or the config key that switches it


class ModelTraits(Record, frozen=True, kw_only=True):
    """Fixed properties of one `model_type`."""

    mixer: str = "softmax"
    ffn: str = "standard"
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: Literal["head", "full", "per_head"] | None = None
    qk_norm_key: str | None = None  # config key that switches qk_norm on
    gate: Literal["elementwise", "headwise"] | None = None
    sinks: bool = False
    window: Literal["none", "all", "pattern"] = "none"  # without `layer_types`
    pattern: int = 0  # every pattern-th layer is full
    act: Literal["gated", "plain"] = "gated"
    mlp_bias: Switch = False
    router_bias: Switch = False
    shared_gate: bool = False
    norms: int = 2
    norm_bias: bool = False
    lm_head_bias: Switch = False
    tie: bool = False  # when `tie_word_embeddings` is absent
    kind: Literal["chat", "embedding"] = "chat"
    defaults: Mapping[str, object] = msgspec.field(
        default_factory=dict
    )  # class defaults that published configs leave out
    note: str | None = None


def _for_types(names: str, traits: ModelTraits) -> dict[str, ModelTraits]:
    return dict.fromkeys(names.split(), traits)


_ATTENTION_BIAS: Json = {"qkv_bias": "attention_bias", "o_bias": "attention_bias"}
_DELTA = ModelTraits(
    mixer="delta", qk_norm="head", gate="elementwise", pattern=4, shared_gate=True, defaults={"attn_output_gate": True}
)
_GEMMA3_DEFAULTS = {
    "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072, "sliding_window": 4096,
}  # fmt: skip
_PHI_WINDOW = "sliding window of the config not counted (llama.cpp ignores it too)"
TRAITS: dict[str, ModelTraits] = {
    **_for_types("llama llama_bidirec llama_embed", ModelTraits(**_ATTENTION_BIAS, mlp_bias="mlp_bias")),
    "mistral": ModelTraits(window="all", defaults={"sliding_window": 4096}),
    "ministral": ModelTraits(window="all"),
    **_for_types("ministral3 smollm3", ModelTraits(window="none")),
    "mixtral": ModelTraits(window="all"),
    "qwen2": ModelTraits(qkv_bias=True),
    "mimo": ModelTraits(qkv_bias=True),
    **_for_types("qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text", ModelTraits(qkv_bias=True)),
    "qwen3": ModelTraits(**_ATTENTION_BIAS, qk_norm="head"),
    "qwen3_vl_text": ModelTraits(**_ATTENTION_BIAS, qk_norm="head", tie=True),
    **_for_types("qwen3_moe qwen3_vl_moe_text", ModelTraits(**_ATTENTION_BIAS, qk_norm="head")),
    "qwen2_moe": ModelTraits(qkv_bias=True, shared_gate=True),
    **_for_types("qwen3_next qwen3_5_text qwen3_5_moe_text qwen3_5 qwen3_5_moe", _DELTA),
    "gemma": ModelTraits(tie=True),
    "gemma2": ModelTraits(tie=True, norms=4, window="pattern", pattern=2),
    "gemma3_text": ModelTraits(
        tie=True, norms=4, qk_norm="head", window="pattern", pattern=6, defaults=_GEMMA3_DEFAULTS
    ),
    "gemma3n_text": ModelTraits(mixer="gemma_shared", tie=True, norms=4, qk_norm="head", window="pattern", pattern=5),
    "gemma4_text": ModelTraits(
        mixer="gemma_shared", ffn="gemma4", tie=True, norms=4, qk_norm="head", window="pattern", pattern=6
    ),
    "phi": ModelTraits(
        qkv_bias=True, o_bias=True, act="plain", mlp_bias=True, norms=1, norm_bias=True, lm_head_bias=True
    ),
    "phi3": ModelTraits(note=_PHI_WINDOW),
    "phimoe": ModelTraits(**_ATTENTION_BIAS, norm_bias=True, lm_head_bias="lm_head_bias", note=_PHI_WINDOW),
    **_for_types("granite granitemoe granitemoeshared", ModelTraits(**_ATTENTION_BIAS, mlp_bias="mlp_bias")),
    "granitemoehybrid": ModelTraits(mixer="hybrid", **_ATTENTION_BIAS),
    "olmo2": ModelTraits(qk_norm="full"),
    "olmo3": ModelTraits(qk_norm="full", window="pattern", pattern=4),
    "olmoe": ModelTraits(qk_norm="full"),
    "starcoder2": ModelTraits(
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        act="plain",
        norm_bias=True,
        window="all",
        tie=True,
        defaults={"use_bias": True},
    ),
    "cohere": ModelTraits(norms=1, tie=True, qk_norm="per_head", qk_norm_key="use_qk_norm"),
    "cohere2": ModelTraits(norms=1, tie=True, window="pattern", pattern=4),
    "seed_oss": ModelTraits(qkv_bias="attention_bias", o_bias="attention_out_bias", defaults={"attention_bias": True}),
    "internlm2": ModelTraits(qkv_bias="bias", o_bias="bias"),
    "internlm3": ModelTraits(qkv_bias="qkv_bias", o_bias="bias", mlp_bias="bias"),
    "exaone": ModelTraits(),
    "exaone4": ModelTraits(qk_norm="head", window="pattern", pattern=4),
    "exaone_moe": ModelTraits(qk_norm="head", window="pattern", pattern=4, router_bias=True),
    **_for_types(
        "hunyuan_v1_dense hunyuan_v1_moe", ModelTraits(**_ATTENTION_BIAS, qk_norm="head", qk_norm_key="use_qk_norm")
    ),
    "ernie4_5": ModelTraits(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", tie=True),
    "ernie4_5_moe": ModelTraits(
        qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", router_bias=True, tie=True
    ),
    "glm": ModelTraits(qkv_bias="attention_bias", defaults={"attention_bias": True}),
    **_for_types(
        "glm4 glm4v glm4v_text", ModelTraits(qkv_bias="attention_bias", norms=4, defaults={"attention_bias": True})
    ),
    **_for_types(
        "glm4_moe glm4v_moe glm4v_moe_text",
        ModelTraits(qkv_bias="attention_bias", qk_norm="head", qk_norm_key="use_qk_norm", router_bias=True),
    ),
    "apertus": ModelTraits(**_ATTENTION_BIAS, qk_norm="head", act="plain", mlp_bias="mlp_bias"),
    "arcee": ModelTraits(**_ATTENTION_BIAS, act="plain", mlp_bias="mlp_bias"),
    "gpt_oss": ModelTraits(
        **_ATTENTION_BIAS, sinks=True, window="pattern", pattern=2, router_bias=True, defaults={"attention_bias": True}
    ),
    "deepseek_v2": ModelTraits(mixer="mla"),
    **_for_types(
        "deepseek_v3 kimi_k2 deepseek_v32 glm4_moe_lite glm_moe_dsa", ModelTraits(mixer="mla", router_bias=True)
    ),
    "mistral4": ModelTraits(mixer="mla"),
    "minimax_m2": ModelTraits(qk_norm="full", qk_norm_key="use_qk_norm", router_bias="use_routing_bias"),
    "minimax_m1": ModelTraits(mixer="lightning"),
    "llama4_text": ModelTraits(**_ATTENTION_BIAS, ffn="llama4", window="pattern", pattern=4),
    "mllama_text_model": ModelTraits(mixer="mllama"),
    "dots1": ModelTraits(**_ATTENTION_BIAS, qk_norm="head", router_bias=True),
    **_for_types(
        "bailing_moe bailing_moe_v2",
        ModelTraits(
            qkv_bias="use_qkv_bias",
            o_bias="use_bias",
            qk_norm="head",
            qk_norm_key="use_qk_norm",
            router_bias="moe_router_enable_expert_bias",
        ),
    ),
    "nemotron_h": ModelTraits(
        mixer="nemotron_h", ffn="nemotron_h", **_ATTENTION_BIAS, act="plain", norms=1, router_bias=True
    ),
    "falcon_h1": ModelTraits(mixer="parallel", **_ATTENTION_BIAS, mlp_bias="mlp_bias"),
    "lfm2": ModelTraits(mixer="hybrid", ffn="lfm2", qk_norm="head", tie=True),
    "lfm2_moe": ModelTraits(mixer="hybrid", qk_norm="head", tie=True, router_bias="use_expert_bias"),
    "jamba": ModelTraits(mixer="jamba", ffn="jamba"),
    **_for_types("mamba falcon_mamba", ModelTraits(mixer="mamba1", ffn="none", norms=1, tie=True)),
    "kimi_linear": ModelTraits(mixer="kimi_linear", router_bias=True),
    "afmoe": ModelTraits(qk_norm="head", gate="elementwise", norms=4, window="pattern", pattern=4, router_bias=True),
    "hy_v3": ModelTraits(qk_norm="head", router_bias=True),
    "solar_open": ModelTraits(router_bias=True),
    "mellum": ModelTraits(qk_norm="head"),
    "bert": ModelTraits(
        mixer="encoder",
        qkv_bias=True,
        o_bias=True,
        act="plain",
        mlp_bias=True,
        norm_bias=True,
        tie=True,
        kind="embedding",
    ),
    **_for_types(
        "roberta xlm-roberta",
        ModelTraits(
            mixer="encoder",
            qkv_bias=True,
            o_bias=True,
            act="plain",
            mlp_bias=True,
            norm_bias=True,
            tie=True,
            kind="embedding",
        ),
    ),
    "modernbert": ModelTraits(mixer="encoder", tie=True, kind="embedding"),
    "nomic_bert": ModelTraits(
        mixer="encoder", qkv_bias="qkv_proj_bias", o_bias="qkv_proj_bias", norm_bias=True, tie=True, kind="embedding"
    ),
}
