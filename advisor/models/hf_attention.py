"""Token mixers of every layer, from a Hugging Face config."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from advisor.errors import BadInput
from advisor.models.hf_keys import ConfigSection, unknown_architecture
from advisor.models.hf_recurrent import read_delta_net, read_kda, read_mamba1, read_mamba2, read_short_conv
from advisor.models.hf_traits import ModelTraits, Switch
from advisor.models.types import (
    AttentionGroup,
    Chunked,
    Cross,
    Encoder,
    Full,
    Indexer,
    Lightning,
    Mla,
    NoMixer,
    Parallel,
    Sliding,
)

KINDS = {
    "full_attention": "full", "attention": "full", "global_attention": "full", "full": "full", "global": "full",
    "sliding_attention": "sliding", "sliding_window": "sliding", "local_attention": "sliding", "local": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear", "mamba": "mamba", "mamba2": "mamba", "conv": "conv",
}  # fmt: skip


def read_switch(config: ConfigSection, value: Switch) -> bool:
    """A trait that is fixed or that a config key switches on."""
    return config.flag(value) if isinstance(value, str) else value


def layer_kinds(config: ConfigSection, traits: ModelTraits, n: int) -> list[str]:
    """`full`, `sliding`, `chunked`, `linear`, `mamba` or `conv` for every layer."""
    listed = config.items("layer_types", str) or config.items("layers_block_type", str)
    if listed is not None:
        if len(listed) != n:
            raise BadInput(f"{config.where}: `layer_types` has {len(listed)} entries for {n} layers")
        unknown = [k for k in listed if k not in KINDS]
        if unknown:
            raise unknown_architecture(config.where, f"layer type {unknown[0][:40]!r} is not known")
        return [KINDS[k] for k in listed]
    if traits.mixer in {"softmax", "gemma_shared"} and traits.window == "none":
        return ["full"] * n
    if traits.window == "all":
        return ["sliding"] * n
    letters = config.data.get("sliding_window_pattern")
    if isinstance(letters, str) and letters and set(letters) <= {"L", "G"}:  # exaone: "LLLG", the last layer global
        return ["full" if letters[i % len(letters)] == "G" or i == n - 1 else "sliding" for i in range(n)]
    period = (
        config.maybe("full_attention_interval", "sliding_window_pattern", "_sliding_window_pattern", least=1)
        or traits.pattern
    )
    period = config.maybe("global_attn_every_n_layers", "no_rope_layer_interval", least=1) or period
    other = "linear" if traits.mixer == "delta" else "chunked" if config.has("attention_chunk_size") else "sliding"
    if not period:
        raise unknown_architecture(config.where, "the order of its layers (`layer_types`) is not given")
    return ["full" if (i + 1) % period == 0 else other for i in range(n)]


def read_full_attention(config: ConfigSection, traits: ModelTraits) -> Full:
    """The full-attention layer of this config."""
    heads = config.whole("num_attention_heads", "n_head", "num_heads")
    head_dim = config.maybe("head_dim", "attention_head_dim", "kv_channels", least=1)
    if head_dim is None:
        if config.hidden() % heads:
            raise BadInput(
                f"{config.where}: `head_dim` is missing and `hidden_size` {config.hidden()} is not a multiple of "
                f"{heads} heads"
            )
        head_dim = config.hidden() // heads
    kv = config.maybe("num_key_value_heads", "num_kv_heads", "multi_query_group_num", least=1) or heads
    if kv > heads:
        raise BadInput(f"{config.where}: `num_key_value_heads` {kv} is more than the {heads} attention heads")
    return Full(
        n=1,
        n_heads=heads,
        n_kv_heads=kv,
        head_dim=head_dim,
        qkv_bias=read_switch(config, traits.qkv_bias),
        o_bias=read_switch(config, traits.o_bias),
        qk_norm=traits.qk_norm if traits.qk_norm_key is None or config.flag(traits.qk_norm_key) else None,
        gate=traits.gate if traits.gate is None or config.flag("attn_output_gate", True) else None,
        sinks=traits.sinks,
    )


def add_window(full: Full, window: int | None, kind: str = "sliding") -> AttentionGroup:
    """The same layer with a window; without one it stays full."""
    if window is None:
        return full
    fields = {f: getattr(full, f) for f in full.__struct_fields__ if f != "window"}
    return (Chunked if kind == "chunked" else Sliding)(**fields, window=window)


def read_window(config: ConfigSection) -> int | None:
    """Tokens a windowed layer looks back; None where the config switches windows off."""
    if not config.flag("use_sliding_window", True):
        return None
    return config.maybe("sliding_window", "sliding_window_size", "attention_chunk_size", least=1)


def _softmax(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    full, window = read_full_attention(config, traits), read_window(config)
    by_kind: dict[str, AttentionGroup] = {"full": full}
    out: list[AttentionGroup] = []
    for kind in layer_kinds(config, traits, n):
        if kind not in {"full", "sliding", "chunked"}:
            raise unknown_architecture(config.where, f"{kind} layers are not known for this model type")
        out.append(by_kind.setdefault(kind, add_window(full, window, kind)))
    if (
        config.data.get("model_type") in {"qwen2", "qwen3"}
        and config.flag("use_sliding_window")
        and not config.has("layer_types")
    ):
        first = config.maybe("max_window_layers") or 0
        out = [full if i < first else add_window(full, window) for i in range(n)]
    return out


def _gemma_shared(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Gemma 3n and 4: wider global heads, and last layers that reuse an earlier layer's cache."""
    local, window = read_full_attention(config, traits), read_window(config)
    wide = config.maybe("global_head_dim", least=1) or local.head_dim
    k_eq_v = config.flag("attention_k_eq_v")
    kv = (config.maybe("num_global_key_value_heads", least=1) if k_eq_v else None) or local.n_kv_heads
    full = msgspec.structs.replace(local, head_dim=wide, n_kv_heads=kv, k_eq_v=k_eq_v)
    sliding = add_window(local, window)
    kinds = layer_kinds(config, traits, n)
    if not config.has("layer_types") and config.has("global_head_dim"):
        kinds[-1] = "full"  # Gemma 4: the last layer is always global
    own = n - (config.maybe("num_kv_shared_layers", most=n) or 0)
    mixers = [full if k == "full" else sliding for k in kinds]
    return [m if i < own else msgspec.structs.replace(m, kv_shared=True) for i, m in enumerate(mixers)]


