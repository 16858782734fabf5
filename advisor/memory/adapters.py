"""Weights beside the model's own: slots for LoRA adapters, and the model's own prediction (MTP) block.

Source: shapes of low-rank adapters (two matrices a linear layer); vLLM keeps A whole and B sliced on column-parallel
layers, A sliced and B whole on row-parallel ones (vLLM 0.33.0, LoRA layers).
"""

from __future__ import annotations

import re

from advisor.memory import gguf_tensors
from advisor.memory.memo import by_identity
from advisor.models.types import Model

_COLUMN = re.compile(r"\.(attn_q|attn_k|attn_v|attn_qkv|ffn_gate|ffn_up)\.weight$")
_ROW = re.compile(r"\.(attn_output|ffn_down)\.weight$")


@by_identity
def lora_elements(model: Model, rank: int, tp: int = 1) -> int:
    """Elements on one rank of one adapter of `rank` over all dense linear layers of the text model.

    Raises NoLayout for a model whose tensors are not known.
    """
    total = 0.0
    for x in gguf_tensors.tensors(model):
        if x.mtp or len(x.ne) != 2:
            continue
        width_in, width_out = x.ne
        if _COLUMN.search(x.name):
            total += rank * (width_in + width_out / tp)
        elif _ROW.search(x.name):
            total += rank * (width_in / tp + width_out)
    return round(total)


def prediction_params(model: Model) -> int | None:
    """Parameters of the model's own multi-token-prediction block; None when it has none or its size is not known."""
    if model.mtp is None or not model.mtp.layers or model.mtp.per_layer is None:
        return None
    return model.mtp.layers * model.mtp.per_layer
