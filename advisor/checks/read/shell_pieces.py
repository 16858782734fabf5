"""The pieces that a word of shell text is made of, and how they make words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from advisor.checks.read.located_text import Text, make_text
from advisor.checks.read.shell_braces import MAX_VALUE
from advisor.record import Value

MAX_PARTS = 200  # of one text that are known apart


class WordPiece(Value, frozen=True):
    """What one quote, variable or run of plain characters adds to a word."""

    value: str
    quoted: bool
    unknown: tuple[str, ...]
    split: bool = False  # came from an unquoted variable: blanks in it end the word
    array: tuple[Text, ...] | None = None
    origin: Text | None = None  # the word of an array that it is, with its own place


class LoopWords(tuple[Text, ...]):
    """The words a loop runs over: its variable stands for all of them."""

    __slots__ = ()


class JoinedText(Text):
    """A text made of parts that are not known alike: each keeps its own `unknown`."""

    parts: tuple[Text, ...] = ()


ShellValue = Text | tuple[Text, ...]


def make_unknown(shown: str, names: tuple[str, ...] | None = None) -> WordPiece:
    return WordPiece(shown, True, names or (shown,))


def join_pieces(pieces: list[WordPiece]) -> Text:
    parts: list[Text] = []
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
    whole = "".join(parts)[:MAX_VALUE]
    unknown = tuple(dict.fromkeys(n for p in parts for n in p.unknown))
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
    kept: list[Text] = []
    for part in text.parts:
        if count < len(part):
            kept.append(make_text(part[count:], text.line, text.column, part.unknown))
        count = max(0, count - len(part))
    made = join_parts(kept)
    made.line, made.column = text.line, text.column
    return made


def split_fields(pieces: list[WordPiece], line: int, column: int) -> list[Text]:
    """The words that a run of pieces makes. Arrays and unquoted variables may be several: their first word joins what
    stands before them, their last what follows."""
    out: list[Text] = []
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
