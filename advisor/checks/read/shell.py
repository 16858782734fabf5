"""Shell text as commands: quoting, line continuations, variables with defaults, arrays, heredocs. Nothing is run.

What a text does not say (an unset variable, a command substitution) stays in the word as `${NAME}` and in its
`unknown`. Branches are read one after the other, so the last assignment of a variable counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from advisor.checks.read.located_text import Text, line_of, make_text
from advisor.checks.read.placeholders import end_of_template, names
from advisor.checks.read.shell_braces import MAX_VALUE, closing, closing_brace

MAX_WORDS = 20_000
MAX_NESTED = 12  # `${A:-${B:-...}}`
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_KEYWORDS = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "do",
        "done",
        "while",
        "until",
        "case",
        "esac",
        "{",
        "}",
        "!",
        "time",
        "function",
    ]
)
_DESCRIPTOR = re.compile(r"(?:^|[\s;|&()])([0-9]+)\Z")  # digits that touch a redirection: `2> log`, not `2 > log`
_DECLARES = frozenset(["export", "declare", "local", "readonly", "typeset"])
_OPERATORS = (
    "&&",
    "||",
    ";;",
    "|&",
    ">>",
    "<<<",
    "<<-",
    "<<",
    "2>&1",
    ">&",
    "<&",
    "&>",
    ";",
    "|",
    "&",
    "(",
    ")",
    ">",
    "<",
)


class ShellCommand(NamedTuple):
    """One simple command: its words, what is assigned for it, what was exported before it, its heredoc."""

    words: tuple[Text, ...]
    env: dict[str, Text]
    exported: dict[str, Text]
    heredoc: Text | None
    line: int


class _WordPiece(NamedTuple):
    value: str
    quoted: bool
    unknown: tuple[str, ...]
    split: bool = False  # came from an unquoted variable: blanks in it end the word
    array: tuple[Text, ...] | None = None
    origin: Text | None = None  # the word of an array that it is, with its own place


class _LoopWords(tuple[Text, ...]):
    """The words a loop runs over: its variable stands for all of them."""


def split_commands(
    source: str,
    line: int = 1,
    column: int = 0,
    known: Mapping[str, str] | None = None,
    positional: Sequence[Text] | None = None,
) -> list[ShellCommand]:
    """The simple commands of a shell text, in order. `known` are variables that are set before it, `positional` what
    `$1` and `$@` stand for (None = not known)."""
    reader = _ShellReader(source, line, column, dict(known or {}))
    if positional is not None:
        reader.vars["@"] = tuple(positional)
    return reader.read()


def split_words(source: str, line: int = 1, column: int = 0, known: Mapping[str, str] | None = None) -> list[Text]:
    """All words of a text that is one command (a compose `command:`, a `cmd:`)."""
    return [w for c in split_commands(source.replace("\n", " "), line, column, known) for w in c.words]


class _ShellReader:
    """The lexer's state: position, variables, commands found."""

    def __init__(self, source: str, line: int, column: int, known: dict[str, str]) -> None:
        self.s = source
        self.i = 0
        self.line = line
        self.first_column = column
        self.start = 0  # index of the first character of this line
        self.vars: dict[str, Text | tuple[Text, ...]] = {
            k: v if isinstance(v, Text) else Text(v) for k, v in known.items()
        }
        self.exports: dict[str, Text] = {}
        self.out: list[ShellCommand] = []
        self.now: list[Text] = []
        self.heredocs: list[tuple[str, bool]] = []
        self.total = 0
        self.depth = 0  # of defaults inside defaults

    def read(self) -> list[ShellCommand]:
        while self.i < len(self.s) and self.total < MAX_WORDS:
            c = self.s[self.i]
            if c == "\n":
                self._newline()
            elif c in " \t\r":
                self.i += 1
            elif c == "\\" and self.s[self.i + 1 : self.i + 2] in ("\n", "\r"):
                self._continued()
            elif c == "#":
                self._comment()
            elif not self._operator():
                self._word()
        self._end()
        return self.out

    def _column(self) -> int:
        return self.i - self.start + 1 + (self.first_column if self.start == 0 else 0)

    def _newline(self) -> None:
        self.i += 1
        self.line += 1
        self.start = self.i
        if self.heredocs:
            self._heredoc_bodies()
        else:
            self._end()

    def _continued(self) -> None:
        self.i = self.s.index("\n", self.i) + 1 if "\n" in self.s[self.i : self.i + 3] else self.i + 2
        self.line += 1
        self.start = self.i

    def _comment(self) -> None:
        end = self.s.find("\n", self.i)
        self.i = len(self.s) if end < 0 else end

    def _operator(self) -> bool:
        for op in _OPERATORS:
            if self.s.startswith(op, self.i):
                break
        else:
            return False
        if op == "<" and end_of_template(self.s, self.i) is not None:
            return False
        descriptor = _DESCRIPTOR.search(self.s, max(0, self.i - 8), self.i)
        self.i += len(op)
        if op in ("<<", "<<-"):
            self._skip_blanks()
            pieces = self._pieces(expand=False)
            word = "".join(p.value for p in pieces)
            if word:
                self.heredocs.append((word, op == "<<-"))
        elif op in (">", ">>", "<", "&>", ">&", "<&", "<<<"):
            self._skip_blanks()
            if descriptor is not None and self.now and self.now[-1] == descriptor[1]:
                self.now.pop()
            self._pieces(expand=False)  # the file of a redirection is no argument
        elif op == "(" and self.now and self.s[self.i : self.i + 1] == ")":
            self.i += 1  # a function's head
            self.now.clear()
        elif op != "2>&1":
            self._end()
        return True

    def _skip_blanks(self) -> None:
        while self.i < len(self.s) and self.s[self.i] in " \t":
            self.i += 1

    def _heredoc_bodies(self) -> None:
        for delimiter, tabs in self.heredocs:
            begin, first = self.i, self.line
            while self.i < len(self.s):
                end = self.s.find("\n", self.i)
                end = len(self.s) if end < 0 else end
                here = self.s[self.i : end]
                at_line_start = self.i
                self.i = min(end + 1, len(self.s))
                self.line += 1
                self.start = self.i
                if (here.lstrip("\t") if tabs else here).strip() == delimiter:
                    body = make_text(self.s[begin:at_line_start], first)
                    break
            else:
                body = make_text(self.s[begin:], first)
            self._end(body)
        self.heredocs.clear()

    def _word(self) -> None:
        line, column, begin = self.line, self._column(), self.i
        m = _ASSIGN.match(self.s, self.i)
        first = all(w in _KEYWORDS for w in self.now) or self.now[0] in _DECLARES
        if m and first and self.s[m.end() : m.end() + 1] == "(":
            self.i = m.end() + 1
            self._array(m[1], bool(m[2]))
            return
        pieces = self._pieces()
        if m and first:  # the value of an assignment is never split
            pieces = [p._replace(split=False) for p in pieces]
        if self.i == begin:  # nothing that a word can begin with
            self.i += 1
            return
        for word in _fields(pieces, line, column):
            self.total += 1
            self.now.append(word)

    def _array(self, name: str, more: bool) -> None:
        kept, self.now = self.now, []
        while self.i < len(self.s) and self.s[self.i] != ")":
            c = self.s[self.i]
            if c == "\n":
                self.i += 1
                self.line += 1
                self.start = self.i
            elif c in " \t\r":
                self.i += 1
            elif c == "\\" and self.s[self.i + 1 : self.i + 2] in ("\n", "\r"):
                self._continued()
            elif c == "#":
                self._comment()
            else:
                begin = self.i
                line, column = self.line, self._column()
                for word in _fields(self._pieces(), line, column):
                    self.now.append(word)
                    self.total += 1
                if self.i == begin:
                    self.i += 1
            if self.total > MAX_WORDS:
                break
        self.i += 1
        before = self.vars.get(name)
        head = before if isinstance(before, tuple) else (before,) if before else ()
        self.vars[name] = (*(head if more else ()), *self.now)[:MAX_WORDS]
        self.now = kept

    # ---- one word

    def _pieces(self, expand: bool = True) -> list[_WordPiece]:
        out: list[_WordPiece] = []
        while self.i < len(self.s):
            c = self.s[self.i]
            if c in " \t\r\n;|&()<>" and (c != "<" or end_of_template(self.s, self.i) is None):
                break
            if c == "\\":
                nxt = self.s[self.i + 1 : self.i + 2]
                if nxt in ("\n", "\r"):
                    self._continued()
                    continue
                out.append(_WordPiece(nxt, True, ()))
                self.i += 2
            elif c == "'":
                out.append(_WordPiece(self._until_quote("'"), True, ()))
            elif c == '"':
                out += self._double(expand)
            elif c == "$" and self.s[self.i + 1 : self.i + 2] == "'":
                self.i += 1
                out.append(_WordPiece(self._until_quote("'"), True, ()))
            elif c in "{$<" and (end := end_of_template(self.s, self.i)) is not None:
                out.append(_unknown(self.s[self.i : end], names(self.s[self.i : end])))
                self.i = end
            elif c in "$`" and expand:
                out.append(self._variable(quoted=False))
            else:
                m = re.compile(r"[^\s;|&()<>\\'\"$`{]+|\{" if expand else r"[^\s;|&()<>\\'\"]+").match(self.s, self.i)
                end = m.end() if m else self.i + 1
                out.append(_WordPiece(self.s[self.i : end], False, ()))
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

    def _double(self, expand: bool) -> list[_WordPiece]:
        out: list[_WordPiece] = []
        self.i += 1
        while self.i < len(self.s):
            c = self.s[self.i]
            if c == '"':
                self.i += 1
                return out or [_WordPiece("", True, ())]
            if c == "\\" and self.s[self.i + 1 : self.i + 2] in tuple('"\\$`\n'):
                if self.s[self.i + 1] != "\n":
                    out.append(_WordPiece(self.s[self.i + 1], True, ()))
                self._moved(self.i + 2)
            elif c in "$`" and expand:
                out.append(self._variable(quoted=True))
            else:
                m = re.compile(r'[^"\\$`]+').match(self.s, self.i)
                end = m.end() if m else self.i + 1
                out.append(_WordPiece(self.s[self.i : end], True, ()))
                self._moved(end)
        return out

    def _variable(self, quoted: bool) -> _WordPiece:
        s, i = self.s, self.i
        if s[i] == "`":
            end = s.find("`", i + 1)
            inside = s[i + 1 : end if end >= 0 else len(s)]
            self._moved((end if end >= 0 else len(s)) + 1)
            return _unknown("$(" + inside.strip()[:60] + ")")
        if s.startswith("$((", i) or s.startswith("$(", i):
            end = closing(s, i + 1)
            inside = s[i + 2 : end].strip()
            self._moved(end + 1)
            path = self._resolved(inside, quoted)
            if path is not None:
                return path
            return _unknown("$(" + " ".join(inside.split())[:60].rstrip(")") + ")")
        if s.startswith("${", i):
            end = closing_brace(s, i + 1)
            inside = s[i + 2 : end]
            self._moved(end + 1)
            return self._braced(inside, quoted)
        m = _NAME.match(s, i + 1)
        if m:
            self.i = m.end()
            return self._value(m[0], quoted)
        self.i += 2 if s[i + 1 : i + 2] in tuple("0123456789@*#?$!-") and i + 1 < len(s) else 1
        name = s[i + 1 : i + 2]
        given = self.vars.get("@")
        if isinstance(given, tuple) and name in ("@", "*"):
            return _WordPiece("", quoted, (), array=given)
        if isinstance(given, tuple) and name.isdigit() and name != "0":
            k = int(name) - 1
            return _WordPiece(given[k], quoted, given[k].unknown) if k < len(given) else _WordPiece("", quoted, ())
        return _unknown("$" + name) if name and name in "0123456789@*#?$!-" else _WordPiece("$", True, ())

    def _braced(self, inside: str, quoted: bool) -> _WordPiece:
        given = self.vars.get("@")
        if inside in ("@", "*") and isinstance(given, tuple):
            return _WordPiece("", quoted, (), array=given)
        array = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]", inside)
        if array:
            return self._value(array[1], quoted, whole=True)
        m = re.match(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=+?]|##?|%%?|//?|,,?|\^\^?|:|$)(.*)", inside, re.S)
        if not m:
            return _unknown("${" + inside[:60] + "}")
        name, op, rest = m[1], m[2], m[3]
        have = self.vars.get(name)
        if op in (":-", "-", ":=", "="):
            if have is not None and not (op[0] == ":" and have == ""):
                return self._value(name, quoted)
            if self.depth >= MAX_NESTED:
                return _unknown("${" + name + "}", (name,))
            inner = _ShellReader(rest, self.line, 0, {})
            inner.vars, inner.depth = self.vars, self.depth + 1
            made = _joined(inner._pieces_all())
            return _WordPiece(made, quoted, made.unknown, split=not quoted)
        if op in (":+", "+"):
            return _WordPiece("", quoted, ()) if have is None else _WordPiece(rest, quoted, (), split=not quoted)
        if op in ("", ":?", "?"):
            return self._value(name, quoted)
        if isinstance(have, Text) and not have.unknown and (op, rest) in _PATH_PARTS:
            return _WordPiece(_PATH_PARTS[op, rest](have)[:MAX_VALUE], quoted, (), split=not quoted)
        return _unknown("${" + name + "}")

    def _resolved(self, inside: str, quoted: bool) -> _WordPiece | None:
        """`$(realpath -- PATH)` of an absolute path is that path; links are not followed."""
        m = _RESOLVES.match(inside)
        if m is None or self.depth >= MAX_NESTED:
            return None
        inner = _ShellReader(inside[m.end() :], self.line, 0, {})
        inner.vars, inner.depth = self.vars, self.depth + 1
        pieces = inner._pieces()
        made = _joined(pieces)
        if inner.i < len(inner.s.rstrip()) or any(p.array is not None for p in pieces) or not made.startswith("/"):
            return None
        return _WordPiece(made, quoted, made.unknown, split=not quoted)

    def _pieces_all(self) -> list[_WordPiece]:
        """The whole text as the pieces of one word (the default inside `${X:-...}`)."""
        out: list[_WordPiece] = []
        while self.i < len(self.s):
            begin = self.i
            out += self._pieces()
            if self.i == begin or (self.i < len(self.s) and self.s[self.i] in " \t\r\n;|&()<>"):
                out.append(_WordPiece(self.s[self.i], True, ()))
                self.i += 1
        return out

    def _value(self, name: str, quoted: bool, whole: bool = False) -> _WordPiece:
        have = self.vars.get(name)
        if have is None:
            return _unknown("${" + name + "}", (name,))
        if isinstance(have, _LoopWords):
            return _WordPiece("${" + name + "}", True, (name,), array=tuple(have))
        if isinstance(have, tuple):
            if whole:
                return _WordPiece("", quoted, (), array=have)
            return _WordPiece(have[0], quoted, have[0].unknown) if have else _WordPiece("", quoted, ())
        return _WordPiece(have[:MAX_VALUE], quoted, have.unknown, split=not quoted)

    # ---- one command

    def _end(self, heredoc: Text | None = None) -> None:
        found, self.now = self.now, []
        while found and found[0] in _KEYWORDS:
            found = found[1:]
        if found and found[0] == "for":
            if len(found) > 1 and _NAME.fullmatch(found[1]):
                self.vars.pop(found[1], None)
                if len(found) > 5:
                    self.vars[str(found[1])] = _LoopWords(found[3:])
            return
        declared = bool(found) and found[0] in _DECLARES
        exporting = bool(found) and found[0] == "export"
        if declared:
            found = [w for w in found[1:] if not w.startswith("-")]
        own: dict[str, Text] = {}
        n = 0
        for word in found:
            m = _ASSIGN.match(word)
            if m:
                self._assign(m[1], word[m.end() :], word, bool(m[2]), own)
            elif declared and _NAME.fullmatch(word):
                value = self.vars.get(word)
                if isinstance(value, Text):
                    own[str(word)] = value
            else:
                break
            n += 1
        rest = [] if declared else found[n:]
        if not rest:
            for k, text in own.items():
                self.vars[k] = text
                if exporting or k in self.exports:
                    self.exports[k] = text
            if heredoc is None:
                return
        if rest or heredoc is not None:
            line = line_of(rest[0]) if rest else self.line
            visible = {k: v for k, v in self.vars.items() if isinstance(v, Text) and k in self.exports}
            self.out.append(ShellCommand(tuple(rest), own if rest else {}, {**self.exports, **visible}, heredoc, line))

    def _assign(self, name: str, value: str, at: Text, more: bool, own: dict[str, Text]) -> None:
        before = self.vars.get(name)
        if more and isinstance(before, Text):
            joined = make_text((before + value)[:MAX_VALUE], at.line, at.column, (*before.unknown, *at.unknown))
            own[name] = joined
        else:
            own[name] = make_text(value[:MAX_VALUE], at.line, at.column, at.unknown)


