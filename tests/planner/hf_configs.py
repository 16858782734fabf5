"""config.json of a catalogue model, from the published config of a sibling: the same keys, the model's own numbers.

A config counts only where reading it gives the catalogue's layers again.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from advisor.catalog import catalog
from advisor.errors import AdvisorError
from advisor.memory.gguf_tensors import layer_order
from advisor.models import types as t
from advisor.models.hf_config import model_from_config

PUBLISHED = Path(__file__).resolve().parents[1] / "models" / "configs"
TEXT = ("text_config", "llm_config")
# classes whose config is that of another class
LIKE = {"granite": ("llama", "GraniteForCausalLM"), "deepseek_v3": ("kimi_k2", "DeepseekV3ForCausalLM")}
HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")
SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
SHARED_WIDTH = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
FIRST = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
MLA = ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
KINDS: dict[type, str] = {
    t.Sliding: "sliding_attention", t.Chunked: "chunked_attention", t.GatedDeltaNet: "linear_attention",
    t.Mamba2: "mamba", t.ShortConv: "conv",
}  # fmt: skip
G = TypeVar("G")


def read_published() -> dict[str, list[dict[str, Any]]]:
    """Published configs by `model_type`."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(PUBLISHED.glob("*.json")):
        config = json.loads(path.read_text())
        found[config["model_type"]].append(config)
    for kind, (like, name) in LIKE.items():
        found[kind] += [{**x, "model_type": kind, "architectures": [name]} for x in found[like]]
    return dict(found)


