"""Token mixers and feed-forward parts of every layer, from a Hugging Face config."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from advisor.errors import BadInput
from advisor.models import types as t
from advisor.models.hf_keys import ConfigSection, ModelTraits, Switch, unknown_architecture
from advisor.models.layers import as_kind

KINDS = {
    "full_attention": "full", "attention": "full", "global_attention": "full", "full": "full", "global": "full",
    "sliding_attention": "sliding", "sliding_window": "sliding", "local_attention": "sliding", "local": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear", "indexed_attention": "full",
    "mamba": "mamba", "mamba2": "mamba", "conv": "conv",
}  # fmt: skip
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
    "shared_experts_intermediate_size",
)
# further keys of layers that `_by_kind` and `_standard` read
READ_KEYS = {
    *EXPERTS, *TOP_K, *_SHARED, *_SHARED_WIDTH, "moe_intermediate_size", "expert_ffn_hidden_size", "moe_latent_size",
    "moe_layer_freq", "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval", "is_moe_layer",
    "kv_lora_rank", "q_lora_rank", "index_n_heads", "index_head_dim", "index_topk", "indexer_types", "conv_L_cache",
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
    "linear_num_heads", "linear_conv_kernel_dim", "linear_head_dim", "mamba_n_heads", "mamba_num_heads",
    "mamba_d_head", "mamba_head_dim", "mamba_expand", "mamba_d_state", "ssm_state_size", "mamba_n_groups",
    "mamba_d_conv", "conv_kernel", "full_attn_idxs", "mamba_conv_bias", "use_conv_bias", "mamba_proj_bias",
    "moe_hidden_size", "attn_layer_indices",
}  # fmt: skip


G = TypeVar("G")


def read_layers(
    read: Callable[[ConfigSection, ModelTraits, int], list[G]], config: ConfigSection, traits: ModelTraits, n: int
) -> list[G]:
    """What `read` gives for every layer, where `per_layer_config` holds keys that are others in some of them."""
    out, own_keys = read(config, traits, n), config.section("per_layer_config")
    if own_keys is None:
        heads = config.per_layer("num_attention_heads_per_layer", int, n) or ()
        own_keys = ConfigSection({str(i): {"num_attention_heads": x} for i, x in enumerate(heads)}, config.where)
    made: dict[str, list[G]] = {}
    for number in own_keys.data:
        if not number.isdecimal() or int(number) >= n:
            raise BadInput(f"{config.where}: `per_layer_config` names layer {number[:40]!r} of {n}")
        own = own_keys.section(number)
        if own is not None:
            if (said := repr(own.data)) not in made:
                made[said] = read(ConfigSection({**config.data, **own.data}, own.where), traits, n)
            out[int(number)] = made[said][int(number)]
    return out


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
    if traits.mixer in {"softmax", "gemma_shared", "mla"} and traits.window == "none":
        return ["full"] * n
    if traits.window == "all":
        return ["sliding"] * n
    letters = config.data.get("sliding_window_pattern")
    if isinstance(letters, str) and letters and set(letters) <= {"L", "G"}:  # exaone: "LLLG", the last layer global
        return ["full" if letters[i % len(letters)] == "G" or i == n - 1 else "sliding" for i in range(n)]
    period = (
        config.maybe(
            "full_attention_interval", "layer_group_size", "sliding_window_pattern", "_sliding_window_pattern", least=1
        )
        or traits.pattern
    )
    period = config.maybe("global_attn_every_n_layers", "no_rope_layer_interval", least=1) or period
    other = (
        "linear"
        if traits.mixer in {"delta", "grouped_kda"}
        else "chunked"
        if config.has("attention_chunk_size")
        else "sliding"
    )
    if not period:
        raise unknown_architecture(config.where, "the order of its layers (`layer_types`) is not given")
    return ["full" if (i + 1) % period == 0 else other for i in range(n)]


def read_full_attention(config: ConfigSection, traits: ModelTraits) -> t.Full:
    """The full-attention layer of this config."""
    heads = config.whole("num_attention_heads", "n_head", "num_heads", "n_heads")
    head_dim = config.maybe("head_dim", "attention_head_dim", "kv_channels", least=1)
    if head_dim is None:
        if config.hidden() % heads:
            raise BadInput(
                f"{config.where}: `head_dim` is missing and `hidden_size` {config.hidden()} is not a multiple of "
                f"{heads} heads"
            )
        head_dim = config.hidden() // heads
    one = config.flag("multi_query") and not config.flag("new_decoder_architecture")
    kv = 1 if one else config.maybe("num_key_value_heads", "num_kv_heads", "multi_query_group_num", least=1) or heads
    if kv > heads:
        raise BadInput(f"{config.where}: `num_key_value_heads` {kv} is more than the {heads} attention heads")
    return t.Full(
        n=1,
        n_heads=heads,
        n_kv_heads=kv,
        head_dim=head_dim,
        v_head_dim=config.maybe("v_head_dim", least=1),
        qkv_bias=read_switch(config, traits.qkv_bias),
        o_bias=read_switch(config, traits.o_bias),
        qk_norm=traits.qk_norm if traits.qk_norm_key is None or config.flag(traits.qk_norm_key) else None,
        gate=traits.gate if traits.gate is None or config.flag("attn_output_gate", True) else None,
        sinks=traits.sinks,
    )


def add_window(full: t.Full, window: int | None, kind: str = "sliding") -> t.AttentionGroup:
    """The same layer with a window; without one it stays full."""
    return full if window is None else as_kind(full, t.Chunked if kind == "chunked" else t.Sliding, window)


def read_window(config: ConfigSection) -> int | None:
    """Tokens a windowed layer looks back; None where the config switches windows off."""
    if not config.flag("use_sliding_window", True):
        return None
    return config.maybe("sliding_window", "sliding_window_size", "attention_chunk_size", least=1)


def _gemma_shared(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
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


def read_mla(config: ConfigSection) -> t.Mla:
    """Multi-head latent attention, with the index that chooses what it looks at where the config has one."""
    indexer = None
    if config.has("index_n_heads"):
        heads, width = config.whole("index_n_heads"), config.whole("index_head_dim")
        indexer = t.Indexer(heads=heads, dim=width, top_k=config.maybe("index_topk"))
    return t.Mla(
        n=1,
        n_heads=config.whole("num_attention_heads"),
        kv_lora_rank=config.whole("kv_lora_rank"),
        qk_nope_head_dim=config.whole("qk_nope_head_dim"),
        qk_rope_head_dim=config.whole("qk_rope_head_dim", least=0),
        v_head_dim=config.whole("v_head_dim"),
        q_lora_rank=config.maybe("q_lora_rank", least=1),
        indexer=indexer,
    )


def _by_kind(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    """Layers of any mixture of kinds, each by the keys that describe it."""
    at, other = config.items("full_attn_idxs", int), "conv"
    if at is None:
        at, other = config.items("attn_layer_indices", int), "mamba"
    kinds = ["full" if i in set(at) else other for i in range(n)] if at is not None else layer_kinds(config, traits, n)
    if config.data.get("model_type") in {"qwen2", "qwen3"} and not config.has("layer_types"):
        first = config.maybe("max_window_layers") or 0 if config.flag("use_sliding_window") else n
        kinds = ["full" if i < first else "sliding" for i in range(n)]
    made = {kind: _make_mixer(kind, config, traits) for kind in set(kinds)}
    out = [made[kind] for kind in kinds]
    reused = config.items("indexer_types", str) or ["full"] * n
    if len(reused) != n or set(reused) - {"full", "shared"}:
        raise BadInput(f"{config.where}: `indexer_types` must hold `full` or `shared` for each of {n} layers")
    for i, mixer in enumerate(out):
        if reused[i] == "shared" and isinstance(mixer, t.Mla) and mixer.indexer is not None:
            out[i] = msgspec.structs.replace(mixer, indexer=msgspec.structs.replace(mixer.indexer, shared=True))
    return out


def _make_mixer(kind: str, config: ConfigSection, traits: ModelTraits) -> t.AttentionGroup:
    """The layer of a kind (`layer_kinds`)."""
    latent = config.has("kv_lora_rank") and config.has("qk_nope_head_dim")
    if kind == "full":
        return read_mla(config) if latent else read_full_attention(config, traits)
    if kind in {"sliding", "chunked"} and not latent:
        full = read_full_attention(config, traits)
        own = config.maybe("num_sliding_attention_heads", least=1) or full.n_heads
        full = msgspec.structs.replace(full, n_heads=own, n_kv_heads=traits.window_kv_factor * full.n_kv_heads)
        return add_window(full, read_window(config), kind)
    if kind == "linear" and config.has("linear_num_key_heads"):
        return read_delta_net(config)
    if kind == "linear" and config.has("linear_num_heads"):
        names = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
        heads, width, kernel = (config.whole(x) for x in names)
        return t.Kda(n=1, n_heads=heads, head_dim=width, conv_kernel=kernel)
    if kind in {"mamba", "linear"} and config.has("mamba_d_state", "ssm_state_size"):
        return read_mamba2(config)
    if kind == "conv":
        return t.ShortConv(n=1, conv_kernel=config.whole("conv_L_cache"))
    raise unknown_architecture(config.where, f"{kind} layers are not known for this model type")


def _nemotron_h(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    """One letter a layer: M Mamba-2, * attention, - MLP, E experts."""
    pattern = _read_letters(config)
    if len(pattern) != n or set(pattern) - set("M*-E"):
        raise BadInput(
            f"{config.where}: `hybrid_override_pattern` must hold one of M * - E for each of {n} layers, is "
            f"{pattern[:80]!r}"
        )
    made: dict[str, t.AttentionGroup] = {"-": t.NoMixer(n=1), "E": t.NoMixer(n=1)}
    if "*" in pattern:
        made["*"] = read_full_attention(config, traits)
    if "M" in pattern:
        made["M"] = read_mamba2(config)
    return [made[p] for p in pattern]


def _read_letters(config: ConfigSection) -> str:
    words = config.items("layers_block_type", str)
    if words is None:
        return config.text("hybrid_override_pattern") or ""
    return "".join({"mlp": "-", "moe": "E"}.get(x) or {"full": "*"}.get(KINDS.get(x, ""), "M") for x in words)


def _jamba(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    period = config.whole("attn_layer_period")
    offset = config.whole("attn_layer_offset", least=0)
    full, other = read_full_attention(config, traits), read_mamba1(config, bcdt_norm=True)
    return [full if i % period == offset else other for i in range(n)]


def _lightning(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    """MiniMax-M1: `attn_type_list` has 1 for softmax and 0 for lightning layers."""
    types = config.items("attn_type_list", int)
    if config.has("layer_types"):
        types = [int(k == "full") for k in layer_kinds(config, traits, n)]
    if types is None or len(types) != n or set(types) - {0, 1}:
        raise BadInput(f"{config.where}: `attn_type_list` must hold 0 or 1 for each of {n} layers")
    full = read_full_attention(config, traits)
    fast = t.Lightning(n=1, n_heads=full.n_heads, head_dim=full.head_dim)
    return [full if k else fast for k in types]


def _kimi_linear(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    """Layer numbers in `linear_attn_config` count from 1."""
    if config.has("layer_types", "linear_num_heads"):
        return _by_kind(config, traits, n)
    linear = config.section("linear_attn_config")
    at = linear.items("full_attn_layers", int) if linear else None
    if linear is None or at is None:
        raise BadInput(f"{config.where}: `linear_attn_config` with `full_attn_layers` is missing")
    full, fast, numbers = read_mla(config), read_kda(linear), set(at)
    return [full if i + 1 in numbers else fast for i in range(n)]


def _grouped_kda(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    """Ling 3: the last of `layer_group_size` layers has latent attention, the others gates of full rank."""
    heads = config.whole("linear_num_heads", "num_attention_heads")
    width = config.whole("linear_head_dim", "head_dim")
    more = heads * width * (config.hidden() - width) - width * config.hidden()  # than a decay gate of low rank has
    kernel = config.whole("short_conv_kernel_size", "linear_conv_kernel_dim")
    fast = t.Kda(n=1, n_heads=heads, head_dim=width, conv_kernel=kernel, full_rank_gate=True, extra=more)
    full = msgspec.structs.replace(read_mla(config), extra=config.hidden() * config.whole("num_attention_heads"))
    return [full if k == "full" else fast for k in layer_kinds(config, traits, n)]


def _mllama(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    """Cross-attention layers read image tokens; two scalar gates each."""
    at = set(config.items("cross_attention_layers", int) or [])
    full = read_full_attention(config, traits)
    cross = t.Cross(
        n=1, n_heads=full.n_heads, n_kv_heads=full.n_kv_heads, head_dim=full.head_dim, qk_norm="head", extra=2
    )
    return [cross if i in at else full for i in range(n)]


def _encoder(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.AttentionGroup]:
    full, window = read_full_attention(config, traits), config.maybe("local_attention", least=1)
    whole, local = as_kind(full, t.Encoder, None), as_kind(full, t.Encoder, window)
    every = config.maybe("global_attn_every_n_layers", least=1)
    return [whole if every is None or i % every == 0 else local for i in range(n)]


MIXERS: dict[str, Callable[[ConfigSection, ModelTraits, int], list[t.AttentionGroup]]] = {
    **dict.fromkeys(("softmax", "mla", "delta", "hybrid"), _by_kind),
    "gemma_shared": _gemma_shared,
    "nemotron_h": _nemotron_h,
    "parallel": lambda config, traits, n: (
        [t.Parallel(n=1, parts=(read_full_attention(config, traits), read_mamba2(config)))] * n
    ),
    "jamba": _jamba,
    "mamba2": lambda config, _, n: [read_mamba2(config)] * n,
    "mamba1": lambda config, _, n: [read_mamba1(config)] * n,
    "lightning": _lightning,
    "kimi_linear": _kimi_linear,
    "grouped_kda": _grouped_kda,
    "mllama": _mllama,
    "encoder": _encoder,
}


def read_dense(config: ConfigSection, traits: ModelTraits, *names: str) -> t.Dense:
    """The dense MLP of this config."""
    names = names or ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "shared_intermediate_size")
    times = config.maybe("expansion_ratio", least=1) or traits.ffn_width
    width = times * config.hidden() if times and not config.has(*names) else config.whole(*names)
    return t.Dense(n=1, intermediate=width, act=traits.act, bias=read_switch(config, traits.mlp_bias))


def read_moe(config: ConfigSection, traits: ModelTraits) -> t.Moe:
    """The mixture-of-experts layer of this config."""
    experts = config.whole(*EXPERTS)
    top_k = config.whole(*TOP_K)
    if top_k > experts:
        raise BadInput(f"{config.where}: {top_k} experts per token of only {experts} experts")
    width = config.whole("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    n_shared = config.maybe(*_SHARED)
    shared = config.maybe(*_SHARED_WIDTH)
    if shared is None:
        shared = (n_shared or 0) * width
    biased = config.data.get("model_type") == "gpt_oss"  # inside every expert
    return t.Moe(
        n=1,
        n_experts=experts,
        top_k=top_k,
        moe_intermediate=width,
        n_shared=n_shared or (1 if shared else 0),
        shared_intermediate=shared,
        shared_gate=traits.shared_gate and shared > 0,
        latent=config.maybe("moe_latent_size", "moe_hidden_size", least=1),
        router_bias=read_switch(config, traits.router_bias),
        act=traits.act,
        extra=experts * (2 * width + config.hidden()) if biased else 0,
    )


def _is_moe(config: ConfigSection, n: int) -> list[bool]:
    """Which layers have experts, under the several names for it."""
    freq = config.data.get("moe_layer_freq")
    if isinstance(freq, list):
        return [bool(f) for f in config.per_layer("moe_layer_freq", int, n) or ()]
    listed = config.per_layer("mlp_layer_types", str, n)
    if listed is not None:
        return [k != "dense" for k in listed]
    flags = config.items("is_moe_layer", bool)
    if flags is not None and len(flags) == n:
        return flags
    first = config.maybe("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index") or 0
    last = config.maybe("moe_layer_end_index", least=-1)
    every = config.maybe("decoder_sparse_step", "moe_layer_interval", "moe_layer_freq", least=1) or 1
    plain = set(config.items("mlp_only_layers", int) or [])
    end = n if last is None or last < 0 else last + 1
    # decoder_sparse_step counts layers from 1, the other two from 0
    shift = 1 if config.has("decoder_sparse_step") or config.has("moe_layer_interval") else 0
    return [first <= i < end and (i + shift) % every == 0 and i not in plain for i in range(n)]


def _standard(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.FfnGroup]:
    if not config.maybe(*EXPERTS):
        return [read_dense(config, traits)] * n
    experts = read_moe(config, traits)
    flags = _is_moe(config, n)
    if all(flags):
        return [experts] * n
    other = read_dense(config, traits)
    return [experts if f else other for f in flags]


def _gemma4(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.FfnGroup]:
    """Experts next to a dense MLP; layers that share a cache may have an MLP of twice the width."""
    width = config.whole("intermediate_size")
    if config.flag("enable_moe_block"):
        experts = config.whole("num_experts")
        return [
            t.Moe(
                n=1,
                n_experts=experts,
                top_k=config.whole("top_k_experts", "num_experts_per_tok"),
                moe_intermediate=config.whole("moe_intermediate_size", "expert_intermediate_size"),
                parallel_dense=width,
                extra=config.hidden() + experts,  # router scale and a scale per expert
            )
        ] * n
    own = n - (config.maybe("num_kv_shared_layers", most=n) or 0)
    wide = 2 * width if config.flag("use_double_wide_mlp") else width
    return [t.Dense(n=1, intermediate=width if i < own else wide) for i in range(n)]


def _llama4(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.FfnGroup]:
    """Experts with one shared expert of the same width in every `interleave_moe_layer_step`-th layer."""
    width = config.whole("intermediate_size")
    experts = t.Moe(
        n=1,
        n_experts=config.whole("num_local_experts"),
        top_k=config.whole("num_experts_per_tok"),
        moe_intermediate=width,
        n_shared=1,
        shared_intermediate=width,
    )
    at = config.items("moe_layers", int)
    step = config.maybe("interleave_moe_layer_step", least=1) or 1
    chosen = set(at) if at is not None else set(range(step - 1, n, step))
    if len(chosen) == n:
        return [experts] * n
    other = read_dense(config, traits, "intermediate_size_mlp")
    return [experts if i in chosen else other for i in range(n)]


def _nemotron_h_ffn(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.FfnGroup]:
    pattern = _read_letters(config)
    made: dict[str, t.FfnGroup] = {"M": t.NoFfn(n=1), "*": t.NoFfn(n=1)}
    if "-" in pattern:
        made["-"] = read_dense(config, traits)
    if "E" in pattern:
        made["E"] = read_moe(config, traits)
    return [made[p] for p in pattern]


def _jamba_ffn(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.FfnGroup]:
    other = read_dense(config, traits)
    if (config.maybe("num_experts") or 1) <= 1:
        return [other] * n
    period, offset = config.whole("expert_layer_period"), config.whole("expert_layer_offset", least=0)
    experts = read_moe(config, traits)
    return [experts if i % period == offset else other for i in range(n)]


def _lfm2(config: ConfigSection, traits: ModelTraits, n: int) -> list[t.FfnGroup]:
    """`block_ff_dim` is two thirds reduced and rounded up when `block_auto_adjust_ff_dim` says so."""
    width = config.whole("intermediate_size", "block_ff_dim")
    if config.flag("block_auto_adjust_ff_dim", True):
        width = 2 * width // 3
        factor = config.data.get("block_ffn_dim_multiplier")
        if isinstance(factor, (int, float)) and 0 < factor < 64:
            width = int(factor * width)
        multiple = config.whole("block_multiple_of")
        width = -(-width // multiple) * multiple
    return [t.Dense(n=1, intermediate=width)] * n


FFNS: dict[str, Callable[[ConfigSection, ModelTraits, int], list[t.FfnGroup]]] = {
    "standard": _standard,
    "gemma4": _gemma4,
    "llama4": _llama4,
    "nemotron_h": _nemotron_h_ffn,
    "jamba": _jamba_ffn,
    "lfm2": _lfm2,
    "none": lambda _config, _traits, n: [t.NoFfn(n=1)] * n,
}


def read_delta_net(config: ConfigSection) -> t.GatedDeltaNet:
    """Gated DeltaNet (Qwen3-Next, Qwen3.5)."""
    return t.GatedDeltaNet(
        n=1,
        k_heads=config.whole("linear_num_key_heads"),
        v_heads=config.whole("linear_num_value_heads"),
        k_dim=config.whole("linear_key_head_dim"),
        v_dim=config.whole("linear_value_head_dim"),
        conv_kernel=config.whole("linear_conv_kernel_dim"),
    )


def read_mamba2(config: ConfigSection) -> t.Mamba2:
    """Mamba-2 under the key names of Granite 4, Falcon-H1 and Nemotron-H."""
    heads = config.whole("mamba_n_heads", "mamba_num_heads", "num_heads")
    names = ("head_dim",) if config.has("state_size") else ("mamba_d_head", "mamba_head_dim")
    head_dim = None if config.data.get("mamba_d_head") == "auto" else config.maybe(*names, least=1)
    if head_dim is None:
        inner = config.maybe("mamba_d_ssm", least=1) or config.whole("mamba_expand") * config.hidden()
        if inner % heads:
            raise BadInput(f"{config.where}: `mamba_d_head` is missing and {inner} is not a multiple of {heads} heads")
        head_dim = inner // heads
    return t.Mamba2(
        n=1,
        heads=heads,
        head_dim=head_dim,
        state=config.whole("mamba_d_state", "ssm_state_size", "state_size"),
        groups=config.whole("mamba_n_groups", "n_groups"),
        conv_kernel=config.whole("mamba_d_conv", "conv_kernel"),
        conv_bias=config.flag("mamba_conv_bias" if config.has("mamba_conv_bias") else "use_conv_bias", True),
        gated_norm=config.flag("mamba_rms_norm") if config.data.get("model_type") == "falcon_h1" else True,
    )


def read_mamba1(config: ConfigSection, bcdt_norm: bool = False) -> t.Mamba1:
    """Mamba under the key names of Jamba and Falcon-Mamba."""
    inner = config.maybe("intermediate_size", least=1) if not config.has("mamba_expand") else None
    if inner is None:
        inner = config.whole("mamba_expand", "expand") * config.hidden()
    rank_name = "mamba_dt_rank" if config.has("mamba_dt_rank") else "time_step_rank"
    rank = -(-config.hidden() // 16) if config.data.get(rank_name) == "auto" else config.whole(rank_name)
    return t.Mamba1(
        n=1,
        inner=inner,
        state=config.whole("mamba_d_state", "state_size"),
        dt_rank=rank,
        conv_kernel=config.whole("mamba_d_conv", "conv_kernel"),
        bcdt_norm=bcdt_norm,
    )


def read_kda(config: ConfigSection) -> t.Kda:
    """Kimi delta attention, from the `linear_attn_config` section."""
    return t.Kda(
        n=1,
        n_heads=config.whole("num_heads"),
        head_dim=config.whole("head_dim"),
        conv_kernel=config.whole("short_conv_kernel_size"),
    )
