"""Shell text as commands: conditions, branches, loops, assignments, heredocs. Nothing is run.

Words are read by shell_words.py, tests by shell_tests.py; what branches leave behind is in shell_flow.py. All commands
are read, those of a branch that is not taken as well: a script that starts other servers in other modes holds them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from advisor.checks.read.located_text import Text, make_text
from advisor.checks.read.placeholders import end_of_template
from advisor.checks.read.shell_commands import ASSIGN, DECLARES, CommandReader, ShellCommand
from advisor.checks.read.shell_pieces import (
    ShellValue,
    join_pieces,
    split_fields,
)
from advisor.checks.read.shell_words import NAME, WordReader

MAX_WORDS = 60_000
MAX_CALLS = 300  # of a script's own functions
MAX_CALLS_DEEP = 8
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
_SIGNS = re.compile(r"[*?\[]")
_DESCRIPTOR = re.compile(r"(?:^|[\s;|&()])([0-9]+)\Z")  # digits that touch a redirection: `2> log`, not `2 > log`
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


def split_commands(
    source: str,
    line: int = 1,
    column: int = 0,
    known: Mapping[str, str] | None = None,
    positional: Sequence[Text] | None = None,
) -> list[ShellCommand]:
    """The simple commands of a shell text, in order. `known` are variables that are set before it, `positional` what
    `$1` and `$@` stand for (None = not known)."""
    variables: dict[str, ShellValue] = {k: v if isinstance(v, Text) else Text(v) for k, v in (known or {}).items()}
    reader = _ShellReader(source, line, column, variables)
    if positional is not None:
        reader.vars["@"] = tuple(positional)
    return reader.read()


def split_words(source: str, line: int = 1, column: int = 0, known: Mapping[str, str] | None = None) -> list[Text]:
    """All words of a text that is one command (a compose `command:`, a `cmd:`)."""
    return [w for c in split_commands(source.replace("\n", " "), line, column, known) for w in c.words]


class _ShellReader(CommandReader):
    """A text, character by character: blanks, operators, words, heredocs."""

    def __init__(self, source: str, line: int, column: int, variables: dict[str, ShellValue]) -> None:
        super().__init__(source, line, column, variables)
        self.heredocs: list[tuple[str, bool]] = []

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
        unread = [f.read for name, f in self.functions.items() if name in self.called]
        return [c for i, c in enumerate(self.out) if not any(first <= i < last for first, last in unread)]

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
        elif op == "(" and (self.now or self.heads_function) and self.s[self.i : self.i + 1] == ")":
            self.i += 1  # a function's head
            if self.now:
                self.function_name = str(self.now[-1])
            self.now.clear()
            self.heads_function = True
        else:
            self._separator(op)
        return True

    def _separator(self, op: str) -> None:
        """What ends a command."""
        if self.in_patterns() and op in ("|", ")", "("):
            found, self.now = self.now, []
            self.read_patterns(found, op == ")")
        elif op == ";;":
            self._end()
            self.end_case_branch()
        elif op != "2>&1":
            begins = op == "(" and not self.now
            self._end()
            if begins:
                self.heads_function = False
                self.open_apart("subshell")
            elif op == ")":
                self.end_list(";")
                self.close_subshell()
            else:
                self.end_list(op)

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
        m = ASSIGN.match(self.s, self.i)
        first = not self.now or self.now[0] in DECLARES
        if m and first and self.s[m.end() : m.end() + 1] == "(":
            self.i = m.end() + 1
            self._array(m[1], bool(m[2]))
            return
        pieces = self._pieces()
        if m and first:  # the value of an assignment is never split
            pieces = [replace(p, split=False) for p in pieces]
        elif (self.now and self.now[0] == "[[") or self.in_subject() or self.in_patterns():
            if self.in_patterns() or self.now[-1:] in (["=="], ["="], ["!="]):  # in quotes no sign is a pattern's
                pieces = [replace(p, value=_SIGNS.sub(r"[\g<0>]", p.value)) if p.quoted else p for p in pieces]
            pieces = [replace(p, split=False, quoted=True) for p in pieces]  # no word is split there, none is lost
        if self.i == begin:  # nothing that a word can begin with
            self.i += 1
            return
        written = self.s[begin : self.i]
        if self.heads_function and not self.now and written != "{" and NAME.fullmatch(written.replace("-", "_")):
            self.function_name = written  # `function NAME {`
            return
        if not self.now and written in _KEYWORDS and (written == "esac" or not self.in_patterns()):
            self.total += 1
            self.keyword_at = begin
            self.keywords.get(written, _nothing)()
            if self.blocks and self.blocks[-1].kind == "function" and written == "{":
                self.blocks[-1].body = (self.function_name, self.i, self.line, len(self.out))
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


def _nothing() -> None:
    """For keywords that change nothing here."""


__all__ = ["ShellCommand", "split_commands", "split_words"]
