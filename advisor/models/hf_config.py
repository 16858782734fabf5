"""A Model from a Hugging Face config.json, and from a checkpoint directory.

What a config does not say (biases, norms, class defaults) comes from rules/hf.yaml; layer by layer parts from
`hf_layers`. An architecture that would be read wrongly is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from advisor.decoding import Json
from advisor.errors import BadFile, BadInput
from advisor.files import read_json
from advisor.models.hf_keys import ConfigSection, ModelTraits, unknown_architecture
from advisor.models.hf_layers import EXPERTS, FFNS, MIXERS, READ_KEYS, TOP_K, read_layers, read_switch
from advisor.models.layers import group_layers
from advisor.models.tensors import TensorInfo
from advisor.models.types import ExtraWeights, Layout, Model, Mtp, PublishedSize, Vision, Weights
from advisor.patterns import pattern_when_used
from advisor.units import MIB

MAX_CONFIG = 4 * MIB
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
_STANDARD = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
_HINTS = (
    "expert", "moe", "mamba", "ssm", "lora_rank", "linear_", "conv", "kv_shared", "compress", "index_", "hybrid",
    "state", "recurrent", "block_types", "attn_type", "attn_layer", "rwkv", "block_config", "latent",
    "is_encoder_decoder", "altup", "ngram", "type_vocab", "auto_adjust", "loop", "cycle", "recur", "ut_steps",
    "head_sizes", "window_sizes", "per_stack",
)  # fmt: skip
# keys of parts that take no memory to speak of
_HARMLESS = pattern_when_used(
    r"loss|aux|scal|norm|drop|jitter|eps|dtype|backend|token_id|activation|score|_group$|groups?_|lower_bound|limit|init|"
    r"router_logits|topk_method|chunk_size|softcap|_bias$|capacity"
)
_PLAIN = {"gelu", "gelu_new", "gelu_fast", "relu", "relu2", "xielu"}  # activations of MLPs without a gate, as a rule
_BERTS = {"bert", "roberta", "xlm-roberta", "camembert", "data2vec-text"}
_LEARNED_POSITIONS = {*_BERTS, "gpt2", "gpt_bigcode", "opt"}
_OTHER_MIXERS = ("linear_num_key_heads", "linear_num_heads", "mamba_d_state", "ssm_state_size", "conv_L_cache")
_WRAPPED = {"gemma3": "gemma3_text", "mistral3": "mistral", "llama4": "llama4_text", "mllama": "mllama_text_model"}
TOWER_NAMES = (
    "vision", "visual", "audio", "embed_vision", "embed_audio", "multi_modal_projector", "mm_projector", "vit.",
    "mlp1.", "sound_",
)  # fmt: skip


_TOWERS = {
    "qwen2_vl": "qwen2_vl", "qwen2_5_vl": "qwen2_5_vl", "gemma3": "siglip", "mistral3": "pixtral", "llama4": "llama4",
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), "qwen3_vl"),
    **dict.fromkeys(("kimi_vl", "kimi_k25"), "moonvit"),
}  # fmt: skip


def model_from_config(config: dict[str, object], id: str, classes: Mapping[str, ModelTraits]) -> Model:
    """The Model that a config.json describes; `id` is the hub id or path it came from, `classes` what the rules know of
    types of models (`Catalog.config_classes`).

    Parameter counts are computed from the dims. Raises BadInput (a key is missing or ill-typed, it is named) and
    AdvisorError `unknown_architecture` (the layers cannot be modelled).
    """
    where = f"config.json of {id}"
    if not isinstance(config, dict):
        raise BadInput(f"{where}: must be a JSON object")
    outer = ConfigSection(config, where)
    text = _text_section(outer)
    outer_type = outer.text("model_type")
    if outer_type is None:
        raise BadInput(f"{where}: `model_type` is missing")
    model_type = outer_type if text is outer else text.text("model_type") or _WRAPPED.get(outer_type, outer_type)
    if outer_type == "deepseek_v3" and outer.has("index_n_heads"):
        model_type = "deepseek_v32"
    traits, note = _traits(text, model_type, classes)
    given = {k: v for k, v in text.data.items() if v is not None or k in traits.defaults}  # null is not left out
    section = ConfigSection({"model_type": model_type, **traits.defaults, **given}, text.where)
    return _model(outer, section, traits, id, outer_type, note)


def _text_section(outer: ConfigSection) -> ConfigSection:
    """The section with the text dims: the config itself, or the nested one of a wrapper."""
    thinker = outer.section("thinker_config")
    for holder in (thinker, outer) if thinker else (outer,):
        for name in _TEXT_SECTIONS:
            nested = holder.section(name)
            if nested is not None and nested.has("hidden_size", "num_hidden_layers", "num_attention_heads"):
                return nested
    return outer


def _traits(
    config: ConfigSection, model_type: str, classes: Mapping[str, ModelTraits]
) -> tuple[ModelTraits, str | None]:
    known = classes.get(model_type)
    if known is not None:
        return known, known.note
    experts = config.has(*EXPERTS)
    wanted = {k: config.has(k) for k in _STANDARD}
    wanted["intermediate_size"] |= experts and config.has("moe_intermediate_size")
    missing = [k for k, there in wanted.items() if not there]
    keys = [k for k, v in config.data.items() if v not in (None, False, 0, [], {}) and not _HARMLESS.search(k)]
    hints = [k for k in keys if k not in READ_KEYS and any(x in k for x in _HINTS)]  # of parts that are not read here
    hints += [k for k in config.data if config.has(k) and not experts and re.search(r"^moe_|experts?_per_tok", k)]
    if experts and (config.data.get("is_moe") is False or not config.has(*TOP_K)):
        hints += [k for k in EXPERTS if config.has(k)]
    if config.has(*_OTHER_MIXERS) and not config.has("layer_types", "full_attention_interval", "attn_layer_indices"):
        hints += [k for k in _OTHER_MIXERS if config.has(k)]  # of which layers?
    if config.has("kv_lora_rank") and not config.has("qk_nope_head_dim"):
        hints.append("kv_lora_rank")
    if config.has("sliding_window") and not config.has("layer_types") and config.flag("use_sliding_window", True):
        hints.append("sliding_window")
    if missing or hints:
        why = f"it has `{hints[0]}`" if hints else f"`{missing[0]}` is missing"
        raise unknown_architecture(config.where, f"model_type {model_type[:60]!r} is not known and {why}")
    note = (
        f"model_type {model_type[:60]!r} is not known; read by its keys, as layers of known kinds, biases not counted"
    )
    bias = "attention_bias" if config.has("attention_bias") else False
    plain = config.text("hidden_act") in _PLAIN or config.text("hidden_activation") in _PLAIN
    mixer = "delta" if config.has("full_attention_interval") and config.has("linear_num_key_heads") else "softmax"
    return ModelTraits(qkv_bias=bias, o_bias=bias, mixer=mixer, act="plain" if plain else "gated"), note


def _model(
    outer: ConfigSection, config: ConfigSection, traits: ModelTraits, id: str, outer_type: str, note: str | None
) -> Model:
    from advisor.models.parameters import active_params, text_params

    n = config.layers()
    attention, attention_order = group_layers(read_layers(MIXERS[traits.mixer], config, traits, n))
    ffn, ffn_order = group_layers(read_layers(FFNS[traits.ffn], config, traits, n))
    hidden, vocab = config.hidden(), config.whole("vocab_size")
    tie_name = "tie_embedding" if config.has("tie_embedding") else "tie_word_embeddings"
    tied = config.flag(tie_name, outer.flag("tie_word_embeddings", traits.tie))
    layout = Layout(
        n_layers=n,
        hidden_size=hidden,
        vocab_size=vocab,
        tie_embeddings=tied,
        attention=attention,
        ffn=ffn,
        attention_order=attention_order,
        ffn_order=ffn_order,
    )
    architectures: list[str] | list[None] = (
        outer.items("architectures", str) or config.items("architectures", str) or [None]
    )
    vision = read_vision(outer, outer_type, hidden)
    notes = [note] if note else []
    if vision is None and outer.has("vision_config", "audio_config"):
        notes.append("size of the vision or audio part not known from the config")
    dtype = outer.text("dtype") or outer.text("torch_dtype") or config.text("dtype") or config.text("torch_dtype")
    if dtype is None:
        notes.append("dtype not stated, bfloat16 taken")
    mtp = config.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers")
    stored = outer if outer.has("quantization_config", "quantization") else config
    model = Model(
        id=id,
        family=outer_type,
        kind="reranker" if (architectures[0] or "").endswith("ForSequenceClassification") else traits.kind,
        architecture=architectures[0],
        model_type=outer_type,
        own_code=note is not None and bool(outer.data.get("auto_map")),
        params_total=0,
        max_context=_context(config),
        rope_factor=_rope_factor(config.data),
        dtype=dtype or "bfloat16",
        native_quant=describe_native_quant(stored),
        scale_group=read_scale_group(stored),
        weight_blocks={id: block} if (block := read_weight_block(stored)) else {},
        layout=layout,
        vision=vision,
        mtp=Mtp(layers=mtp) if mtp else None,
        weights=Weights(
            norms_per_layer=7 if traits.ffn == "gemma4" and config.flag("enable_moe_block") else traits.norms,
            norm_bias=traits.norm_bias,
            lm_head_bias=read_switch(config, traits.lm_head_bias),
            extras=_extras(config, n, hidden, architectures[0] or ""),
        ),
        verified=note is None or traits.note is not None,
        guessed=note if traits.note is None else None,
        notes="; ".join(notes) or None,
        source=(f"config.json of {id}",),
    )
    counted = text_params(model)
    return msgspec.structs.replace(
        model,
        params_text=counted,
        params_active=active_params(model),
        params_total=counted + (vision.params if vision else 0),
    )


def _context(config: ConfigSection) -> int | None:
    """Longest sequence the config states, in tokens; RoBERTa's position table has two unused rows."""
    n = config.maybe(
        "max_position_embeddings", "n_positions", "max_sequence_length", "model_max_length", "seq_length", most=2**40
    )
    return n - 2 if n and n > 2 and config.data.get("model_type") in _BERTS - {"bert"} else n


