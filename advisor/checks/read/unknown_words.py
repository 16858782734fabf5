"""Why a word is not known: a condition that the file does not decide (`if [[ -n "$X" ]]`), or a placeholder.

Placeholders are filled in by another program before a file is used: envsubst, kustomize, Helm, Jinja, sed, Kubernetes.
One makes its own word unknown, and no other: the flags around it keep their values. It is looked for in every kind of
file, since any text may pass through such a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.yaml_places import Text, make_text

TOO_LONG = "the rest of a word that is too long"  # unknown: what was cut off
LONGEST = 65_536  # characters of a word that variables were put into
_TEMPLATE = re.compile(r"\$?\{\{.*?\}\}|\{%.*?%\}", re.S)
_ANYWHERE = re.compile(
    r"\$?\{\{(?P<template>.*?)\}\}|\{%.*?%\}"  # {{ name }}, ${{ name }}, {% if name %}
    r"|\$\{(?P<braced>[A-Za-z_]\w*|\d+)[^{}]*\}|\$\((?P<inside>[A-Za-z_]\w*)\)|\$(?P<plain>[A-Za-z_]\w*|\d)"
    r"|(?<![A-Za-z0-9_])__[A-Z][A-Z0-9_]*__(?![A-Za-z0-9_])|@@[A-Za-z_][\w.-]*@@",
    re.S,
)
_ALONE = re.compile(
    r"\{[a-z_][a-z0-9_]*\}|<[A-Za-z][\w .-]*>|%[A-Z][A-Z0-9_]*%|@[A-Z][A-Z0-9_]*@"
)  # only as a whole value
_FLAG = re.compile(r"^--?[A-Za-z][\w.-]*=")
_ANGLE = re.compile(r"<[A-Za-z][A-Za-z0-9_-]*>(?=\s|$)")


class Guard(str):
    """A condition, as it is shown. It stands among the `unknown` of a word that depends on it."""

    __slots__ = ()


def add_guard(word: Text, guard: Guard) -> Text:
    """The word, under one condition more."""
    return make_text(word, word.line, word.column, tuple(dict.fromkeys((*word.unknown, guard))), word.block)


def find_guard(word: Text | None) -> Guard | None:
    """The first condition that a word stands under; None for none."""
    return next((u for u in word.unknown if isinstance(u, Guard)), None) if word is not None else None


def is_only_guarded(word: Text) -> bool:
    """Whether all of a word is known but for whether it stands there."""
    return bool(word.unknown) and all(isinstance(u, Guard) for u in word.unknown)


def is_unknown(word: Text) -> bool:
    """Whether what a word says is not known; a condition that it stands under does not count."""
    return any(not isinstance(u, Guard) for u in word.unknown)


def say_what_is_open(word: Text) -> str:
    """Why a word is not known: `X is not set here`, or the condition that it stands under."""
    find_placeholders = [u for u in word.unknown if not isinstance(u, Guard)][:3]
    guard = find_guard(word)
    reasons = [f"{', '.join(find_placeholders)} is not set here"] if find_placeholders else []
    if guard is not None:
        reasons.append(f"it is given under a condition that the file does not decide: {guard}")
    return ", and ".join(reasons)


def find_placeholders(value: str) -> tuple[str, ...]:
    """What is left to be filled in, by its name where it has one, else as it is written; empty where nothing is."""
    if not any(c in value for c in "${_@<%"):
        return ()
    bare = _FLAG.sub("", value, count=1)
    if _ALONE.fullmatch(bare):
        return (bare,)
    found = []
    for m in _ANYWHERE.finditer(value):
        name = m["template"] or m["braced"] or m["inside"] or m["plain"]
        found.append(" ".join(name.strip("- \n").split())[:60] if name else m[0][:60])
    return tuple(dict.fromkeys(found))


def end_of_template(source: str, begin: int) -> int | None:
    """The index behind a template (`{{ name }}`, `<NAME>`) that begins here and ends on its line; None for none."""
    m = _TEMPLATE.match(source, begin) or _ANGLE.match(source, begin)
    return m.end() if m and "\n" not in m[0] else None


def make_bounded(value: str, like: Text, unknown: Iterable[str], most: int | None = None) -> Text:
    """A text that was made of another, at its place. What goes beyond `most` characters is cut off, and not known."""
    most = LONGEST if most is None else most
    left = (*unknown, TOO_LONG) if len(value) > most else tuple(unknown)
    return make_text(value[:most], like.line, like.column, tuple(dict.fromkeys(left)), like.block)


def mark_placeholders(word: Text) -> Text:
    """The word with the placeholders in it known as such."""
    left = () if word.unknown else find_placeholders(word)
    return make_text(word, word.line, word.column, left, word.block) if left else word