_RESOLVES = re.compile(r"(realpath|readlink\s+(-f|-m|-e))\s+(--\s+)?")
# `${path##*/}` and `${path%/*}`: file and folder
_PATH_PARTS = {
    ("##", "*/"): lambda path: path.rpartition("/")[2],
    ("%", "/*"): lambda path: path.rpartition("/")[0] if "/" in path else path,
}


def _unknown(shown: str, names: tuple[str, ...] | None = None) -> _WordPiece:
    return _WordPiece(shown, True, names or (shown,))


def _joined(pieces: list[_WordPiece]) -> Text:
    made: list[str] = []
    size = 0
    for word_piece in pieces:
        made.append(" ".join(word_piece.array) if word_piece.array is not None else word_piece.value)
        size += len(made[-1])
        if size > MAX_VALUE:
            break
    return make_text("".join(made)[:MAX_VALUE], unknown=tuple(dict.fromkeys(n for p in pieces for n in p.unknown)))


def _fields(pieces: list[_WordPiece], line: int, column: int) -> list[Text]:
    """The words that a run of pieces makes. Arrays and unquoted variables may be several: their first word joins what
    stands before them, their last what follows."""
    out: list[Text] = []
    now: list[_WordPiece] = []

    def end() -> None:
        if any(p.quoted or p.value for p in now):
            whole = [p for p in now if p.value]
            alone = whole[0].origin if len(whole) == 1 else None
            out.append(alone if alone is not None else _placed(now, line, column))
        now.clear()

    for word_piece in pieces:
        if word_piece.array is not None and word_piece.unknown and any(q.value for q in pieces if q is not word_piece):
            now.append(word_piece._replace(array=None))  # one word of a loop inside a longer word
        elif word_piece.array is not None:
            parts = [
                w if word_piece.quoted else make_text(x, w.line, w.column, w.unknown)
                for w in word_piece.array
                for x in ([w] if word_piece.quoted else w.split())
            ]
            for k, word in enumerate(parts):
                if k:
                    end()
                now.append(_WordPiece(word, word_piece.quoted, word.unknown, origin=word))
        elif word_piece.split and re.search(r"\s", word_piece.value):
            if word_piece.value[:1].isspace():
                end()
            for k, part in enumerate(word_piece.value.split()):
                if k:
                    end()
                now.append(_WordPiece(part, False, word_piece.unknown))
            if word_piece.value[-1:].isspace():
                end()
        else:
            now.append(word_piece)
    end()
    return out


def _placed(pieces: list[_WordPiece], line: int, column: int) -> Text:
    made = _joined(pieces)
    return make_text(made, line, column, made.unknown)


__all__ = ["ShellCommand", "split_commands", "split_words"]
