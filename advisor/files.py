"""Bounded readers: nothing from outside is read without a limit on size, depth and counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import BadFile, BadInput, NotText

if TYPE_CHECKING:
    import msgspec

MAX_TEXT = 16 * 2**20
MAX_DEPTH = 64
MAX_NODES = 500_000


def read_bytes(path: Path | str, limit: int = MAX_TEXT) -> bytes:
    """The whole file, at most `limit` bytes. Raises BadFile (absent, unreadable, not a file, too large)."""
    p = Path(path)
    try:
        if p.is_dir():
            if os.access(p, os.R_OK | os.X_OK):
                raise BadFile(p, "is a directory, a file is expected")
        elif p.exists() and not p.is_file():  # a FIFO or device would block or never end
            raise BadFile(p, "is not a regular file")
        with p.open("rb") as f:
            data = f.read(limit + 1)
    except FileNotFoundError:
        raise BadFile(p, "no such file") from None
    except OSError as e:
        raise BadFile(p, f"cannot be read: {e.strerror or e}") from None
    if len(data) > limit:
        raise BadFile(p, f"is larger than {limit // 2**20} MiB, which no file of this kind needs")
    return data


def read_cache(path: Path, limit: int) -> bytes | None:
    """A cache file of this user's, whole; None where there is none, another user wrote it (a cache folder may be
    shared), or it is larger than `limit` bytes."""
    try:
        with path.open("rb") as f:
            if hasattr(os, "geteuid") and os.fstat(f.fileno()).st_uid != os.geteuid():
                return None
            data = f.read(limit + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= limit else None


Stamp = tuple[tuple[str, int, int], ...]


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file of our own whole: a reader sees the earlier one or this one. Raises BadInput."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as e:
        raise BadInput(f"{path}: cannot be written: {e.strerror or e}") from None


@contextmanager
def hold_alone(path: Path) -> Iterator[Path]:
    """The file for this process and thread alone while it is read, changed and written: others wait, by a lock on a
    file next to it, which goes with its holder. Raises BadInput."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f".{path.name}.lock").open("a") as held:
            _lock(held.fileno())
            yield path
    except OSError as e:
        raise BadInput(f"{path}: cannot be written: {e.strerror or e}") from None


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # waits ten seconds
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def write_cache(path: Path, data: bytes) -> None:
    """Writes a file of a cache whole, for this user alone. One that cannot be written is no error."""
    import tempfile

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(data)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)


def write_report(path: Path | str, text: str) -> None:
    """Writes a file that the user asked for. Raises BadFile where it cannot be written, or where a link would put it
    outside of the tree."""
    from advisor.tree import describe_link, leads_out

    if leads_out(path):
        raise BadFile(path, describe_link(path))
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as e:
        raise BadFile(path, f"cannot be written: {getattr(e, 'strerror', None) or e}") from None


def stamp_files(path: Path) -> Stamp:
    """Name, bytes and time of change (ns) of a file, or of each file in a folder: another text means other content.

    What was read from a file is kept under it, so that a file that is written again is read again. Empty where there is
    nothing to see.
    """
    try:
        seen = [(e.name, e.stat()) for e in os.scandir(path)] if path.is_dir() else [(path.name, path.stat())]
    except OSError:
        return ()
    return tuple(sorted((name, s.st_size, s.st_mtime_ns) for name, s in seen))


def read_text(path: Path | str, limit: int = MAX_TEXT) -> str:
    """The file as UTF-8 text. Raises BadFile, NotText."""
    return decode_text(read_bytes(path, limit), path)


