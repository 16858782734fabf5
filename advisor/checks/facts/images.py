"""Facts about the image that a container runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.checks.facts.launch_facts import LaunchFacts, define, fact
from advisor.checks.facts.setup import find_mount
from advisor.checks.read.recognise import ImageReference, parse_image

_FLOATING = re.compile(
    r"^(latest|nightly|main|dev|master|edge|stable|cuda\d*|server|server-[a-z]+\d*|full|light|rocm|vulkan|cpu|gpu|v?\d+|.*-latest|latest-.*|nightly-.*|.*nightly)$"
)
_TOKENS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "HF_API_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "HF_TOKEN_PATH",
)


def image_ref(facts: LaunchFacts) -> ImageReference | None:
    """The image of the launch, taken apart; None where there is none."""
    ref = facts.setup.image
    return parse_image(ref, facts.knowledge) if ref else None


@fact("image.floating", "bool", "the image's tag moves")
def _floating(facts: LaunchFacts) -> bool | None:
    image_reference = image_ref(facts)
    if image_reference is None or image_reference.digest:
        return False
    if image_reference.tag is None:
        return True
    return None if "$" in image_reference.tag else _FLOATING.match(image_reference.tag) is not None


define("image.name", "str", "the image", lambda c: c.setup.image)


@fact("image.repository", "str", "the image without tag")
def _repository(facts: LaunchFacts) -> str | None:
    image_reference = image_ref(facts)
    return image_reference.name if image_reference else None


@fact("image.tag", "str", "the image's tag")
def _tag(facts: LaunchFacts) -> str | None:
    image_reference = image_ref(facts)
    return image_reference.tag if image_reference else None


@fact("image.official", "bool", "an image of the engine's own makers")
def _official(facts: LaunchFacts) -> bool:
    image_reference = image_ref(facts)
    return image_reference is not None and image_reference.entry is not None and image_reference.entry.official


@fact("image.cpu_only", "bool", "an image without any GPU support")
def _cpu_only(facts: LaunchFacts) -> bool:
    image_reference = image_ref(facts)
    if image_reference is None:
        return False
    if image_reference.entry is not None and image_reference.entry.official and image_reference.entry.entry == "llama":
        return re.fullmatch(r"(server|full|light)(-b\d+)?", image_reference.tag or "") is not None
    return (
        re.search(r"(^|[-_/])cpu([-_]|$)", f"{image_reference.name}:{image_reference.tag}".replace(":", "-"))
        is not None
    )


@fact("image.vendor", "str", "the vendor whose accelerators the image is for")
def _vendor(facts: LaunchFacts) -> str | None:
    image_reference = image_ref(facts)
    if image_reference is None or image_reference.entry is None:
        return None
    words = f"{image_reference.name}:{image_reference.tag or ''}".lower()
    for word, vendor in (
        ("rocm", "amd"),
        ("gaudi", "habana"),
        ("hpu", "habana"),
        ("xpu", "intel"),
        ("intel", "intel"),
        ("tpu", "google"),
        ("neuron", "aws"),
        ("cpu", "none"),
        ("vulkan", "any"),
        ("npu", "other"),
        ("musa", "other"),
    ):
        if word in words:
            return vendor
    return image_reference.entry.vendor or ("nvidia" if "cuda" in words else None)


@fact("image.wrong_vendor", "bool", "the image is for another vendor's accelerators than the hardware's")
def _wrong(facts: LaunchFacts) -> bool | None:
    mine, have = facts["image.vendor"], facts["gpu.vendor"]
    if mine in (None, "any", "other"):
        return False
    if have is None:
        return None
    return mine != have and have not in ("mixed", "none") and mine != "none"


define(
    "image.doubled",
    "bool",
    "the arguments repeat the program that the image starts by itself",
    lambda c: "doubled" in c.setup.places,
)


@fact("hub.token", "bool", "a hub token is handed over")
def _token(facts: LaunchFacts) -> bool | None:
    env = facts.env
    if facts.setup.cluster and facts["setup.standard_pod"] is not True:
        return None  # the operator or chart hands it over
    if any(k in env and env[k] != "" for k in _TOKENS) or facts.arguments.last("hf-token") is not None:
        return True
    if "envFrom" in facts.setup.places:
        return None
    home = next((str(env[k]) for k in ("HF_HOME",) if k in env), "/root/.cache/huggingface")
    if find_mount(facts, home) is not None or not facts.setup.container:
        return None  # a login may be there
    return (
        None
        if facts.launch.unresolved
        or facts.launch.kind in ("dockerfile", "recipe", "srt-slurm", "yaml", "template")
        or not (facts.launch.argv or facts.env)
        else False
    )


@fact("hub.offline", "bool", "the hub is switched off")
def _offline(facts: LaunchFacts) -> bool:
    env = facts.env
    return any(env.get(k, "").lower() in ("1", "true", "yes", "on") for k in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cache_paths(facts: LaunchFacts) -> Iterator[str]:
    """Where the engine keeps what it downloads: as set, else its image's own place."""
    env = facts.env
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
    word = facts.arguments.value("download-dir", "huggingface-hub-cache")
    if word is not None:
        set_.insert(0, str(word))
    if set_:
        yield from set_
        return
    known = facts.server
    yield from (known.cache if known else ())


@fact("cache.mounted", "bool", "the download cache is on a volume")
def _cache(facts: LaunchFacts) -> bool | None:
    if not facts.setup.container or facts.launch.kind in (
        "dockerfile",
        "recipe",
        "srt-slurm",
        "yaml",
        "template",
        "infernet",
        "llmaz",
    ):
        return None
    paths = [p for p in cache_paths(facts) if "$" not in p]
    if not paths:
        return None
    for p in paths:
        if find_mount(facts, p) is not None or any(
            m.target.startswith(p.rstrip("/") + "/") for m in facts.setup.mounts
        ):
            return True
    return any(
        m.target.rstrip("/") in ("/root/.cache", "/root", "/home") or m.target.startswith(("/home/", "/root/.cache"))
        for m in facts.setup.mounts
    )


@fact("cache.wrong_path", "bool", "a volume named like a model cache is mounted where the engine keeps nothing")
def _wrong_path(facts: LaunchFacts) -> bool | None:
    if facts["cache.mounted"] is not False:
        return False
    local = facts["model.local"]
    return local is not True and any(
        re.search(r"hf|hugging|cache|model", f"{m.source or ''}{m.target}", re.I)
        and m.kind in ("volume", "bind", "pvc")
        for m in facts.setup.mounts
    )


@fact("model.path_not_mounted", "bool", "the model's path is on no volume of the container")
def _not_mounted(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    if word is None or word.unknown:
        return None
    if not word.startswith("/") or facts.setup.storage_uri or not facts["setup.all_mounts"]:
        return False
    return find_mount(facts, word) is None


@fact(
    "setup.all_mounts", "bool", "the container is an engine's own image, and the file says all that is mounted into it"
)
def _all_mounts(facts: LaunchFacts) -> bool:
    setup, kind = facts.setup, facts.launch.kind
    if not setup.container or kind in ("dockerfile", "srt-slurm", "recipe", "yaml", "infernet"):
        return False
    image = image_ref(facts)
    if image is None or image.entry is None or not image.entry.official:
        return False
    return not setup.cluster or facts["setup.standard_pod"] is True
