"""Shell text as commands: conditions, branches, loops, assignments, heredocs. Nothing is run.

Words are read by shell_words.py, tests by shell_tests.py; what branches leave behind is in shell_flow.py. All commands
are read, those of a branch that is not taken as well: a script that starts other servers in other modes holds them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from advisor.checks.read.located_text import Text, line_of, make_text
from advisor.checks.read.placeholders import end_of_template
from advisor.checks.read.shell_branches import BranchReader
from advisor.checks.read.shell_pieces import (
    JoinedText,
    LoopWords,
    ShellValue,
    drop_front,
    join_parts,
    join_pieces,
    split_fields,
)
from advisor.checks.read.shell_words import NAME, WordReader

MAX_WORDS = 20_000
MAX_ARITHMETIC = 300  # characters of `(( ))`
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
_BARE_NAME = re.compile(r"(?<![\w$}{])[A-Za-z_]\w*")  # of a variable inside `(( ))`
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
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


class _ShellReader(BranchReader):
    """The commands of a text: the words of the one that is read, and those that were found."""

    def __init__(self, source: str, line: int, column: int, known: Mapping[str, str]) -> None:
        variables: dict[str, ShellValue] = {k: v if isinstance(v, Text) else Text(v) for k, v in known.items()}
        super().__init__(source, line, column, variables)
        self.exported: set[str] = set()
        self.out: list[ShellCommand] = []
        self.now: list[Text] = []
        self.heredocs: list[tuple[str, bool]] = []
        self.total = 0
        self.filled_array = False  # by the command that is read

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

    def _newline(self) -> None:
        self.i += 1
        self.line += 1
        self.start = self.i
        if self.heredocs:
            self._heredoc_bodies()
        else:
            self._end()
            self.end_list("\n")

    def _operator(self) -> bool:
        for op in _OPERATORS:
            if self.s.startswith(op, self.i):
                break
        else:
            return False
        if op == "<" and end_of_template(self.s, self.i) is not None:
            return False
        if self._is_word(op):
            return True
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
            self.heads_function = True
        elif self.in_patterns() and op in ("|", ")", "("):
            found, self.now = self.now, []
            self.read_patterns(found, op == ")")
        elif op == ";;":
            self._end()
            self.end_case_branch()
        elif op != "2>&1":
            self._end()
            self.end_list(op)
        return True

    def _is_word(self, op: str) -> bool:
        """Takes an operator inside `[[ ]]` as a word, and `(( ))` as the words of one command."""
        if self.now and self.now[0] == "[[" and "]]" not in self.now:
            if op not in ("&&", "||", "(", ")", "<", ">", "|", "&"):
                return False
            self.now.append(make_text(op, self.line, self._column()))
        elif op == "(" and self.s.startswith("((", self.i) and (not self.now or self.now == ["for"]):
            line = self.s[self.i : self.i + MAX_ARITHMETIC].partition("\n")[0]
            if "))" not in line:
                return False
            op = line[: line.index("))") + 2]
            names = _BARE_NAME.sub(lambda m: m[0] if m[0] not in self.vars else "${" + m[0] + "}", op[2:-2])
            inner = WordReader(names, self.line, 0, self.vars)
            at = make_text("((", self.line, self._column())
            self.now += [at, join_pieces(inner._pieces_all()), make_text("))", self.line)]
        else:
            return False
        self.i += len(op)
        return True

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
        first = not self.now or self.now[0] in _DECLARES
        if m and first and self.s[m.end() : m.end() + 1] == "(":
            self.i = m.end() + 1
            self._array(m[1], bool(m[2]))
            return
        pieces = self._pieces()
        if m and first:  # the value of an assignment is never split
            pieces = [p._replace(split=False) for p in pieces]
        elif (self.now and self.now[0] == "[[") or self.in_subject():  # no word is split there, none is lost
            pieces = [p._replace(split=False, quoted=True) for p in pieces]
        if self.i == begin:  # nothing that a word can begin with
            self.i += 1
            return
        written = self.s[begin : self.i]
        if not self.now and written in _KEYWORDS and (written == "esac" or not self.in_patterns()):
            self.total += 1
            self.keywords.get(written, _nothing)()
            return
        for word in split_fields(pieces, line, column):
            self.total += 1
            self.now.append(word)
        if written == "in" and self.in_subject():
            found, self.now = self.now, []
            self.read_subject(found)

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
                for word in split_fields(self._pieces(), line, column):
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
        self.filled_array = True

    # ---- one command

    def _end(self, heredoc: Text | None = None) -> None:
        if not self.now and heredoc is None and not self.filled_array:
            return
        found, self.now, self.filled_array = self.now, [], False
        if self.in_subject() or self.in_patterns():
            return  # neither is a command
        self._command(found, heredoc)
        self.end_command(found)

    def _command(self, found: list[Text], heredoc: Text | None) -> None:
        if found and found[0] == "for":
            if len(found) > 1 and NAME.fullmatch(found[1]):
                self.vars.pop(found[1], None)
                if len(found) > 5:
                    self.vars[str(found[1])] = LoopWords(found[3:])
            return
        given = self.vars.get("@")
        if found and found[0] == "shift" and isinstance(given, tuple):
            count = found[1] if len(found) > 1 else "1"
            self.vars["@"] = given[int(count) if count.isdecimal() and len(count) < 4 else len(given) :]
        declared = bool(found) and found[0] in _DECLARES
        exporting = bool(found) and found[0] == "export"
        if declared:
            found = [w for w in found[1:] if not w.startswith("-")]
        own: dict[str, Text] = {}
        n = 0
        for word in found:
            m = _ASSIGN.match(word)
            if m:
                self._assign(m[1], drop_front(word, m.end()), bool(m[2]), own)
            elif declared and NAME.fullmatch(word):
                value = self.vars.get(word)
                if isinstance(value, Text):
                    own[str(word)] = value
            else:
                break
            n += 1
        rest = [] if declared else found[n:]
        if not rest:
            self.vars.update(own)
            if exporting:
                self.exported |= set(own)
            if heredoc is None:
                return
        exports = {k: v for k in self.exported if isinstance(v := self.vars.get(k), Text)}
        line = line_of(rest[0]) if rest else self.line
        self.out.append(ShellCommand(tuple(rest), own if rest else {}, exports, heredoc, line))

    def _assign(self, name: str, value: Text, more: bool, own: dict[str, Text]) -> None:
        before = self.vars.get(name)
        if more and isinstance(before, Text):
            joined = join_parts([*(before.parts if isinstance(before, JoinedText) else (before,)), value])
            joined.line, joined.column = value.line, value.column
            own[name] = joined
        else:
            own[name] = value


def _nothing() -> None:
    """For keywords that change nothing here."""


__all__ = ["ShellCommand", "split_commands", "split_words"]