def make_config(model: t.Model, siblings: dict[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
    """The config of `model`; None where no sibling's config can say what its layers are."""
    if model.layout is None:
        return None
    for sibling in siblings.get(model.model_type or "", []):
        if (sibling.get("architectures") or [None])[0] != model.architecture:
            continue
        config = _fill(copy.deepcopy(sibling), model.layout)
        try:
            back = model_from_config(config, model.id, catalog().config_classes).layout
        except AdvisorError:
            continue
        if back is not None and _describe(back) == _describe(model.layout):
            return config
    return None


def _fill(config: dict[str, Any], lay: t.Layout) -> dict[str, Any]:
    text = next((config[k] for k in TEXT if k in config), config)
    text |= {"num_hidden_layers": lay.n_layers, "hidden_size": lay.hidden_size, "vocab_size": lay.vocab_size}
    text |= {k: lay.hidden_size for k in ("block_dim", "conv_dim") if k in text}
    config["tie_word_embeddings"] = text["tie_word_embeddings"] = lay.tie_embeddings
    _put_attention(text, lay)
    _put_states(text, lay)
    _put_feed_forward(text, lay)
    return config


def _put_attention(text: dict[str, Any], lay: t.Layout) -> None:
    full = _first(lay, (t.Full, t.Sliding, t.Chunked))
    local = _first(lay, (t.Sliding, t.Chunked)) or full
    if isinstance(full, t.Full | t.Sliding | t.Chunked) and isinstance(local, t.Full | t.Sliding | t.Chunked):
        text["num_attention_heads"] = full.n_heads
        _put(text, HEADS, full.n_kv_heads)
        if "head_dim" in text or full.head_dim * full.n_heads != lay.hidden_size:
            text["head_dim"] = local.head_dim
        if "attention_bias" in text or full.qkv_bias:
            text["attention_bias"] = full.qkv_bias
        if "use_qk_norm" in text:
            text["use_qk_norm"] = full.qk_norm is not None
    sliding = _first(lay, (t.Sliding,))
    if isinstance(sliding, t.Sliding) or "sliding_window" in text:
        text["sliding_window"] = sliding.window if isinstance(sliding, t.Sliding) else None
    if isinstance(mla := _first(lay, (t.Mla,)), t.Mla):
        text |= {"num_attention_heads": mla.n_heads, **{k: getattr(mla, k) for k in MLA}}
        if "num_key_value_heads" in text:
            text["num_key_value_heads"] = mla.n_heads
    kinds = [KINDS.get(type(g), "full_attention") for g in _in_order(lay.attention, lay.attention_order, lay.n_layers)]
    if "layers_block_type" in text:
        text["layers_block_type"] = ["attention" if k == "full_attention" else k for k in kinds]
    elif "full_attn_idxs" in text:
        text["full_attn_idxs"] = [i for i, k in enumerate(kinds) if k == "full_attention"]
    elif "layer_types" in text or (
        len(set(kinds)) > 1
        and not text.keys() & {"hybrid_override_pattern", "attn_layer_period", "full_attention_interval"}
    ):
        plain = "attention" if "attention" in (text.get("layer_types") or ()) else "full_attention"
        text["layer_types"] = [plain if k == "full_attention" else k for k in kinds]


def _put_states(text: dict[str, Any], lay: t.Layout) -> None:
    if isinstance(delta := _first(lay, (t.GatedDeltaNet,)), t.GatedDeltaNet):
        text |= {
            "linear_num_key_heads": delta.k_heads, "linear_num_value_heads": delta.v_heads,
            "linear_key_head_dim": delta.k_dim, "linear_value_head_dim": delta.v_dim,
            "linear_conv_kernel_dim": delta.conv_kernel,
        }  # fmt: skip
    mamba2 = _first(lay, (t.Mamba2,))
    if not isinstance(mamba2, t.Mamba2):
        if text.keys() >= {"mamba_expand", "mamba_d_head"}:  # no such layer, but the sizes are checked
            text["mamba_n_heads"] = text["mamba_expand"] * lay.hidden_size // text["mamba_d_head"]
        return
    inner = mamba2.heads * mamba2.head_dim
    _put(text, ("mamba_n_heads", "mamba_num_heads"), mamba2.heads)
    _put(text, ("mamba_d_head", "mamba_head_dim"), mamba2.head_dim)
    _put(text, ("mamba_d_state", "ssm_state_size"), mamba2.state)
    _put(text, ("mamba_n_groups", "n_groups"), mamba2.groups)
    _put(text, ("mamba_d_conv", "conv_kernel"), mamba2.conv_kernel)
    if "mamba_d_ssm" in text:
        text["mamba_d_ssm"] = inner
    if "mamba_expand" in text:
        text["mamba_expand"] = inner // lay.hidden_size
    if "hybrid_override_pattern" in text:
        mixers = _in_order(lay.attention, lay.attention_order, lay.n_layers)
        ffns = _in_order(lay.ffn, lay.ffn_order, lay.n_layers)
        text["hybrid_override_pattern"] = "".join(
            "M" if isinstance(a, t.Mamba2) else "*" if isinstance(a, t.Full) else "E" if isinstance(f, t.Moe) else "-"
            for a, f in zip(mixers, ffns, strict=True)
        )


def _put_feed_forward(text: dict[str, Any], lay: t.Layout) -> None:
    dense = next((g for g in lay.ffn if isinstance(g, t.Dense)), None)
    moe = next((g for g in lay.ffn if isinstance(g, t.Moe)), None)
    if dense is not None:
        _put(text, ("intermediate_size", "block_ff_dim"), dense.intermediate)
        if "shared_intermediate_size" in text and moe is None:  # Granite 4 without experts
            text["shared_intermediate_size"] = dense.intermediate
    if "block_auto_adjust_ff_dim" in text:
        text["block_auto_adjust_ff_dim"] = False
    if moe is None:
        return
    order = _in_order(lay.ffn, lay.ffn_order, lay.n_layers)
    _put(text, EXPERTS, moe.n_experts)
    _put(text, TOP_K, moe.top_k)
    width = [k for k in ("moe_intermediate_size", "expert_ffn_hidden_size") if k in text]
    _put(text, width or ["intermediate_size"], moe.moe_intermediate)
    for name in SHARED:
        if name in text:
            text[name] = moe.n_shared
    for name in SHARED_WIDTH:
        if name in text:
            text[name] = moe.shared_intermediate
    for name in FIRST:
        if name in text:
            text[name] = next(i for i, g in enumerate(order) if isinstance(g, t.Moe))
    if "moe_layer_end_index" in text:
        text["moe_layer_end_index"] = lay.n_layers - 1
    if "mlp_layer_types" in text:
        text["mlp_layer_types"] = ["sparse" if isinstance(g, t.Moe) else "dense" for g in order]


def _put(text: dict[str, Any], names: Sequence[str], value: object) -> None:
    """Under each name that the config has; under the first where it has none."""
    for name in [k for k in names if k in text] or names[:1]:
        text[name] = value


def _parts(lay: t.Layout) -> Iterator[t.AttentionGroup]:
    for group in lay.attention:
        yield from group.parts if isinstance(group, t.Parallel) else (group,)


def _first(lay: t.Layout, kinds: tuple[type, ...]) -> t.AttentionGroup | None:
    return next((g for g in _parts(lay) if isinstance(g, kinds)), None)


def _in_order(groups: Sequence[G], order: Sequence[int], n: int) -> list[G]:
    return [groups[k] for k in layer_order(groups, order, n)]


def _describe(lay: t.Layout) -> tuple[object, ...]:
    """What a config has to say: sizes, and every layer in order."""
    mixers = _in_order(lay.attention, lay.attention_order, lay.n_layers)
    ffns = _in_order(lay.ffn, lay.ffn_order, lay.n_layers)
    layers = [structs.replace(g, n=1) for g in (*mixers, *ffns)]
    return lay.n_layers, lay.hidden_size, lay.vocab_size, lay.tie_embeddings, layers
