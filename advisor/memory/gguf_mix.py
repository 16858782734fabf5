"""Which GGML type every tensor of a GGUF file gets, as llama-quantize decides without an importance matrix.

Source: llama.cpp v0.5.0 quantiser, checked on 232 of 232 files (llamacpp_memory.csv). Vendors' dynamic mixes differ: a
file's own tensor table wins where there is one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from advisor.memo import memoize_by_identity
from advisor.memory.ggml import BLOCKS
from advisor.memory.gguf_tensors import GgufTensor, list_file_tensors
from advisor.models import types as t
from advisor.patterns import pattern_when_used
from advisor.record import Value

# mix -> type of the bulk
BASE = {
    "F32": "F32", "F16": "F16", "BF16": "BF16", "Q8_0": "Q8_0", "Q6_K": "Q6_K",
    "Q5_K_M": "Q5_K", "Q5_K_S": "Q5_K", "Q5_0": "Q5_0", "Q5_1": "Q5_1",
    "Q4_K_M": "Q4_K", "Q4_K_S": "Q4_K", "Q4_0": "Q4_0", "Q4_1": "Q4_1", "IQ4_XS": "IQ4_XS", "IQ4_NL": "IQ4_NL",
    "Q3_K_L": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_S": "Q3_K", "Q2_K": "Q2_K", "Q2_K_S": "Q2_K",
    "IQ3_M": "IQ3_S", "IQ3_S": "IQ3_S", "IQ3_XS": "IQ3_S", "IQ3_XXS": "IQ3_XXS",
    "IQ2_M": "IQ2_S", "IQ2_S": "IQ2_XS", "IQ2_XS": "IQ2_XS", "IQ2_XXS": "IQ2_XXS", "IQ1_M": "IQ1_M", "IQ1_S": "IQ1_S",
    "TQ1_0": "TQ1_0", "TQ2_0": "TQ2_0", "MXFP4_MOE": "MXFP4",
}  # fmt: skip

# what a row that is not whole blocks of 256 falls back to
FALLBACK = {
    "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "Q2_K": "Q4_0", "Q3_K": "Q4_0", "TQ1_0": "Q4_0", "TQ2_0": "Q4_0",
    "IQ4_XS": "IQ4_NL", "IQ3_S": "IQ4_NL", "IQ3_XXS": "IQ4_NL", "IQ2_S": "IQ4_NL", "IQ2_XS": "IQ4_NL",
    "IQ2_XXS": "IQ4_NL", "IQ1_S": "IQ4_NL", "IQ1_M": "IQ4_NL",
}  # fmt: skip
NARROWED = {"IQ3_XS", "IQ3_XXS"}  # mixes that give some tensors fewer bits than the bulk
SMALL_IQ = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M"}
# small projections that no mix touches
_KEEP_16BIT = pattern_when_used(r"altup|laurel|per_layer_model_proj")
_KEEP_F32 = pattern_when_used(
    r"(_norm\.weight|ffn_gate_inp\.weight|ssm_conv1d(_[qkv])?\.weight|indexer\.proj\.weight|shortconv\.conv\.weight|\.bias|rope_freqs)"
)
_VALUE = pattern_when_used(r"attn_(v|qkv|kv_b)\.weight")


def more_bits(i: int, n: int) -> bool:
    """llama.cpp's pick of layers that deserve more bits: the first and last eighth and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def choose_types(model: t.Model, mix: str) -> list[str]:
    """The GGML type of each of the model's tensors, in order, for a mix (`Q4_K_M`, ...). KeyError for an unknown mix.

    Raises NoLayout for a model whose tensors are not known.
    """
    all_tensors = list_file_tensors(model)
    looked = _looked(model)
    facts = _MixInputs(model, mix, looked)
    out = ["F32"] * len(all_tensors)
    seen = {"value": 0, "down": 0}
    for i in looked.order:
        out[i] = _type(facts, all_tensors[i], seen)
    return out


class _TensorSummary(Value, frozen=True):
    """What the names of the tensors say, whatever the mix."""

    order: tuple[int, ...]  # in which they are written, those that stay F32 left out
    has_output: bool
    n_layer: int
    n_value: int


@memoize_by_identity
def _looked(model: t.Model) -> _TensorSummary:
    all_tensors = list_file_tensors(model)
    typed = [i for i, x in enumerate(all_tensors) if len(x.ne) > 1 and _role(x.part or x.name) != "f32"]
    return _TensorSummary(
        order=tuple(sorted(typed, key=lambda i: (_rank(all_tensors[i]), all_tensors[i].name))),
        has_output=any(x.name == "output.weight" for x in all_tensors),
        n_layer=1 + max((x.layer or 0) for x in all_tensors),
        n_value=sum(_role(x.part or x.name) == "value" for x in all_tensors),
    )


