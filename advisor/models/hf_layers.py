"""Token mixers and feed-forward parts of every layer, from a Hugging Face config."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from advisor.errors import BadInput
from advisor.models.hf_keys import ConfigSection, ModelTraits, Switch, unknown_architecture
from advisor.models.layers import as_kind
from advisor.models.types import (
    AttentionGroup,
    Chunked,
    Cross,
    Dense,
    Encoder,
    FfnGroup,
    Full,
    GatedDeltaNet,
    Indexer,
    Kda,
    Lightning,
    Mamba1,
    Mamba2,
    Mla,
    Moe,
    NoFfn,
    NoMixer,
    Parallel,
    ShortConv,
    Sliding,
)

KINDS = {
    "full_attention": "full", "attention": "full", "global_attention": "full", "full": "full", "global": "full",
    "sliding_attention": "sliding", "sliding_window": "sliding", "local_attention": "sliding", "local": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear", "mamba": "mamba", "mamba2": "mamba", "conv": "conv",
}  # fmt: skip
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_SHARED_WIDTH = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")


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
    return full if window is None else as_kind(full, Chunked if kind == "chunked" else Sliding, window)


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
    """Attention between Mamba-2 (Granite 4) or short-convolution (LFM2 and 3) layers."""
    at = config.items("full_attn_idxs", int)
    kinds = ["full" if i in set(at) else "conv" for i in range(n)] if at is not None else layer_kinds(config, traits, n)
    made: dict[str, AttentionGroup] = {}
    makers: dict[str, Callable[[], AttentionGroup]] = {
        "full": lambda: read_full_attention(config, traits),
        "mamba": lambda: read_mamba2(config),
        "conv": lambda: ShortConv(n=1, conv_kernel=config.whole("conv_L_cache")),
        "sliding": lambda: add_window(read_full_attention(config, traits), read_window(config)),
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


def _jamba(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    period = config.whole("attn_layer_period")
    offset = config.whole("attn_layer_offset", least=0)
    full, other = read_full_attention(config, traits), read_mamba1(config, bcdt_norm=True)
    return [full if i % period == offset else other for i in range(n)]


def _lightning(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """MiniMax-M1: `attn_type_list` has 1 for softmax and 0 for lightning layers."""
    types = config.items("attn_type_list", int)
    if types is None or len(types) != n or set(types) - {0, 1}:
        raise BadInput(f"{config.where}: `attn_type_list` must hold 0 or 1 for each of {n} layers")
    full = read_full_attention(config, traits)
    fast = Lightning(n=1, n_heads=full.n_heads, head_dim=full.head_dim)
    return [full if k else fast for k in types]


def _kimi_linear(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Layer numbers in `linear_attn_config` count from 1."""
    linear = config.section("linear_attn_config")
    at = linear.items("full_attn_layers", int) if linear else None
    if linear is None or at is None:
        raise BadInput(f"{config.where}: `linear_attn_config` with `full_attn_layers` is missing")
    full, fast, numbers = read_mla(config), read_kda(linear), set(at)
    return [full if i + 1 in numbers else fast for i in range(n)]


