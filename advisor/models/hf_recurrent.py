"""Recurrent and convolutional token mixers from a Hugging Face config."""

from __future__ import annotations

from advisor.errors import BadInput
from advisor.models.hf_keys import ConfigSection
from advisor.models.types import GatedDeltaNet, Kda, Mamba1, Mamba2, ShortConv


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


def read_short_conv(config: ConfigSection) -> ShortConv:
    """Gated short convolution (LFM2)."""
    return ShortConv(n=1, conv_kernel=config.whole("conv_L_cache"))