def _rope_factor(data: Mapping[str, object]) -> float | None:
    """The factor of linear or dynamic scaling, where the config has it in one of its forms."""
    scaling = data.get("rope_scaling") or data.get("rope_parameters")
    rows = [scaling, *scaling.values()] if isinstance(scaling, dict) else []
    for row in rows:
        if isinstance(row, dict) and (row.get("rope_type") or row.get("type")) in ("linear", "dynamic"):
            factor = row.get("factor")
            return float(factor) if isinstance(factor, (int, float)) and 0 < factor <= 1024 else None
    return None


def _extras(config: ConfigSection, n: int, d: int, architecture: str) -> tuple[ExtraWeights, ...]:
    """Weights outside the layers that a few classes have."""
    kind = config.data.get("model_type")
    out: list[ExtraWeights] = []
    if kind in _LEARNED_POSITIONS:
        rows = config.whole("max_position_embeddings", "n_positions") + (2 if kind == "opt" else 0)
        out.append(ExtraWeights(what="position embeddings", params=rows * d))
    if kind == "bloom":
        out.append(ExtraWeights(what="norm of the embedding", params=2 * d))
    if kind in {*_BERTS, "nomic_bert"}:
        out.append(ExtraWeights(what="token types", params=(config.maybe("type_vocab_size") or 0) * d))
    if kind in _BERTS:
        if architecture.endswith("ForSequenceClassification"):
            names = config.data.get("id2label")
            labels = (len(names) if isinstance(names, dict) else 0) or config.maybe("num_labels", least=1) or 2
            out.append(ExtraWeights(what="classification head", params=d * d + d + d * labels + labels))
        else:
            out.append(ExtraWeights(what="pooler", params=d * d + d))
    if kind in {"apertus", "apertus1p5_text"}:
        out.append(ExtraWeights(what="xIELU scalars", params=2 * n))
    if kind == "mllama_text_model":
        out.append(ExtraWeights(what="8 extra embedding rows", params=8 * d))
    if kind in {"gemma4_text", "gemma4_unified_text"}:
        out.append(ExtraWeights(what="layer scalars", params=n))
    per_layer = config.maybe("hidden_size_per_layer_input")
    if per_layer:
        table = config.whole("vocab_size_per_layer_input") * n * per_layer
        out.append(ExtraWeights(what="per-layer embeddings", params=table, not_active=True))
        out.append(ExtraWeights(what="per-layer projection", params=d * n * per_layer + per_layer))
        out.append(ExtraWeights(what="per-layer gates", params=n * (2 * d * per_layer + d)))
    if kind == "gemma3n_text":
        rank, streams = config.whole("laurel_rank"), config.whole("altup_num_inputs")
        out.append(ExtraWeights(what=f"laurel rank {rank}", params=n * (2 * d * rank + d)))
        mixing = n * (streams**3 + streams**2 + d * streams + 2 * d)
        out.append(ExtraWeights(what="altup", params=mixing + 2 * (streams - 1) * d * d))
    return tuple(out)


