"""Shell text as commands: conditions, branches, loops, assignments, heredocs. Nothing is run.

Words are read by words.py; which branch is taken and what it leaves behind is in branches.py. All commands are read,
those of a branch that is not taken as well: a script that starts other servers in other modes holds them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from advisor.checks.read.shell.branches import Block, BranchReader
from advisor.checks.read.shell.words import (
    NAME,
    JoinedText,
    LoopWords,
    ShellValue,
    WordReader,
    drop_front,
    join_parts,
    join_pieces,
    split_fields,
)
from advisor.checks.read.unknown_words import end_of_template
from advisor.errors import Unread
from advisor.record import Value
from advisor.yaml_places import Text, line_of, make_text

MAX_WORDS = 60_000
COPIED_ITEMS = 1_000  # items of an array that are appended to count as one word
MAX_ARITHMETIC = 300  # characters of `(( ))`
_KEYWORDS = frozenset((
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "case", "esac", "{", "}", "!", "time",
    "function",
))  # fmt: skip
_BARE_NAME = re.compile(r"(?<![\w$}{])[A-Za-z_]\w*")  # of a variable inside `(( ))`
_SIGNS = re.compile(r"[*?\[]")
_DESCRIPTOR = re.compile(r"(?:^|[\s;|&()])([0-9]+)\Z")  # digits that touch a redirection: `2> log`, not `2 > log`
_OPERATORS = (
    "&&", "||", ";;", "|&", ">>", "<<<", "<<-", "<<", "2>&1", ">&", "<&", "&>", ";", "|", "&", "(", ")", ">", "<",
)  # fmt: skip
MAX_CALLS = 2_000  # of a script's own functions
MAX_CALLS_DEEP = 8
MAX_CALLED = 2**20  # characters that calls read, in all
ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
DECLARES = frozenset(["export", "declare", "local", "readonly", "typeset"])


class ShellFunction(Value, frozen=True):
    """The body of a function, and where the commands stand that were found in it where it is defined."""

    body: str
    line: int
    read: tuple[int, int]


class ShellCommand(Value, frozen=True):
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
    `$1` and `$@` stand for (None = not known). Raises Unread, with what was found, for a text that is too long."""
    variables: dict[str, ShellValue] = {k: v if isinstance(v, Text) else Text(v) for k, v in (known or {}).items()}
    reader = _ShellReader(source, line, column, variables)
    if positional is not None:
        reader.vars["@"] = tuple(positional)
    found = reader.read()
    if reader.gave_up is not None:
        reader.gave_up.found = found
        raise reader.gave_up
    return found


def split_words(source: str, line: int = 1, column: int = 0, known: Mapping[str, str] | None = None) -> list[Text]:
    """All words of a text that is one command (a compose `command:`, a `cmd:`)."""
    return [w for c in split_commands(source.replace("\n", " "), line, column, known) for w in c.words]


