"""Text that knows where it stands, and YAML as plain dicts and lists of it.

Every scalar stays the text that was written (no dates, no octal numbers, no booleans made of `no`), with line and
column for findings. Size, depth and alias expansion are bounded before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from advisor.errors import BadFile

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 64
MAX_NODES = 200_000
MAX_DOCUMENTS = 2_000
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
_STAND_IN = re.compile(r"TEMPLATE\(([\w.]+)\)")  # what stands for a template while a text is read as YAML
_ONLY_TEMPLATE = re.compile(r"^\s*(?:-\s*)?(?:\{\{-?.*?-?\}\}|\{%-?.*?-?%\})\s*(?:#.*)?$")


class Text(str):
    """A string with its place (line and column from 1; 0 = none) and the variables in it that nothing resolves."""

    line: int = 0
    column: int = 0
    unknown: tuple[str, ...] = ()
    block: bool = False  # a literal block: its text begins on the following line


class Map(dict[str, Any]):
    """A mapping with the line it begins on. Keys are Text."""

    line: int = 0
    doubled: tuple[Text, ...] = ()  # keys that stand there again; the last one counts


class Seq(list[Any]):
    """A list with the line it begins on."""

    line: int = 0


def make_text(value: str, line: int = 0, column: int = 0, unknown: tuple[str, ...] = (), block: bool = False) -> Text:
    """`value` at a place."""
    made = Text(value)
    made.line, made.column, made.unknown, made.block = line, column, unknown, block
    return made


def place_like(value: str, other: str) -> Text:
    """`value` at the place of `other`, with its unknown variables."""
    return make_text(value, line_of(other), getattr(other, "column", 0), getattr(other, "unknown", ()))


def line_of(value: object) -> int:
    """The line of a value, 0 where it has none."""
    return int(getattr(value, "line", 0))


def parse_documents(source: str, where: object, first_line: int = 1) -> list[Any]:
    """All documents of a YAML text as Map, Seq and Text (None for null).

    Templates (`{{ ... }}`, `{% ... %}`) that keep the text from being YAML are taken out: a line of nothing else is
    left blank, elsewhere the template stays as text that nothing resolves. Raises BadFile.
    """
    try:
        return _documents(source, where, first_line)
    except BadFile as e:
        if "{{" not in source and "{%" not in source:
            return _repaired(source, where, first_line, e)
    return _documents(replace_templates(source), where, first_line)


def lines_of(source: str) -> list[str]:
    """The lines of a text as editors count them: only `\\n`, `\\r\\n` and `\\r` end one."""
    out = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return out[:-1] if out and not out[-1] else out


def _repaired(source: str, where: object, first_line: int, fault: BadFile) -> list[Any]:
    """Documents whose first line alone stands further left (pasted that way). Raises the first fault for any other."""
    out: list[str] = []
    moved = False
    block: list[str] = []
    for line in [*source.splitlines(), "---"]:
        if line.startswith("---"):
            straight, changed = _straight(block)
            out += straight
            moved = moved or changed
            out.append(line)
            block = []
        else:
            block.append(line)
    if not moved:
        raise fault
    return _documents("\n".join(out[:-1]), where, first_line)


def _straight(lines: list[str]) -> tuple[list[str], bool]:
    """Lines of one document with all but the first moved left as far as they go together."""
    begin = next((i for i, x in enumerate(lines) if x.strip() and not x.lstrip().startswith("#")), 0)
    rest = [x for x in lines[begin + 1 :] if x.strip() and not x.lstrip().startswith("#")]
    step = min((len(x) - len(x.lstrip(" ")) for x in rest), default=0)
    if not step or lines[begin].startswith(" "):
        return lines, False
    return [x[step:] if i > begin and x.startswith(" " * step) else x for i, x in enumerate(lines)], True


def replace_templates(source: str) -> str:
    """The text with each template replaced by a word YAML takes; line numbers stay."""
    lines = []
    for raw in source.splitlines():
        if _ONLY_TEMPLATE.match(raw) and not raw.lstrip().startswith("- "):
            lines.append("")
        else:
            lines.append(_TEMPLATE.sub(lambda m: f"TEMPLATE({_inside(m[0])})", raw))
    return "\n".join(lines)


def parse_readable_documents(source: str, where: object, first_line: int) -> list[Any]:
    """The documents of a stream that can be read, where one of several cannot; empty where there is but one."""
    parts, begin = [], 0
    lines = source.split("\n")
    for i, line in enumerate(lines):
        if line == "---" or line.startswith(("--- ", "---\t", "---\r")):
            parts.append((begin, lines[begin:i]))
            begin = i
    parts.append((begin, lines[begin:]))
    if len(parts) > MAX_DOCUMENTS or len(parts) < 2:
        return []
    out = list[Any]()
    for at, part in parts:
        try:
            out += _documents("\n".join(part), where, first_line + at)
        except BadFile:
            continue
    return out


def find_doubled_keys(docs: Any) -> Iterator[Text]:
    """Keys that a mapping has twice, as they stand there again."""
    stack = [docs]
    while stack:
        here = stack.pop()
        if isinstance(here, Map):
            yield from here.doubled
            stack.extend(here.values())
        elif isinstance(here, list):
            stack.extend(here)


def _inside(template: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", " ", template).strip().replace(" ", ".") or "template"


def _documents(source: str, where: object, first_line: int) -> list[Any]:
    import yaml

    source = str(source)  # the C parser takes no subclass
    if len(source) > MAX_BYTES:
        raise BadFile(where, f"is larger than {MAX_BYTES // 2**20} MiB, which no deployment file needs")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _bound_events(yaml.parse(source, Loader=loader), where)
        roots = []
        for node in yaml.compose_all(source, Loader=loader):
            roots.append(node)
            if len(roots) > MAX_DOCUMENTS:
                raise BadFile(where, f"holds more than {MAX_DOCUMENTS:,} documents")
        budget = [MAX_NODES]
        return [_plain(n, where, first_line - 1, budget) for n in roots]
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        problem = getattr(e, "problem", None) or str(e).splitlines()[0]
        wrong = f"is not valid YAML: {problem}"
        if "nesting depth" in problem:  # PyYAML has a bound of its own from 6.0.4 on
            wrong = "is nested too deeply to be a real file"
        raise BadFile(where, wrong, mark.line + first_line if mark else None) from None
    except (RecursionError, UnicodeError):
        raise BadFile(where, "is nested too deeply to be a real file") from None


def _bound_events(events: Iterator[Any], where: object) -> None:
    """Depth is checked on the event stream: composing recurses in C, and deep nesting kills the interpreter."""
    import yaml

    depth = 0
    event: Any
    for event in events:
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_DEPTH:
                raise BadFile(where, "is nested too deeply to be a real file", _line(event))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _plain(node: Any, where: object, shift: int, budget: list[int], depth: int = 1) -> Any:
    """A node as plain data; aliases count as often as they are used."""
    import yaml

    budget[0] -= 1
    if budget[0] < 0:
        raise BadFile(where, f"expands to more than {MAX_NODES:,} values")
    if depth > MAX_DEPTH:
        raise BadFile(where, "is nested too deeply (or refers to itself)", node.start_mark.line + 1)
    if node is None:
        return None
    line = node.start_mark.line + 1 + shift
    if isinstance(node, yaml.ScalarNode):
        if node.tag == "tag:yaml.org,2002:null":
            return None
        block = node.style in ("|", ">")
        value = _STAND_IN.sub(r"{{ \1 }}", node.value) if "TEMPLATE(" in node.value else node.value
        return make_text(value, line, node.start_mark.column + 1, _variables(value), block)
    if isinstance(node, yaml.SequenceNode):
        out = Seq(_plain(n, where, shift, budget, depth + 1) for n in node.value)
        out.line = line
        return out
    made = Map()
    made.line = line
    merged: list[Any] = []
    for k, v in node.value:
        if isinstance(k, yaml.ScalarNode) and k.tag == "tag:yaml.org,2002:merge":
            merged.append(_plain(v, where, shift, budget, depth + 1))
            continue
        key = _plain(k, where, shift, budget, depth + 1)
        if isinstance(key, (Map, Seq)):
            continue
        if key in made and key != "<<":
            made.doubled = (*made.doubled, key)
        made[key if key is not None else make_text("", line)] = _plain(v, where, shift, budget, depth + 1)
    for extra in merged:
        for m in extra if isinstance(extra, list) else [extra]:
            if isinstance(m, dict):
                for k2, v2 in m.items():
                    made.setdefault(k2, v2)
    return made


def _variables(value: str) -> tuple[str, ...]:
    """Templates inside a scalar: nothing here fills them in."""
    return tuple(_inside(t) for t in _TEMPLATE.findall(value)) if "{" in value else ()


# ---- reading plain data without surprises


def value_at(value: Any, *path: str | int) -> Any:
    """The value at a path of keys and indexes; None where there is none."""
    for part in path:
        if isinstance(part, int):
            value = value[part] if isinstance(value, list) and -len(value) <= part < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return None
    return value


def as_mapping(value: Any) -> dict[str, Any]:
    """A mapping, or an empty one for anything else."""
    return value if isinstance(value, dict) else Map()


def as_sequence(value: Any) -> list[Any]:
    """A list; a scalar or mapping on its own becomes a list of one, nothing an empty one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def as_string(value: Any) -> Text | None:
    """A scalar, None for anything else."""
    return value if isinstance(value, Text) else None


def as_boolean(value: Any) -> bool | None:
    """A YAML 1.1 boolean; None for anything else."""
    word = str(value).lower() if isinstance(value, str) else ""
    return True if word in ("true", "yes", "on", "1") else False if word in ("false", "no", "off", "0") else None


def as_whole_number(value: Any) -> int | None:
    """A whole number; None for anything else."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,12}", value.strip()) else None


def find_all(value: Any, key: str) -> Iterator[Map]:
    """Every mapping below that holds `key`, parents first."""
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            if key in here:
                yield here  # type: ignore[misc]  # mypy takes a dict out of Any for dict[Any, Any]
            stack.extend(reversed(list(here.values())))
        elif isinstance(here, list):
            stack.extend(reversed(here))
