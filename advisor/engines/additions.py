"""What a launch brings with it by the engine's entry: a draft model, a neural processing unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import DraftSettings, Engine, NpuBuild, NpuDevice
from advisor.deployment import Deployment, KvType, Setting
from advisor.engines.base import get_setting
from advisor.models.types import Model

_NO_MODEL = ("", "ngram", "[ngram]")  # values that name a method without weights
# settings of the draft's context, and llama-server's spellings of those that it may have of its own
_DRAFT_FLAGS = {
    "cache-type-k": ("spec-draft-type-k", "cache-type-k-draft", "ctkd"),
    "cache-type-v": ("spec-draft-type-v", "cache-type-v-draft", "ctvd"),
    "n-gpu-layers": ("spec-draft-ngl", "gpu-layers-draft", "n-gpu-layers-draft", "ngld"),
}
_SHARED_FLAGS = ("flash-attn", "fa", "ubatch-size", "ub", "batch-size", "b", "tensor-split", "ts", "kv-unified")


def find_draft_name(settings: dict[str, Setting], entry: Engine) -> str | None:
    """The draft model that the settings name; None without one."""
    if entry.draft is None or not settings:
        return None
    name = _read_name(settings, entry.draft.model, entry.draft, "model")
    return None if name.lower() in _NO_MODEL else name


def find_method_name(settings: dict[str, Setting], entry: Engine) -> str | None:
    """The method of speculative decoding that the settings name; None without one."""
    return _read_name(settings, entry.draft.method, entry.draft, "method") or None if entry.draft else None


def _read_name(settings: dict[str, Setting], flags: tuple[str, ...], draft: DraftSettings, key: str) -> str:
    """What one of the flags names, else the JSON object that holds both; empty without it."""
    stated: object = get_setting(settings, *flags)
    if stated is None:
        stated = read_json_setting(settings, draft.json).get(key)
    return stated.strip() if isinstance(stated, str) else ""


def list_draft_settings(entry: Engine) -> tuple[str, ...]:
    """The settings that name a draft model or its method."""
    return () if entry.draft is None else (*entry.draft.model, *entry.draft.json, *entry.draft.method)


def read_json_setting(settings: dict[str, Setting], names: Sequence[str]) -> dict[str, object]:
    """The JSON object of a setting; empty where it is no such thing, which the engine's own reader says."""
    try:
        config = msgspec.json.decode(str(get_setting(settings, *names) or "null"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def make_draft_deployment(deployment: Deployment, ctx_size: int, slots: int) -> Deployment | None:
    """The draft as a llama-server deployment of its own: same context and slots, its own layers and cache types.

    Source: llama-server makes the draft's context from the model's own parameters with the `-draft` ones put over them
    (`--help` of b11434: draft context follows the model's, cache types f16 unless stated).
    """
    if deployment.draft is None:
        return None
    own = deployment.settings
    settings: dict[str, Setting] = {
        "ctx-size": get_setting(own, "ctx-size-draft", "cd") or ctx_size,
        "parallel": slots,
    }
    for name, flags in _DRAFT_FLAGS.items():
        value = get_setting(own, *flags)
        if value is not None:
            settings[name] = value
    settings |= {name: own[name] for name in _SHARED_FLAGS if name in own}
    return replace(
        deployment,
        model=deployment.draft.model,
        quantization=deployment.draft.quantization.id,
        model_path=deployment.draft.path,
        settings=settings,
        kv_cache_type=KvType(),
        draft=None,
    )


def find_npu(entry: Engine, settings: Mapping[str, Setting]) -> NpuDevice | None:
    """The unit that the settings of a launch put the model on; None where they name none."""
    return next(
        (x for x in entry.npu if x.settings and all(str(settings.get(k)) == v for k, v in x.settings.items())), None
    )


def limit_requests(deployment: Deployment, entry: Engine) -> int | None:
    """Requests that the unit runs at once; None where it does not limit them."""
    found = find_npu(entry, deployment.settings)
    return found.requests if found is not None else None


def with_longest_prompt(settings: Mapping[str, Setting], entry: Engine, context_length: int) -> dict[str, Setting]:
    """The settings with room for a prompt of the longest request, where a unit fixes that at start."""
    found = find_npu(entry, settings)
    if found is None or found.prompt_flag is None:
        return dict(settings)
    return {**settings, found.prompt_flag: context_length}


def find_npu_build(model: Model, entry: Engine, npu: object) -> NpuBuild | None:
    """What the engine has of the model for a unit of this kind; None where it lists nothing."""
    return next((x.builds[model.id] for x in entry.npu if x.npu == npu and model.id in x.builds), None)


def list_npu_formats(entry: Engine, npu: object) -> tuple[str, ...]:
    """Weight formats for a unit of this kind; empty = those of the engine."""
    return next((x.formats for x in entry.npu if x.npu == npu), ())


def find_longer_settings(model: Model, context: int, entry: Engine) -> dict[str, str]:
    """Settings for a length above the trained one, where the publisher documents a factor that reaches it and the
    engine has settings for it; empty for others."""
    longer = model.longer
    if longer is None or entry.longer is None or not (model.max_context or context) < context <= longer.tokens:
        return {}
    words = {"factor": f"{longer.factor:g}", "original": longer.original, "theta": longer.theta}
    return {name: text.format(**words) for name, text in entry.longer.settings.items()}
