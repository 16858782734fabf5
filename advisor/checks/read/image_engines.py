"""Engines of images that do not say by their name which one they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.checks.knowledge import Knowledge, KnownImage
from advisor.checks.read.located_text import Text


def find_engine_inside(args: Sequence[Text], env: Mapping[str, Text], profiles: Mapping[str, str]) -> str | None:
    """The engine inside an image that holds several, where a profile names it."""
    words = " ".join([*args, env.get("NIM_MODEL_PROFILE", "")])
    found = (e for word, e in profiles.items() if re.search(rf"(^|[\s=]){word}\b|{word}[-_]", words))
    return next(found, None)


def find_image_by_variable(reference: Text, knowledge: Knowledge) -> KnownImage | None:
    """An image that a variable names (`${VLLM_IMAGE}:${VLLM_VERSION}`): the variable's name says whose it is."""
    m = re.match(r"\$\{?([A-Za-z0-9_]+)", reference)
    if m is None or not re.search(r"IMAGE", m[1], re.I) or re.search(r"ROUTER|PROXY|UI_|CLIENT|BOOTSTRAP", m[1], re.I):
        return None
    for word, engine in knowledge.image_words.items():
        if re.search(rf"(^|_){word}(_|$)", m[1], re.I):
            return KnownImage(engine, "derived")
    return None


def is_opaque_script(entrypoint: list[Text] | None, args: list[Text]) -> bool:
    """Whether a shell is handed a script file, whose content nobody sees here."""
    words = [*(entrypoint or []), *args]
    return len(words) > 1 and not any(re.fullmatch(r"-[a-z]*c", w) for w in words[1:])
