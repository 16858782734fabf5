"""Where a shell text branches: keywords, `&&` and `||`, patterns of `case`; which branch its next command is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from advisor.checks.read.located_text import Text, make_text
from advisor.checks.read.shell_flow import Block, Variables
from advisor.checks.read.shell_pieces import ShellValue
from advisor.checks.read.shell_tests import evaluate_test, is_test, matches_pattern
from advisor.checks.read.shell_words import WordReader

MAX_COPIED = 300_000  # variables that branches copy, in all; behind it branches are read one after the other
APART = ("function", "subshell", "piped")  # blocks whose assignments nothing behind them sees
MAX_ENDED = 50  # groups that one `exit` ends
LABEL = 80  # characters of a condition that are shown


class Status(Enum):
    """What a command comes to."""

    YES = "a test that holds"
    NO = "a test that does not"
    OPEN = "a test that the file does not decide"
    RAN = "a command, which mostly succeeds"


_OF_TEST = {True: Status.YES, False: Status.NO, None: Status.OPEN}
_HOLDS = {Status.YES: True, Status.NO: False, Status.OPEN: None, Status.RAN: None}
_GATES: dict[str, dict[Status, bool | None]] = {
    "&&": {Status.YES: True, Status.NO: False, Status.OPEN: None, Status.RAN: True},
    "||": {Status.YES: False, Status.NO: True, Status.OPEN: None, Status.RAN: None},
}


class BranchReader(WordReader):
    """Blocks that are open, and what the list of commands (`a && b || c`) has come to."""

    def __init__(self, source: str, line: int, column: int, variables: dict[str, ShellValue]) -> None:
        super().__init__(source, line, column, variables)
        self.blocks: list[Block] = []
        self.open_kinds: Counter[str] = Counter()
        self.copied = 0
        self.status: Status | None = None  # of the list so far
        self.said = ""  # the tests of the list, as they are shown
        self.connector = ""  # `&&` or `||` before the next command
        self.negated = False
        self.heads_function = False
        self.keywords: dict[str, Callable[[], None]] = {
            "if": self._if, "then": self._then, "elif": self._elif, "else": self._else, "fi": self._fi,
            "case": self._case, "esac": self._esac, "{": self._group, "}": self._end_group, "!": self._not,
            "while": self.open_loop, "until": self.open_loop, "done": self._done, "function": self._function,
        }  # fmt: skip

    def in_patterns(self) -> bool:
        """Whether the next words are patterns of a `case`."""
        return bool(self.blocks) and self.blocks[-1].kind == "case" and self.blocks[-1].part == "pattern"

    def in_subject(self) -> bool:
        """Whether the next words are what a `case` looks at."""
        return bool(self.blocks) and self.blocks[-1].kind == "case" and self.blocks[-1].part == "subject"

    # ---- blocks

    def _open(self, kind: str) -> Block:
        block = Block(kind, self._copy(), plain=self.copied >= MAX_COPIED or kind in ("group", "loop"))
        self.blocks.append(block)
        self.open_kinds[kind] += 1
        self._start_list()
        return block

    def _copy(self) -> Variables:
        self.copied += len(self.vars)
        return self.vars

    def _unwind(self, kind: str) -> Block | None:
        """The innermost block of a kind, with what is open inside it closed; None where there is none."""
        if not self.open_kinds[kind]:
            return None
        while self.blocks[-1].kind != kind:
            self._close()
        return self.blocks[-1]

    def _close(self) -> None:
        block = self.blocks.pop()
        self.open_kinds[block.kind] -= 1
        if block.kind in APART:
            self.vars = block.before
        else:
            block.end_branch(self.vars)
            self.vars = block.close(self.vars)
        self.copied += block.cost
        if block.kind == "function":
            self.in_function -= 1
            self.end_function(block)
        self._start_list(Status.RAN)

    def _branch(self, block: Block, holds: bool | None, label: str) -> None:
        self.copied += len(self.vars)
        self.vars = block.begin_branch(self.vars, holds, " ".join(label.split())[:LABEL])
        self._start_list()

    def _if(self) -> None:
        self._open("if")

    def _then(self) -> None:
        block = self._unwind("if")
        if block is not None and block.part == "condition":
            self._branch(block, block.condition, f"if {block.said}")

    def _elif(self) -> None:
        block = self._unwind("if")
        if block is not None:
            block.end_branch(self.vars)
            self.vars = block.start_again(self.vars)
        self._start_list()

    def _else(self) -> None:
        block = self._unwind("if")
        if block is not None:
            first = block.label
            block.end_branch(self.vars)
            self._branch(block, True, f"else of {first}")

    def _fi(self) -> None:
        if self._unwind("if") is not None:
            self._close_compound()

    def _close_compound(self) -> None:
        """Closes a block, and what it is the only command of (`a || if ...; fi`)."""
        self._close()
        while self.blocks and self.blocks[-1].kind == "listed":
            gate, before = self.blocks[-1].gate, self.blocks[-1].list_before
            self._close()
            self.status = before if gate is False else Status.OPEN if gate is None else Status.RAN

    def _case(self) -> None:
        self._open("case").part = "subject"

    def _esac(self) -> None:
        if self._unwind("case") is not None:
            self._close_compound()

    def open_apart(self, kind: str) -> Block:
        """A block whose assignments end with it: a function's body, `( ... )`, what stands behind `|`."""
        block = self._open(kind)
        self.vars = dict(block.before)
        return block

    def open_loop(self) -> None:
        self._open("loop")

    def _done(self) -> None:
        if self._unwind("loop") is not None:
            self._close_compound()

    def _function(self) -> None:
        self.heads_function = True

    def close_subshell(self) -> bool:
        """`)`; False where none is open."""
        if self._unwind("subshell") is None:
            return False
        self._close_compound()
        return True

    def end_function(self, block: Block) -> None:
        """What a reader of commands does where a function's body ends."""

    def _group(self) -> None:
        if self.blocks and self.blocks[-1].kind == "listed":
            self.blocks[-1].kind = "group"
            self.open_kinds.update({"listed": -1, "group": 1})
            self._start_list()
        elif self.heads_function:
            self.in_function += 1
            self.open_apart("function")
        else:
            self._open("group")
        self.heads_function = False

    def _end_group(self) -> None:
        if self.open_kinds["group"] or self.open_kinds["function"]:
            while self.blocks[-1].kind not in ("group", "function"):
                self._close()
            self._close_compound()

    def _not(self) -> None:
        self.negated = not self.negated

    def read_subject(self, words: Sequence[Text]) -> None:
        """`$MODE in`: what a `case` looks at."""
        block = self.blocks[-1]
        block.subject = words[0] if len(words) == 2 else make_text("", unknown=("?",) if len(words) > 2 else ())
        block.part = "pattern"

    def read_patterns(self, words: Sequence[Text], last: bool) -> None:
        """Patterns of one branch of a `case`; `last` where its commands follow."""
        block = self.blocks[-1]
        subject = block.subject if block.subject is not None else make_text("", unknown=("?",))
        for word in words:
            matches = matches_pattern(subject, word)
            block.matched = True if matches or block.matched else None if matches is None else block.matched
            block.said = f"{block.said}|{word}" if block.said else str(word)
        if last:
            self._branch(block, block.matched, f"case {subject} in {block.said})")
            block.matched, block.said = False, ""

    def end_case_branch(self) -> None:
        """`;;`."""
        block = self._unwind("case")
        if block is not None and block.part == "body":
            block.end_branch(self.vars)
            self.vars = block.start_again(self.vars)
            block.part = "pattern"
        self._start_list()

    # ---- lists

    def _start_list(self, status: Status | None = None) -> None:
        self.status, self.said, self.connector, self.negated = status, "", "", False

    def end_command(self, words: Sequence[Text]) -> None:
        """A command is read: what the list and the condition around it come to, and whether a branch ends with it."""
        status = Status.RAN
        if is_test(words):
            holds = evaluate_test(words)
            status = _OF_TEST[holds if holds is None or not self.negated else not holds]
        elif self.negated:
            status = Status.OPEN
        gate: bool | None = True
        if self.connector and self.status is not None:
            gate = _GATES[self.connector][self.status]
        said = ("! " if self.negated else "") + " ".join(words)[:LABEL]
        self.said = f"{self.said} {self.connector} {said}"[: 2 * LABEL] if self.said else said
        self.negated = False
        if gate is None:
            status = Status.OPEN
        if gate is not False or self.status is None:
            self.status = status
        if words and (words[0] in ("exit", "return") or (words[0] == "exec" and len(words) > 1)):
            self._end_of_branch()
        self.connector = ""
        if self.blocks and self.blocks[-1].kind == "listed":
            kept = self.status, self.said
            self._close()
            self.status, self.said = kept
        self._note_condition()

    def _end_of_branch(self) -> None:
        for block in self.blocks[: -MAX_ENDED - 1 : -1]:
            if block.kind in APART:
                return
            block.ended = True
            if not block.plain:
                return

    def _end_pipeline(self) -> None:
        if self.blocks and self.blocks[-1].kind == "piped" and self.status is not None:
            kept = self.status, self.said
            self._close()
            self.status, self.said = kept
            self._note_condition()

    def _note_condition(self) -> None:
        block = self.blocks[-1] if self.blocks else None
        if block is not None and block.kind == "if" and block.part == "condition" and self.status is not None:
            block.condition, block.said = _HOLDS[self.status], self.said

    def end_list(self, operator: str) -> None:
        """An operator or the end of a line behind a command."""
        if operator in _GATES:
            self._end_pipeline()
            self.connector = operator
            gate = _GATES[operator][self.status] if self.status is not None else True
            if gate is not True and self.copied < MAX_COPIED:
                said = f"{self.said} {operator}"
                kept = self.status, self.said
                block = self._open("listed")
                block.list_before = kept[0]
                self._branch(block, gate, said)
                self.status, self.said = kept
                self.connector = operator
        elif operator in ("|", "|&"):
            said = f"{self.said} |"
            if not (self.blocks and self.blocks[-1].kind == "piped") and self.copied < MAX_COPIED:
                self.open_apart("piped")
            self.status, self.said = None, said
        elif not self.connector:
            self._end_pipeline()
            self._start_list(self.status if operator == "\n" and self.status is None else None)
