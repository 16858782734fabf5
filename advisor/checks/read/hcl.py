"""HCL2 (Nomad's and Packer's files) as blocks with places: what findings need and python-hcl2 does not give.

Of expressions only strings, numbers, booleans, lists, maps and `var.name` are taken; any other stays a text that
nothing resolves. Source: the HCL native syntax specification of hashicorp/hcl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.checks.read.unknown_words import make_bounded
from advisor.errors import BadFile, Unread
from advisor.record import Value
from advisor.yaml_places import Block, Located, Map, Seq, Strings, Text, TextTuple, as_string, at_line, make_text

MAX_TOKENS = 200_000
MAX_DEPTH = 40
_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+)|(?P<newline>\n)|(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?\*/)"
    r"|(?P<heredoc><<-?[A-Za-z_][\w.-]*)|(?P<string>\")|(?P<word>[A-Za-z_][\w.-]*)|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<mark>[{}\[\]=,:()])|(?P<other>.)",
    re.S,
)
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


class _Token(Value, frozen=True):
    kind: str
    value: str
    line: int
    column: int


def parse_hcl(source: str, where: object, first_line: int = 1, variables: Strings | None = None) -> HclBlock:
    """The whole file as one block without a kind. `variables` win over the defaults of `variable` blocks. Raises
    BadFile."""
    known = {**_find_defaults(source, where, first_line), **(variables or {})}
    return _Parser(_list_tokens(source, where, first_line), where, known).read_body("", (), first_line)


def _find_defaults(source: str, where: object, first_line: int) -> dict[str, str]:
    whole = _Parser(_list_tokens(source, where, first_line), where, {}).read_body("", (), 1)
    named = [(b.labels[0], as_string(b.attributes, "default")) for b in whole.find("variable") if b.labels]
    return {str(name): str(value) for name, value in named if value is not None and not value.unknown}


def _list_tokens(source: str, where: object, first_line: int) -> list[_Token]:
    out: list[_Token] = []
    i, line, start = 0, first_line, 0
    while i < len(source):
        m = _TOKEN.match(source, i)
        if m is None or len(out) > MAX_TOKENS:
            raise Unread(f"it has more than {MAX_TOKENS:,} words", line)
        kind, value, column = str(m.lastgroup), m[0], i - start + 1
        end = m.end()
        if kind == "string":
            value, end = _read_string(source, i, where, line)
        elif kind == "heredoc":
            value, end = _read_heredoc(source, end, value, where, line)
        if kind not in ("space", "comment"):
            out.append(_Token(kind, value, line, column))
        passed = source.count("\n", i, end)
        if passed:
            line += passed
            start = source.rindex("\n", i, end) + 1
        i = end
    return out


def _read_string(source: str, begin: int, where: object, line: int) -> tuple[str, int]:
    out: list[str] = []
    i, depth = begin + 1, 0
    while i < len(source):
        c = source[i]
        if c == "\\" and not depth:
            out.append(_ESCAPES.get(source[i + 1 : i + 2], source[i : i + 2]))
            i += 2
            continue
        if c == '"' and not depth:
            return "".join(out), i + 1
        if c == "\n":
            break
        if source.startswith(("${", "%{"), i) and source[i - 1 : i] != c:
            depth += 1
        elif c == "}" and depth:
            depth -= 1
        out.append(c)
        i += 1
    raise BadFile(where, "a string is not closed", line=line)


def _read_heredoc(source: str, begin: int, mark: str, where: object, line: int) -> tuple[str, int]:
    word, indented = mark.lstrip("<-"), mark.startswith("<<-")
    first = source.find("\n", begin) + 1
    m = re.compile(rf"^[ \t]*{re.escape(word)}[ \t]*\r?$", re.M).search(source, first) if first else None
    if m is None:
        raise BadFile(where, f"the text that {mark} begins is not closed", line=line)
    body = source[first : m.start()]
    if indented:
        lines = body.split("\n")
        depth = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
        body = "\n".join(x[depth:] for x in lines)
    return body, m.end()


class _Parser:
    """Where the reading of the tokens stands."""

    def __init__(self, tokens: list[_Token], where: object, variables: Strings) -> None:
        self.tokens, self.where, self.variables = tokens, where, variables
        self.i = 0
        self.depth = 0

    def peek(self) -> _Token | None:
        return self.tokens[self.i] if self.i < len(self.tokens) else None

    def skip_newlines(self, also: str = "") -> _Token | None:
        while (t := self.peek()) is not None and (t.kind == "newline" or (also and t.value == also)):
            self.i += 1
        return t

    def fault(self, message: str) -> BadFile:
        token = self.peek() or (self.tokens[-1] if self.tokens else None)
        return BadFile(self.where, message, line=token.line if token is not None else None)

    def read_body(self, kind: str, labels: TextTuple, line: int) -> HclBlock:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault("is nested too deeply")
        attributes: Block = {}
        blocks: list[HclBlock] = []
        while (token := self.skip_newlines(",")) is not None and token.value != "}":
            if token.kind not in ("word", "string"):
                raise self.fault(f"{token.value[:20]!r} is found where the name of a block or a value is expected")
            self.i += 1
            name, names = token, []
            while (t := self.peek()) is not None and t.kind in ("string", "word"):
                names.append(make_text(t.value, t.line, t.column))
                self.i += 1
            if t is not None and t.value == "{":
                self.i += 1
                blocks.append(self.read_body(name.value, tuple(names), name.line))
                self._close("}")
            elif t is not None and t.value in ("=", ":"):
                self.i += 1
                attributes[name.value] = self.read_value()
            else:
                raise self.fault(f"`{name.value[:40]}` is followed by neither `=` nor `{{`")
        self.depth -= 1
        return HclBlock(kind, labels, attributes, tuple(blocks), line)

    def _close(self, mark: str) -> None:
        token = self.skip_newlines(",")
        if token is None or token.value != mark:
            raise self.fault(f"`{mark}` is missing")
        self.i += 1

    def read_value(self) -> Located:
        token = self.skip_newlines()
        if token is None:
            raise self.fault("a value is missing at the end")
        if token.kind in ("string", "heredoc"):
            self.i += 1
            made = self._filled(make_text(token.value, token.line, token.column, (), token.kind == "heredoc"))
            return made if self._ends() else self._expression(token)
        if token.value == "[":
            return self._list(token)
        if token.value == "{":
            self.i += 1
            body = self.read_body("", (), token.line)
            self._close("}")
            return at_line(Map((make_text(k), v) for k, v in body.attributes.items()), token.line)
        self.i += 1
        if token.kind in ("number", "word") and self._ends():
            return self._plain(token)
        return self._expression(token)

    def _plain(self, token: _Token) -> Text:
        value = token.value
        if token.kind == "word" and value not in ("true", "false", "null"):
            known = self._look_up(value)
            if known is None:
                return make_text("${" + value + "}", token.line, token.column, (value,))
            value = known
        return make_text(value, token.line, token.column)

    def _look_up(self, name: str) -> str | None:
        """The value of `var.NAME`; None for one that is not known, and for any other name."""
        return self.variables.get(name.removeprefix("var.")) if name.startswith("var.") else None

    def _ends(self) -> bool:
        token = self.peek()
        return token is None or token.kind == "newline" or token.value in ("}", "]", ",")

    def _list(self, token: _Token) -> Seq:
        self.i += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault("is nested too deeply")
        out = at_line(Seq(), token.line)
        while (t := self.skip_newlines(",")) is not None and t.value != "]":
            out.append(self.read_value())
        self._close("]")
        self.depth -= 1
        return out

    def _expression(self, first: _Token) -> Text:
        """What is left of an expression up to its end: brackets inside are passed over."""
        words = [first.value]
        level = int(first.value in ("(", "[", "{"))
        while (t := self.peek()) is not None:
            if level <= 0 and (t.kind == "newline" or t.value in ("}", "]", ",")):
                break
            level += (t.value in ("(", "[", "{")) - (t.value in (")", "]", "}"))
            words.append(t.value)
            self.i += 1
        shown = " ".join(words)[:60]
        return make_text("${" + shown + "}", first.line, first.column, (shown,))

    def _filled(self, text: Text) -> Text:
        unknown: list[str] = []

        def one(m: re.Match[str]) -> str:
            name = m[1].strip()
            known = self._look_up(name)
            if known is None:
                unknown.append(name)
            return m[0] if known is None else known

        if "${" not in text:
            return text
        made = _REFERENCE.sub(one, text) if not text.block else str(text)
        return make_bounded(made, text, unknown)