_Role = Literal[
    "f32", "output", "kept16", "per_layer", "embedding",
    "value", "key", "query", "down", "attention", "gate_up", "other",
]  # fmt: skip


@lru_cache(maxsize=4096)
def _role(name: str) -> _Role:
    """What the mixes go by of a tensor's name without its layer: `f32` stays F32 in every mix."""
    if not name.endswith(".weight") or _KEEP_F32.search(name):
        return "f32"
    whole: dict[str, _Role] = {
        "output.weight": "output", "token_embd.weight": "embedding", "per_layer_token_embd.weight": "per_layer",
    }  # fmt: skip
    if name in whole:
        return whole[name]
    if _KEEP_16BIT.search(name):
        return "kept16"
    if _VALUE.search(name):
        return "value"
    parts: tuple[tuple[str, _Role], ...] = (
        ("attn_k.weight", "key"), ("attn_q.weight", "query"), ("ffn_down", "down"),
        ("attn_output.weight", "attention"), ("ffn_gate", "gate_up"), ("ffn_up", "gate_up"),
    )  # fmt: skip
    return next((role for part, role in parts if part in name), "other")


def _rank(tensor: GgufTensor) -> int:
    return -1 if tensor.layer is None else tensor.layer


class _MixInputs:
    """What the choice depends on."""

    def __init__(self, model: t.Model, mix: str, looked: _TensorSummary) -> None:
        lay = model.layout
        assert lay is not None
        self.mix, self.base = mix, BASE[mix]
        self.has_output = looked.has_output
        architecture = model.gguf_architecture
        self.stored_experts = architecture.tensors.stored_experts if architecture is not None else None
        self.n_layer = looked.n_layer
        self.n_value = looked.n_value
        self.n_down = self.n_layer
        moe = [g for g in lay.ffn if isinstance(g, t.Moe)]
        self.n_expert = moe[0].n_experts if moe else 1
        self.gqa = heads_per_kv_head(model)
        # llama.cpp calls models of 80 layers of these architectures type "70B"; Llama 1's, without groups, "65B"
        sized = model.gguf_architecture.size_class if model.gguf_architecture is not None else None
        self.is_70b = lay.n_layers == 80 and (
            sized == "70B" or (sized == "70B-grouped" and heads_per_kv_head(model) > 1)
        )


def heads_per_kv_head(model: t.Model) -> int:
    """Query heads per KV head as llama.cpp counts it (MLA models count as one KV head per query head)."""
    assert model.layout is not None
    for full in model.layout.attention:
        parts = full.parts if isinstance(full, t.Parallel) else (full,)
        for p in parts:
            if isinstance(p, (t.Full, t.Sliding, t.Chunked, t.Encoder)) and p.n_kv_heads:
                return p.n_heads // p.n_kv_heads
    return 1


def _type(inputs: _MixInputs, tensor: GgufTensor, seen: dict[str, int]) -> str:
    if inputs.base in ("F32", "F16", "BF16"):
        kept = inputs.stored_experts if tensor.expert and inputs.base != "F32" else None
        return kept or inputs.base
    return _whole_blocks(_wanted(inputs, tensor, seen), tensor.ne[0])


def _whole_blocks(kind: str, row: int) -> str:
    if row % BLOCKS[kind][0] == 0:
        return kind
    kind = FALLBACK.get(kind, "F16")
    return kind if row % BLOCKS[kind][0] == 0 else "F16"


def _wanted(inputs: _MixInputs, tensor: GgufTensor, seen: dict[str, int]) -> str:
    role, mix = _role(tensor.part or tensor.name), inputs.mix
    if role in ("output", "per_layer") or (role == "embedding" and not inputs.has_output):
        return _output(inputs, tensor)
    if role == "kept16":
        return "F16"
    if mix == "MXFP4_MOE":
        return "MXFP4" if len(tensor.ne) > 2 and tensor.ne[2] > 1 else "Q8_0"
    if role == "embedding":
        return _embedding(inputs)
    if mix in SMALL_IQ:
        return _small_iq(inputs, tensor.name, seen)
    if role == "value":
        i, seen["value"] = seen["value"], seen["value"] + 1
        return _value(inputs, i)
    if role == "key" and inputs.n_expert == 8:
        return "Q8_0"
    if role in ("key", "query"):
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(mix, inputs.base)
    if role == "down":
        i, seen["down"] = seen["down"], seen["down"] + 1
        return _down(inputs, _rank(tensor) if inputs.n_expert > 1 else i)
    if role == "attention":
        return _attention_output(inputs)
    if role == "gate_up" and mix == "IQ3_XS":
        return "IQ3_XXS" if inputs.n_layer // 8 <= _rank(tensor) < 7 * inputs.n_layer // 8 else inputs.base
    return inputs.base


