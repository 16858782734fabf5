"""Helm's templates filled in with a chart's own values, as far as they are known: never more is claimed than that.

What is empty in the values is to be filled in by whoever installs the chart, so it is not known; what a function, a
release or a cluster would say is not known either. An output that is not known stays as it is written. Source: Go's
text/template, Sprig's functions and Helm's `include`, `toYaml` and `tpl` as their documentation has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.checks.read.go_template_functions import FUNCTIONS, OPEN, UNKNOWN, is_empty, is_true
from advisor.checks.read.go_template_parser import MAX_DEPTH, TemplateFault, TemplateNode, parse_template
from advisor.record import Value

MAX_STEPS = 20_000
MAX_OUTPUT = 2**20


class FilledTemplate(Value, frozen=True):
    """The text that a template makes, and for each of its lines the template's line that it comes from."""

    text: str
    lines: tuple[int, ...]


def list_definitions(source: str) -> dict[str, Any]:
    """The named templates of a helper file. Raises TemplateFault."""
    return {n.text: n for n in parse_template(source) if n.kind == "define"}


def fill_template(source: str, root: Mapping[str, Any], named: Mapping[str, Any]) -> FilledTemplate:
    """A template with its values. Raises TemplateFault for what is not understood, or is too large."""
    nodes = parse_template(source)
    filler = _Filler(root, {**named, **{n.text: n for n in nodes if n.kind == "define"}})
    filler.run(nodes, root, {"$": root})
    return filler.result()


class _Filler:
    """What is written so far, line by line, and how much work was done."""

    def __init__(self, root: Mapping[str, Any], named: Mapping[str, Any]) -> None:
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

    def run(self, nodes: tuple[Any, ...], dot: Any, variables: dict[str, Any]) -> None:
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

    def compound(self, node: TemplateNode, dot: Any, variables: dict[str, Any]) -> None:
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

    def pass_on(self, variables: dict[str, Any], inner: dict[str, Any]) -> None:
        """What `=` changed inside a block, in the variables around it."""
        variables.update({k: inner[k] for k in self.changed if k in variables and k in inner})

    def repeat(self, names: tuple[str, ...], value: Any, nodes: tuple[Any, ...], variables: dict[str, Any]) -> None:
        pairs = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value)) if isinstance(
            value, (list, tuple)
        ) else None  # fmt: skip
        if pairs is None:
            raise TemplateFault("a range over no list")
        for key, item in pairs:
            if names:
                variables[names[-1]] = item
            if len(names) > 1:
                variables[names[0]] = str(key)
            self.run(nodes, item, variables)

    # ---- values

    def value(self, words: tuple[Any, ...], dot: Any, variables: dict[str, Any]) -> Any:
        """What a pipeline comes to."""
        self.steps += 1
        parts: list[list[Any]] = [[]]
        depth = 0
        for word in words:
            depth += (word == ("mark", "(")) - (word == ("mark", ")"))
            if word == ("mark", "|") and not depth:
                parts.append([])
            else:
                parts[-1].append(word)
        value: Any = None
        for k, part in enumerate(parts):
            value = self.command(part, dot, variables, [value] if k else [])
        return value

    def command(self, words: list[Any], dot: Any, variables: dict[str, Any], piped: list[Any]) -> Any:
        if not words:
            raise TemplateFault("an empty action")
        kind, name = words[0]
        is_function = kind == "path" and name[0] not in ".$" and name not in ("true", "false", "nil")
        values = self.arguments(words[1:] if is_function else words, dot, variables)
        if not is_function:
            return values[0] if len(values) == 1 and not piped else UNKNOWN
        return self.call(name, [*values, *piped], variables)

    def arguments(self, words: list[Any], dot: Any, variables: dict[str, Any]) -> list[Any]:
        out: list[Any] = []
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
                out.append(self.call(value, [], variables))
            else:
                raise TemplateFault(f"{value} stands where a value is expected")
        return out

    def find(self, path: str, dot: Any, variables: dict[str, Any]) -> Any:
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

    def call(self, name: str, values: list[Any], variables: dict[str, Any]) -> Any:
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

    def include(self, name: Any, dot: Any) -> Any:
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


def _split_names(words: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """`$k, $v := ...` as (names, what stands behind)."""
    at = next((i for i, w in enumerate(words) if w == ("mark", ":=")), None)
    if at is None:
        return (), words
    return tuple(w[1] for w in words[:at] if w[0] == "path"), words[at + 1 :]


def _show(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
