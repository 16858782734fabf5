"""What one version of an engine takes, as its sources have it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Reading(NamedTuple):
    """Names of flags without dashes; closed lists of values by the flag that takes them; environment variables;
    defaults as text, where they are plain values; flags that the release itself says are deprecated."""

    flags: frozenset[str]
    values: Mapping[str, frozenset[str]]
    variables: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = {}
    deprecated: frozenset[str] = frozenset()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def parse_all(paths: Iterable[Path]) -> list[ast.Module]:
    return [parse(p) for p in sorted(set(paths)) if p.is_file()]


def texts_of(node: ast.expr | None, names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The texts of a list, a Literal, a union of them, or a name of one; None where it is none, or is not closed."""
    if isinstance(node, ast.Constant):
        kept = isinstance(node.value, (str, int)) and not isinstance(node.value, bool)
        return (str(node.value),) if kept else () if node.value is None else None
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return _joined(node.elts, names)
    if isinstance(node, ast.Starred):
        return texts_of(node.value, names)
    if isinstance(node, ast.Name):
        return () if node.id == "None" else names.get(node.id)
    if isinstance(node, ast.Attribute):
        return names.get(node.attr)
    if isinstance(node, ast.Subscript):
        head = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if head in ("Literal", "Optional", "Union"):
            return _joined(inner, names)
        return texts_of(inner[0], names) if head in ("Annotated", "A") else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.Add)):
        return _joined([node.left, node.right], names)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("list", "get_args", "sorted")
    ):
        return texts_of(node.args[0], names) if node.args else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys":
        return texts_of(node.func.value, names)
    return None


def choices_of(
    annotation: ast.expr, names: Mapping[str, tuple[str, ...]], aliases: Iterable[str]
) -> tuple[str, ...] | None:
    """What argparse lets through for a field of a dataclass: its Literals, whatever classes stand next to them; None
    where any text is let through. `aliases` are names of annotations."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [choices_of(x, names, aliases) for x in (annotation.left, annotation.right)]
    elif isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") in ("Optional", "Union"):
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        sides = [choices_of(x, names, aliases) for x in inner]
    elif isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") in (
        "SkipValidation",
        "Annotated",
    ):
        first = annotation.slice.elts[0] if isinstance(annotation.slice, ast.Tuple) else annotation.slice
        return choices_of(first, names, aliases)
    else:
        found = texts_of(annotation, names)
        is_open = isinstance(annotation, ast.Name) and (annotation.id == "str" or annotation.id in aliases)
        return found if found is not None else None if is_open else ()
    return None if None in sides else tuple(t for side in sides for t in side or ())


def _joined(nodes: Iterable[ast.expr], names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    out: list[str] = []
    for node in nodes:
        found = texts_of(node, names)
        if found is None:
            return None
        out += found
    return tuple(out)


def named_texts(modules: Iterable[ast.Module]) -> dict[str, tuple[str, ...]]:
    """Closed lists of texts at the top of modules, by name: lists, Literals, keys of mappings."""
    waiting: list[tuple[str, ast.expr]] = []
    names: dict[str, tuple[str, ...]] = {}
    for module in modules:
        for node in module.body:
            value = getattr(node, "value", None)
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if not isinstance(target, ast.Name) or value is None:
                continue
            if isinstance(value, ast.Dict):
                names[target.id] = tuple(str(k.value) for k in value.keys if isinstance(k, ast.Constant))
            else:
                waiting.append((target.id, value))
    for _ in range(4):  # names of names
        for name, value in waiting:
            found = texts_of(value, names)
            if found:
                names[name] = found
    return names


def named_enumerations(modules: Iterable[ast.Module]) -> dict[str, tuple[str, ...]]:
    """Names of the members of enumerations. A command line takes them in a way of its own, not as argparse choices."""
    return {
        node.name: tuple(
            item.targets[0].id
            for item in node.body
            if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
        )
        for module in modules
        for node in module.body
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.dump(base) for base in node.bases)
    }


def added_arguments(modules: Iterable[ast.Module]) -> Iterator[tuple[tuple[str, ...], ast.Call]]:
    """Every `add_argument` with a literal long name: its spellings, and the call."""
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                spelled = tuple(a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
                if any(s.startswith("--") for s in spelled):
                    yield spelled, node


DEPRECATED = re.compile(r"(?i:^\W*deprecated\b|\bis deprecated\b)|DEPRECAT|\bDeprecated\w*Action\b")


def is_deprecated(words: Mapping[str, ast.expr]) -> bool:
    """Whether the words of an argument say that it is: a switch for that, its action, or its help."""
    said = words.get("deprecated")
    if isinstance(said, ast.Constant) and said.value is True:
        return True
    return any(DEPRECATED.search(plain_source(words[k])) for k in ("help", "action") if k in words)


def plain_source(node: ast.expr) -> str:
    """A text as it reads, and anything else as it is written."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return " ".join([node.func.id, *map(plain_source, node.args)])
    return ast.unparse(node)


