"""Facts about what is downloaded: tokens, caches, where the model lies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.checks.facts.images import image_ref
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.facts.setup import find_mount

FACTS = FactTable()

_TOKENS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "HF_API_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "HF_TOKEN_PATH",
)


@FACTS.add("hub.token", "bool", "a hub token is handed over")
def _token(context: FactContext) -> bool | None:
    env = context.checked.launch.env
    if context.checked.launch.setup.cluster and context.facts["setup.standard_pod"] is not True:
        return None  # the operator or chart hands it over
    if any(k in env and env[k] != "" for k in _TOKENS) or context.checked.arguments.last("hf-token") is not None:
        return True
    if "envFrom" in context.checked.launch.setup.places:
        return None
    home = next((str(env[k]) for k in ("HF_HOME",) if k in env), "/root/.cache/huggingface")
    if find_mount(context, home) is not None or not context.checked.launch.setup.container:
        return None  # a login may be there
    return (
        None
        if context.checked.launch.unresolved
        or context.checked.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml", "template")
        or not (context.checked.launch.argv or context.checked.launch.env)
        else False
    )


@FACTS.add("hub.offline", "bool", "the hub is switched off")
def _offline(context: FactContext) -> bool:
    env = context.checked.launch.env
    return any(env.get(k, "").lower() in ("1", "true", "yes", "on") for k in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cache_paths(context: FactContext) -> Iterator[str]:
    """Where the engine keeps what it downloads: as set, else its image's own place."""
    env = context.checked.launch.env
    set_ = [
        str(env[k])
        for k in (
            "HF_HUB_CACHE",
            "HUGGINGFACE_HUB_CACHE",
            "HF_HOME",
            "TRANSFORMERS_CACHE",
            "OLLAMA_MODELS",
            "LLAMA_CACHE",
            "NIM_CACHE_PATH",
        )
        if k in env
    ]
    word = context.checked.arguments.value("download-dir", "huggingface-hub-cache")
    if word is not None:
        set_.insert(0, str(word))
    if set_:
        yield from set_
        return
    known = context.knowledge.server(context.checked.launch.engine)
    yield from (known.cache if known else ())


@FACTS.add("cache.mounted", "bool", "the download cache is on a volume")
def _cache(context: FactContext) -> bool | None:
    if not context.checked.launch.setup.container or context.checked.launch.kind in (
        "dockerfile",
        "recipe",
        "srt-slurm",
        "yaml",
        "template",
        "infernet",
        "llmaz",
    ):
        return None
    paths = [p for p in cache_paths(context) if "$" not in p]
    if not paths:
        return None
    for p in paths:
        if find_mount(context, p) is not None or any(
            m.target.startswith(p.rstrip("/") + "/") for m in context.checked.launch.setup.mounts
        ):
            return True
    return any(
        m.target.rstrip("/") in ("/root/.cache", "/root", "/home") or m.target.startswith(("/home/", "/root/.cache"))
        for m in context.checked.launch.setup.mounts
    )


@FACTS.add("cache.wrong_path", "bool", "a volume named like a model cache is mounted where the engine keeps nothing")
def _wrong_path(context: FactContext) -> bool | None:
    if context.facts["cache.mounted"] is not False:
        return False
    local = context.facts["model.local"]
    return local is not True and any(
        re.search(r"hf|hugging|cache|model", f"{m.source or ''}{m.target}", re.I)
        and m.kind in ("volume", "bind", "pvc")
        for m in context.checked.launch.setup.mounts
    )


@FACTS.add("model.path_not_mounted", "bool", "the model's path is on no volume of the container")
def _not_mounted(context: FactContext) -> bool | None:
    word = context.checked.reading.model
    if word is None or word.unknown:
        return None
    if not word.startswith("/") or context.checked.launch.setup.storage_uri or not context.facts["setup.all_mounts"]:
        return False
    return find_mount(context, word) is None


@FACTS.add(
    "setup.all_mounts", "bool", "the container is an engine's own image, and the file says all that is mounted into it"
)
def _all_mounts(context: FactContext) -> bool:
    setup, kind = context.checked.launch.setup, context.checked.launch.kind
    if not setup.container or kind in ("dockerfile", "srt-slurm", "recipe", "yaml", "infernet"):
        return False
    image = image_ref(context)
    if image is None or image.entry is None or not image.entry.official:
        return False
    return not setup.cluster or context.facts["setup.standard_pod"] is True
