"""Branches of shell text: which one is taken, and what variables hold behind them.

Each branch is read with its own variables. Behind a branch that is taken for sure they stay; behind one that is not,
they are dropped; where the file does not decide, what the branches differ in stands under a condition (`Guard`).
Tests (`[ -n "$X" ]`, `[[ $N -gt 1 ]]`, `(( N > 1 ))`) are evaluated as far as their words are known. Nothing is run.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Sequence
from enum import Enum

from advisor.checks.read.shell.words import JoinedText, LoopWords, ShellValue, join_parts
from advisor.checks.read.unknown_words import Guard, add_guard
from advisor.unknowns import all_hold, any_holds
from advisor.yaml_places import Text, TextList

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


class Status(Enum):
    """What a command comes to."""

    YES = "a test that holds"
    NO = "a test that does not"
    OPEN = "a test that the file does not decide"
    RAN = "a command, which mostly succeeds"


OF_TEST: dict[bool | None, Status] = {True: Status.YES, False: Status.NO, None: Status.OPEN}
HOLDS = {Status.YES: True, Status.NO: False, Status.OPEN: None, Status.RAN: None}
GATES: dict[str, dict[Status, bool | None]] = {
    "&&": {Status.YES: True, Status.NO: False, Status.OPEN: None, Status.RAN: True},
    "||": {Status.YES: False, Status.NO: True, Status.OPEN: None, Status.RAN: None},
}


class Branches:
    """The branches of one `if`, `case` or list (`a && b`), and what they leave behind."""

    def __init__(self, variables: Variables) -> None:
        self.before = variables
        self.taken: bool | None = False  # whether an earlier one is; None = the file does not say
        self.outcomes: list[tuple[Variables, Guard | None]] = []

    def choose(self, holds: bool | None) -> bool | None:
        """Whether the next branch is taken, whose condition comes to `holds`."""
        taken = False if self.taken is True or holds is False else True if holds and self.taken is False else None
        self.taken = True if holds else None if holds is None and self.taken is False else self.taken
        return taken

    def keep(self, variables: Variables, taken: bool | None, ended: bool, label: str) -> None:
        """What a branch leaves behind; nothing where it `ended` with `exit`, `return` or `exec`."""
        if taken is False:  # what only such a branch sets is empty
            for name in variables.keys() - self.before.keys():
                self.before[name] = () if isinstance(variables[name], tuple) else Text("")
        elif not ended:
            self.outcomes.append((variables, Guard(label) if taken is None else None))
        elif taken:
            self.outcomes.append((self.before, None))  # the rest of the file is read all the same

    def merge(self) -> Variables:
        """The variables behind all branches."""
        none_taken = [] if self.taken is True else [(self.before, None)]
        return merge_variables(self.before, [*none_taken, *self.outcomes])


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


def _split(words: Sequence[Text], *operators: str) -> list[TextList]:
    out: list[TextList] = [[]]
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
