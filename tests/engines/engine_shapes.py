"""What vLLM 0.33.0 and SGLang 0.5.23 assert when they build a model's layers, written down a second time.

Each function does what the class of that name does to its sizes, and raises as it does. They get the rows
of rules/models as they stand in the YAML, not with what the program under test makes of them. Read from: vLLM
model_executor/layers/{linear,vocab_parallel_embedding}.py, fused_moe/config.py, mamba/*, config/model.py; SGLang
srt/layers/{linear,vocab_parallel_embedding}.py, moe/fused_moe_triton/layer.py, attention/mamba/mamba.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

MODELS = Path(__file__).resolve().parents[2] / "rules" / "models"


def divide(numerator: int, denominator: int) -> int:
    assert numerator % denominator == 0, f"{numerator} is not divisible by {denominator}"
    return numerator // denominator


def qkv_parallel_linear(heads: int, kv_heads: int, tp: int) -> None:
    divide(heads, tp)
    if tp >= kv_heads:
        divide(tp, kv_heads)
    else:
        divide(kv_heads, tp)


def gated_mlp(width: int, tp: int) -> None:
    divide(width, tp)  # gate and up, each
    divide(2 * width, tp)
    divide(width, tp)  # down


def mamba_mixer2(heads: int, groups: int, tp: int) -> None:
    assert heads % tp == 0, "Tensor parallel world size must divide num heads."
    assert groups % tp == 0 or groups == 1, "then num_groups must equal 1."


def gated_delta_net(row: dict[str, Any], tp: int, engine: str) -> None:
    if engine == "vllm":
        key, value = row["k_heads"] * row["k_dim"], row["v_heads"] * row["v_dim"]
        for size in (key, key, value, value):
            divide(size, tp)
    divide(row["v_heads"], tp)


def vocab_parallel_embedding(vocabulary: int, tp: int, engine: str) -> None:
    padding = 64
    if engine == "sglang" and (-(-vocabulary // padding) * padding) % tp:
        padding *= tp
    divide(-(-vocabulary // padding) * padding, tp)


def mixer(row: dict[str, Any], hidden: int, tp: int, engine: str) -> None:
    kind = row["kind"]
    if kind == "parallel":
        for part in row["parts"]:
            mixer(part, hidden, tp, engine)
    elif kind in ("full", "sliding", "chunked", "encoder", "cross"):
        qkv_parallel_linear(row["n_heads"], row["n_kv_heads"], tp)
    elif kind in ("mla", "compressed", "kda", "lightning"):
        divide(row["n_heads"], tp)
    elif kind == "gated_deltanet":
        gated_delta_net(row, tp, engine)
    elif kind == "mamba2":
        mamba_mixer2(row["heads"], row["groups"], tp)
    elif kind == "mamba1":
        gated_mlp(row["inner"], tp)
    elif kind == "shortconv":
        divide(hidden, tp)
    else:
        assert kind == "none", kind


def build(row: dict[str, Any], tp: int, engine: str) -> None:
    """Raises AssertionError where the engine would."""
    layout = row["layout"]
    vocab_parallel_embedding(layout["vocab_size"], tp, engine)
    for x in layout["attention"]:
        mixer(x, layout["hidden_size"], tp, engine)
    for x in layout["ffn"]:
        if x["kind"] == "dense":
            gated_mlp(x["intermediate"], tp)
        elif x["kind"] == "moe":
            divide(x["moe_intermediate"], tp)  # experts are shared out slice by slice, not whole
            for width in (x.get("shared_intermediate", 0), x.get("parallel_dense", 0)):
                if width:
                    gated_mlp(width, tp)


def starts(row: dict[str, Any], tp: int, engine: str) -> bool:
    try:
        build(row, tp, engine)
    except AssertionError:
        return False
    return True


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """The models of the rules whose layers are known."""
    files = [yaml.load(path.read_text("utf-8"), yaml.CSafeLoader) for path in sorted(MODELS.glob("*.yaml"))]
    return tuple(m for file in files for m in file["models"] if m.get("layout"))
