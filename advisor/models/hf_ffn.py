"""Feed-forward parts of every layer, from a Hugging Face config."""

from __future__ import annotations

from collections.abc import Callable

from advisor.errors import BadInput
from advisor.models.hf_attention import switch
from advisor.models.hf_keys import Keys
from advisor.models.hf_traits import Traits
from advisor.models.types import Dense, FfnGroup, Moe, NoFfn

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_SHARED_WIDTH = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")


def dense(c: Keys, t: Traits, *names: str) -> Dense:
    """The dense MLP of this config."""
    width = c.whole(*(names or ("intermediate_size", "n_inner", "ffn_hidden_size", "shared_intermediate_size")))
    return Dense(n=1, intermediate=width, act=t.act, bias=switch(c, t.mlp_bias))


def moe(c: Keys, t: Traits) -> Moe:
    """The mixture-of-experts layer of this config."""
    experts = c.whole(*EXPERTS)
    top_k = c.whole("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
    if top_k > experts:
        raise BadInput(f"{c.where}: {top_k} experts per token of only {experts} experts")
    width = c.whole("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    n_shared = c.maybe(*_SHARED)
    shared = c.maybe(*_SHARED_WIDTH)
    if shared is None:
        shared = (n_shared or 0) * width
    gpt_oss = c.data.get("model_type") == "gpt_oss"
    return Moe(
        n=1,
        n_experts=experts,
        top_k=top_k,
        moe_intermediate=width,
        n_shared=n_shared or (1 if shared else 0),
        shared_intermediate=shared,
        shared_gate=t.shared_gate and shared > 0,
        latent=c.maybe("moe_latent_size", least=1),
        router_bias=switch(c, t.router_bias),
        act=t.act,
        extra=experts * (2 * width + c.hidden()) if gpt_oss else 0,  # biases inside every expert
    )


def _is_moe(c: Keys, n: int) -> list[bool]:
    """Which layers have experts, under the several names for it."""
    freq = c.data.get("moe_layer_freq")
    if isinstance(freq, list):
        flags = c.items("moe_layer_freq") or []
        if len(flags) != n:
            raise BadInput(f"{c.where}: `moe_layer_freq` has {len(flags)} entries for {n} layers")
        return [bool(f) for f in flags]
    listed = c.items("mlp_layer_types", str)
    if listed is not None:
        if len(listed) != n:
            raise BadInput(f"{c.where}: `mlp_layer_types` has {len(listed)} entries for {n} layers")
        return [k != "dense" for k in listed]
    flags_ = c.items("is_moe_layer", bool)
    if flags_ is not None and len(flags_) == n:
        return list(flags_)
    first = c.maybe("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index") or 0
    last = c.maybe("moe_layer_end_index", least=-1)
    every = c.maybe("decoder_sparse_step", "moe_layer_interval", "moe_layer_freq", least=1) or 1
    plain = set(c.items("mlp_only_layers") or [])
    end = n if last is None or last < 0 else last + 1
    # decoder_sparse_step counts layers from 1, the other two from 0
    shift = 1 if c.has("decoder_sparse_step") or c.has("moe_layer_interval") else 0
    return [first <= i < end and (i + shift) % every == 0 and i not in plain for i in range(n)]


def _standard(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    if not c.maybe(*EXPERTS):
        return [dense(c, t)] * n
    experts = moe(c, t)
    flags = _is_moe(c, n)
    if all(flags):
        return [experts] * n
    other = dense(c, t)
    return [experts if f else other for f in flags]


def _gemma4(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    """Experts beside a dense MLP; layers that share a cache may have an MLP of twice the width."""
    width = c.whole("intermediate_size")
    if c.flag("enable_moe_block"):
        experts = c.whole("num_experts")
        return [
            Moe(
                n=1,
                n_experts=experts,
                top_k=c.whole("top_k_experts", "num_experts_per_tok"),
                moe_intermediate=c.whole("moe_intermediate_size", "expert_intermediate_size"),
                parallel_dense=width,
                extra=c.hidden() + experts,  # router scale and a scale per expert
            )
        ] * n
    own = n - (c.maybe("num_kv_shared_layers", most=n) or 0)
    wide = 2 * width if c.flag("use_double_wide_mlp") else width
    return [Dense(n=1, intermediate=width if i < own else wide) for i in range(n)]


def _llama4(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    """Experts with one shared expert of the same width in every `interleave_moe_layer_step`-th layer."""
    width = c.whole("intermediate_size")
    experts = Moe(
        n=1,
        n_experts=c.whole("num_local_experts"),
        top_k=c.whole("num_experts_per_tok"),
        moe_intermediate=width,
        n_shared=1,
        shared_intermediate=width,
    )
    at = c.items("moe_layers")
    step = c.maybe("interleave_moe_layer_step", least=1) or 1
    chosen = set(at) if at is not None else set(range(step - 1, n, step))
    if len(chosen) == n:
        return [experts] * n
    other = dense(c, t, "intermediate_size_mlp")
    return [experts if i in chosen else other for i in range(n)]


def _nemotron_h(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    pattern = c.text("hybrid_override_pattern") or ""
    made: dict[str, FfnGroup] = {"M": NoFfn(n=1), "*": NoFfn(n=1)}
    if "-" in pattern:
        made["-"] = dense(c, t)
    if "E" in pattern:
        made["E"] = moe(c, t)
    return [made[p] for p in pattern]


def _jamba(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    other = dense(c, t)
    if (c.maybe("num_experts") or 1) <= 1:
        return [other] * n
    period, offset = c.whole("expert_layer_period"), c.whole("expert_layer_offset", least=0)
    experts = moe(c, t)
    return [experts if i % period == offset else other for i in range(n)]


def _lfm2(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    """`block_ff_dim` is two thirds reduced and rounded up when `block_auto_adjust_ff_dim` says so."""
    width = c.whole("intermediate_size", "block_ff_dim")
    if c.flag("block_auto_adjust_ff_dim", True):
        width = 2 * width // 3
        factor = c.data.get("block_ffn_dim_multiplier")
        if isinstance(factor, (int, float)) and 0 < factor < 64:
            width = int(factor * width)
        multiple = c.whole("block_multiple_of")
        width = -(-width // multiple) * multiple
    return [Dense(n=1, intermediate=width)] * n


def _none(c: Keys, t: Traits, n: int) -> list[FfnGroup]:
    return [NoFfn(n=1)] * n


FFNS: dict[str, Callable[[Keys, Traits, int], list[FfnGroup]]] = {
    "standard": _standard,
    "gemma4": _gemma4,
    "llama4": _llama4,
    "nemotron_h": _nemotron_h,
    "jamba": _jamba,
    "lfm2": _lfm2,
    "none": _none,
}