def _output(inputs: _MixInputs, tensor: GgufTensor) -> str:
    if inputs.mix == "MXFP4_MOE" or tensor.ne[0] % BLOCKS[inputs.base][0]:
        return "Q8_0"
    if inputs.mix in SMALL_IQ or inputs.mix == "IQ3_XXS":
        return "Q5_K"
    return "Q8_0" if inputs.base == "Q8_0" else "Q6_K"


def _embedding(inputs: _MixInputs) -> str:
    if inputs.mix in ("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"):
        return "Q2_K"
    if inputs.mix in ("IQ2_S", "IQ2_M", "IQ3_XXS"):
        return "IQ3_S"
    return "Q4_K" if inputs.mix in ("TQ1_0", "TQ2_0") else inputs.base


def _small_iq(inputs: _MixInputs, name: str, seen: dict[str, int]) -> str:
    larger = "IQ3_S" if inputs.mix in ("IQ2_S", "IQ2_M") else "Q2_K"
    if "attn_v.weight" in name:
        return "Q4_K" if inputs.gqa >= 4 or inputs.n_expert >= 4 else larger
    if inputs.n_expert == 8 and "attn_k.weight" in name:
        return "Q4_K"
    if "ffn_down" in name:
        i, seen["down"] = seen["down"], seen["down"] + 1
        return larger if i < inputs.n_down // 8 else inputs.base
    if "attn_output.weight" in name:
        if inputs.n_expert == 8:
            return "Q5_K"
        return {"IQ1_S": "IQ2_XXS", "IQ1_M": "IQ2_XXS", "IQ2_S": "IQ3_S", "IQ2_M": "IQ3_S"}.get(inputs.mix, inputs.base)
    return inputs.base


def _value(inputs: _MixInputs, i: int) -> str:
    mix, kind = inputs.mix, inputs.base
    if mix == "Q2_K":
        kind = "Q4_K" if inputs.gqa >= 4 else "Q3_K"
    elif mix in ("Q2_K_S", "IQ3_XS", "IQ3_S", "IQ3_XXS") and inputs.gqa >= 4:
        kind = "Q4_K"
    elif mix == "IQ3_XXS":
        kind = "IQ3_S"
    elif mix == "IQ3_M":
        kind = "Q4_K"
    elif mix == "Q3_K_M":
        kind = "Q5_K" if i < 2 else "Q4_K"
    elif mix == "Q3_K_L" or (mix in ("IQ4_NL", "IQ4_XS") and inputs.gqa >= 4):
        kind = "Q5_K"
    elif mix in ("Q4_K_M", "Q5_K_M") and more_bits(i, inputs.n_value):
        kind = "Q6_K"
    elif mix == "Q4_K_S" and i < 4:
        kind = "Q5_K"
    if inputs.is_70b and kind in ("Q3_K", "Q4_K"):
        kind = "Q5_K"
    return "Q8_0" if inputs.n_expert == 8 else kind


def _down(inputs: _MixInputs, i: int) -> str:
    mix, n = inputs.mix, inputs.n_down
    if mix == "Q2_K":
        return "Q3_K"
    if mix == "Q2_K_S":
        return "Q4_K" if i < n // 8 else inputs.base
    if mix == "IQ3_XXS":
        return "Q4_K" if i < n // 8 else "Q3_K"
    if mix == "Q3_K_M":
        return "Q5_K" if i < n // 16 else "Q4_K"
    if mix == "IQ3_M":
        return "Q4_K" if i < n // 8 or (inputs.n_expert == 8 and more_bits(i, n)) else inputs.base
    if mix == "Q3_K_L":
        return "Q5_K"
    if mix in ("Q4_K_M", "Q5_K_M"):
        return "Q6_K" if more_bits(i, n) else inputs.base
    if mix in ("Q4_K_S", "IQ4_NL", "IQ4_XS") and i < n // 8:
        return "Q5_K"
    return inputs.base


def _attention_output(inputs: _MixInputs) -> str:
    if inputs.n_expert == 8:
        q5 = ("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS")
        return "Q5_K" if inputs.mix in q5 else inputs.base
    return {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}.get(
        inputs.mix, inputs.base
    )
