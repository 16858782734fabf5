"""Helm's templates filled in with a chart's own values, as far as they are known: never more is claimed than that.

What is empty in the values is to be filled in by whoever installs the chart, so it is not known; what a function, a
release or a cluster would say is not known either. An output that is not known stays as it is written. Source: Go's
text/template, Sprig's functions and Helm's `include`, `toYaml` and `tpl` as their documentation has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import floordiv, ge, gt, le, lt, mul, ne, sub

from advisor.record import Names, Value

MAX_STEPS = 20_000
MAX_OUTPUT = 2**20
Word = tuple[str, str]  # text, number, path or mark, and how it is written
Words = tuple[Word, ...]
MAX_DEPTH = 40
_ACTION = re.compile(r"\{\{(-(?=\s))?((?:`[^`]*`|\"(?:\\.|[^\"\\\n])*\"|[^`\"])*?)((?<=\s)-)?\}\}", re.S)
_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<raw>`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)|(?P<mark>:=|=|\||\(|\)|,)"
    r"|(?P<path>\$?[A-Za-z_]\w*(?:\.\w+)*|\$(?:\.\w+)*|(?:\.\w+)+|\.))"
)
UNKNOWN: object = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN"})()
OPEN: object = type("Open", (), {"__repr__": lambda self: "OPEN"})()
MAX_TEXT = 100_000
MAX_RANGE = 1_000


class FilledTemplate(Value, frozen=True):
    """The text that a template makes, and for each of its lines the template's line that it comes from."""

    text: str
    lines: tuple[int, ...]


def list_definitions(source: str) -> dict[str, TemplateNode]:
    """The named templates of a helper file. Raises TemplateFault."""
    return {n.text: n for n in parse_template(source) if n.kind == "define"}


def fill_template(source: str, root: Mapping[str, object], named: Mapping[str, TemplateNode]) -> FilledTemplate:
    """A template with its values. Raises TemplateFault for what is not understood, or is too large."""
    nodes = parse_template(source)
    filler = _Filler(root, {**named, **{n.text: n for n in nodes if n.kind == "define"}})
    filler.run(nodes, root, {"$": root})
    return filler.result()


