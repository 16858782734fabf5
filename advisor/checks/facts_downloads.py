"""Facts about what is downloaded: tokens, caches, where the model lies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.checks.facts import Seen, fact
from advisor.checks.facts_setup import image_ref, mount_of

_TOKENS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "HF_API_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "HF_TOKEN_PATH",
)


@fact("hub.token", "bool", "a hub token is handed over")
def _token(s: Seen) -> bool | None:
    env = s.v.launch.env
    if s.v.launch.setup.cluster and s.facts["setup.standard_pod"] is not True:
        return None  # the operator or chart hands it over
    if any(k in env and env[k] != "" for k in _TOKENS) or s.v.arguments.last("hf-token") is not None:
        return True
    if "envFrom" in s.v.launch.setup.places:
        return None
    home = next((str(env[k]) for k in ("HF_HOME",) if k in env), "/root/.cache/huggingface")
    if mount_of(s, home) is not None or not s.v.launch.setup.container:
        return None  # a login may be there
    return (
        None
        if s.v.launch.unresolved
        or s.v.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml", "template")
        or not (s.v.launch.argv or s.v.launch.env)
        else False
    )


@fact("hub.offline", "bool", "the hub is switched off")
def _offline(s: Seen) -> bool:
    env = s.v.launch.env
    return any(env.get(k, "").lower() in ("1", "true", "yes", "on") for k in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cache_paths(s: Seen) -> Iterator[str]:
    """Where the engine keeps what it downloads: as set, else its image's own place."""
    env = s.v.launch.env
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
    a = s.v.arguments.value("download-dir", "huggingface-hub-cache")
    if a is not None:
        set_.insert(0, str(a))
    if set_:
        yield from set_
        return
    known = s.know.server(s.v.launch.engine)
    yield from (known.cache if known else ())


@fact("cache.mounted", "bool", "the download cache is on a volume")
def _cache(s: Seen) -> bool | None:
    if not s.v.launch.setup.container or s.v.launch.kind in (
        "dockerfile",
        "recipe",
        "srt-slurm",
        "yaml",
        "template",
        "infernet",
    ):
        return None
    paths = [p for p in cache_paths(s) if "$" not in p]
    if not paths:
        return None
    for p in paths:
        if mount_of(s, p) is not None or any(m.target.startswith(p.rstrip("/") + "/") for m in s.v.launch.setup.mounts):
            return True
    return any(
        m.target.rstrip("/") in ("/root/.cache", "/root", "/home") or m.target.startswith(("/home/", "/root/.cache"))
        for m in s.v.launch.setup.mounts
    )


@fact("cache.wrong_path", "bool", "a volume named like a model cache is mounted where the engine keeps nothing")
def _wrong_path(s: Seen) -> bool | None:
    if s.facts["cache.mounted"] is not False:
        return False
    local = s.facts["model.local"]
    return local is not True and any(
        re.search(r"hf|hugging|cache|model", f"{m.source or ''}{m.target}", re.I)
        and m.kind in ("volume", "bind", "pvc")
        for m in s.v.launch.setup.mounts
    )


@fact("model.path_not_mounted", "bool", "the model's path is on no volume of the container")
def _not_mounted(s: Seen) -> bool | None:
    m = s.v.reading.model
    setup = s.v.launch.setup
    if m is None or m.unknown:
        return None
    if (
        not setup.container
        or not m.startswith("/")
        or s.v.launch.kind in ("dockerfile", "srt-slurm", "recipe", "yaml", "infernet")
    ):
        return False
    image = image_ref(s)
    if image is None or image.entry is None or not image.entry.official or setup.storage_uri:
        return False
    if setup.cluster and s.facts["setup.standard_pod"] is not True:
        return False
    return mount_of(s, m) is None
