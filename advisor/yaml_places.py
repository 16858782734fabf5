"""Text that knows where it stands, and YAML as plain dicts and lists of it.

Every scalar stays the text that was written (no dates, no octal numbers, no booleans made of `no`), with line and
column for findings. Size, depth and alias expansion are bounded before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from advisor.errors import BadFile, Unread
from advisor.files import MAX_DEPTH, check_yaml_depth, make_yaml_error

MAX_BYTES = 4 * 2**20
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


class Map(dict[str, "Located"]):
    """A mapping with the line it begins on. Keys are Text."""

    line: int = 0
    doubled: tuple[Text, ...] = ()  # keys that stand there again; the last one counts


class Seq(list["Located"]):
    """A list with the line it begins on, and those of its items."""

    line: int = 0
    lines: Sequence[int] = ()


Collection = TypeVar("Collection", Map, Seq)
Located: TypeAlias = "dict[str, Located] | list[Located] | Text | None"
Block: TypeAlias = "dict[str, Located]"  # a mapping
Table: TypeAlias = "Mapping[str, Located]"  # one that is only read
Texts = Sequence[Text]
TextList = list[Text]
TextTuple = tuple[Text, ...]
Strings = Mapping[str, str]
Words = Sequence[str]


def make_text(value: str, line: int = 0, column: int = 0, unknown: tuple[str, ...] = (), block: bool = False) -> Text:
    """`value` at a place."""
    made = Text(value)
    made.line, made.column, made.unknown, made.block = line, column, unknown, block
    return made


def place_like(value: str, other: str) -> Text:
    """`value` at the place of `other`, with its unknown variables."""
    return make_text(value, line_of(other), getattr(other, "column", 0), getattr(other, "unknown", ()))


def at_line(value: Collection, line: int) -> Collection:
    """A mapping or list that was copied, as one that begins on a line."""
    value.line = line
    return value


def line_of(value: object) -> int:
    """The line of a value, 0 where it has none."""
    return int(getattr(value, "line", 0))


def first_line(value: Text) -> int:
    """The line that a text's first line stands on: that of a literal block follows its mark."""
    return value.line + (1 if value.block else 0)


def parse_documents(source: str, where: object, first_line: int = 1) -> list[Located]:
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


def _repaired(source: str, where: object, first_line: int, fault: BadFile) -> list[Located]:
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


def parse_readable_documents(source: str, where: object, first_line: int) -> list[Located]:
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
    out: list[Located] = []
    for at, part in parts:
        try:
            out += _documents("\n".join(part), where, first_line + at)
        except BadFile:
            continue
    return out


def find_doubled_keys(docs: object) -> Iterator[Text]:
    """Keys that a mapping has twice, as they stand there again."""
    return (key for here in walk(docs) if isinstance(here, Map) for key in here.doubled)