class Unread(Exception):
    """A default is no plain value."""


def value_of(node: ast.expr | None, classes: Mapping[str, Mapping[str, ast.expr]], depth: int = 0) -> object:
    """The plain value of an expression that a field or an argument has as its default. Raises Unread."""
    if node is None or depth > 8:
        raise Unread
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return value_of(classes.get(node.value.id, {}).get(node.attr), classes, depth + 1)
    if isinstance(node, ast.Name):
        return value_of(classes.get("", {}).get(node.id), classes, depth + 1)
    if isinstance(node, ast.BinOp):
        left, right = (value_of(x, classes, depth + 1) for x in (node.left, node.right))
        return ast.literal_eval(str(_compute(node.op, left, right)))
    if isinstance(node, ast.Call):
        return _value_of_call(node, classes, depth)
    raise Unread


def _compute(op: ast.operator, left: object, right: object) -> object:
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        raise Unread
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.Pow) and abs(right) < 64:
        return left**right
    if isinstance(op, ast.LShift) and isinstance(left, int) and isinstance(right, int) and right < 64:
        return left << right
    raise Unread


def _value_of_call(call: ast.Call, classes: Mapping[str, Mapping[str, ast.expr]], depth: int) -> object:
    """`get_field(Class, "name")`; `field(default=...)`, with a factory as well."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name == "get_field" and isinstance(call.args[0], ast.Name) and isinstance(call.args[1], ast.Constant):
        return value_of(classes.get(call.args[0].id, {}).get(str(call.args[1].value)), classes, depth + 1)
    if name.lower() not in ("field", "_field"):
        raise Unread
    words = {k.arg: k.value for k in call.keywords}
    factory = words.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return value_of(factory.body, classes, depth + 1)
    if isinstance(factory, ast.Name) and factory.id in ("list", "dict", "set", "tuple"):
        return [] if factory.id != "dict" else {}
    return value_of(words.get("default") or (call.args[0] if call.args else None), classes, depth + 1)


def write_value(value: object) -> str:
    """A default as a command line would have it: texts bare, nothing and what is empty as `none`, lists and objects as
    JSON."""
    plain = sorted(value) if isinstance(value, (set, frozenset)) else value
    if plain is None or plain in ("", [], {}, ()):
        return "none"
    return plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"))


def try_value(node: ast.expr | None, classes: Mapping[str, Mapping[str, ast.expr]]) -> str | None:
    """A default as text; None where it is no plain value."""
    try:
        return write_value(value_of(node, classes))
    except (Unread, TypeError, ValueError, SyntaxError):
        return None


def class_defaults(modules: Iterable[ast.Module]) -> dict[str, dict[str, ast.expr]]:
    """Expressions that fields of classes have as defaults, by class; names of the modules themselves under nothing."""
    out: dict[str, dict[str, ast.expr]] = {"": {}}
    for module in modules:
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                out[""].setdefault(node.targets[0].id, node.value)
            if not isinstance(node, ast.ClassDef):
                continue
            own = out.setdefault(node.name, {})
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value is not None:
                    own.setdefault(item.target.id, item.value)
    return out


def deprecated_fields(modules: Iterable[ast.Module]) -> set[tuple[str, str]]:
    """(class, field) whose text below it says that it is deprecated."""
    return {
        (node.name, item.target.id)
        for module in modules
        for node in module.body
        if isinstance(node, ast.ClassDef)
        for item, after in zip(node.body, node.body[1:], strict=False)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        if isinstance(after, ast.Expr) and DEPRECATED.search(plain_source(after.value))
    }


def bare(flag: str) -> str:
    return flag.lstrip("-").replace("_", "-")