def _grouped_kda(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Ling 3: the last of `layer_group_size` layers has latent attention, the others gates of full rank."""
    heads, width = config.whole("num_attention_heads"), config.whole("head_dim")
    more = heads * width * (config.hidden() - width) - width * config.hidden()  # than a decay gate of low rank has
    kernel = config.whole("short_conv_kernel_size", "linear_conv_kernel_dim")
    fast = Kda(n=1, n_heads=heads, head_dim=width, conv_kernel=kernel, full_rank_gate=True, extra=more)
    full = msgspec.structs.replace(read_mla(config), extra=config.hidden() * heads)  # gates the heads
    return [full if k == "full" else fast for k in layer_kinds(config, traits, n)]


def _mllama(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    """Cross-attention layers read image tokens; two scalar gates each."""
    at = set(config.items("cross_attention_layers", int) or [])
    full = read_full_attention(config, traits)
    cross = Cross(
        n=1, n_heads=full.n_heads, n_kv_heads=full.n_kv_heads, head_dim=full.head_dim, qk_norm="head", extra=2
    )
    return [cross if i in at else full for i in range(n)]


def _encoder(config: ConfigSection, traits: ModelTraits, n: int) -> list[AttentionGroup]:
    full = read_full_attention(config, traits)
    whole = as_kind(full, Encoder, None)
    local = as_kind(full, Encoder, config.maybe("local_attention", least=1))
    every = config.maybe("global_attn_every_n_layers", least=1)
    return [whole if every is None or i % every == 0 else local for i in range(n)]


MIXERS: dict[str, Callable[[ConfigSection, ModelTraits, int], list[AttentionGroup]]] = {
    "softmax": _softmax,
    "gemma_shared": _gemma_shared,
    "mla": _mla,
    "delta": _delta,
    "hybrid": _hybrid,
    "nemotron_h": _nemotron_h,
    "parallel": lambda config, traits, n: (
        [Parallel(n=1, parts=(read_full_attention(config, traits), read_mamba2(config)))] * n
    ),
    "jamba": _jamba,
    "mamba1": lambda config, _, n: [read_mamba1(config)] * n,
    "lightning": _lightning,
    "kimi_linear": _kimi_linear,
    "grouped_kda": _grouped_kda,
    "mllama": _mllama,
    "encoder": _encoder,
}


def read_dense(config: ConfigSection, traits: ModelTraits, *names: str) -> Dense:
    """The dense MLP of this config."""
    width = config.whole(*(names or ("intermediate_size", "n_inner", "ffn_hidden_size", "shared_intermediate_size")))
    return Dense(n=1, intermediate=width, act=traits.act, bias=read_switch(config, traits.mlp_bias))


def read_moe(config: ConfigSection, traits: ModelTraits) -> Moe:
    """The mixture-of-experts layer of this config."""
    experts = config.whole(*EXPERTS)
    top_k = config.whole("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
    if top_k > experts:
        raise BadInput(f"{config.where}: {top_k} experts per token of only {experts} experts")
    width = config.whole("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    n_shared = config.maybe(*_SHARED)
    shared = config.maybe(*_SHARED_WIDTH)
    if shared is None:
        shared = (n_shared or 0) * width
    gpt_oss = config.data.get("model_type") == "gpt_oss"
    return Moe(
        n=1,
        n_experts=experts,
        top_k=top_k,
        moe_intermediate=width,
        n_shared=n_shared or (1 if shared else 0),
        shared_intermediate=shared,
        shared_gate=traits.shared_gate and shared > 0,
        latent=config.maybe("moe_latent_size", least=1),
        router_bias=read_switch(config, traits.router_bias),
        act=traits.act,
        extra=experts * (2 * width + config.hidden()) if gpt_oss else 0,  # biases inside every expert
    )


def _is_moe(config: ConfigSection, n: int) -> list[bool]:
    """Which layers have experts, under the several names for it."""
    freq = config.data.get("moe_layer_freq")
    if isinstance(freq, list):
        return [bool(f) for f in config.per_layer("moe_layer_freq", int, n) or ()]
    listed = config.per_layer("mlp_layer_types", str, n)
    if listed is not None:
        return [k != "dense" for k in listed]
    flags_ = config.items("is_moe_layer", bool)
    if flags_ is not None and len(flags_) == n:
        return list(flags_)
    first = config.maybe("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index") or 0
    last = config.maybe("moe_layer_end_index", least=-1)
    every = config.maybe("decoder_sparse_step", "moe_layer_interval", "moe_layer_freq", least=1) or 1
    plain = set(config.items("mlp_only_layers", int) or [])
    end = n if last is None or last < 0 else last + 1
    # decoder_sparse_step counts layers from 1, the other two from 0
    shift = 1 if config.has("decoder_sparse_step") or config.has("moe_layer_interval") else 0
    return [first <= i < end and (i + shift) % every == 0 and i not in plain for i in range(n)]


def _standard(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    if not config.maybe(*EXPERTS):
        return [read_dense(config, traits)] * n
    experts = read_moe(config, traits)
    flags = _is_moe(config, n)
    if all(flags):
        return [experts] * n
    other = read_dense(config, traits)
    return [experts if f else other for f in flags]


def _gemma4(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    """Experts next to a dense MLP; layers that share a cache may have an MLP of twice the width."""
    width = config.whole("intermediate_size")
    if config.flag("enable_moe_block"):
        experts = config.whole("num_experts")
        return [
            Moe(
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
    return [Dense(n=1, intermediate=width if i < own else wide) for i in range(n)]


def _llama4(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    """Experts with one shared expert of the same width in every `interleave_moe_layer_step`-th layer."""
    width = config.whole("intermediate_size")
    experts = Moe(
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


def _nemotron_h_ffn(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    pattern = config.text("hybrid_override_pattern") or ""
    made: dict[str, FfnGroup] = {"M": NoFfn(n=1), "*": NoFfn(n=1)}
    if "-" in pattern:
        made["-"] = read_dense(config, traits)
    if "E" in pattern:
        made["E"] = read_moe(config, traits)
    return [made[p] for p in pattern]


def _jamba_ffn(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    other = read_dense(config, traits)
    if (config.maybe("num_experts") or 1) <= 1:
        return [other] * n
    period, offset = config.whole("expert_layer_period"), config.whole("expert_layer_offset", least=0)
    experts = read_moe(config, traits)
    return [experts if i % period == offset else other for i in range(n)]


def _lfm2(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    """`block_ff_dim` is two thirds reduced and rounded up when `block_auto_adjust_ff_dim` says so."""
    width = config.whole("intermediate_size", "block_ff_dim")
    if config.flag("block_auto_adjust_ff_dim", True):
        width = 2 * width // 3
        factor = config.data.get("block_ffn_dim_multiplier")
        if isinstance(factor, (int, float)) and 0 < factor < 64:
            width = int(factor * width)
        multiple = config.whole("block_multiple_of")
        width = -(-width // multiple) * multiple
    return [Dense(n=1, intermediate=width)] * n


FFNS: dict[str, Callable[[ConfigSection, ModelTraits, int], list[FfnGroup]]] = {
    "standard": _standard,
    "gemma4": _gemma4,
    "llama4": _llama4,
    "nemotron_h": _nemotron_h_ffn,
    "jamba": _jamba_ffn,
    "lfm2": _lfm2,
    "none": lambda _config, _traits, n: [NoFfn(n=1)] * n,
}


def read_delta_net(config: ConfigSection) -> GatedDeltaNet:
    """Gated DeltaNet (Qwen3-Next, Qwen3.5)."""
    return GatedDeltaNet(
        n=1,
        k_heads=config.whole("linear_num_key_heads"),
        v_heads=config.whole("linear_num_value_heads"),
        k_dim=config.whole("linear_key_head_dim"),
        v_dim=config.whole("linear_value_head_dim"),
        conv_kernel=config.whole("linear_conv_kernel_dim"),
    )


def read_mamba2(config: ConfigSection) -> Mamba2:
    """Mamba-2 under the key names of Granite 4, Falcon-H1 and Nemotron-H."""
    heads = config.whole("mamba_n_heads", "mamba_num_heads")
    head_dim = (
        None if config.data.get("mamba_d_head") == "auto" else config.maybe("mamba_d_head", "mamba_head_dim", least=1)
    )
    if head_dim is None:
        inner = config.maybe("mamba_d_ssm", least=1) or config.whole("mamba_expand") * config.hidden()
        if inner % heads:
            raise BadInput(f"{config.where}: `mamba_d_head` is missing and {inner} is not a multiple of {heads} heads")
        head_dim = inner // heads
    return Mamba2(
        n=1,
        heads=heads,
        head_dim=head_dim,
        state=config.whole("mamba_d_state", "ssm_state_size"),
        groups=config.whole("mamba_n_groups", "n_groups"),
        conv_kernel=config.whole("mamba_d_conv", "conv_kernel"),
        conv_bias=config.flag("mamba_conv_bias" if config.has("mamba_conv_bias") else "use_conv_bias", True),
        gated_norm=config.flag("mamba_rms_norm") if config.data.get("model_type") == "falcon_h1" else True,
    )


def read_mamba1(config: ConfigSection, bcdt_norm: bool = False) -> Mamba1:
    """Mamba under the key names of Jamba and Falcon-Mamba."""
    inner = config.maybe("intermediate_size", least=1) if not config.has("mamba_expand") else None
    if inner is None:
        inner = config.whole("mamba_expand", "expand") * config.hidden()
    rank_name = "mamba_dt_rank" if config.has("mamba_dt_rank") else "time_step_rank"
    rank = -(-config.hidden() // 16) if config.data.get(rank_name) == "auto" else config.whole(rank_name)
    return Mamba1(
        n=1,
        inner=inner,
        state=config.whole("mamba_d_state", "state_size"),
        dt_rank=rank,
        conv_kernel=config.whole("mamba_d_conv", "conv_kernel"),
        bcdt_norm=bcdt_norm,
    )


def read_kda(config: ConfigSection) -> Kda:
    """Kimi delta attention, from the `linear_attn_config` section."""
    return Kda(
        n=1,
        n_heads=config.whole("num_heads"),
        head_dim=config.whole("head_dim"),
        conv_kernel=config.whole("short_conv_kernel_size"),
    )