class _Filler:
    """What is written so far, line by line, and how much work was done."""

    def __init__(self, root: Mapping[str, object], named: Mapping[str, TemplateNode]) -> None:
        self.root, self.named = root, named
        self.parts: list[tuple[str, int]] = []
        self.steps = self.size = self.depth = 0
        self.changed: set[str] = set()  # variables that `=` gave another value

    def result(self) -> FilledTemplate:
        lines: list[int] = []
        out: list[str] = []
        begun = False
        for text, line in self.parts:
            for n, piece in enumerate(text.split("\n")):
                if n or not begun:
                    out.append(piece)
                    lines.append(line + n)
                    begun = True
                else:
                    if not out[-1].strip():
                        lines[-1] = line
                    out[-1] += piece
        return FilledTemplate("\n".join(out), tuple(lines))

    def write(self, text: str, line: int) -> None:
        self.size += len(text)
        if self.size > MAX_OUTPUT:
            raise TemplateFault("too large")
        self.parts.append((text, line))

    def run(self, nodes: tuple[TemplateNode, ...], dot: object, variables: dict[str, object]) -> None:
        for node in nodes:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TemplateFault("too much work")
            if node.kind == "text":
                self.write(node.text, node.line)
            elif node.kind == "output":
                value = self.value(node.words, dot, variables)
                shown = self.leave(node.text) if value is UNKNOWN or value is OPEN else _show(value)
                # a value of several lines stands on the line of its action
                first, *more = shown.split("\n")
                self.write(first, node.line)
                for piece in more:
                    self.write("\n", node.line - 1)
                    self.write(piece, node.line)
            elif node.kind == "assign":
                variables[node.text] = self.value(node.words, dot, variables)
                if node.changes:
                    self.changed.add(node.text)
            elif node.kind != "define":
                self.compound(node, dot, variables)

    def leave(self, action: str) -> str:
        """An action as it is written. One that would have begun a line of its own stands behind its key, or on a line
        of its own, so that the text stays YAML."""
        before = "".join(text for text, _ in self.parts[-3:]) if action.startswith("{{- ") else ""
        if not before or before[-1].isspace():
            return action
        return f" {action}" if before.endswith(":") else f"\n{action}"

    def compound(self, node: TemplateNode, dot: object, variables: dict[str, object]) -> None:
        """`if`, `with` and `range`. A condition that is left open has its `else`, where there is one; else its own
        branch is written, in which nothing of it is known. Raises TemplateFault for one that nothing can tell."""
        for k, (condition, nodes) in enumerate(node.branches):
            inner = dict(variables)
            if condition is None:
                self.run(nodes, dot, inner)
                self.pass_on(variables, inner)
                return
            names, words = _split_names(condition)
            value = self.value(words, dot, variables)
            if value is UNKNOWN:
                raise TemplateFault("a condition that is not known")
            known = not is_empty(value)
            if (known and not is_true(value)) or (not known and k + 1 < len(node.branches)):
                continue
            if node.kind == "range" and known:
                self.repeat(names, value, nodes, inner)
            else:
                if node.kind != "if":
                    inner |= dict.fromkeys(names, value if known else OPEN)
                self.run(nodes, dot if node.kind == "if" else value if known else OPEN, inner)
            self.pass_on(variables, inner)
            return

    def pass_on(self, variables: dict[str, object], inner: dict[str, object]) -> None:
        """What `=` changed inside a block, in the variables around it."""
        variables.update({k: inner[k] for k in self.changed if k in variables and k in inner})

    def repeat(
        self, names: Names, value: object, nodes: tuple[TemplateNode, ...], variables: dict[str, object]
    ) -> None:
        if not isinstance(value, (Mapping, list, tuple)):
            raise TemplateFault("a range over no list")
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            if names:
                variables[names[-1]] = item
            if len(names) > 1:
                variables[names[0]] = str(key)
            self.run(nodes, item, variables)

    # ---- values

    def value(self, words: Words, dot: object, variables: dict[str, object]) -> object:
        """What a pipeline comes to."""
        self.steps += 1
        parts: list[list[Word]] = [[]]
        depth = 0
        for word in words:
            depth += (word == ("mark", "(")) - (word == ("mark", ")"))
            if word == ("mark", "|") and not depth:
                parts.append([])
            else:
                parts[-1].append(word)
        value: object = None
        for k, part in enumerate(parts):
            value = self.command(part, dot, variables, [value] if k else [])
        return value

    def command(self, words: Sequence[Word], dot: object, variables: dict[str, object], piped: list[object]) -> object:
        if not words:
            raise TemplateFault("an empty action")
        kind, name = words[0]
        is_function = kind == "path" and name[0] not in ".$" and name not in ("true", "false", "nil")
        values = self.arguments(words[1:] if is_function else words, dot, variables)
        if not is_function:
            return values[0] if len(values) == 1 and not piped else UNKNOWN
        return self.call(name, [*values, *piped])

    def arguments(self, words: Sequence[Word], dot: object, variables: dict[str, object]) -> list[object]:
        out: list[object] = []
        i = 0
        while i < len(words):
            kind, value = words[i]
            i += 1
            if (kind, value) == ("mark", "("):
                depth, begin = 1, i
                while i < len(words) and depth:
                    depth += (words[i] == ("mark", "(")) - (words[i] == ("mark", ")"))
                    i += 1
                out.append(self.value(tuple(words[begin : i - 1]), dot, variables))
            elif kind in ("text", "number"):
                out.append(value)
            elif kind == "path" and value in ("true", "false"):
                out.append(value == "true")
            elif kind == "path" and value == "nil":
                out.append(None)
            elif kind == "path" and value[0] in ".$":
                out.append(self.find(value, dot, variables))
            elif kind == "path":
                out.append(self.call(value, []))
            else:
                raise TemplateFault(f"{value} stands where a value is expected")
        return out

    def find(self, path: str, dot: object, variables: dict[str, object]) -> object:
        head, *keys = path.split(".")
        here = variables.get(head, UNKNOWN) if head else dot
        if here is OPEN:
            return OPEN
        for key in keys:
            if not key:
                continue
            if here is UNKNOWN or not isinstance(here, Mapping):
                return UNKNOWN
            here = here.get(key, UNKNOWN if here is self.root else OPEN)
            if here is OPEN or here is None:
                return OPEN
        return OPEN if isinstance(here, str) and not here else here

    def call(self, name: str, values: list[object]) -> object:
        if name == "include" and len(values) > 1:
            return self.include(values[0], values[1])
        if name == "tpl" and values:
            return UNKNOWN if values[0] is UNKNOWN or "{{" in str(values[0]) else values[0]
        function = FUNCTIONS.get(name)
        if function is None:
            return UNKNOWN
        try:
            return function(*values)
        except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, AttributeError):
            return UNKNOWN

    def include(self, name: object, dot: object) -> object:
        node = self.named.get(name) if isinstance(name, str) else None
        if node is None or self.depth > MAX_DEPTH:
            return UNKNOWN
        kept, self.parts = self.parts, []
        self.depth += 1
        self.run(node.branches[0][1], dot, {"$": self.root})
        text = self.result().text
        self.parts = kept
        self.depth -= 1
        return UNKNOWN if "{{" in text else text


