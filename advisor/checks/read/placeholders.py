"""Placeholders that another program fills in before a file is used: envsubst, kustomize, Helm, Jinja, sed, Kubernetes.

A placeholder makes its own word unknown, and no other: the flags around it keep their values. It is looked for in every
kind of file, since any text may pass through such a program.
"""

from __future__ import annotations

import re

import msgspec

from advisor.checks.read.launch import Launch
from advisor.checks.read.located_text import Text, make_text

_TEMPLATE = re.compile(r"\$?\{\{.*?\}\}|\{%.*?%\}", re.S)
_ANYWHERE = re.compile(
    r"\$?\{\{(?P<template>.*?)\}\}|\{%.*?%\}"  # {{ name }}, ${{ name }}, {% if name %}
    r"|\$\{(?P<braced>[A-Za-z_]\w*)[^{}]*\}|\$\((?P<inside>[A-Za-z_]\w*)\)|\$(?P<plain>[A-Za-z_]\w*)"
    r"|(?<![A-Za-z0-9_])__[A-Z][A-Z0-9_]*__(?![A-Za-z0-9_])|@@[A-Za-z_][\w.-]*@@",
    re.S,
)
_ALONE = re.compile(r"<[A-Za-z][\w .-]*>|%[A-Z][A-Z0-9_]*%|@[A-Z][A-Z0-9_]*@")  # only as a whole value
_FLAG = re.compile(r"^--?[A-Za-z][\w.-]*=")
_ANGLE = re.compile(r"<[A-Za-z][A-Za-z0-9_-]*>(?=\s|$)")


def names(value: str) -> tuple[str, ...]:
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


def marked(launch: Launch) -> Launch:
    """The launch with the placeholders in its words known as such."""
    return msgspec.structs.replace(
        launch,
        argv=tuple(_word(w) for w in launch.argv),
        env={k: _word(v) for k, v in launch.env.items()},
        settings={k: _word(v) for k, v in launch.settings.items()},
        model=None if launch.model is None else _word(launch.model),
    )


def _word(word: Text) -> Text:
    left = () if word.unknown else names(word)
    return make_text(word, word.line, word.column, left, word.block) if left else word
