"""Recurrent and convolutional token mixers from a Hugging Face config."""

from __future__ import annotations

from advisor.errors import BadInput
from advisor.models.hf_keys import Keys
from advisor.models.types import GatedDeltaNet, Kda, Mamba1, Mamba2, ShortConv


def delta_net(c: Keys) -> GatedDeltaNet:
    """Gated DeltaNet (Qwen3-Next, Qwen3.5)."""
    return GatedDeltaNet(
        n=1,
        k_heads=c.whole("linear_num_key_heads"),
        v_heads=c.whole("linear_num_value_heads"),
        k_dim=c.whole("linear_key_head_dim"),
        v_dim=c.whole("linear_value_head_dim"),
        conv_kernel=c.whole("linear_conv_kernel_dim"),
    )


def mamba2(c: Keys) -> Mamba2:
    """Mamba-2 under the key names of Granite 4, Falcon-H1 and Nemotron-H."""
    heads = c.whole("mamba_n_heads", "mamba_num_heads")
    head_dim = None if c.data.get("mamba_d_head") == "auto" else c.maybe("mamba_d_head", "mamba_head_dim", least=1)
    if head_dim is None:
        inner = c.maybe("mamba_d_ssm", least=1) or c.whole("mamba_expand") * c.hidden()
        if inner % heads:
            raise BadInput(f"{c.where}: `mamba_d_head` is missing and {inner} is not a multiple of {heads} heads")
        head_dim = inner // heads
    return Mamba2(
        n=1,
        heads=heads,
        head_dim=head_dim,
        state=c.whole("mamba_d_state", "ssm_state_size"),
        groups=c.whole("mamba_n_groups", "n_groups"),
        conv_kernel=c.whole("mamba_d_conv", "conv_kernel"),
        conv_bias=c.flag("mamba_conv_bias" if c.has("mamba_conv_bias") else "use_conv_bias", True),
        gated_norm=c.flag("mamba_rms_norm") if c.data.get("model_type") == "falcon_h1" else True,
    )


def mamba1(c: Keys, bcdt_norm: bool = False) -> Mamba1:
    """Mamba under the key names of Jamba and Falcon-Mamba."""
    inner = c.maybe("intermediate_size", least=1) if not c.has("mamba_expand") else None
    if inner is None:
        inner = c.whole("mamba_expand", "expand") * c.hidden()
    rank_name = "mamba_dt_rank" if c.has("mamba_dt_rank") else "time_step_rank"
    rank = -(-c.hidden() // 16) if c.data.get(rank_name) == "auto" else c.whole(rank_name)
    return Mamba1(
        n=1,
        inner=inner,
        state=c.whole("mamba_d_state", "state_size"),
        dt_rank=rank,
        conv_kernel=c.whole("mamba_d_conv", "conv_kernel"),
        bcdt_norm=bcdt_norm,
    )


def kda(c: Keys) -> Kda:
    """Kimi delta attention, from the `linear_attn_config` section."""
    return Kda(
        n=1, n_heads=c.whole("num_heads"), head_dim=c.whole("head_dim"), conv_kernel=c.whole("short_conv_kernel_size")
    )


def short_conv(c: Keys) -> ShortConv:
    """Gated short convolution (LFM2)."""
    return ShortConv(n=1, conv_kernel=c.whole("conv_L_cache"))
