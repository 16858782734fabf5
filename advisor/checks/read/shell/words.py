"""One word of shell text: quotes, variables with defaults, arrays, command substitutions. Nothing is run.

What a text does not say (an unset variable, a command substitution) stays in the word as `${NAME}` and in its
`unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.checks.read.shell.tree import TEMPLATE, VARIABLE
from advisor.checks.read.unknown_words import TOO_LONG, find_placeholders, make_bounded
from advisor.record import Names, Value
from advisor.yaml_places import Text, TextList, TextTuple, make_text

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_NESTED = 12  # `${A:-${B:-...}}`
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE = re.compile(rf"\\(?P<sign>.)|(?P<template>{TEMPLATE})|(?P<variable>{VARIABLE})|[^\\{{$<]+|.", re.S)
_IN_QUOTES = re.compile(
    rf"\\(?P<sign>[\"\\$`\n])|(?P<template>(?=\{{\{{-? |\$\{{){TEMPLATE})|(?P<variable>{VARIABLE})|[^\\{{$]+|.", re.S
)
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[1-9@*])(:?[-=+?]|##?|%%?|//?|,,?|\^\^?|:|$)(.*)", re.S)
_ELEMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[([^\[\]]*|\$\{[^{}]*\})\]")
# `${path##*/}` and `${path%/*}`: file and folder
_PATH_PARTS = {
    ("##", "*/"): lambda path: path.rpartition("/")[2],
    ("%", "/*"): lambda path: path.rpartition("/")[0] if "/" in path else path,
}
_FINDS = (["which"], ["command", "-v"])
_RESOLVES = (["realpath"], ["readlink", "-f"], ["readlink", "-m"], ["readlink", "-e"])
_BLANKS = re.compile(r"(?:\s|\\\n)+")
MAX_PARTS = 200  # of one text that are known apart
ShellValue = Text | TextTuple
MAX_VALUE = 16 * 1024  # characters that one variable or word may grow to


class WordReader:
    """A shell text, and the variables that its words are made with."""

    def __init__(self, source: str, line: int, column: int, variables: dict[str, ShellValue]) -> None:
        self.s = source
        self.first_line = self.line = line
        self.first_column = column
        self.vars = variables
        self.depth = 0  # of defaults inside defaults
        self.in_function = 0  # functions around: `$1` is theirs, not the script's
        self.unread: list[Node] = []  # parts of words
        self.kinds: dict[str, Callable[[Node, bool], list[WordPiece]]] = {
            "raw_string": lambda node, _: [WordPiece(self._text(node)[1:-1], True, ())],
            "ansi_c_string": lambda node, _: [WordPiece(self._text(node)[2:-1], True, ())],
            "string": self._string, "expansion": self._braced,
            "command_substitution": self._substitution, "process_substitution": self._substitution,
            "arithmetic_expansion": self._substitution, "ERROR": self._unread, "array": self._unread,
        }  # fmt: skip

    def _text(self, node: Node) -> str:
        return self.s[self._start(node) : node.end_byte]

    def _start(self, node: Node) -> int:
        """In quotes some nodes begin with the blanks before them."""
        blanks = _BLANKS.match(self.s, node.start_byte, node.end_byte)
        return blanks.end() if blanks else node.start_byte

    def place(self, node: Node) -> tuple[int, int]:
        """(line, column) of what begins there."""
        row, column = node.start_point
        self.line = self.first_line + row
        return self.line, column + 1 + (0 if row else self.first_column)

    def read_words(self, nodes: Iterable[Node]) -> TextList:
        """The words that nodes stand for: none, where a variable is empty, or several; one where nodes touch."""
        out: TextList = []
        pieces: list[WordPiece] = []
        place, end = (self.line, 0), -1
        for node in nodes:
            if self.s[end : node.start_byte].replace("\\\n", "") or end < 0:
                out += split_fields(pieces, *place)
                pieces, place = [], self.place(node)
            pieces += self.pieces(node)
            end = node.end_byte
        return out + split_fields(pieces, *place)

    def pieces(self, node: Node, quoted: bool = False) -> list[WordPiece]:
        """What the parts of a word add to it."""
        if node.is_missing:
            return self._unread(node, quoted)
        if node.type in self.kinds:
            return self.kinds[node.type](node, quoted)
        return self._between(node.start_byte, node.end_byte, node.children, quoted)

    def _between(self, begin: int, end: int, nodes: Sequence[Node], quoted: bool) -> list[WordPiece]:
        """The nodes that stand in a part of the text, with the plain text around them."""
        out: list[WordPiece] = []
        for node in nodes:
            if node.start_byte >= begin and (node.type in self.kinds or node.child_count or node.is_missing):
                out += self._plain(self.s[begin : self._start(node)], quoted) + self.pieces(node, quoted)
                begin = node.end_byte
        return out + self._plain(self.s[begin:end], quoted)

    def _plain(self, text: str, quoted: bool) -> list[WordPiece]:
        out: list[WordPiece] = []
        for m in (_IN_QUOTES if quoted else _BARE).finditer(text):
            if m["template"]:
                out.append(make_unknown(m[0], find_placeholders(m[0])))
            elif m["variable"]:
                out += self._value(m[0][1:], quoted)
            elif m["sign"] is None:
                out.append(WordPiece(m[0], quoted, (), split=not quoted))
            elif m["sign"] != "\n":
                out.append(WordPiece(m["sign"], True, ()))
        return out

    def _string(self, node: Node, _: bool) -> list[WordPiece]:
        if node.children[-1].is_missing:
            return self._unread(node, True)
        inside = self._between(self._start(node) + 1, node.end_byte - 1, node.children[1:-1], True)
        return inside or [WordPiece("", True, ())]

    def _unread(self, node: Node, _: bool) -> list[WordPiece]:
        self.unread.append(node)
        return [make_unknown(self._text(node)[:60] or "?")]

    def _substitution(self, node: Node, quoted: bool) -> list[WordPiece]:
        """`$(command)`, of which no more is known than how it is written, but for `$(realpath -- PATH)`: of an absolute
        path that is the path; links are not followed. `$(which PROGRAM)` is the program."""
        inside = re.sub(r"^(`|[$<>]\()\s*|\s*[`)]$", "", self._text(node))
        found = [x for x in node.named_children if x.type == "command"]
        known = inside.startswith(("realpath", "readlink", "which", "command -v"))
        if known and len(found) == 1 and self.depth < MAX_NESTED:
            self.depth += 1
            words = [w for w in self.read_words(found[0].named_children) if w != "--"]
            self.depth -= 1
            if words[:-1] in _FINDS or (words[:-1] in _RESOLVES and words[-1].startswith("/")):
                return [WordPiece(words[-1], quoted, words[-1].unknown, split=not quoted)]
        return [make_unknown("$(" + " ".join(inside.split())[:60].rstrip(")") + ")")]

    def _have(self, name: str) -> ShellValue | None:
        """The value of a variable, `$1` or `$@`; None where it is not known."""
        given = self.vars.get("@")
        if isinstance(given, tuple) and re.fullmatch("[1-9]|@|[*]", name):
            return given if name in "@*" else given[int(name) - 1] if int(name) <= len(given) else make_text("")
        return self.vars.get(name)

    def _braced(self, node: Node, quoted: bool) -> list[WordPiece]:
        inside = self._text(node)[2:-1]
        if node.children[-1].is_missing:
            return self._unread(node, quoted)
        if element := _ELEMENT.fullmatch(inside):
            return self._element(element[1], element[2], quoted, inside)
        m = _BRACED.match(inside)
        name, op, rest = m.groups() if m else ("", "", "")
        have = self._have(name)
        if not m or (have is None and self.in_function and not NAME.match(name)):
            return [make_unknown("${" + inside[:60] + "}")]
        if op in (":-", "-", ":=", "="):
            if have is not None and not (op[0] == ":" and have == ""):
                return self._value(name, quoted)
            made = self._default(node, m.start(3), quoted, name)
            if op in (":=", "="):
                self.vars[name] = make_text(made.value, self.line, 0, made.unknown)
            return [made]
        if op in (":+", "+"):
            return self._alternative(have, op, self._default(node, m.start(3), quoted, name), quoted)
        if op in ("", ":?", "?"):
            return self._value(name, quoted)
        if isinstance(have, Text) and not have.unknown and (op, rest) in _PATH_PARTS:
            return [WordPiece(_PATH_PARTS[op, rest](have)[:MAX_VALUE], quoted, (), split=not quoted)]
        return [make_unknown("${" + name + "}")]

    def _default(self, node: Node, begin: int, quoted: bool, name: str) -> WordPiece:
        """What stands behind `:-`: the value where nothing sets the variable."""
        if self.depth >= MAX_NESTED:
            return make_unknown("${" + name + "}", (name,))
        self.depth += 1
        made = join_pieces(self._between(self._start(node) + 2 + begin, node.end_byte - 1, node.children, False))
        self.depth -= 1
        return WordPiece(made, quoted, made.unknown, split=not quoted)

    def _alternative(self, have: ShellValue | None, op: str, made: WordPiece, quoted: bool) -> list[WordPiece]:
        """What stands behind `:+`: there where the variable has a value."""
        if have is None or (op == ":+" and isinstance(have, Text) and not have) or have == ():
            return [WordPiece("", quoted, ())]
        guards = tuple(u for w in ((have,) if isinstance(have, Text) else have) for u in w.unknown)
        return [replace(made, unknown=tuple(dict.fromkeys((*made.unknown, *guards))))]

    def _element(self, name: str, index: str, quoted: bool, inside: str) -> list[WordPiece]:
        """`${NAME[@]}`, `${NAME[2]}`, `${NAME[$I]}`."""
        if index in ("@", "*"):
            return self._value(name, quoted, whole=True)
        have = self.vars.get(name)
        bare = index.strip().removeprefix("${").removeprefix("$").removesuffix("}")
        number = self.vars.get(bare) if NAME.fullmatch(bare) else make_text(bare)
        known = isinstance(number, Text) and not number.unknown and number.isdecimal() and len(number) < 6
        if isinstance(have, tuple) and not isinstance(have, LoopWords) and known:
            at = int(str(number))
            word = have[at] if at < len(have) else make_text("")
            return [WordPiece(word, quoted, word.unknown, split=not quoted)]
        return [make_unknown("${" + inside[:60] + "}")]

    def _value(self, name: str, quoted: bool, whole: bool = False) -> list[WordPiece]:
        have = self._have(name)
        if have is None:
            return [make_unknown("${" + name + "}", (name,)) if NAME.match(name) else make_unknown("$" + name)]
        if isinstance(have, LoopWords):
            return [WordPiece("${" + name + "}", True, (name,), array=tuple(have))]
        if isinstance(have, tuple):
            if whole or name in "@*":
                return [WordPiece("", quoted, (), array=have)]
            return [WordPiece(have[0], quoted, have[0].unknown) if have else WordPiece("", quoted, ())]
        if isinstance(have, JoinedText) and len(have) <= MAX_VALUE:
            return [WordPiece(part, quoted, part.unknown, split=not quoted) for part in have.parts]
        have = make_bounded(have, have, have.unknown, MAX_VALUE)
        return [WordPiece(have, quoted, have.unknown, split=not quoted)]


class WordPiece(Value, frozen=True):
    """What one quote, variable or run of plain characters adds to a word."""

    value: str
    quoted: bool
    unknown: Names
    split: bool = False  # came from an unquoted variable: blanks in it end the word
    array: TextTuple | None = None
    origin: Text | None = None  # the word of an array that it is, with its own place


class LoopWords(TextTuple):
    """The words a loop runs over: its variable stands for all of them."""

    __slots__ = ()


class JoinedText(Text):
    """A text made of parts that are not known alike: each keeps its own `unknown`."""

    parts: TextTuple = ()


def make_unknown(shown: str, names: Names | None = None) -> WordPiece:
    return WordPiece(shown, True, names or (shown,))


def join_pieces(pieces: list[WordPiece]) -> Text:
    parts: TextList = []
    size = 0
    for piece in pieces:
        value = " ".join(piece.array) if piece.array is not None else piece.value
        parts.append(make_text(value, unknown=piece.unknown))
        size += len(value)
        if size > MAX_VALUE:
            break
    return join_parts(parts)


def join_parts(parts: Sequence[Text]) -> Text:
    """One text of several; where they are not known alike, each part keeps its own `unknown`."""
    whole = "".join(parts)
    unknown = tuple(dict.fromkeys(n for p in parts for n in p.unknown))
    if len(whole) > MAX_VALUE:
        whole, unknown = whole[:MAX_VALUE], (*unknown, TOO_LONG)
    if not unknown or len(parts) < 2 or len(parts) > MAX_PARTS or all(p.unknown == unknown for p in parts):
        return make_text(whole, unknown=unknown)
    made = JoinedText(whole)
    made.unknown, made.parts = unknown, tuple(parts)
    return made


def drop_front(text: Text, count: int) -> Text:
    """The text without its first characters."""
    rest = text[count:][:MAX_VALUE]
    if not isinstance(text, JoinedText):
        return make_text(rest, text.line, text.column, text.unknown)
    kept: TextList = []
    for part in text.parts:
        if count < len(part):
            kept.append(make_text(part[count:], text.line, text.column, part.unknown))
        count = max(0, count - len(part))
    made = join_parts(kept)
    made.line, made.column = text.line, text.column
    return made


def split_fields(pieces: list[WordPiece], line: int, column: int) -> TextList:
    """The words that a run of pieces makes. Arrays and unquoted variables may be several: their first word joins what
    stands before them, their last what follows."""
    out: TextList = []
    now: list[WordPiece] = []

    def end() -> None:
        if any(p.quoted or p.value for p in now):
            whole = [p for p in now if p.value]
            alone = whole[0].origin if len(whole) == 1 else None
            out.append(alone if alone is not None else _placed(now, line, column))
        now.clear()

    for word_piece in pieces:
        if word_piece.array is not None and word_piece.unknown and any(q.value for q in pieces if q is not word_piece):
            now.append(replace(word_piece, array=None))  # one word of a loop inside a longer word
        elif word_piece.array is not None:
            parts = [
                w if word_piece.quoted else make_text(x, w.line, w.column, w.unknown)
                for w in word_piece.array
                for x in ([w] if word_piece.quoted else w.split())
            ]
            for k, word in enumerate(parts):
                if k:
                    end()
                now.append(WordPiece(word, word_piece.quoted, word.unknown, origin=word))
        elif word_piece.split and re.search(r"\s", word_piece.value):
            if word_piece.value[:1].isspace():
                end()
            for k, part in enumerate(word_piece.value.split()):
                if k:
                    end()
                now.append(WordPiece(part, False, word_piece.unknown))
            if word_piece.value[-1:].isspace():
                end()
        else:
            now.append(word_piece)
    end()
    return out


def _placed(pieces: list[WordPiece], line: int, column: int) -> Text:
    made = join_pieces(pieces)
    made.line, made.column = line, column
    return made
