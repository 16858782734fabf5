"""Vision towers of wrapper configs, where the shape is known well enough to count."""

from __future__ import annotations

from advisor.models.hf_keys import ConfigSection
from advisor.models.types import Vision

TOWER_NAMES = (
    "vision", "visual", "audio", "embed_vision", "embed_audio", "multi_modal_projector", "mm_projector", "vit.",
    "mlp1.", "sound_",
)  # fmt: skip


def read_vision(config: ConfigSection, model_type: str, hidden: int) -> Vision | None:
    """The tower and projector of a wrapper config; None when there is none or its shape is not known.

    Raises BadInput for missing or ill-typed dims of a known tower.
    """
    from advisor.models.parameters import vision_params

    section = config.section("vision_config")
    if section is None:
        return None
    made = _dims(section, model_type, hidden)
    if made is None:
        return None
    from msgspec.structs import replace

    params = vision_params(made)
    return None if params is None else replace(made, params=params)


def _dims(config: ConfigSection, model_type: str, out: int) -> Vision | None:
    if model_type == "qwen2_vl":
        width = config.whole("embed_dim")
        ratio = config.maybe("mlp_ratio", least=1) or 4
        out = config.whole("hidden_size")
        return Vision(
            kind="qwen2_vl",
            params=0,
            hidden=width,
            layers=config.layers_of("depth"),
            intermediate=width * ratio,
            out=out,
        )
    if model_type == "qwen2_5_vl":
        return _tower(config, "qwen2_5_vl", config.whole("out_hidden_size"))
    if model_type in {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}:
        deep = len(config.items("deepstack_visual_indexes") or [])
        return _tower(config, "qwen3_vl", config.whole("out_hidden_size"), deepstack=deep)
    if model_type == "gemma3":
        return _tower(config, "siglip", out, positions=(config.whole("image_size") // config.whole("patch_size")) ** 2)
    if model_type == "mistral3":
        return _tower(config, "pixtral", out)
    if model_type == "llama4":
        positions = (config.whole("image_size") // config.whole("patch_size")) ** 2 + 1
        return _tower(config, "llama4", out, positions=positions)
    if model_type in {"kimi_vl", "kimi_k25"}:
        return _tower(config, "moonvit", out)
    return None


def _tower(
    config: ConfigSection, kind: str, out: int, positions: int | None = None, deepstack: int | None = None
) -> Vision:
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
