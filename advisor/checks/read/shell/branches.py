"""Where a shell text branches: keywords, `&&` and `||`, patterns of `case`; which branch its next command is in.

Each branch is read with its own variables. Behind a branch that is taken for sure they stay; behind one that is not,
they are dropped; where the file does not decide, what the branches differ in stands under a condition (`Guard`).
Tests (`[ -n "$X" ]`, `[[ $N -gt 1 ]]`, `(( N > 1 ))`) are evaluated as far as their words are known. Nothing is run.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from advisor.checks.read.shell.words import JoinedText, LoopWords, ShellValue, WordReader, join_parts
from advisor.checks.read.unknown_words import Guard, add_guard
from advisor.unknowns import all_hold, any_holds
from advisor.yaml_places import Text, make_text

MAX_COPIED = 300_000  # variables that branches copy, in all; behind it branches are read one after the other
APART = ("function", "subshell", "piped")  # blocks whose assignments nothing behind them sees
MAX_ENDED = 50  # groups that one `exit` ends
LABEL = 80  # characters of a condition that are shown
Variables = dict[str, ShellValue]
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-gt": operator.gt, "-ge": operator.ge, "-lt": operator.lt,
    "-le": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt,
    "<=": operator.le,
}  # fmt: skip
_CLOSES = {"[": "]", "[[": "]]"}
_SET = re.compile(r"\$\{?([A-Za-z_]\w*|[1-9])\}?")  # one whole variable
# variables that the platform or the shell sets, whatever a file says
_SET_OUTSIDE = re.compile(
    r"^(SLURM|KUBERNETES|NOMAD|RAY|OMPI|PMI|MPI|LWS|POD|NODE|CUDA|NVIDIA|HIP|ROCR|GITHUB|CONDA|XDG|LSB|PBS|COLAB)_"
    r"|^(HOME|USER|PATH|PWD|SHELL|TERM|HOSTNAME|LOGNAME|LANG|CI|VIRTUAL_ENV|LD_LIBRARY_PATH|EUID|UID|BASH_SOURCE|DISPLAY)$"
)
MOST_WORDS = 40
MOST_PATTERN = 200  # characters


class Block:
    """An `if`, a `case`, a group, a function's body, or one command behind `&&` or `||` ("listed")."""

    def __init__(self, kind: str, variables: Variables, plain: bool = False) -> None:
        self.kind = kind
        self.plain = plain  # its variables are those around it
        self.part = "condition"  # condition, body; of `case`: subject, pattern, body
        self.before = variables  # as they are where the branches begin
        self.begun = False
        self.taken: bool | None = False  # whether an earlier branch is; None = the file does not say
        self.gate: bool | None = True  # whether this branch is
        self.condition: bool | None = None  # what the commands of the condition come to
        self.shown = ""  # the condition, or the patterns, as they are shown
        self.label = ""
        self.ended = False  # by `exit`, `return` or `exec`: nothing behind it sees its variables
        self.outcomes: list[tuple[Variables, Guard | None]] = []
        self.subject: Text | None = None
        self.matched: bool | None = False  # of the patterns of one branch
        self.cost = 0  # items of arrays that were compared at its end
        self.body: tuple[str, int, int, int] = ("", 0, 0, 0)  # of a function: name, where and on what line, commands
        self.list_before: Status | None = None  # the status of the list that a "listed" block belongs to

    def begin_branch(self, variables: Variables, holds: bool | None, label: str) -> Variables:
        """A branch whose condition comes to `holds`; its variables."""
        self.part, self.ended, self.label = "body", False, label
        if not self.begun:
            self.before, self.begun = variables, True
        if self.taken is True or holds is False:
            self.gate = False
        else:
            self.gate = True if holds and self.taken is False else None
        if holds is True:
            self.taken = True
        elif holds is None and self.taken is False:
            self.taken = None
        return variables if self.plain else dict(self.before)

    def end_branch(self, variables: Variables) -> None:
        """Keeps what the branch that ends here left behind."""
        if self.part != "body" or self.plain:
            return
        if self.gate is False:  # what only such a branch sets is empty
            for name in variables.keys() - self.before.keys():
                self.before[name] = () if isinstance(variables[name], tuple) else Text("")
            return
        if not self.ended:
            self.outcomes.append((variables, Guard(self.label) if self.gate is None else None))
        elif self.gate is True:
            self.outcomes.append((self.before, None))  # the rest of the file is read all the same

    def start_again(self, variables: Variables) -> Variables:
        """The variables that the condition of the next branch sees."""
        self.part, self.condition, self.shown = "condition", None, ""
        return variables if self.plain else dict(self.before)

    def close(self, variables: Variables) -> Variables:
        """The variables behind all branches."""
        if self.plain or not self.begun:
            return variables
        outcomes = list(self.outcomes)
        if self.taken is not True:  # no branch at all may be taken
            outcomes.insert(0, (self.before, None))
        merged = merge_variables(self.before, outcomes)
        self.cost = sum(len(v) for v in merged.values() if isinstance(v, tuple))
        return merged


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
        self.shown = ""  # the tests of the list, as they are shown
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
            self._branch(block, block.condition, f"if {block.shown}")

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
            block.shown = f"{block.shown}|{word}" if block.shown else str(word)
        if last:
            self._branch(block, block.matched, f"case {subject} in {block.shown})")
            block.matched, block.shown = False, ""

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
        self.status, self.shown, self.connector, self.negated = status, "", "", False

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
        shown = ("! " if self.negated else "") + " ".join(words)[:LABEL]
        self.shown = f"{self.shown} {self.connector} {shown}"[: 2 * LABEL] if self.shown else shown
        self.negated = False
        if gate is None:
            status = Status.OPEN
        if gate is not False or self.status is None:
            self.status = status
        if words and (words[0] in ("exit", "return") or (words[0] == "exec" and len(words) > 1)):
            self._end_of_branch()
        self.connector = ""
        if self.blocks and self.blocks[-1].kind == "listed":
            kept = self.status, self.shown
            self._close()
            self.status, self.shown = kept
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
            kept = self.status, self.shown
            self._close()
            self.status, self.shown = kept
            self._note_condition()

    def _note_condition(self) -> None:
        block = self.blocks[-1] if self.blocks else None
        if block is not None and block.kind == "if" and block.part == "condition" and self.status is not None:
            block.condition, block.shown = _HOLDS[self.status], self.shown

    def end_list(self, operator: str) -> None:
        """An operator or the end of a line behind a command."""
        if operator in _GATES:
            self._end_pipeline()
            self.connector = operator
            gate = _GATES[operator][self.status] if self.status is not None else True
            if gate is not True and self.copied < MAX_COPIED:
                shown = f"{self.shown} {operator}"
                kept = self.status, self.shown
                block = self._open("listed")
                block.list_before = kept[0]
                self._branch(block, gate, shown)
                self.status, self.shown = kept
                self.connector = operator
        elif operator in ("|", "|&"):
            shown = f"{self.shown} |"
            if not (self.blocks and self.blocks[-1].kind == "piped") and self.copied < MAX_COPIED:
                self.open_apart("piped")
            self.status, self.shown = None, shown
        elif not self.connector:
            self._end_pipeline()
            self._start_list(self.status if operator == "\n" and self.status is None else None)


