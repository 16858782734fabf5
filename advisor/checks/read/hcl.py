"""HCL2 (Nomad's and Packer's files) as blocks with places, by tree-sitter's grammar of HCL.

Of expressions only strings, numbers, booleans, lists, maps and `var.name` are taken; any other stays a text that
nothing resolves. Source: the HCL native syntax specification of hashicorp/hcl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from advisor.checks.read.shell.tree import MAX_SOURCE, parse_bounded
from advisor.checks.read.unknown_words import make_bounded
from advisor.errors import BadFile, Unread
from advisor.record import Value
from advisor.yaml_places import Block, Located, Map, Seq, Strings, Text, TextTuple, as_string, at_line, make_text

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_DEPTH = 40  # of blocks and values
_ESCAPE = re.compile(r'\\([ntr"\\])')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


class HclBlock(Value, frozen=True):
    """`kind "label" { ... }`: attributes by name, and the blocks inside."""

    kind: str
    labels: TextTuple
    attributes: Block
    blocks: tuple[HclBlock, ...]
    line: int

    def find(self, kind: str) -> Iterator[HclBlock]:
        """The blocks of a kind directly inside."""
        return (b for b in self.blocks if b.kind == kind)


@cache
def _language() -> Language:
    import tree_sitter_hcl
    from tree_sitter import Language

    return Language(tree_sitter_hcl.language())


def parse_hcl(source: str, where: object, first_line: int = 1, variables: Strings | None = None) -> HclBlock:
    """The whole file as one block without a kind. `variables` win over the defaults of `variable` blocks. Raises
    BadFile, and Unread for what is too large."""
    if len(source) > MAX_SOURCE:
        raise Unread(f"it is longer than {MAX_SOURCE:,} characters", first_line)
    root = parse_bounded(_language(), re.sub(r"[^\x00-\x7f]", "_", source), first_line)
    reader = _HclText(source, where, first_line, {})
    if (wrong := _find_error(root)) is not None:
        before = source[: wrong.named_children[-1].end_byte if wrong.named_children else wrong.start_byte].rstrip()
        line = first_line + before.count("\n")
        raise BadFile(where, f"what follows {before.split()[-1][-20:] if before else ''!r} is no HCL", line=line)
    whole = reader.read_body("", (), root, 0)
    stated = [(b.labels[0], as_string(b.attributes, "default")) for b in whole.find("variable") if b.labels]
    defaults = {str(name): str(value) for name, value in stated if value is not None and not value.unknown}
    return _HclText(source, where, first_line, {**defaults, **(variables or {})}).read_body("", (), root, 0)


def _find_error(root: Node) -> Node | None:
    """The first node that the grammar could not read, or that is missing."""
    now: Node | None = root if root.has_error else None
    while now is not None and not (now.is_error or now.is_missing):
        now = next((child for child in now.children if child.has_error or child.is_missing), None)
    return now


class _HclText(Value, frozen=True):
    """A text whose tree is read; a byte of the tree is a character of it."""

    source: str
    where: object
    first_line: int
    variables: Strings

    def show(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte]

    def line(self, node: Node) -> int:
        return self.first_line + node.start_point[0]

    def text(self, node: Node, value: str, unknown: tuple[str, ...] = (), block: bool = False) -> Text:
        return make_text(value, self.line(node), node.start_point[1] + 1, unknown, block)

    def read_body(self, kind: str, labels: TextTuple, block: Node, depth: int) -> HclBlock:
        """A block, or the file."""
        if depth > MAX_DEPTH:
            raise BadFile(self.where, "is nested too deeply", line=self.line(block))
        attributes: Block = {}
        blocks: list[HclBlock] = []
        bodies = [child for child in block.children if child.type == "body"]
        for part in (x for body in bodies for x in body.children):
            if part.type == "attribute":
                attributes[self.show(part.children[0])] = self.read_value(part.children[-1], depth + 1)
            elif part.type == "block":
                name, *rest = [x for x in part.children if x.type in ("identifier", "string_lit")]
                named = tuple(self.text(x, self.show(x).strip('"')) for x in rest)
                blocks.append(self.read_body(self.show(name), named, part, depth + 1))
        return HclBlock(kind, labels, attributes, tuple(blocks), self.line(block))

    def read_value(self, node: Node, depth: int) -> Located:
        """The value of an expression."""
        if depth > MAX_DEPTH:
            raise BadFile(self.where, "is nested too deeply", line=self.line(node))
        inner = node
        while inner.type in ("expression", "literal_value", "template_expr", "collection_value") and (
            len(inner.children) == 1
        ):
            inner = inner.children[0]
        if inner.type == "string_lit" or inner.type == "quoted_template":
            raw = _ESCAPE.sub(lambda m: _ESCAPES[m[1]], self.show(inner)[1:-1])
            return self._fill(self.text(inner, raw))
        if inner.type == "heredoc_template":
            return self.text(inner, _read_heredoc(self.show(inner)), block=True)
        if inner.type == "tuple":
            values = [self.read_value(x, depth + 1) for x in inner.children if x.type == "expression"]
            return at_line(Seq(values), self.line(inner))
        if inner.type == "object":
            return at_line(Map(self._read_pairs(inner, depth)), self.line(inner))
        shown = self.show(inner)
        if inner.type in ("bool_lit", "null_lit") or re.fullmatch(r"-?\d+(\.\d+)?", shown):
            return self.text(inner, shown)
        known = self._look_up(shown)
        if known is None:
            shown = " ".join(shown.split())[:60]
            return self.text(inner, "${" + shown + "}", (shown,))
        return self.text(inner, known)

    def _read_pairs(self, node: Node, depth: int) -> Iterator[tuple[Text, Located]]:
        for pair in (x for x in node.children if x.type == "object_elem"):
            key, value = pair.child_by_field_name("key"), pair.child_by_field_name("val")
            if key is not None and value is not None:
                yield self.text(key, self.show(key).strip('"')), self.read_value(value, depth + 1)

    def _look_up(self, name: str) -> str | None:
        """The value of `var.NAME`; None for one that is not known, and for any other name."""
        return self.variables.get(name.removeprefix("var.")) if name.startswith("var.") else None

    def _fill(self, text: Text) -> Text:
        unknown = [name for m in _REFERENCE.finditer(text) if self._look_up(name := m[1].strip()) is None]
        made = _REFERENCE.sub(lambda m: self._look_up(m[1].strip()) or m[0], text)
        return make_bounded(made, text, unknown) if "${" in text else text


def _read_heredoc(shown: str) -> str:
    """What stands between the marks of a heredoc; `<<-` takes the indentation that all lines have."""
    mark, _, rest = shown.partition("\n")
    lines = rest.split("\n")[:-1]
    if mark.startswith("<<-"):
        depth = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
        lines = [x[depth:] for x in lines]
    return "".join(f"{x}\n" for x in lines)