def read_model_dir(path: Path | str, classes: Mapping[str, ModelTraits]) -> Model:
    """The Model of a checkpoint directory (or of a config.json).

    Dims come from config.json, stored sizes from the safetensors headers when there are any. Raises BadFile,
    BadInput and AdvisorError `unknown_architecture`.
    """
    path = Path(path)
    config_path = path / "config.json" if path.is_dir() else path
    config = read_json(config_path, MAX_CONFIG)
    if not isinstance(config, dict):
        raise BadFile(config_path, "must hold a JSON object")
    directory = config_path.parent
    model = model_from_config(config, str(path), classes)
    if not path.is_dir() or not any(
        p.name.endswith((".safetensors", ".safetensors.index.json")) for p in directory.iterdir()
    ):
        return model
    from advisor.models.safetensors import read_safetensors

    return with_tensors(model, read_safetensors(directory), str(directory))


def with_tensors(model: Model, tensors: tuple[TensorInfo, ...], source: str) -> Model:
    """The model with what its tensor headers say: stored elements, stored bytes, the size of an unknown tower."""
    from advisor.models.parameters import text_params

    stored = sum(t.elements for t in tensors)
    packed = any(
        t.name.endswith((".qweight", ".weight_packed", "_blocks", ".qzeros")) or t.type == "U8" for t in tensors
    )
    published = {**model.published, "safetensors": PublishedSize(source=source, bytes=sum(t.bytes for t in tensors))}
    vision, total = model.vision, model.params_total
    tower = sum(t.elements for t in tensors if in_tower(t.name))
    if vision is None and tower and not packed:
        vision = Vision(kind="residual", params=tower, what="counted from the tensor headers")
        total = text_params(model) + tower
    return msgspec.structs.replace(
        model, published=published, params_stored=None if packed else stored, vision=vision, params_total=total
    )


