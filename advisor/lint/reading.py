"""Rule files as plain data, with the line of every value. What is wrong with a file does not hide the others."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.catalog.flaws import At
from advisor.catalog.load import find_line, format_place, make_plain
from advisor.catalog.roots import cache_dir, rule_files
from advisor.decoding import decode_json
from advisor.errors import BadFile, BadInput
from advisor.files import MAX_NODES, compose_yaml, construct_yaml, read_cache, read_text, replace_file
from advisor.lint.faults import NO_FAULT, Code, Fault, one_line
from advisor.lint.pruning import find_original_place, is_stand_in
from advisor.record import Value
from advisor.yaml_places import Located, find_doubled_keys, line_at, locate_node, value_at

CACHE_LIMIT = 64 * 2**20  # bytes of the data of all rule files


class RuleFile(Value, frozen=True):
    """One file. `name` is its path in the folder of rules, `shown` what people see, `data` is None when unreadable."""

    root: Path
    name: str
    shown: str
    text: str
    data: Any
    places: Located
    readable: bool = True

    def line(self, at: At) -> int | None:
        """The line of the value at `at`, or of the nearest thing around it."""
        if self.places is None and self.data:  # only the data was kept
            return find_line(self.root / self.name, at)
        return line_at(self.places, at)

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
        message = f"{self.label}: {problem}" if self.label else problem
        return self.file.fault(code, message, (*self.at, *find_original_place(self.data, at)), near)

    def written(self, at: At) -> Any:
        """What stands in the file at `at` in the entry, faulty or not; None where nothing does."""
        return value_at(self.file.data, *self.at, *at)

    def twice(self, names: Iterable[tuple[At, str]]) -> Iterator[Fault]:
        """A fault for each of these names, which stand at these places, that stood before."""
        seen: set[str] = set()
        for at, name in names:
            if name in seen:
                yield self.field("duplicate_name", at, f"{name} is listed twice")
            seen.add(name)

    def field(self, code: Code, at: At, problem: str, near: Iterable[str] = ()) -> Fault:
        """A fault of the value at `at` in the entry, with its place in words before the problem."""
        return self.fault(
            code, f"{format_place(find_original_place(self.data, at))}: {problem}" if at else problem, at, near
        )


def read_folder(root: Path, asked: Container[Path] | None = None) -> Iterator[tuple[RuleFile, list[Fault]]]:
    """Every YAML file of a folder of rules, each with what is wrong with it as a file.

    Of files that are not `asked` (None: all are) only the data is read, without lines: from the user's cache where they
    have not changed, since reading a megabyte of YAML takes a second.
    """
    kept = _PlainFiles() if asked is not None else None
    for name, stat in rule_files(root):
        if kept is None or asked is None or root / name in asked:
            yield _read(root, name)
        else:
            yield kept.read(root, name, (stat.st_size, stat.st_mtime_ns)), []
    if kept is not None:
        kept.keep()


class _PlainFiles:
    """Data of rule files by path, with size and time of the file that it was read from."""

    def __init__(self) -> None:
        self.path = cache_dir() / "lint-files.json"
        try:
            self.known = decode_json(read_cache(self.path, CACHE_LIMIT) or b"{}", dict[str, tuple[int, int, Any]])
        except (msgspec.MsgspecError, ValueError):
            self.known = {}
        self.changed = False

    def read(self, root: Path, name: str, stamp: tuple[int, int]) -> RuleFile:
        """A file's data without lines; None and not readable where it is no YAML."""
        path = str(root / name)
        kept = self.known.get(path)
        if kept is not None and kept[:2] == stamp:
            return RuleFile(root, name, shorten_path(root / name), "", kept[2], None)
        file, _ = _read(root, name)
        if file.readable:
            self.known[path] = (*stamp, file.data)
            self.changed = True
        return file

    def keep(self) -> None:
        """Write what was read; a cache that cannot be written is no error."""
        if self.changed:
            with contextlib.suppress(BadInput):
                replace_file(self.path, msgspec.json.encode({k: v for k, v in self.known.items() if Path(k).exists()}))


def _read(root: Path, name: str) -> tuple[RuleFile, list[Fault]]:
    path = root / name
    where = shorten_path(path)
    file = RuleFile(root, name, where, "", None, None, readable=False)
    try:
        text = read_text(path)
        file = replace(file, text=text)
        node = compose_yaml(text, path)
        data, places = construct_yaml(node, path), locate_node(node, path, MAX_NODES)
    except BadFile as e:
        return file, [Fault(file=where, line=e.at_line, code="unreadable", message=one_line(e.problem))]
    faults: list[Fault] = []
    file = replace(file, places=places, readable=True)
    for key in find_doubled_keys(file.places):
        message = f"`{key}` appears twice in one mapping; YAML keeps the last without a word"
        faults.append(Fault(file=where, line=key.line, code="duplicate_key", message=message))
    plain = make_plain(data, lambda problem, at: faults.append(file.fault("wrong_value", problem, at)))
    return replace(file, data=plain), faults


def shorten_path(path: Path) -> str:
    """The path from the current folder where the file lies below it, else the whole path."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
