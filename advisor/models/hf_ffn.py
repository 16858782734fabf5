"""Feed-forward parts of every layer, from a Hugging Face config."""

from __future__ import annotations

from collections.abc import Callable

from advisor.errors import BadInput
from advisor.models.hf_attention import read_switch
from advisor.models.hf_keys import ConfigSection
from advisor.models.hf_traits import ModelTraits
from advisor.models.types import Dense, FfnGroup, Moe, NoFfn

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_SHARED_WIDTH = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")


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
        flags = config.items("moe_layer_freq") or []
        if len(flags) != n:
            raise BadInput(f"{config.where}: `moe_layer_freq` has {len(flags)} entries for {n} layers")
        return [bool(f) for f in flags]
    listed = config.items("mlp_layer_types", str)
    if listed is not None:
        if len(listed) != n:
            raise BadInput(f"{config.where}: `mlp_layer_types` has {len(listed)} entries for {n} layers")
        return [k != "dense" for k in listed]
    flags_ = config.items("is_moe_layer", bool)
    if flags_ is not None and len(flags_) == n:
        return list(flags_)
    first = config.maybe("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index") or 0
    last = config.maybe("moe_layer_end_index", least=-1)
    every = config.maybe("decoder_sparse_step", "moe_layer_interval", "moe_layer_freq", least=1) or 1
    plain = set(config.items("mlp_only_layers") or [])
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
    at = config.items("moe_layers")
    step = config.maybe("interleave_moe_layer_step", least=1) or 1
    chosen = set(at) if at is not None else set(range(step - 1, n, step))
    if len(chosen) == n:
        return [experts] * n
    other = read_dense(config, traits, "intermediate_size_mlp")
    return [experts if i in chosen else other for i in range(n)]


def _nemotron_h(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    pattern = config.text("hybrid_override_pattern") or ""
    made: dict[str, FfnGroup] = {"M": NoFfn(n=1), "*": NoFfn(n=1)}
    if "-" in pattern:
        made["-"] = read_dense(config, traits)
    if "E" in pattern:
        made["E"] = read_moe(config, traits)
    return [made[p] for p in pattern]


def _jamba(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
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


def _none(config: ConfigSection, traits: ModelTraits, n: int) -> list[FfnGroup]:
    return [NoFfn(n=1)] * n


FFNS: dict[str, Callable[[ConfigSection, ModelTraits, int], list[FfnGroup]]] = {
    "standard": _standard,
    "gemma4": _gemma4,
    "llama4": _llama4,
    "nemotron_h": _nemotron_h,
    "jamba": _jamba,
    "lfm2": _lfm2,
    "none": _none,
}
