"""One word of shell text: quotes, variables with defaults, arrays, command substitutions. Nothing is run.

What a text does not say (an unset variable, a command substitution) stays in the word as `${NAME}` and in its
`unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.checks.read.unknown_words import TOO_LONG, end_of_template, find_placeholders, make_bounded
from advisor.errors import Unread
from advisor.record import Value
from advisor.yaml_places import Text, make_text

MAX_NESTED = 12  # `${A:-${B:-...}}`
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPACED = re.compile(r"\{\{-? ")  # a template, by its blank: quotes inside it do not end the word
_PLAIN = re.compile(r"[^\s;|&()<>\\'\"$`{]+|\{")
_PLAIN_UNEXPANDED = re.compile(r"[^\s;|&()<>\\'\"]+")
_PLAIN_IN_QUOTES = re.compile(r'[^"\\$`{]+')
_RESOLVES = re.compile(r"(realpath|readlink\s+(-f|-m|-e))\s+(--\s+)?")
# `${path##*/}` and `${path%/*}`: file and folder
_PATH_PARTS = {
    ("##", "*/"): lambda path: path.rpartition("/")[2],
    ("%", "/*"): lambda path: path.rpartition("/")[0] if "/" in path else path,
}
MAX_PARTS = 200  # of one text that are known apart
ShellValue = Text | tuple[Text, ...]
MAX_VALUE = 16 * 1024  # characters that one variable or word may grow to


class WordReader:
    """Position in a shell text, and the variables that words are made with."""

    def __init__(self, source: str, line: int, column: int, variables: dict[str, ShellValue]) -> None:
        self.s = source
        self.i = 0
        self.line = line
        self.first_column = column
        self.start = 0  # index of the first character of this line
        self.vars = variables
        self.depth = 0  # of defaults inside defaults
        self.in_function = 0  # functions around: `$1` is theirs, not the script's

    def _column(self) -> int:
        return self.i - self.start + 1 + (self.first_column if self.start == 0 else 0)

    def _continued(self) -> None:
        self.i = self.s.index("\n", self.i) + 1 if "\n" in self.s[self.i : self.i + 3] else self.i + 2
        self.line += 1
        self.start = self.i

    def _comment(self) -> None:
        end = self.s.find("\n", self.i)
        self.i = len(self.s) if end < 0 else end

    def _skip_blanks(self) -> None:
        while self.i < len(self.s) and self.s[self.i] in " \t":
            self.i += 1

    def _pieces(self, expand: bool = True) -> list[WordPiece]:
        out: list[WordPiece] = []
        while self.i < len(self.s):
            c = self.s[self.i]
            if c in " \t\r\n;|&()<>" and (c != "<" or end_of_template(self.s, self.i) is None):
                break
            if c == "\\":
                nxt = self.s[self.i + 1 : self.i + 2]
                if nxt in ("\n", "\r"):
                    self._continued()
                    continue
                out.append(WordPiece(nxt, True, ()))
                self.i += 2
            elif c == "'":
                out.append(WordPiece(self._until_quote("'"), True, ()))
            elif c == '"':
                out += self._double(expand)
            elif c == "$" and self.s[self.i + 1 : self.i + 2] == "'":
                self.i += 1
                out.append(WordPiece(self._until_quote("'"), True, ()))
            elif c in "{$<" and (end := end_of_template(self.s, self.i)) is not None:
                out.append(make_unknown(self.s[self.i : end], find_placeholders(self.s[self.i : end])))
                self.i = end
            elif c in "$`" and expand:
                out += self._variable(quoted=False)
            else:
                m = (_PLAIN if expand else _PLAIN_UNEXPANDED).match(self.s, self.i)
                end = m.end() if m else self.i + 1
                out.append(WordPiece(self.s[self.i : end], False, ()))
                self.i = end
        return out

    def _until_quote(self, quote: str) -> str:
        end = self.s.find(quote, self.i + 1)
        end = len(self.s) if end < 0 else end
        inside = self.s[self.i + 1 : end]
        self._moved(end + 1)
        return inside

    def _moved(self, to: int) -> None:
        """Go on at `to`, counting the lines in between."""
        n = self.s.count("\n", self.i, to)
        if n:
            self.line += n
            self.start = self.s.rindex("\n", self.i, to) + 1
        self.i = min(to, len(self.s))

    def _double(self, expand: bool) -> list[WordPiece]:
        out: list[WordPiece] = []
        self.i += 1
        while self.i < len(self.s):
            c = self.s[self.i]
            if c == '"':
                self.i += 1
                return out or [WordPiece("", True, ())]
            if c == "\\" and self.s[self.i + 1 : self.i + 2] in tuple('"\\$`\n'):
                if self.s[self.i + 1] != "\n":
                    out.append(WordPiece(self.s[self.i + 1], True, ()))
                self._moved(self.i + 2)
            elif c == "{" and _SPACED.match(self.s, self.i) and (end := end_of_template(self.s, self.i)) is not None:
                out.append(make_unknown(self.s[self.i : end], find_placeholders(self.s[self.i : end])))
                self.i = end
            elif c in "$`" and expand:
                out += self._variable(quoted=True)
            else:
                m = _PLAIN_IN_QUOTES.match(self.s, self.i)
                end = m.end() if m else self.i + 1
                out.append(WordPiece(self.s[self.i : end], True, ()))
                self._moved(end)
        return out

    def _variable(self, quoted: bool) -> list[WordPiece]:
        s, i = self.s, self.i
        if s[i] == "`":
            end = s.find("`", i + 1)
            inside = s[i + 1 : end if end >= 0 else len(s)]
            self._moved((end if end >= 0 else len(s)) + 1)
            return [make_unknown("$(" + inside.strip()[:60] + ")")]
        if s.startswith("$((", i) or s.startswith("$(", i):
            end = self._find_end(closing, i + 1)
            inside = s[i + 2 : end].strip()
            self._moved(end + 1)
            path = self._resolved(inside, quoted)
            if path is not None:
                return [path]
            return [make_unknown("$(" + " ".join(inside.split())[:60].rstrip(")") + ")")]
        if s.startswith("${", i):
            end = self._find_end(closing_brace, i + 1)
            inside = s[i + 2 : end]
            self._moved(end + 1)
            return self._braced(inside, quoted)
        m = NAME.match(s, i + 1)
        if m:
            self.i = m.end()
            return self._value(m[0], quoted)
        self.i += 2 if s[i + 1 : i + 2] in tuple("0123456789@*#?$!-") and i + 1 < len(s) else 1
        name = s[i + 1 : i + 2]
        if name in ("@", "*") and isinstance(self.vars.get("@"), tuple):
            return self._value("@", quoted, whole=True)
        if name.isdigit() and name != "0" and (given := self._positional(int(name))) is not None:
            return [WordPiece(given, quoted, given.unknown)]
        return [make_unknown("$" + name)] if name and name in "0123456789@*#?$!-" else [WordPiece("$", True, ())]

    def _find_end(self, find: Callable[[str, int], int | None], begin: int) -> int:
        """Where what begins at `begin` is closed. Raises Unread where that is too far away."""
        end = find(self.s, begin)
        if end is None:
            raise Unread(f"what begins there is not closed within {MAX_VALUE:,} characters", self.line)
        return end

    def _positional(self, number: int) -> Text | None:
        """`$1`, where it is known what the script is called with."""
        given = self.vars.get("@")
        if not isinstance(given, tuple):
            return None
        return given[number - 1] if number <= len(given) else make_text("")

    def _braced(self, inside: str, quoted: bool) -> list[WordPiece]:
        if inside in ("@", "*") and isinstance(self.vars.get("@"), tuple):
            return self._value("@", quoted, whole=True)
        element = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)\[([^\[\]]*|\$\{[^{}]*\})\]", inside)
        if element:
            return self._element(element[1], element[2], quoted, inside)
        m = re.match(r"([A-Za-z_][A-Za-z0-9_]*|[1-9])(:?[-=+?]|##?|%%?|//?|,,?|\^\^?|:|$)(.*)", inside, re.S)
        if not m:
            return [make_unknown("${" + inside[:60] + "}")]
        name, op, rest = m[1], m[2], m[3]
        if name.isdigit():
            return self._braced_positional(int(name), op, rest, quoted, inside)
        have = self.vars.get(name)
        if op in (":-", "-", ":=", "="):
            if have is not None and not (op[0] == ":" and have == ""):
                return self._value(name, quoted)
            made = self._default(rest, quoted, name)
            if op in (":=", "="):
                self.vars[name] = make_text(made.value, self.line, 0, made.unknown)
            return [made]
        if op in (":+", "+"):
            return self._alternative(have, op, rest, quoted, name)
        if op in ("", ":?", "?"):
            return self._value(name, quoted)
        if isinstance(have, Text) and not have.unknown and (op, rest) in _PATH_PARTS:
            return [WordPiece(_PATH_PARTS[op, rest](have)[:MAX_VALUE], quoted, (), split=not quoted)]
        return [make_unknown("${" + name + "}")]

    def _default(self, rest: str, quoted: bool, name: str) -> WordPiece:
        """What stands behind `:-`: the value where nothing sets the variable."""
        if self.depth >= MAX_NESTED:
            return make_unknown("${" + name + "}", (name,))
        inner = WordReader(rest, self.line, 0, self.vars)
        inner.depth = self.depth + 1
        made = join_pieces(inner._pieces_all())
        return WordPiece(made, quoted, made.unknown, split=not quoted)

    def _alternative(self, have: ShellValue | None, op: str, rest: str, quoted: bool, name: str) -> list[WordPiece]:
        """What stands behind `:+`: there where the variable has a value."""
        if have is None or (op == ":+" and isinstance(have, Text) and not have) or have == ():
            return [WordPiece("", quoted, ())]
        made = self._default(rest, quoted, name)
        guards = tuple(u for w in ((have,) if isinstance(have, Text) else have) for u in w.unknown)
        return [replace(made, unknown=tuple(dict.fromkeys((*made.unknown, *guards))))]

    def _braced_positional(self, number: int, op: str, rest: str, quoted: bool, inside: str) -> list[WordPiece]:
        """`${1:-default}`: the default where nobody says what the script is called with, as for a variable."""
        given = self._positional(number)
        if op in (":-", "-"):
            if given is not None and given:
                return [WordPiece(given, quoted, given.unknown, split=not quoted)]
            if given is not None or not self.in_function:
                return [self._default(rest, quoted, str(number))]
        elif op in ("", ":?", "?") and given is not None:
            return [WordPiece(given, quoted, given.unknown, split=not quoted)]
        return [make_unknown("${" + inside[:60] + "}")]

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

    def _resolved(self, inside: str, quoted: bool) -> WordPiece | None:
        """`$(realpath -- PATH)` of an absolute path is that path; links are not followed."""
        m = _RESOLVES.match(inside)
        if m is None or self.depth >= MAX_NESTED:
            return None
        inner = WordReader(inside[m.end() :], self.line, 0, self.vars)
        inner.depth = self.depth + 1
        pieces = inner._pieces()
        made = join_pieces(pieces)
        if inner.i < len(inner.s.rstrip()) or any(p.array is not None for p in pieces) or not made.startswith("/"):
            return None
        return WordPiece(made, quoted, made.unknown, split=not quoted)

    def _pieces_all(self) -> list[WordPiece]:
        """The whole text as the pieces of one word (the default inside `${X:-...}`)."""
        out: list[WordPiece] = []
        while self.i < len(self.s):
            begin = self.i
            out += self._pieces()
            if self.i == begin or (self.i < len(self.s) and self.s[self.i] in " \t\r\n;|&()<>"):
                out.append(WordPiece(self.s[self.i], True, ()))
                self.i += 1
        return out

    def _value(self, name: str, quoted: bool, whole: bool = False) -> list[WordPiece]:
        have = self.vars.get(name)
        if have is None:
            return [make_unknown("${" + name + "}", (name,))]
        if isinstance(have, LoopWords):
            return [WordPiece("${" + name + "}", True, (name,), array=tuple(have))]
        if isinstance(have, tuple):
            if whole:
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


def closing(s: str, begin: int) -> int | None:
    """Index of the parenthesis that closes the one at `begin`, the text's end where none does, None where none is near.
    Those in quotes do not count."""
    depth, k, end, double = 0, begin, min(len(s), begin + MAX_VALUE), False
    while k < end:
        c = s[k]
        if c == "\\":
            k += 1
        elif c == '"':
            double = not double
        elif c == "'" and not double and s.find("'", k + 1) >= 0:
            k = s.index("'", k + 1)
        elif c == "(" and not double:
            depth += 1
        elif c == ")" and not double:
            depth -= 1
            if depth == 0:
                return k
        k += 1
    return len(s) if len(s) <= begin + MAX_VALUE else None


def closing_brace(s: str, begin: int) -> int | None:
    """Index of the brace that closes the one at `begin`, the text's end where none does, None where none is near."""
    depth = 0
    for k in range(begin, min(len(s), begin + MAX_VALUE)):
        if s[k] == "{":
            depth += 1
        elif s[k] == "}":
            depth -= 1
            if depth == 0:
                return k
    return len(s) if len(s) <= begin + MAX_VALUE else None