def merge_variables(before: Variables, outcomes: Sequence[tuple[Variables, Guard | None]]) -> Variables:
    """What variables hold where one of several outcomes comes about."""
    if not outcomes:
        return before
    if len(outcomes) == 1:
        return outcomes[0][0]
    out: Variables = {}
    any_guard = next((g for _, g in reversed(outcomes) if g is not None), Guard("a condition"))
    for name in dict.fromkeys(k for variables, _ in outcomes for k in variables):
        values = [(variables.get(name), guard or Guard(f"not {any_guard}")) for variables, guard in outcomes]
        first = values[0][0]
        if first is not None and all(v is first or _alike(v, first) for v, _ in values):
            out[name] = first
        elif any(isinstance(v, tuple) for v, _ in values):
            out[name] = _merge_arrays(values)
        else:
            out[name] = _merge_texts(before.get(name), [(v, g) for v, g in values if isinstance(v, Text)])
    return out


def _alike(one: ShellValue | None, other: ShellValue | None) -> bool:
    if isinstance(one, tuple) or isinstance(other, tuple):
        return (
            isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other)
            and all(a is b or _alike(a, b) for a, b in zip(one, other, strict=True))
        )  # fmt: skip
    return one is not None and other is not None and str(one) == str(other) and one.unknown == other.unknown


def _merge_arrays(values: Sequence[tuple[ShellValue | None, Guard]]) -> ShellValue:
    loops = [v for v, _ in values if isinstance(v, LoopWords)]
    if loops:
        return loops[-1]
    arrays = [(v if isinstance(v, tuple) else (v,) if v is not None else (), guard) for v, guard in values]
    shared = 0
    while all(len(a) > shared and _alike(a[shared], arrays[0][0][shared]) for a, _ in arrays):
        shared += 1
    rest = [add_guard(word, guard) for a, guard in arrays for word in a[shared:]]
    return (*arrays[0][0][:shared], *rest)


