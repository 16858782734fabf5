"""The draft model of speculative decoding: which one the settings name, and a deployment of it next to the model."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import DraftSettings, Engine
from advisor.deployment import Deployment, KvType, Setting
from advisor.engines.base import get_setting
from advisor.record import Value

_NO_MODEL = ("", "ngram", "[ngram]")  # values that name a method without weights


def find_draft_name(settings: dict[str, Setting], entry: Engine) -> str | None:
    """The draft model that the settings name; None without one."""
    if entry.draft is None or not settings:
        return None
    said: object = get_setting(settings, *entry.draft.model)
    if said is None:
        said = _config(settings, entry.draft).get("model")
    name = said.strip() if isinstance(said, str) else ""
    return None if name.lower() in _NO_MODEL else name


def find_method_name(settings: dict[str, Setting], entry: Engine) -> str | None:
    """The method of speculative decoding that the settings name; None without one."""
    if entry.draft is None:
        return None
    said: object = get_setting(settings, *entry.draft.method) if entry.draft.method else None
    if said is None:
        said = _config(settings, entry.draft).get("method")
    return said.strip() or None if isinstance(said, str) else None


def list_draft_settings(entry: Engine) -> tuple[str, ...]:
    """The settings that name a draft model or its method."""
    return () if entry.draft is None else (*entry.draft.model, *entry.draft.json, *entry.draft.method)


def _config(settings: dict[str, Setting], where: DraftSettings) -> dict[str, object]:
    """The JSON object that holds both; empty where it is no such thing, which the engine's own reader says."""
    try:
        config = msgspec.json.decode(str(get_setting(settings, *where.json) or "null")) if where.json else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


class LlamaDraft(Value, frozen=True):
    """llama-server's spellings of settings that the draft's context may have of its own."""

    type_k: tuple[str, ...] = ("spec-draft-type-k", "cache-type-k-draft", "ctkd")
    type_v: tuple[str, ...] = ("spec-draft-type-v", "cache-type-v-draft", "ctvd")
    layers: tuple[str, ...] = ("spec-draft-ngl", "gpu-layers-draft", "n-gpu-layers-draft", "ngld")
    context: tuple[str, ...] = ("ctx-size-draft", "cd")


def make_draft_deployment(
    deployment: Deployment, ctx_size: int, slots: int, names: LlamaDraft | None = None
) -> Deployment | None:
    """The draft as a llama-server deployment of its own: same context and slots, its own layers and cache types.

    Source: llama-server makes the draft's context from the model's own parameters with the `-draft` ones put over them
    (`--help` of b11434: draft context follows the model's, cache types f16 unless stated).
    """
    if deployment.draft is None:
        return None
    llama_draft = names or LlamaDraft()
    settings: dict[str, Setting] = {
        "ctx-size": get_setting(deployment.settings, *llama_draft.context) or ctx_size,
        "parallel": slots,
    }
    for here, there in (
        (llama_draft.type_k, "cache-type-k"),
        (llama_draft.type_v, "cache-type-v"),
        (llama_draft.layers, "n-gpu-layers"),
    ):
        value = get_setting(deployment.settings, *here)
        if value is not None:
            settings[there] = value
    for shared in ("flash-attn", "fa", "ubatch-size", "ub", "batch-size", "b", "tensor-split", "ts", "kv-unified"):
        if shared in deployment.settings:
            settings[shared] = deployment.settings[shared]
    return msgspec.structs.replace(
        deployment,
        model=deployment.draft.model,
        quantization=deployment.draft.quantization.id,
        model_path=deployment.draft.path,
        settings=settings,
        kv_cache_type=KvType(),
        draft=None,
    )
