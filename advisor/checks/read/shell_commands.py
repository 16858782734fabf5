"""What one command of a shell text does: assignments, exports, loops, calls of the script's own functions."""

from __future__ import annotations

import re

from msgspec.structs import replace

from advisor.checks.read.located_text import Text, line_of, make_text
from advisor.checks.read.shell_branches import BranchReader
from advisor.checks.read.shell_flow import Block
from advisor.checks.read.shell_pieces import JoinedText, LoopWords, ShellValue, drop_front, join_parts
from advisor.checks.read.shell_words import NAME
from advisor.record import Value

MAX_CALLS = 300  # of a script's own functions
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


class CommandReader(BranchReader):
    """The words of the command that is read, and the commands that were found."""

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

    def read(self) -> list[ShellCommand]:
        """All commands of the text."""
        raise NotImplementedError  # the shell's grammar is that of a subclass

    def end_function(self, block: Block) -> None:
        name, begin, line, first = block.body
        self.functions[name] = ShellFunction(self.s[begin : self.keyword_at], line, (first, len(self.out)))

    def _may_call(self, name: str) -> bool:
        function = self.functions.get(name)
        if function is None or self.depth >= MAX_CALLS_DEEP or self.calls >= MAX_CALLS:
            return False
        return self.called_characters + len(function.body) <= MAX_CALLED

    def _call(self, found: list[Text]) -> None:
        """A function of the script is called: its body, with its own words."""
        function = self.functions[str(found[0])]
        self.called.add(str(found[0]))
        self.calls += 1
        inner = type(self)(function.body, function.line, 0, {})
        inner.vars = {**self.vars, "@": tuple(found[1:])}
        inner.depth, inner.calls, inner.copied, inner.total = self.depth + 1, self.calls, self.copied, self.total
        inner.called_characters = self.called_characters + len(function.body)
        inner.functions = {k: replace(f, read=(0, 0)) for k, f in self.functions.items()}
        inner.exported, inner.called = set(self.exported), self.called
        self.out += inner.read()
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