class _ShellReader(BranchReader):
    """A text, character by character: blanks, operators, words, heredocs; the words of the command that is read, and
    the commands that were found."""

    def __init__(self, source: str, line: int, column: int, variables: dict[str, ShellValue]) -> None:
        super().__init__(source, line, column, variables)
        self.exported: set[str] = set()
        self.out: list[ShellCommand] = []
        self.now: list[Text] = []
        self.total = 0  # words
        self.filled_array = False  # by the command that is read
        self.keyword_at = 0  # index of the keyword that was read last
        self.function_name = ""
        self.functions: dict[str, ShellFunction] = {}
        self.called: set[str] = set()
        self.locals: set[str] = set()
        self.calls = self.called_characters = 0
        self.heredocs: list[tuple[str, bool]] = []
        self.gave_up: Unread | None = None  # why nothing more is read
        self.inside: tuple[str, ...] = ()  # functions that are carried out

    def read(self) -> list[ShellCommand]:
        try:
            self._read_all()
            self._end()
        except Unread as e:
            self.gave_up = e
        unread = [f.read for name, f in self.functions.items() if name in self.called]
        return [c for i, c in enumerate(self.out) if not any(first <= i < last for first, last in unread)]

    def _read_all(self) -> None:
        while self.i < len(self.s):
            c = self.s[self.i]
            if self.total >= MAX_WORDS:
                raise Unread(f"it has more than {MAX_WORDS:,} words", self.line)
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
            if written in self.keywords:
                self.keywords[written]()
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
        self.total += len(head) // COPIED_ITEMS if more else 0
        self.vars[name] = (*(head if more else ()), *self.now)[:MAX_WORDS]
        self.now = kept
        self.filled_array = True

    def end_function(self, block: Block) -> None:
        name, begin, line, first = block.body
        self.functions[name] = ShellFunction(self.s[begin : self.keyword_at], line, (first, len(self.out)))

    def _may_call(self, name: str) -> bool:
        function = self.functions.get(name)
        if function is None or (self.depth >= MAX_CALLS_DEEP and name in self.inside):
            return False
        longest = self.called_characters + len(function.body) > MAX_CALLED
        if longest or self.depth >= MAX_CALLS_DEEP or self.calls >= MAX_CALLS:
            raise Unread("its functions call each other too often", self.line)
        return True

    def _call(self, found: list[Text]) -> None:
        """A function of the script is called: its body, with its own words."""
        function = self.functions[str(found[0])]
        self.called.add(str(found[0]))
        self.calls += 1
        inner = _ShellReader(function.body, function.line, 0, {})
        inner.vars = {**self.vars, "@": tuple(found[1:])}
        inner.depth, inner.calls, inner.copied, inner.total = self.depth + 1, self.calls, self.copied, self.total
        inner.called_characters = self.called_characters + len(function.body)
        inner.functions = {k: replace(f, read=(0, 0)) for k, f in self.functions.items()}
        inner.exported, inner.called, inner.inside = set(self.exported), self.called, (*self.inside, str(found[0]))
        self.out += inner.read()
        if inner.gave_up is not None:
            raise inner.gave_up
        self.calls, self.copied, self.total = inner.calls, inner.copied, inner.total
        self.called_characters = inner.called_characters
        self.exported |= inner.exported
        self.vars.update({k: v for k, v in inner.vars.items() if k not in inner.locals and k != "@"})

    def _end(self, heredoc: Text | None = None) -> None:
        if not self.now and heredoc is None and not self.filled_array:
            return
        found, self.now, self.filled_array = self.now, [], False
        if self.in_subject() or self.in_patterns():
            return  # neither is a command
        self._command(found, heredoc)
        self.end_command(found)

    def _builtin(self, found: list[Text]) -> bool:
        """Carries out what changes variables without being an assignment; False for any other command."""
        name = str(found[0]) if found else ""
        if name == "for":
            if len(found) > 1 and NAME.fullmatch(found[1]):
                self.vars.pop(found[1], None)
                if len(found) > 5:
                    self.vars[str(found[1])] = LoopWords(found[3:])
            self.open_loop()
        elif self._may_call(name):
            self._call(found)
        elif name == "set" and "--" in found[1:3]:
            self.vars["@"] = tuple(found[found.index(make_text("--")) + 1 :])
        else:
            given = self.vars.get("@")
            if name == "shift" and isinstance(given, tuple):
                count = found[1] if len(found) > 1 else "1"
                self.vars["@"] = given[int(count) if count.isdecimal() and len(count) < 4 else len(given) :]
            for word in found[1:] if name == "read" else ():
                if NAME.fullmatch(word):
                    self.vars[str(word)] = make_text(f"$({word})", word.line, 0, (f"$({word})",))
            return False
        return True

    def _command(self, found: list[Text], heredoc: Text | None) -> None:
        if self._builtin(found):
            return
        declares_local = found[:1] in (["local"], ["declare"], ["typeset"])
        declared = bool(found) and found[0] in DECLARES
        exporting = bool(found) and found[0] == "export"
        if declared:
            found = [w for w in found[1:] if not w.startswith("-")]
        own: dict[str, Text] = {}
        n = 0
        for word in found:
            m = ASSIGN.match(word)
            if declares_local:
                self.locals.add(str(m[1] if m else word))
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
        if own and rest and str(rest[0]) in self.functions:
            kept = {k: v for k in own if (v := self.vars.get(k)) is not None}
            self.vars.update(own)
            self._builtin(rest)
            for k in own:
                self.vars.pop(k, None)
            self.vars.update(kept)
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
