"""Versions of engines: comparing them, and picking a constant that depends on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar


class Versioned(Protocol):
    """Anything that holds below version `before` (None = from the last change on)."""

    @property
    def before(self) -> str | None:
        """First version for which it no longer holds."""


V = TypeVar("V", bound=Versioned)


@lru_cache(maxsize=4096)
def version_key(version: str) -> tuple[int, ...]:
    """`v0.21.1rc2` -> (0, 21, 1): the numbers in order; pre-release tails are ignored."""
    m = re.match(r"\D*(\d+(?:\.\d+)*)", version)
    return tuple(int(x) for x in m[1].split(".")) if m else ()


def find_release(text: str) -> str | None:
    """The release that a text names next to a program (`vLLM v0.28.0`, `llama.cpp b7394`, `llama.cpp build 7394`); None
    where it names none. The releases of ROCm and CUDA are not the program's."""
    dotted = r"(?<!rocm )(?<!cuda )v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:rc|post|dev)\d+)?)"
    found = re.search(rf"(?i)(?<![\d.])(?:{dotted}|(?<![a-z])b(?:uild )?(\d{{4,5}}))(?![\d.]*\d)", text)
    return None if found is None else (found[1] or f"b{found[2]}")


def are_comparable(version: str, other: str) -> bool:
    """Whether two versions are counted alike: both are builds (b4000) or both releases (0.8), and neither is a word."""
    mine, its = (bool(re.match(r"b\d|\d{4,}(?![\d.])", x)) for x in (version, other))
    return bool(version_key(version) and version_key(other)) and mine == its


def is_before(version: str, other: str) -> bool:
    """Whether a version is surely older than another."""
    return are_comparable(version, other) and version_key(version) < version_key(other)


def list_open(values: Sequence[V], version: str | None, oldest: str | None) -> tuple[V, ...]:
    """Entries that may hold: the one for a version, last; before it, where `oldest` is given, those of all releases
    from `oldest` on."""
    chosen = pick_version(values, version)
    if oldest is None:
        return (chosen,)
    in_use = [v for v in values if v.before is None or version_key(v.before) > version_key(oldest)]
    return (*(v for v in in_use if v is not chosen), chosen)


def pick_version(values: Sequence[V], version: str | None) -> V:
    """The entry for a version; the newest when the version is unknown (callers say which version they assume)."""
    bounded = sorted((v for v in values if v.before), key=lambda v: version_key(v.before or ""))
    later = (v for v in bounded if version is not None and is_before(version, v.before or ""))
    return next(later, None) or next((v for v in values if v.before is None), None) or bounded[-1]