def _split_names(words: Words) -> tuple[Names, Words]:
    """`$k, $v := ...` as (names, what stands behind)."""
    at = next((i for i, w in enumerate(words) if w == ("mark", ":=")), None)
    if at is None:
        return (), words
    return tuple(w[1] for w in words[:at] if w[0] == "path"), words[at + 1 :]


class TemplateFault(Exception):
    """A template that is not understood here; it is read as it is written then."""


class TemplateNode(Value, frozen=True):
    kind: str  # text, output, if, range, with, assign, define, template
    line: int
    text: str = ""
    words: Words = ()
    branches: tuple[tuple[Words | None, tuple[TemplateNode, ...]], ...] = ()  # (condition, nodes); None: else
    changes: bool = False  # `=` in place of `:=`


def parse_template(source: str) -> tuple[TemplateNode, ...]:
    steps = list(_split(source))
    nodes, rest, end = _block(steps, 0, 0)
    if end is not None or rest < len(steps):
        raise TemplateFault("`end` without a beginning")
    return nodes


def _split(source: str) -> Iterator[tuple[str, str, int]]:
    """(text or action, what it is, line)."""
    at, trim = 0, False
    for m in _ACTION.finditer(source):
        before = source[at : m.start()]
        yield _text(before, source.count("\n", 0, at) + 1, trim, m[1] is not None)
        yield "action", m[0], source.count("\n", 0, m.start()) + 1
        at, trim = m.end(), m[3] is not None
    yield _text(source[at:], source.count("\n", 0, at) + 1, trim, False)


def _text(text: str, line: int, left: bool, right: bool) -> tuple[str, str, int]:
    if left:
        cut = text.lstrip()
        line += text[: len(text) - len(cut)].count("\n")
        text = cut
    return "text", text.rstrip() if right else text, line


def _block(steps: list[tuple[str, str, int]], i: int, depth: int) -> tuple[tuple[TemplateNode, ...], int, Words | None]:
    """Nodes up to `end` or `else`, where reading goes on, and the words of what ended them (None: the text did)."""
    if depth > MAX_DEPTH:
        raise TemplateFault("nested too deeply")
    out: list[TemplateNode] = []
    while i < len(steps):
        kind, text, line = steps[i]
        i += 1
        if kind == "text":
            if text:
                out.append(TemplateNode("text", line, text))
            continue
        m = _ACTION.fullmatch(text)
        inside = m[2].strip() if m else ""
        if inside.startswith("/*"):
            continue
        words = _words(inside)
        head = words[0][1] if words and words[0][0] == "path" else ""
        if head in ("end", "else"):
            return tuple(out), i, words
        if head in ("if", "range", "with", "define", "block"):
            node, i = _compound(head, words[1:], steps, i, line, depth)
            out.append(node)
        elif head == "template":
            out.append(TemplateNode("output", line, text, (("path", "include"), *words[1:])))
        elif len(words) > 2 and words[0][0] == "path" and head.startswith("$") and words[1][1] in (":=", "="):
            out.append(TemplateNode("assign", line, head, words[2:], changes=words[1][1] == "="))
        else:
            out.append(TemplateNode("output", line, text, words))
    return tuple(out), i, None