def decode_text(data: bytes, where: object) -> str:
    """The bytes as UTF-8 text. Raises NotText."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise NotText(where, f"is not UTF-8 text (byte {e.start})") from None


def nesting(text: bytes, limit: int = MAX_DEPTH) -> int:
    """Deepest bracket nesting of JSON text outside strings; stops counting above `limit`."""
    depth = deepest = 0
    inside = escaped = False
    for c in text:
        if inside:
            if escaped:
                escaped = False
            elif c == 0x5C:
                escaped = True
            elif c == 0x22:
                inside = False
        elif c == 0x22:
            inside = True
        elif c in (0x7B, 0x5B):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > limit:
                break
        elif c in (0x7D, 0x5D):
            depth -= 1
    return deepest


def parse_json(data: bytes | msgspec.Raw, where: object, kind: Any = Any) -> Any:
    """JSON with bounded nesting, as a value of a type where one is named. Raises BadFile."""
    import msgspec

    from advisor.decoding import decode_json

    try:
        return decode_json(data, kind)
    except RecursionError:
        raise BadFile(where, "is nested too deeply to be a real file") from None
    except UnicodeDecodeError:
        raise BadFile(where, "is not valid JSON: a text in it is not UTF-8") from None
    except msgspec.ValidationError as e:
        raise BadFile(where, f"is not what it looks like: {e}") from None
    except msgspec.DecodeError as e:
        if nesting(bytes(data)) > MAX_DEPTH:
            raise BadFile(where, "is nested too deeply to be a real file") from None
        raise BadFile(where, f"is not valid JSON: {e}") from None


def read_json(path: Path | str, limit: int = MAX_TEXT) -> Any:
    """A JSON file of at most `limit` bytes. Raises BadFile."""
    return parse_json(read_bytes(path, limit), path)


def parse_yaml(text: str, where: object) -> Any:
    """One YAML document by the safe loader, with bounded depth, node count and alias expansion. Raises BadFile."""
    return construct_yaml(compose_yaml(text, where), where)


def construct_yaml(node: Any, where: object) -> Any:
    """The plain values of a node tree that `compose_yaml` made. Raises BadFile."""
    if node is None:
        return None
    import yaml

    loader = yaml_loader()("")
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as e:
        raise make_yaml_error(where, e) from None
    except (ValueError, RecursionError, TypeError) as e:
        raise BadFile(where, f"holds a value that cannot be read: {e}") from None
    finally:
        loader.dispose()


def yaml_loader() -> Any:
    """PyYAML's safe loader, in C where it is built that way."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml_depth(text: str, where: object) -> Any:
    """Composing recurses in C, and deep nesting kills the interpreter: depth is checked on the event stream first.
    Gives the loader to compose with: libyaml's refuses an anchor that is set again, which YAML 1.2 allows (3.2.2.2).
    Raises BadFile, YAMLError."""
    import yaml

    depth, anchors, again = 0, set[str](), False
    for event in yaml.parse(text, Loader=yaml_loader()):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_DEPTH:
                mark: Any = event.start_mark
                raise BadFile(where, "is nested too deeply to be a real file", mark.line + 1)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            anchors.clear()
        anchor = None if isinstance(event, yaml.AliasEvent) else getattr(event, "anchor", None)
        again = again or anchor in anchors
        if anchor is not None:
            anchors.add(anchor)
    return make_resetting_loader() if again else yaml_loader()


@cache
def make_resetting_loader() -> Any:
    """PyYAML's loader in Python, for which an alias means the latest node of its anchor."""
    import yaml

    class ResettingLoader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if not self.check_event(yaml.AliasEvent):
                self.anchors.pop(self.peek_event().anchor, None)  # type: ignore[no-untyped-call]
            return super().compose_node(parent, index)

    return ResettingLoader


def compose_yaml(text: str, where: object) -> Any:
    """The node tree of one YAML document (nodes carry their line), bounded. Raises BadFile."""
    import yaml

    try:
        node = yaml.compose(text, Loader=check_yaml_depth(text, where))
    except yaml.YAMLError as e:
        raise make_yaml_error(where, e) from None
    except RecursionError:
        raise BadFile(where, "is nested too deeply to be a real file") from None
    if node is not None:
        _bound(node, where)
    return node


def _bound(root: Any, where: object) -> None:
    """Refuse YAML whose expansion (aliases counted as often as they are used) is too deep or too large."""
    import yaml

    count = 0
    stack: list[tuple[Any, int]] = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise BadFile(where, "is nested too deeply (or refers to itself)", node.start_mark.line + 1)
        if count > MAX_NODES:
            raise BadFile(where, f"expands to more than {MAX_NODES:,} values")
        if isinstance(node, yaml.MappingNode):
            for k, v in node.value:
                stack.append((k, depth + 1))
                stack.append((v, depth + 1))
        elif isinstance(node, yaml.SequenceNode):
            stack.extend((v, depth + 1) for v in node.value)


def read_yaml(path: Path | str, limit: int = MAX_TEXT) -> Any:
    """A YAML file of at most `limit` bytes, one document. Raises BadFile with the line."""
    return parse_yaml(read_text(path, limit), path)


def make_yaml_error(where: object, e: Any, first_line: int = 1) -> BadFile:
    """PyYAML's error as a BadFile with its line; `first_line` is the number of the text's first."""
    mark = getattr(e, "problem_mark", None)
    problem = getattr(e, "problem", None) or str(e).splitlines()[0]
    line = mark.line + first_line if mark is not None else None
    if "nesting depth" in problem:  # PyYAML has a bound of its own from 6.0.4 on
        return BadFile(where, "is nested too deeply to be a real file", line)
    return BadFile(where, f"is not valid YAML: {problem}", line)
