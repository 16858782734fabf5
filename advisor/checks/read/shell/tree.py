"""The tree of a shell text, by tree-sitter's grammar of bash.

What the grammar does not know or errs about is hidden from it, sign by sign, so that places stay: templates that
another program fills in, `$NAME` within words, escaped signs, what is not ASCII. Words are read from the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from advisor.errors import Unread

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_SOURCE = 2**18  # characters
CHUNK = 4096
TEMPLATE = r"\$?\{\{.{0,300}?\}\}|\{%.{0,300}?%\}|\$\{\w+\.[\w.-]*\}|<[A-Za-z][A-Za-z0-9_-]*>(?=\s|$)"
VARIABLE = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])"
_HIDDEN = re.compile(
    rf"(?P<name>(?:{TEMPLATE}|{VARIABLE})(?![+=]))|{TEMPLATE}|{VARIABLE}"
    r"|[^\t\n\x20-\x7e]|\\[ \t\\$]|\$(?![{('\"])|(?<=:[-=+])\{(?!\{)",  # `$` and `{` that begin nothing
    re.M,
)
_EXPRESSIONS = frozenset(f"{x}_expression" for x in ("binary", "unary", "postfix", "parenthesized", "ternary"))


@cache
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def parse_shell(source: str, line: int) -> Node:
    """The root of the tree; a byte of it is a character of `source`. The grammar never fails: what it cannot read are
    its ERROR nodes. Raises Unread where it would take too long (heredocs by the thousand)."""
    text = f"{source}\n\n"  # a backslash at the end continues nothing
    return parse_bounded(_language(), _HIDDEN.sub(_hide, text), line)


def parse_bounded(language: Language, source: str, line: int) -> Node:
    """The root of a text's tree by a grammar; the text is ASCII. Raises Unread where it would take too long."""
    from tree_sitter import Parser

    hidden = source.encode("ascii")
    left = 100 + 8 * len(hidden) // CHUNK  # a text is read twice, one whose parts the grammar tries in turn more often

    def read(offset: int, _: object) -> bytes:
        nonlocal left
        left -= 1
        return hidden[offset : offset + CHUNK] if left > 0 else b""

    root = Parser(language).parse(read).root_node
    if left <= 0:
        raise Unread("the grammar goes over its parts too often", line)
    return root


def _hide(m: re.Match[str]) -> str:
    return " " if m[0] == "\r" else ("_" if m["name"] else ".") * len(m[0])


def list_leaves(node: Node) -> Iterator[Node]:
    """The operands and operators of a test or an arithmetic expression, however deep they stand."""
    stack = list(reversed(node.children))
    while stack:
        now = stack.pop()
        if now.type in _EXPRESSIONS:
            stack += reversed(now.children)
        else:
            yield now
