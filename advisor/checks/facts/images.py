"""Facts about the image that a container runs."""

from __future__ import annotations

import re

from advisor.checks.facts.launch_facts import LaunchFacts, define, fact
from advisor.checks.facts.setup import find_mount, find_path_inside
from advisor.checks.read.recognise import find_image_vendor, is_for_processors

_FLOATING = re.compile(
    r"^(latest|nightly|main|dev|master|edge|stable|cuda\d*|server|server-[a-z]+\d*|full|light|rocm|vulkan|cpu|gpu|v?\d+|.*-latest|latest-.*|nightly-.*|.*nightly)$"
)
_TOKENS = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_API_TOKEN", "HUGGINGFACEHUB_API_TOKEN",
    "HF_TOKEN_PATH",
)  # fmt: skip
_CACHE_VARIABLES = (
    "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "TRANSFORMERS_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE",
    "NIM_CACHE_PATH",
)  # fmt: skip
# what getpass.getuser() reads before it looks the number up, and what makes PyTorch not ask
_NAMES_USER = frozenset(["LOGNAME", "USER", "LNAME", "USERNAME", "TORCHINDUCTOR_CACHE_DIR"])
_SAYS_NOT_ALL = ("dockerfile", "recipe", "srt-slurm", "yaml")  # kinds of files that leave mounts to others


@fact("image.floating", "the image's tag moves")
def _floating(facts: LaunchFacts) -> bool | None:
    image = facts.image
    if image is None or image.digest:
        return False
    if image.tag is None:
        return True
    return None if "$" in image.tag else _FLOATING.match(image.tag) is not None


define("image.name", "the image", lambda c: c.setup.image, "str")


define("image.repository", "the image without tag", lambda c: c.image.name if c.image else None, "str")
define("image.tag", "the image's tag", lambda c: c.image.tag if c.image else None, "str")
define(
    "image.official",
    "an image of the engine's own makers",
    lambda c: c.known_image is not None and c.known_image.official,
)


define(
    "image.cpu_only", "an image without any GPU support", lambda c: c.image is not None and is_for_processors(c.image)
)


@fact("image.vendor", "the vendor whose accelerators the image is for", "str")
def _vendor(facts: LaunchFacts) -> str | None:
    image, known = facts.image, facts.known_image
    if image is None or known is None:
        return None
    cuda = "nvidia" if "cuda" in f"{image.name}:{image.tag}".lower() else None
    return find_image_vendor(image) or known.vendor or cuda


@fact("image.user_unnamed", "the engine's image knows no name for the user's number, and no variable gives one")
def _unnamed(facts: LaunchFacts) -> bool:
    user = facts.setup.user
    known = facts.server.image_users if facts.server is not None else ()
    if user is None or not user.isdigit() or not known or not facts["image.official"]:
        return False
    return user not in known and _NAMES_USER.isdisjoint(facts.env)


define("setup.user", "as whom the process runs", lambda c: c.setup.user, "str")


@fact("image.wrong_vendor", "the image is for another vendor's accelerators than the hardware's")
def _wrong(facts: LaunchFacts) -> bool | None:
    mine, have = facts["image.vendor"], facts["gpu.vendor"]
    if mine in (None, "any", "other"):
        return False
    if have is None:
        return None
    return mine != have and have not in ("mixed", "none") and mine != "none"


@fact("hub.token", "a hub token is handed over")
def _token(facts: LaunchFacts) -> bool | None:
    env = facts.env
    if facts.setup.cluster and facts["setup.standard_pod"] is not True:
        return None  # the operator or chart hands it over
    if any(k in env and env[k] != "" for k in _TOKENS) or facts.last("hf-token") is not None:
        return True
    if "envFrom" in facts.setup.places:
        return None
    home = str(env.get("HF_HOME", "/root/.cache/huggingface"))
    if find_mount(facts, home) is not None or not facts.setup.container:
        return None  # a login may be there
    if facts.launch.unresolved or facts.launch.kind in (*_SAYS_NOT_ALL, "template"):
        return None
    return False if facts.launch.argv or env else None


@fact("hub.offline", "the hub is switched off")
def _offline(facts: LaunchFacts) -> bool:
    env = facts.env
    return any(env.get(k, "").lower() in ("1", "true", "yes", "on") for k in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def _list_cache_paths(facts: LaunchFacts) -> list[str]:
    """Where the engine keeps what it downloads: as set, else its image's own place."""
    words = (
        facts.value("download-dir", "huggingface-hub-cache"),
        *(facts.env.get(k) for k in _CACHE_VARIABLES),
    )
    stated = [str(w) for w in words if w is not None]
    return stated or list(facts.server.cache if facts.server else ())


@fact("cache.mounted", "the download cache is on a volume")
def _cache(facts: LaunchFacts) -> bool | None:
    if not facts.setup.container or facts.launch.kind in (*_SAYS_NOT_ALL, "template", "infernet", "llmkube"):
        return None
    paths = [p for p in _list_cache_paths(facts) if "$" not in p]
    if not paths:
        return None
    if any(find_mount(facts, p) is not None for p in paths):
        return True
    below = ("/home/", "/root/.cache", *(p.rstrip("/") + "/" for p in paths))
    targets = [m.target for m in facts.setup.mounts]
    return any(t.rstrip("/") in ("/root", "/home") or t.startswith(below) for t in targets)


@fact("cache.wrong_path", "a volume named like a model cache is mounted where the engine keeps nothing")
def _wrong_path(facts: LaunchFacts) -> bool | None:
    if facts["cache.mounted"] is not False:
        return False
    return facts["model.local"] is not True and any(
        re.search(r"hf|hugging|cache|model", f"{m.source or ''}{m.target}", re.I)
        and m.kind in ("volume", "bind", "pvc")
        for m in facts.setup.mounts
    )


@fact("model.path_not_mounted", "the model's path is on no volume of the container")
def _not_mounted(facts: LaunchFacts) -> bool | None:
    word = facts.reading.model
    if word is None or word.unknown:
        return None
    file = word.endswith(".gguf") and facts.arguments.last("model") is not None
    path = find_path_inside(facts, word) if file or word.startswith("/") else None
    if path is None or facts.setup.storage_uri or not facts["setup.all_mounts"]:
        return False
    return find_mount(facts, path) is None


@fact("setup.all_mounts", "the container is an engine's own image, and the file says all that is mounted into it")
def _all_mounts(facts: LaunchFacts) -> bool:
    setup = facts.setup
    if not setup.container or facts.launch.kind in (*_SAYS_NOT_ALL, "infernet") or not facts["image.official"]:
        return False
    return not setup.cluster or facts["setup.standard_pod"] is True
