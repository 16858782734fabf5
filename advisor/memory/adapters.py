"""Weights in addition to the model's own: slots for LoRA adapters, and the model's own prediction (MTP) block.

Source: shapes of low-rank adapters (two matrices a linear layer); vLLM keeps A whole and B sliced on column-parallel
layers, A sliced and B whole on row-parallel ones, and both whole on replicated ones, routers among them. Its buffers
are allocated for every linear layer, whatever an adapter holds (vLLM 0.33.0, lora/layers): rows of lora_buffers.csv.
"""

from __future__ import annotations

from typing import Literal

from advisor.memo import memoize_by_identity
from advisor.memory import gguf_tensors, hf_weights
from advisor.memory.gguf_tensors import GgufTensor
from advisor.models.types import Model
from advisor.patterns import pattern_when_used

Experts = Literal["none", "split", "fused"]  # no slots, or with A of gate and up apart or together
_NO_LINEAR = pattern_when_used(r"(_norm|ssm_a$|ssm_d$)")
_ROW = pattern_when_used(r"\.(attn_output|ffn_down|ffn_down_shexp|ssm_out)\.weight$")
_REPLICATED = pattern_when_used(r"\.(attn_q_a|attn_kv_a_mqa|ffn_gate_inp|ffn_gate_inp_shexp)\.weight$")
_ROUTER = pattern_when_used(r"\.ffn_gate_inp(_shexp)?\.weight$")
_KV = pattern_when_used(r"\.attn_[kv]\.weight$")


@memoize_by_identity
def lora_elements(
    model: Model, rank: int, tp: int = 1, ep: int = 1, experts: Experts = "none", outside: bool = False
) -> int:
    """Elements on one rank of one adapter slot of `rank` over all linear layers of the text model.

    `experts`: whether routed experts have slots of their own (on `ep` ranks where these are more than one, else sliced
    by `tp`), and with them the routers; `outside`: embedding and output matrix, which are never sliced. Raises NoLayout
    for a model whose tensors are not known.
    """
    lay = model.layout
    total, heads = 0.0, hf_weights.widest_kv_heads(model)
    tensors = gguf_tensors.count_equal_tensors(model)
    routers = experts != "none" and any(x.name.endswith("ffn_gate_exps.weight") for x, _ in tensors)
    mamba2 = hf_weights.find_mamba2(model) is not None
    for tensor, count in tensors:
        if tensor.layer is None or _NO_LINEAR.search(tensor.name) or not tensor.name.endswith(".weight"):
            continue
        if tensor.expert:
            each = 0.0 if experts == "none" else _expert_elements(tensor, tp, ep, experts)
        elif not routers and _ROUTER.search(tensor.name):
            each = 0.0  # those of experts without a gate have none, either
        elif tensor.name.endswith(("ssm_in.weight", "ssm_conv1d.weight")):
            each = _state_elements(tensor, tp, mamba2)
        else:
            each = _elements(tensor, tp, min(tp, heads))
        total += count * rank * each
    if outside and lay is not None:
        total += 2 * rank * (lay.vocab_size + lay.hidden_size)
    return round(total)


def _state_elements(tensor: GgufTensor, tp: int, mamba2: bool) -> float:
    """Of the projection into a state and its convolution. Mamba-2 splits the first into five parts (gate, x, B, C,
    step), the convolution into three, each with an A of its own; the convolutions of other kinds have no slots."""
    width_in, width_out = tensor.ne
    if tensor.name.endswith("ssm_conv1d.weight"):
        return 3 * width_in + width_out / tp if mamba2 else 0.0
    return (5 if mamba2 else 2) * width_in + width_out / tp


def _elements(tensor: GgufTensor, tp: int, kv_tp: int) -> float:
    """Of one linear layer, for each unit of rank."""
    if len(tensor.ne) == 3:  # the two halves of latent attention's up-projection, whose A is one
        if tensor.name.endswith("attn_k_b.weight"):
            return tensor.ne[0] * tensor.ne[2] / tp
        return tensor.ne[0] + tensor.ne[1] * tensor.ne[2] / tp if tensor.name.endswith("attn_v_b.weight") else 0.0
    if len(tensor.ne) != 2:
        return 0.0
    width_in, width_out = tensor.ne
    if _REPLICATED.search(tensor.name):
        return width_in + width_out
    if _ROW.search(tensor.name):
        return width_in / tp + width_out
    return width_in + width_out / (kv_tp if _KV.search(tensor.name) else tp)


def _expert_elements(tensor: GgufTensor, tp: int, ep: int, experts: Experts) -> float:
    """Of the routed experts of one layer, for each unit of rank; A of a fused gate and up is counted with up."""
    width_in, width_out, n = tensor.ne
    here, sliced = (n / ep, 1) if ep > 1 else (n, tp)
    if tensor.name.endswith("ffn_down_exps.weight"):
        return here * (width_in / sliced + width_out)
    with_a = experts == "split" or tensor.name.endswith("ffn_up_exps.weight")
    return here * ((width_in if with_a else 0) + width_out / sliced)


def prediction_params(model: Model) -> int | None:
    """Parameters of the model's own multi-token-prediction block; None when it has none or its size is not known."""
    if model.mtp is None or not model.mtp.layers or model.mtp.per_layer is None:
        return None
    return model.mtp.layers * model.mtp.per_layer
