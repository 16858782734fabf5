"""The quantization that a checkpoint was published in, as text."""

from __future__ import annotations

from typing import Any

from advisor.models.hf_keys import ConfigSection


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
    groups = section.section("config_groups") if section is not None else None
    for group in groups.data.values() if groups else ():
        weights: Any = group.get("weights") if isinstance(group, dict) else None
        size = weights.get("group_size") if isinstance(weights, dict) and weights.get("type") == "int" else None
        if isinstance(size, int) and not isinstance(size, bool) and 1 < size <= 4096:
            return size
    return None


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
    groups = config.section("config_groups")
    for group in groups.data.values() if groups else ():
        weights: Any = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            bits, kind = weights.get("num_bits"), weights.get("type")
            if isinstance(bits, int) and kind in {"int", "float"}:
                if kind == "float" and bits == 4:
                    return "nvfp4" if weights.get("group_size") == 16 else "mxfp4"
                return f"{'fp' if kind == 'float' else 'int'}{bits}"
    return "compressed-tensors"


def _texts(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
