"""Rule files as plain data, with the line of every value, and what is left of a value without its faulty parts."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from advisor.catalog.flaws import ID, At, Flaw, find_flaws, list_words, strip_annotations
from advisor.catalog.load import find_line, format_place, make_plain
from advisor.catalog.roots import cache_dir, rule_files
from advisor.decoding import Json, decode_json
from advisor.errors import BadFile, BadInput
from advisor.files import MAX_NODES, compose_yaml, construct_yaml, read_cache, read_text, replace_file
from advisor.lint.faults import NO_FAULT, Code, Fault, nearest_names, one_line
from advisor.record import Value
from advisor.yaml_places import Located, find_doubled_keys, line_at, locate_node, value_at

NUMBER = 1  # for a number that is not there
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

    def unknown(
        self, at: At, what: str, name: str, known: Collection[str], near: Collection[str] = ()
    ) -> Iterator[Fault]:
        """A fault where a name is none of those that are known (of which `near` may be suggested; default: all)."""
        if name not in known:
            yield self.field("unknown_name", at, f"unknown {what} {name!r}", nearest_names(name, near or known))

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


class ReducedList(list[Any]):
    """A list that lost items: `origin` is where those that are left stood before."""

    origin: tuple[int, ...] = ()


class CompletedEntry(Json):
    """An entry that was filled up: `stand_ins` are the keys that it lacks in the file."""

    stand_ins: frozenset[str] = frozenset()

    @property
    def is_guess(self) -> bool:
        """Whether a number stands in, so that nothing that is computed from it means anything."""
        return any(isinstance(self[k], (int, float)) for k in self.stand_ins)


def prune_flaws(value: object, kind: type, found: list[Flaw] | None = None) -> Any:
    """`value` without its faulty parts, so that it decodes; None when nothing of it does. `found`: its flaws."""
    for _ in range(20):
        found = find_flaws(value, kind) if found is None else found
        if not found:
            return value
        value, found = _filled_up(value, found)
        places = {f.at for f in found}
        if () in places or value is None:
            return None
        value, found = _remove(value, places, ()), None
    return None


def with_key(entry: Json, key: str, value: object) -> Json:
    """The entry with another value of one key."""
    made: Json = _replaced(entry, (key,), value)
    return made


def is_stand_in(value: Any, at: At) -> bool:
    """Whether a path leads through a key that was filled in: what is reported about it follows from its absence."""
    for part in at:
        if isinstance(value, CompletedEntry) and part in value.stand_ins:
            return True
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return False
    return False


def _filled_up(value: object, found: list[Flaw]) -> tuple[object, list[Flaw]]:
    """The value with entries filled up that lack keys, and the flaws that are left."""
    left: list[Flaw] = []
    for flaw in found:
        entry, missing = value_at(value, *flaw.at), flaw.missing
        if missing is None or not missing.of_entry or not isinstance(entry, dict) or missing.name == ID:
            left.append(flaw)
            continue
        made = CompletedEntry(entry)
        made[missing.name] = _any_value(missing.type, str(entry.get(ID)))
        made.stand_ins = getattr(entry, "stand_ins", frozenset()) | {missing.name}
        value = _replaced(value, flaw.at, made)
    return value, left


def _any_value(t: inspect.Type, name: str) -> object:
    """A value of a type: the first word of a closed list, else the entry's own name."""
    words = list_words(t)
    if words:
        return words[0]
    t = strip_annotations(t)
    if isinstance(t, inspect.UnionType):
        return None if any(isinstance(x, inspect.NoneType) for x in t.types) else _any_value(t.types[0], name)
    if isinstance(t, inspect.StructType):
        return {f.encode_name: _any_value(f.type, name) for f in t.fields if f.required}
    if isinstance(t, inspect.StrType):
        return name
    if isinstance(t, inspect.BoolType):
        return False
    if isinstance(t, (inspect.IntType, inspect.FloatType)):
        return NUMBER
    return {} if isinstance(t, inspect.DictType) else []


def _replaced(value: Any, at: At, new: object) -> Any:
    """The value with another one at a path."""
    if not at:
        return new
    made = _like(value, dict(value) if isinstance(value, dict) else list(value))
    made[at[0]] = _replaced(value[at[0]], at[1:], new)
    return made


def _like(value: Any, made: Any) -> Any:
    """A changed copy that knows what the first one knew of itself."""
    if isinstance(value, CompletedEntry):
        made = CompletedEntry(made)
        made.stand_ins = value.stand_ins
    elif isinstance(value, ReducedList):
        made = ReducedList(made)
        made.origin = value.origin
    return made


def find_original_place(value: Any, at: At) -> At:
    """A path in a pruned value as it was before anything was taken out."""
    out: list[str | int] = []
    for part in at:
        here = value.origin[part] if isinstance(value, ReducedList) and isinstance(part, int) else part
        out.append(here)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
    return tuple(out)


def _remove(value: Any, places: set[At], at: At) -> Any:
    if isinstance(value, dict):
        return _like(value, {k: _remove(v, places, (*at, k)) for k, v in value.items() if (*at, k) not in places})
    if isinstance(value, list):
        left = [i for i in range(len(value)) if (*at, i) not in places]
        out = ReducedList(_remove(value[i], places, (*at, i)) for i in left)
        out.origin = tuple(value.origin[i] for i in left) if isinstance(value, ReducedList) else tuple(left)
        return out
    return value