def in_tower(name: str) -> bool:
    """Whether a tensor belongs to a vision or audio tower or its projector."""
    return name.removeprefix("model.").removeprefix("thinker.").startswith(TOWER_NAMES)


def describe_native_quant(config: ConfigSection) -> str | None:
    """`fp8`, `int4 (experts)`, `awq int4`, `mlx 4bit`, ...; None for an unquantized checkpoint. Raises BadInput."""
    mlx = config.section("quantization")
    if mlx is not None and mlx.has("bits"):
        return f"mlx {mlx.whole('bits', most=64)}bit"
    section = config.section("quantization_config")
    if section is None:
        return None
    method = (section.text("quant_method") or section.text("quant_algo") or "unknown").lower().replace("_", "-")
    name = _name(section, method)
    skipped = [*_texts(section.data.get("modules_to_not_convert")), *_texts(section.data.get("ignore"))]
    only_experts = any("attn" in s for s in skipped) and method in {"mxfp4", "compressed-tensors"}
    return f"{name} (experts)" if only_experts else name


def read_weight_block(config: ConfigSection) -> int | None:
    """Side of the square blocks of weights that share a scale (`weight_block_size`); None where none is stated."""
    section = config.section("quantization_config")
    sides = section.data.get("weight_block_size") if section is not None else None
    if not isinstance(sides, list) or len(sides) != 2 or sides[0] != sides[1]:
        return None
    side = sides[0]
    return side if isinstance(side, int) and not isinstance(side, bool) and 1 < side <= 4096 else None