def _inside(template: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", " ", template).strip().replace(" ", ".") or "template"


def _documents(source: str, where: object, first_line: int) -> list[Located]:
    import yaml

    source = str(source)  # the C parser takes no subclass
    if len(source) > MAX_BYTES:
        raise BadFile(where, f"is larger than {MAX_BYTES // 2**20} MiB, which no deployment file needs")
    try:
        roots = []
        for node in yaml.compose_all(source, Loader=check_yaml_depth(source, where)):
            roots.append(node)
            if len(roots) > MAX_DOCUMENTS:
                raise Unread(f"it holds more than {MAX_DOCUMENTS:,} documents")
        budget = [MAX_NODES]
        return [_locate(n, where, first_line - 1, budget) for n in roots]
    except yaml.YAMLError as e:
        raise make_yaml_error(where, e, first_line) from None
    except (RecursionError, UnicodeError):
        raise BadFile(where, "is nested too deeply to be a real file") from None


def locate_node(node: Any, where: object, most: int) -> Located:
    """A node tree (`advisor.files.compose_yaml`) of at most `most` values as Map, Seq and Text. Raises BadFile."""
    return _locate(node, where, 0, [most])


def line_at(root: Located, path: Sequence[str | int]) -> int | None:
    """The line of the value at a path (of its key, in a mapping), or of the nearest thing around it; None for an empty
    document."""
    here, line = root, line_of(root) or None
    for part in path:
        child = next((c for c in _children(here) if c[0] == part), None)
        if child is None:
            return line
        _, line, here = child
    return line


def _children(value: Located) -> Iterator[tuple[str | int, int, Located]]:
    """(key or index, line, value) of what a mapping or list holds."""
    if isinstance(value, Map):
        yield from ((str(k), line_of(k), v) for k, v in value.items())
    elif isinstance(value, Seq):
        yield from ((i, line, v) for i, (line, v) in enumerate(zip(value.lines, value, strict=True)))


def _locate(node: Any, where: object, shift: int, budget: list[int], depth: int = 1) -> Located:
    """A node as data with places; aliases count as often as they are used."""
    import yaml

    budget[0] -= 1
    if budget[0] < 0:
        raise Unread(f"it expands to more than {MAX_NODES:,} values")
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
        out = Seq(_locate(n, where, shift, budget, depth + 1) for n in node.value)
        out.line, out.lines = line, [n.start_mark.line + 1 + shift for n in node.value]
        return out
    made = Map()
    made.line = line
    merged: list[Located] = []
    for k, v in node.value:
        if isinstance(k, yaml.ScalarNode) and k.tag == "tag:yaml.org,2002:merge":
            merged.append(_locate(v, where, shift, budget, depth + 1))
            continue
        key = _locate(k, where, shift, budget, depth + 1)
        if key is not None and not isinstance(key, Text):
            continue
        if key is not None and key in made and key != "<<":
            made.doubled = (*made.doubled, key)
        made[key if key is not None else make_text("", line)] = _locate(v, where, shift, budget, depth + 1)
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


def value_at(value: object, *path: str | int) -> Located:
    """The value at a path of keys and indexes; None where there is none."""
    here: Any = value
    for part in path:
        if isinstance(part, int):
            here = here[part] if isinstance(here, list) and -len(here) <= part < len(here) else None
        else:
            here = here.get(part) if isinstance(here, dict) else None
        if here is None:
            return None
    return here  # type: ignore[no-any-return]  # what is read here is made of Located


def as_mapping(value: object, *path: str | int) -> dict[str, Located]:
    """The mapping at a path, or an empty one for anything else."""
    found = value_at(value, *path)
    return found if isinstance(found, dict) else Map()


def as_sequence(value: object, *path: str | int) -> list[Located]:
    """The list at a path; a scalar or mapping on its own becomes a list of one, nothing an empty one."""
    found = value_at(value, *path)
    return found if isinstance(found, list) else [] if found is None else [found]


def as_string(value: object, *path: str | int) -> Text | None:
    """The scalar at a path, None for anything else."""
    found = value_at(value, *path)
    return found if isinstance(found, Text) else None


def as_boolean(value: object, *path: str | int) -> bool | None:
    """The YAML 1.1 boolean at a path; None for anything else."""
    found = value_at(value, *path)
    word = found.lower() if isinstance(found, str) else ""
    return True if word in ("true", "yes", "on", "1") else False if word in ("false", "no", "off", "0") else None


def as_whole_number(value: object, *path: str | int) -> int | None:
    """The whole number at a path; None for anything else."""
    found = value_at(value, *path)
    return int(found) if isinstance(found, str) and re.fullmatch(r"[+-]?\d{1,12}", found.strip()) else None


def walk(value: object) -> Iterator[object]:
    """A value and all below it, parents first."""
    stack = [value]
    while stack:
        here = stack.pop()
        yield here
        below = here.values() if isinstance(here, dict) else here if isinstance(here, list) else ()
        stack.extend(reversed(list(below)))


def find_all(value: object, key: str) -> Iterator[dict[str, Located]]:
    """Every mapping below that holds `key`, parents first."""
    return (x for x in walk(value) if isinstance(x, dict) and key in x)
