"""Rule files as plain data, with the line of every value. What is wrong with a file does not hide the others."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.catalog.load import format_place
from advisor.catalog.roots import rule_files
from advisor.errors import BadFile
from advisor.files import compose_yaml, construct_yaml, read_text
from advisor.lint.faults import NO_FAULT, Code, Fault, one_line
from advisor.lint.pruning import find_original_place, is_stand_in, value_at
from advisor.lint.rule_types import At
from advisor.record import Value


class RuleFile(Value, frozen=True):
    """One file. `name` is its path in the folder of rules, `shown` what people see, `data` is None when unreadable."""

    root: Path
    name: str
    shown: str
    text: str
    data: Any
    node: Any
    readable: bool = True

    def line(self, at: At) -> int | None:
        """The line of the value at `at`, or of the nearest thing around it."""
        if self.node is None:
            return None
        node, line = self.node, int(self.node.start_mark.line) + 1
        for part in at:
            child = _child(node, part)
            if child is None:
                return line
            line, node = child
        return line

    def lines(self) -> dict[At, int]:
        """The line of every value, by its path."""
        out: dict[At, int] = {}
        if self.node is not None:
            _note_lines(self.node, (), int(self.node.start_mark.line) + 1, out)
        return out

    def fault(self, code: Code, problem: str, at: At = (), near: Iterable[str] = ()) -> Fault:
        """A fault of the value at `at`."""
        return Fault(file=self.shown, line=self.line(at), code=code, message=one_line(problem), near=tuple(near))


class EntryPlace(Value, frozen=True):
    """Where an entry stands, and what it is called in messages. `data` is the entry without what is faulty in it."""

    file: RuleFile
    at: At
    label: str = ""
    data: Any = None

    def fault(self, code: Code, problem: str, at: At = (), near: Iterable[str] = ()) -> Fault:
        """A fault of the entry, or of the value at `at` in its data; the message begins with the entry's name.

        None (`NO_FAULT`) where the value was filled in: that it is missing has been stated.
        """
        if is_stand_in(self.data, at):
            return NO_FAULT
        said = f"{self.label}: {problem}" if self.label else problem
        return self.file.fault(code, said, (*self.at, *find_original_place(self.data, at)), near)

    def written(self, at: At) -> Any:
        """What stands in the file at `at` in the entry, faulty or not; None where nothing does."""
        return value_at(self.file.data, (*self.at, *at))

    def field(self, code: Code, at: At, problem: str, near: Iterable[str] = ()) -> Fault:
        """A fault of the value at `at` in the entry, with its place in words before the problem."""
        return self.fault(
            code, f"{format_place(find_original_place(self.data, at))}: {problem}" if at else problem, at, near
        )


def _child(node: Any, part: str | int) -> tuple[int, Any] | None:
    """Line and node of one key of a mapping or one item of a list."""
    pairs = node.value if isinstance(node.value, list) else []
    if isinstance(part, int):
        if part >= len(pairs) or isinstance(pairs[part], tuple):
            return None
        return int(pairs[part].start_mark.line) + 1, pairs[part]
    for pair in pairs:
        if isinstance(pair, tuple) and str(pair[0].value) == part:
            return int(pair[0].start_mark.line) + 1, pair[1]
    return None


def _note_lines(node: Any, at: At, line: int, out: dict[At, int]) -> None:
    out[at] = line
    for i, child in enumerate(node.value if isinstance(node.value, list) else ()):
        if isinstance(child, tuple):
            _note_lines(child[1], (*at, str(child[0].value)), int(child[0].start_mark.line) + 1, out)
        else:
            _note_lines(child, (*at, i), int(child.start_mark.line) + 1, out)


def read_folder(root: Path) -> Iterator[tuple[RuleFile, list[Fault]]]:
    """Every YAML file of a folder of rules, each with what is wrong with it as a file."""
    for name, _ in rule_files(root):
        yield _read(root, name)


def _read(root: Path, name: str) -> tuple[RuleFile, list[Fault]]:
    path = root / name
    where = shorten_path(path)
    file = RuleFile(root, name, where, "", None, None, readable=False)
    try:
        text = read_text(path)
        file = replace(file, text=text)
        node = compose_yaml(text, path)
        data = construct_yaml(node, path)
    except BadFile as e:
        return file, [Fault(file=where, line=e.at_line, code="unreadable", message=one_line(e.problem))]
    faults: list[Fault] = []
    file = replace(file, node=node, readable=True)
    for key, line in _twice(node):
        said = f"`{key}` stands twice in one mapping; YAML keeps the last without a word"
        faults.append(Fault(file=where, line=line, code="duplicate_key", message=said))
    return replace(file, data=_plain(data, (), file, faults)), faults


def shorten_path(path: Path) -> str:
    """The path from the current folder where the file lies below it, else the whole path."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _twice(node: Any) -> Iterator[tuple[str, int]]:
    """Keys that one mapping holds twice, with their lines."""
    stack, seen_nodes = [node], set()
    while stack:
        node = stack.pop()
        if node is None or not isinstance(node.value, list) or id(node) in seen_nodes:
            continue
        seen_nodes.add(id(node))  # an anchored node is reached by every alias
        seen: set[str] = set()
        for child in node.value:
            if not isinstance(child, tuple):
                stack.append(child)
                continue
            key = str(child[0].value)
            if key in seen:
                yield key, int(child[0].start_mark.line) + 1
            seen.add(key)
            stack.append(child[1])


def _plain(value: Any, at: At, file: RuleFile, faults: list[Fault]) -> Any:
    """The value as JSON has it (dates become text), as the catalogue reads it; what it does not take is a fault."""
    if isinstance(value, dict):
        out = {}
        for key, inner in value.items():
            if isinstance(key, bool):
                said = f"a key reads as {str(key).lower()}: quote it"
                faults.append(file.fault("wrong_value", said, (*at, "on" if key else "off")))
                continue
            word = key if isinstance(key, str) else str(key)
            out[word] = _plain(inner, (*at, word), file, faults)
        return out
    if isinstance(value, list):
        return [_plain(inner, (*at, i), file, faults) for i, inner in enumerate(value)]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    said = f"{format_place(at)}: a value of a kind that rules do not use ({type(value).__name__})"
    faults.append(file.fault("wrong_value", said, at))
    return None