def read_scale_group(config: ConfigSection) -> int | None:
    """Weights that share one 16-bit scale in a checkpoint of integers; None where none is stated."""
    section = config.section("quantization_config")
    if section is None:
        return None
    for weights in ({**section.data, "type": "int"}, *_list_groups(section)):  # AWQ and GPTQ state it outside of groups
        size = weights.get("group_size") if weights.get("type") == "int" else None
        if isinstance(size, int) and not isinstance(size, bool) and 1 < size <= 4096:
            return size
    return None


def _list_groups(config: ConfigSection) -> Iterator[Json]:
    """What the groups of a compressed checkpoint say of their weights."""
    groups = config.section("config_groups")
    for group in groups.data.values() if groups else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            yield weights


def _name(config: ConfigSection, method: str) -> str:
    if method in {"gptq", "awq", "auto-round", "autoround"}:
        return f"{method} int{config.maybe('bits', 'w_bit', least=1, most=64) or 4}"
    if method == "bitsandbytes" or config.has("load_in_4bit", "load_in_8bit"):
        return f"bitsandbytes {8 if config.flag('load_in_8bit') else 4}bit"
    if method == "modelopt":
        return (config.text("quant_algo") or "modelopt").lower()
    if method == "exl3":
        bits = config.data.get("bits")
        return f"exl3 {bits:g}bpw" if isinstance(bits, (int, float)) else "exl3"
    if method == "compressed-tensors":
        return _compressed(config)
    return "fp8" if method in {"fp8", "fbgemm-fp8"} else method[:40]


def _compressed(config: ConfigSection) -> str:
    for weights in _list_groups(config):
        bits, kind = weights.get("num_bits"), weights.get("type")
        if isinstance(bits, int) and kind in {"int", "float"}:
            if kind == "float" and bits == 4:
                return "nvfp4" if weights.get("group_size") == 16 else "mxfp4"
            return f"{'fp' if kind == 'float' else 'int'}{bits}"
    return "compressed-tensors"


def _texts(value: object) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def read_vision(config: ConfigSection, model_type: str, hidden: int) -> Vision | None:
    """The tower and projector of a wrapper config; None when there is none or its shape is not known.

    Raises BadInput for missing or ill-typed dims of a known tower.
    """
    from advisor.models.parameters import vision_params

    section = config.section("vision_config")
    made = _dims(section, model_type, hidden) if section is not None else None
    params = vision_params(made) if made is not None else None
    return None if made is None or params is None else msgspec.structs.replace(made, params=params)


def _dims(config: ConfigSection, model_type: str, out: int) -> Vision | None:
    kind = _TOWERS.get(model_type)
    if kind is None:
        return None
    deepstack = positions = None
    if kind == "qwen2_vl":
        hidden, ratio = config.whole("embed_dim"), config.maybe("mlp_ratio", least=1) or 4
        out, wide = config.whole("hidden_size"), hidden * ratio
        return Vision(kind=kind, params=0, hidden=hidden, layers=config.layers_of("depth"), intermediate=wide, out=out)
    if kind == "qwen3_vl":
        deepstack = len(config.items("deepstack_visual_indexes", int) or [])
    if kind in {"qwen2_5_vl", "qwen3_vl"}:
        out = config.whole("out_hidden_size")
    if kind in {"siglip", "llama4"}:
        positions = (config.whole("image_size") // config.whole("patch_size")) ** 2 + (kind == "llama4")
    return Vision(
        kind=kind,
        params=0,
        hidden=config.whole("hidden_size", "vt_hidden_size"),
        layers=config.layers_of("depth", "num_hidden_layers", "vt_num_hidden_layers"),
        intermediate=config.whole("intermediate_size", "vt_intermediate_size"),
        positions=positions,
        out=out,
        deepstack=deepstack,
    )
