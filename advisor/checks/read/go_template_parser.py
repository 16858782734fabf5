"""Go's text/template as nodes: text, outputs, conditions, loops, definitions. Source: its documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from advisor.record import Value

MAX_DEPTH = 40
_ACTION = re.compile(r"\{\{(-(?=\s))?((?:`[^`]*`|\"(?:\\.|[^\"\\\n])*\"|[^`\"])*?)((?<=\s)-)?\}\}", re.S)
_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<raw>`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)|(?P<mark>:=|=|\||\(|\)|,)"
    r"|(?P<path>\$?[A-Za-z_]\w*(?:\.\w+)*|\$(?:\.\w+)*|(?:\.\w+)+|\.))"
)


class TemplateFault(Exception):
    """A template that is not understood here; it is read as it is written then."""


class TemplateNode(Value, frozen=True):
    kind: str  # text, output, if, range, with, assign, define, template
    line: int
    text: str = ""
    words: tuple[Any, ...] = ()
    branches: tuple[tuple[tuple[Any, ...] | None, tuple[Any, ...]], ...] = ()  # (condition, nodes); None: else
    changes: bool = False  # `=` in place of `:=`


def parse_template(source: str) -> tuple[TemplateNode, ...]:
    steps = list(_split(source))
    nodes, rest, end = _block(steps, 0, 0)
    if end is not None or rest < len(steps):
        raise TemplateFault("`end` without a beginning")
    return nodes


def _split(source: str) -> Iterator[tuple[str, str, int]]:
    """(text or action, what it is, line)."""
    at, trim = 0, False
    for m in _ACTION.finditer(source):
        before = source[at : m.start()]
        yield _text(before, source.count("\n", 0, at) + 1, trim, m[1] is not None)
        yield "action", m[0], source.count("\n", 0, m.start()) + 1
        at, trim = m.end(), m[3] is not None
    yield _text(source[at:], source.count("\n", 0, at) + 1, trim, False)


def _text(text: str, line: int, left: bool, right: bool) -> tuple[str, str, int]:
    if left:
        cut = text.lstrip()
        line += text[: len(text) - len(cut)].count("\n")
        text = cut
    return "text", text.rstrip() if right else text, line


def _block(
    steps: list[tuple[str, str, int]], i: int, depth: int
) -> tuple[tuple[TemplateNode, ...], int, tuple[Any, ...] | None]:
    """Nodes up to `end` or `else`, where reading goes on, and the words of what ended them (None: the text did)."""
    if depth > MAX_DEPTH:
        raise TemplateFault("nested too deeply")
    out: list[TemplateNode] = []
    while i < len(steps):
        kind, text, line = steps[i]
        i += 1
        if kind == "text":
            if text:
                out.append(TemplateNode("text", line, text))
            continue
        m = _ACTION.fullmatch(text)
        inside = m[2].strip() if m else ""
        if inside.startswith("/*"):
            continue
        words = _words(inside)
        head = words[0][1] if words and words[0][0] == "path" else ""
        if head in ("end", "else"):
            return tuple(out), i, words
        if head in ("if", "range", "with", "define", "block"):
            node, i = _compound(head, words[1:], steps, i, line, depth)
            out.append(node)
        elif head == "template":
            out.append(TemplateNode("output", line, text, (("path", "include"), *words[1:])))
        elif len(words) > 2 and words[0][0] == "path" and head.startswith("$") and words[1][1] in (":=", "="):
            out.append(TemplateNode("assign", line, head, words[2:], changes=words[1][1] == "="))
        else:
            out.append(TemplateNode("output", line, text, words))
    return tuple(out), i, None


def _compound(
    head: str, words: tuple[Any, ...], steps: list[tuple[str, str, int]], i: int, line: int, depth: int
) -> tuple[TemplateNode, int]:
    branches: list[tuple[tuple[Any, ...] | None, tuple[Any, ...]]] = []
    condition: tuple[Any, ...] | None = words
    while True:
        nodes, i, end = _block(steps, i, depth + 1)
        branches.append((condition, nodes))
        if end is None:
            raise TemplateFault(f"`{head}` without an end")
        if end[0][1] == "end":
            break
        condition = tuple(end[2:]) if len(end) > 2 and end[1][1] in ("if", "with") else None
    name = str(words[0][1]) if head in ("define", "block") and words else ""
    return TemplateNode("define" if head in ("define", "block") else head, line, name, (), tuple(branches)), i


def _words(inside: str) -> tuple[Any, ...]:
    out: list[tuple[str, Any]] = []
    i = 0
    while i < len(inside):
        m = _TOKEN.match(inside, i)
        if m is None:
            if not inside[i:].strip():
                break
            raise TemplateFault(f"not understood: {inside[i : i + 30]}")
        kind = str(m.lastgroup)
        value: Any = m[kind]
        if kind == "string":
            kind, value = "text", re.sub(r"\\(.)", lambda e: {"n": "\n", "t": "\t"}.get(e[1], e[1]), value[1:-1])
        elif kind == "raw":
            kind, value = "text", value[1:-1]
        out.append((kind, value))
        i = m.end()
    return tuple(out)