def read_mla(config: ConfigSection, indexer: Indexer | None = None) -> Mla:
    """Multi-head latent attention."""
    return Mla(
        n=1,
        n_heads=config.whole("num_attention_heads"),
        kv_lora_rank=config.whole("kv_lora_rank"),
        qk_nope_head_dim=config.whole("qk_nope_head_dim"),
        qk_rope_head_dim=config.whole("qk_rope_head_dim", least=0),
        v_head_dim=config.whole("v_head_dim"),
        q_lora_rank=config.maybe("q_lora_rank", least=1),
        indexer=indexer,
    )


def _mla(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    if not config.has("index_n_heads"):
        return [read_mla(config)] * n
    index = Indexer(
        heads=config.whole("index_n_heads"), dim=config.whole("index_head_dim"), top_k=config.maybe("index_topk")
    )
    own, reused = read_mla(config, index), read_mla(config, msgspec.structs.replace(index, shared=True))
    kinds = config.items("indexer_types", str) or ["full"] * n
    if len(kinds) != n or set(kinds) - {"full", "shared"}:
        raise BadInput(f"{config.where}: `indexer_types` must hold `full` or `shared` for each of {n} layers")
    return [own if k == "full" else reused for k in kinds]


def _delta(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    full, linear = read_full_attention(config, traits), read_delta_net(config)
    return [full if k == "full" else linear for k in layer_kinds(config, traits, n)]


def _hybrid(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Attention between Mamba-2 (Granite 4) or short-convolution (LFM2) layers."""
    at = config.items("full_attn_idxs")
    kinds = ["full" if i in set(at) else "conv" for i in range(n)] if at is not None else layer_kinds(config, traits, n)
    made: dict[str, AttentionGroup] = {}
    makers: dict[str, Callable[[], AttentionGroup]] = {
        "full": lambda: read_full_attention(config, traits),
        "mamba": lambda: read_mamba2(config),
        "conv": lambda: read_short_conv(config),
    }
    for kind in set(kinds):
        if kind not in makers:
            raise unknown_architecture(config.where, f"{kind} layers are not known for this model type")
        made[kind] = makers[kind]()
    return [made[k] for k in kinds]


def _nemotron_h(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """One letter a layer: M Mamba-2, * attention, - MLP, E experts."""
    pattern = config.text("hybrid_override_pattern") or ""
    if len(pattern) != n or set(pattern) - set("M*-E"):
        raise BadInput(
            f"{config.where}: `hybrid_override_pattern` must hold one of M * - E for each of {n} layers, is "
            f"{pattern[:80]!r}"
        )
    made: dict[str, AttentionGroup] = {"-": NoMixer(n=1), "E": NoMixer(n=1)}
    if "*" in pattern:
        made["*"] = read_full_attention(config, traits)
    if "M" in pattern:
        made["M"] = read_mamba2(config)
    return [made[p] for p in pattern]


def _parallel(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    return [Parallel(n=1, parts=(read_full_attention(config, traits), read_mamba2(config)))] * n


def _jamba(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    period = config.whole("attn_layer_period")
    offset = config.whole("attn_layer_offset", least=0)
    full, other = read_full_attention(config, traits), read_mamba1(config, bcdt_norm=True)
    return [full if i % period == offset else other for i in range(n)]


def _mamba1(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    return [read_mamba1(config)] * n


def _lightning(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """MiniMax-M1: `attn_type_list` has 1 for softmax and 0 for lightning layers."""
    types = config.items("attn_type_list")
    if types is None or len(types) != n or set(types) - {0, 1}:
        raise BadInput(f"{config.where}: `attn_type_list` must hold 0 or 1 for each of {n} layers")
    full = read_full_attention(config, traits)
    fast = Lightning(n=1, n_heads=full.n_heads, head_dim=full.head_dim)
    return [full if k else fast for k in types]


def _kimi_linear(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Layer numbers in `linear_attn_config` count from 1."""
    linear = config.section("linear_attn_config")
    at = linear.items("full_attn_layers") if linear else None
    if linear is None or at is None:
        raise BadInput(f"{config.where}: `linear_attn_config` with `full_attn_layers` is missing")
    full, fast, numbers = read_mla(config), read_kda(linear), set(at)
    return [full if i + 1 in numbers else fast for i in range(n)]


def _mllama(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Cross-attention layers read image tokens; two scalar gates each."""
    at = set(config.items("cross_attention_layers") or [])
    full = read_full_attention(config, traits)
    cross = Cross(
        n=1, n_heads=full.n_heads, n_kv_heads=full.n_kv_heads, head_dim=full.head_dim, qk_norm="head", extra=2
    )
    return [cross if i in at else full for i in range(n)]


def _encoder(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    full = read_full_attention(config, traits)
    fields = {f: getattr(full, f) for f in full.__struct_fields__ if f != "window"}
    whole, local = Encoder(**fields), Encoder(**fields, window=config.maybe("local_attention", least=1))
    every = config.maybe("global_attn_every_n_layers", least=1)
    return [whole if every is None or i % every == 0 else local for i in range(n)]


MIXERS: dict[str, Callable[[ConfigSection, ModelTraits, int], list[AttentionGroup]]] = {
    "softmax": _softmax,
    "gemma_shared": _gemma_shared,
    "mla": _mla,
    "delta": _delta,
    "hybrid": _hybrid,
    "nemotron_h": _nemotron_h,
    "parallel": _parallel,
    "jamba": _jamba,
    "mamba1": _mamba1,
    "lightning": _lightning,
    "kimi_linear": _kimi_linear,
    "mllama": _mllama,
    "encoder": _encoder,
}