def _compound(
    head: str, words: Words, steps: list[tuple[str, str, int]], i: int, line: int, depth: int
) -> tuple[TemplateNode, int]:
    branches: list[tuple[Words | None, tuple[TemplateNode, ...]]] = []
    condition: Words | None = words
    while True:
        nodes, i, end = _block(steps, i, depth + 1)
        branches.append((condition, nodes))
        if end is None:
            raise TemplateFault(f"`{head}` without an end")
        if end[0][1] == "end":
            break
        condition = tuple(end[2:]) if len(end) > 2 and end[1][1] in ("if", "with") else None
    name = str(words[0][1]) if head in ("define", "block") and words else ""
    return TemplateNode("define" if head in ("define", "block") else head, line, name, (), tuple(branches)), i


def _words(inside: str) -> Words:
    out: list[Word] = []
    i = 0
    while i < len(inside):
        m = _TOKEN.match(inside, i)
        if m is None:
            if not inside[i:].strip():
                break
            raise TemplateFault(f"not understood: {inside[i : i + 30]}")
        kind = str(m.lastgroup)
        value = m[kind]
        if kind == "string":
            kind, value = "text", re.sub(r"\\(.)", lambda e: {"n": "\n", "t": "\t"}.get(e[1], e[1]), value[1:-1])
        elif kind == "raw":
            kind, value = "text", value[1:-1]
        out.append((kind, value))
        i = m.end()
    return tuple(out)


def is_empty(value: object) -> bool:
    """Whether a value is left to be filled in: nothing, an empty text, list or mapping. `false` and 0 say something."""
    return (
        value is None
        or value is OPEN
        or (isinstance(value, (str, list, tuple, Mapping)) and (len(value) == 0 or value == "null"))
    )


def is_true(value: object) -> bool:
    """Whether Go's templates take a value for true. Scalars of YAML are texts here."""
    if isinstance(value, str):
        return value not in ("", "false", "False", "0", "null", "~")
    return bool(value)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, str) else value


def _to_yaml(value: object) -> object:
    import yaml

    if is_empty(value):
        return OPEN
    text = yaml.safe_dump(_plain(value), default_flow_style=False, sort_keys=False, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")


def _to_json(value: object) -> object:
    import json

    return OPEN if is_empty(value) else json.dumps(_plain(value))


def _indent(count: object, text: object) -> str:
    pad = " " * min(int(str(count)), 200)
    return "\n".join(pad + line for line in str(text).split("\n"))


def _quote(*values: object) -> str:
    return " ".join('"' + _show(v).replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values if v is not None)


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _printf(form: object, *values: object) -> object:
    rest = list(values)

    def fill(m: re.Match[str]) -> str:
        if m[1] == "%":
            return "%"
        value = rest.pop(0)
        return _quote(value) if m[1] == "q" else _show(value)

    known = re.sub(r"%(.?)", lambda m: "" if m[1] in tuple("sdvq%") else "%", str(form), flags=re.S)
    return UNKNOWN if "%" in known else re.sub(r"%([sdvq%])", fill, str(form))


def _whole(value: object) -> int:
    return int(float(str(value)))


def _index(value: object, *keys: object) -> object:
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key, OPEN)
        elif isinstance(value, (str, list, tuple)):
            value = value[_whole(key)]
        else:
            raise TypeError("no list")
    return value


def _fill(*values: object) -> object:
    """`coalesce`: the first that is not empty."""
    return next((v for v in values if v is UNKNOWN or (not is_empty(v) and is_true(v))), OPEN)


def _default(fallback: object, *given: object) -> object:
    """The value of the chart, else the fallback: both are what stands there as long as nobody says another."""
    value = given[0] if given else OPEN
    if value is UNKNOWN:
        return UNKNOWN
    return fallback if is_empty(value) or not is_true(value) else value


def _least_known(values: tuple[object, ...]) -> object:
    """UNKNOWN, OPEN, or the last of the values."""
    if any(v is UNKNOWN for v in values):
        return UNKNOWN
    return OPEN if any(is_empty(v) for v in values) else values[-1]


def _decide(values: tuple[object, ...], deciding: bool) -> object:
    """`and` and `or`: the first value that decides, else what the least known of them is."""
    known = (v for v in values if v is not UNKNOWN and not is_empty(v))
    return next((v for v in known if is_true(v) is deciding), _least_known(values))


