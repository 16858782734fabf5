"""Branches of shell text: which one is taken where the file decides it, and what variables hold behind them.

Each branch is read with its own variables. Behind a branch that is taken for sure they stay; behind one that is not,
they are dropped; where the file does not decide, what the branches differ in stands under a condition (guards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.checks.read.guards import Guard, add_guard
from advisor.checks.read.located_text import Text
from advisor.checks.read.shell_pieces import JoinedText, LoopWords, ShellValue, join_parts

Variables = dict[str, ShellValue]


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
        self.said = ""  # the condition, or the patterns, as they are shown
        self.label = ""
        self.ended = False  # by `exit`, `return` or `exec`: nothing behind it sees its variables
        self.outcomes: list[tuple[Variables, Guard | None]] = []
        self.subject: Text | None = None
        self.matched: bool | None = False  # of the patterns of one branch
        self.cost = 0  # items of arrays that were compared at its end
        self.body: tuple[str, int, int, int] = ("", 0, 0, 0)  # of a function: name, where and on what line, commands
        self.list_before: Any = None  # the status of the list that a "listed" block belongs to

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
        self.part, self.condition, self.said = "condition", None, ""
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