def _merge_texts(before: ShellValue | None, values: Sequence[tuple[Text, Guard]]) -> Text:
    """Texts that go on from what was there before keep it as known; of others one stands for all, under its
    condition."""
    if isinstance(before, Text) and before and all(v.startswith(before) for v, _ in values):
        kept = before.parts if isinstance(before, JoinedText) else (before,)
        added = [(v[len(before) :], v, guard) for v, guard in values]
        if all(not rest or rest[0].isspace() or before[-1].isspace() for rest, _, _ in added):
            parts = [add_guard(_like(f" {rest}", v), guard) for rest, v, guard in added if rest]
            made = join_parts([*kept, *parts])
            made.line, made.column = before.line, before.column
            return made
    distinct = list({str(v): (v, guard) for v, guard in values if v}.values())
    if any(v.startswith("-") or any(c.isspace() for c in v) for v, _ in distinct):  # words, not one value
        made = join_parts([add_guard(_like(f" {v}", v), guard) for v, guard in distinct])
        made.line, made.column = distinct[0][0].line, distinct[0][0].column
        return made
    value, guard = values[-1]
    return add_guard(value, guard)


def _like(value: str, other: Text) -> Text:
    made = Text(value)
    made.line, made.column, made.unknown = other.line, other.column, other.unknown
    return made


def is_test(words: Sequence[str]) -> bool:
    """Whether a command is nothing but a test."""
    return bool(words) and words[0] in ("[", "[[", "test", "((", "true", "false", ":")


def evaluate_test(words: Sequence[Text]) -> bool | None:
    """Whether a test holds as the file stands; None where it does not say. A variable that nothing sets is empty for
    `-n` and `-z`, as it is for `${X:-default}`."""
    head = str(words[0])
    if head in ("true", ":", "false"):
        return head != "false"
    if head == "((":
        return _arithmetic(words[1:-1])
    inside = list(words[1:])
    if head in _CLOSES:
        if not inside or inside[-1] != _CLOSES[head]:
            return None
        inside.pop()
    if len(inside) > MOST_WORDS or "(" in inside or ")" in inside:
        return None
    return _evaluate_or(inside, head == "[[")


def _split(words: Sequence[Text], *operators: str) -> list[list[Text]]:
    out: list[list[Text]] = [[]]
    for word in words:
        if word in operators:
            out.append([])
        else:
            out[-1].append(word)
    return out


def _evaluate_or(words: Sequence[Text], patterns: bool) -> bool | None:
    return any_holds([_evaluate_and(part, patterns) for part in _split(words, "||", "-o")])


def _evaluate_and(words: Sequence[Text], patterns: bool) -> bool | None:
    return all_hold([_evaluate_single(part, patterns) for part in _split(words, "&&", "-a")])


def _evaluate_single(words: Sequence[Text], patterns: bool) -> bool | None:
    if words and words[0] == "!":
        inner = _evaluate_single(words[1:], patterns)
        return None if inner is None else not inner
    if len(words) == 1:
        return _is_given(words[0])
    if len(words) == 2 and words[0] in ("-n", "-z"):
        given = _is_given(words[1])
        return None if given is None else given == (words[0] == "-n")
    if len(words) != 3 or words[0].unknown or words[2].unknown:
        return None
    left, sign, right = words
    if sign in ("=", "==", "!="):
        same = matches_pattern(left, right) if patterns else left == right
        return None if same is None else same == (sign != "!=")
    return _compare(left, sign, right) if sign.startswith("-") else None


def _is_given(word: Text) -> bool | None:
    if word.unknown:
        alone = _SET.fullmatch(word)
        return False if alone and not _SET_OUTSIDE.search(alone[1]) else None
    return bool(word)


def _compare(left: str, sign: str, right: str) -> bool | None:
    numbers = [int(x) if re.fullmatch(r"-?\d{1,18}", x.strip()) else None for x in (left, right)]
    compare = _NUMBERS.get(sign)
    if compare is None or numbers[0] is None or numbers[1] is None:
        return None
    return compare(numbers[0], numbers[1])


def _arithmetic(words: Sequence[Text]) -> bool | None:
    if any(w.unknown for w in words):
        return None
    m = re.fullmatch(r"\s*(-?\d{1,18})\s*(==|!=|>=|<=|>|<)\s*(-?\d{1,18})\s*", " ".join(words))
    return _compare(m[1], m[2], m[3]) if m else None


def matches_pattern(value: Text, pattern: Text) -> bool | None:
    """Whether a value matches a pattern of `case` or `[[ == ]]`; None where either is not known."""
    if pattern == "*":
        return True
    if value.unknown or pattern.unknown or len(pattern) > MOST_PATTERN or pattern.count("*") > 4:
        return None
    if re.search(r"[@+?!*]\(", pattern):  # extended patterns
        return None
    return fnmatch.fnmatchcase(value, pattern.replace("[^", "[!"))