def _not(value: object) -> object:
    return UNKNOWN if value is UNKNOWN else OPEN if is_empty(value) else not is_true(value)


def _kind_is(kind: object, value: object) -> object:
    """Maps and lists alone: whether a scalar was a text or a number is not known of texts."""
    if isinstance(value, (Mapping, list, tuple)):
        return kind == ("map" if isinstance(value, Mapping) else "slice")
    return False if kind in ("map", "slice") else UNKNOWN


def _converted(
    function: Callable[..., object], take: Callable[[object], object], give: Callable[[object], object] = lambda x: x
) -> Callable[..., object]:
    """A function whose values are converted before, and its answer after."""
    return lambda *values: give(function(*map(take, values)))


# what takes texts, and makes one of them; what it is given is shown as text first
_OF_TEXTS: dict[str, Callable[..., object]] = {
    "squote": lambda *v: " ".join(f"'{x}'" for x in v), "trim": lambda t: t.strip(), "trimSuffix": lambda end, t:
    t.removesuffix(end), "trimPrefix": lambda head, t: t.removeprefix(head), "trunc": lambda n, t: t[: _whole(n)] if
    _whole(n) >= 0 else t[_whole(n) :], "lower": str.lower, "upper": str.upper, "replace": lambda old, new, t:
    t.replace(old, new), "contains": lambda part, t: part in t, "hasPrefix": lambda head, t: t.startswith(head),
    "hasSuffix": lambda end, t: t.endswith(end), "toString": str, "float64": str, "print": lambda *v: "".join(v),
    "eq": lambda a, *b: a in b, "ne": ne, "splitList": lambda sep, t: t.split(sep)
}  # fmt: skip
_OF_NUMBERS: dict[str, Callable[[float, float], bool]] = {"gt": gt, "ge": ge, "lt": lt, "le": le}
_OF_INTEGERS: dict[str, Callable[..., int]] = {
    "int": int, "int64": int, "add": lambda *v: sum(v), "sub": sub, "mul": mul, "div": floordiv
}  # fmt: skip
_KNOWN_ONLY: dict[str, Callable[..., object]] = {
    **{name: _converted(f, _show) for name, f in _OF_TEXTS.items()},
    **{name: _converted(f, lambda v: float(str(v))) for name, f in _OF_NUMBERS.items()},
    **{name: _converted(f, _whole, str) for name, f in _OF_INTEGERS.items()}, "quote": _quote, "toYaml": _to_yaml,
    "toJson": _to_json, "indent": _indent, "nindent": lambda n, t: "\n" + _indent(n, t), "printf": _printf,
    "len": lambda v: str(len(v)), "list": lambda *v: list(v), "first": lambda v: v[0], "last": lambda v: v[-1],
    "join": lambda sep, v: _show(sep).join(map(_show, v)), "index": _index, "get": _index,
    "hasKey": lambda m, k: k in m, "keys": lambda m: list(m), "required": lambda message, v: OPEN if is_empty(v) else v,
    "kindIs": _kind_is
}  # fmt: skip


def _guarded(function: Callable[..., object]) -> Callable[..., object]:
    def call(*values: object) -> object:
        if any(v is UNKNOWN for v in values):
            return UNKNOWN
        if any(v is OPEN for v in values):
            return OPEN
        made = function(*values)
        return UNKNOWN if isinstance(made, str) and len(made) > MAX_TEXT else made

    return call


FUNCTIONS: dict[str, Callable[..., object]] = {
    **{name: _guarded(f) for name, f in _KNOWN_ONLY.items()}, "default": _default, "coalesce": _fill,
    "dict": lambda *pairs: {str(k): v for k, v in zip(pairs[::2], pairs[1::2], strict=False)},
    "and": lambda *v: _decide(v, False), "or": lambda *v: _decide(v, True), "not": _not, "empty": _not,
    "ternary": lambda yes, no, test: UNKNOWN if test is UNKNOWN else no if is_empty(test) or not is_true(test) else yes,
    "until": lambda n: [str(i) for i in range(_whole(n))] if _whole(n) <= MAX_RANGE else UNKNOWN,
    "append": lambda v, item: [*v, item], "concat": lambda *v: [x for part in v for x in part]
}  # fmt: skip
