"""SGLang: the flags of its server and their closed lists, read out of an unpacked sdist or wheel.

Older releases add every argument by hand; from 0.5.16 or so on a field's annotation says what its argument is
(`A[type, Arg(...)]`), in the class first, then in srt/arg_groups/fields.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from readings import (
    DEPRECATED,
    Reading,
    added_arguments,
    bare,
    choices_of,
    class_defaults,
    is_deprecated,
    named_texts,
    parse_all,
    plain_source,
    texts_of,
    try_value,
)

OF_OTHERS = {"help"}
ANNOTATED = ("A", "Annotated")


class Field(NamedTuple):
    """A field that is an argument: its names on the command line, and what its annotation says."""

    names: frozenset[str]
    annotation: ast.expr
    words: dict[str, ast.expr]
    default: ast.expr | None
    said: str  # what its annotation says in words


def read(folder: Path) -> Reading:
    """The flags and lists of one version, whose `sglang/` lies in `folder`."""
    top = folder / "sglang/srt"
    groups = parse_all((top / "arg_groups").rglob("*.py"))
    parsed = parse_all([top / "server_args.py"])
    named = named_texts([*groups, *parsed])
    flags: set[str] = set()
    values: dict[str, frozenset[str]] = {}
    extra: dict[str, frozenset[str]] = {}
    classes = class_defaults([*groups, *parsed])
    defaults: dict[str, str] = {}
    deprecated: set[str] = set()
    for spelled, call in added_arguments(parsed):
        names = {bare(s) for s in spelled if s.startswith("--")}
        flags |= names
        default = _default(call, classes)
        defaults |= dict.fromkeys(names if default is not None else (), default or "")
        deprecated |= names if is_deprecated({k.arg: k.value for k in call.keywords if k.arg}) else set()
        choices = next((k.value for k in call.keywords if k.arg == "choices"), None)
        found = texts_of(choices, named)
        if found:
            values |= {n: frozenset(found) for n in names}
        elif choices is not None:  # `["auto"] + those of a registry`
            said = {x.value for x in ast.walk(choices) if isinstance(x, ast.Constant) and isinstance(x.value, str)}
            extra |= {n: frozenset(said) for n in names}
    for field in _fields([*groups, *parsed]):
        flags |= field.names
        default = try_value(field.default, classes)
        defaults |= dict.fromkeys(field.names if default is not None else (), default or "")
        deprecated |= field.names if DEPRECATED.search(field.said) else set()
        found = texts_of(field.words.get("choices"), named) or choices_of(field.annotation, named, ())
        if found:
            values |= {n: frozenset(found) for n in field.names}
    for flag, found in _parsers(top).items():
        values[flag] = found | extra.get(flag, frozenset())
    return Reading(frozenset(flags - OF_OTHERS), values, frozenset(), defaults, frozenset(deprecated))


def _default(call: ast.Call, classes: dict[str, dict[str, ast.expr]]) -> str | None:
    """What argparse takes where the flag is not given, as text; None where that is no plain value."""
    words = {k.arg: k.value for k in call.keywords if k.arg}
    if "default" in words:
        return try_value(words["default"], classes)
    action = words.get("action")
    if action is None:
        return "none"
    return {"store_true": "false", "store_false": "true"}.get(plain_source(action))


def _fields(modules: Iterable[ast.Module]) -> Iterator[Field]:
    for module in modules:
        for node in ast.walk(module):
            annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
            if not (
                isinstance(annotation, ast.Subscript)
                and isinstance(annotation.value, ast.Name)
                and annotation.value.id in ANNOTATED
                and isinstance(annotation.slice, ast.Tuple)
                and isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
            ):
                continue
            of_type, *more = annotation.slice.elts
            call = next((x for x in more if isinstance(x, ast.Call) and getattr(x.func, "id", "") == "Arg"), None)
            words = {k.arg: k.value for k in call.keywords if k.arg} if call else {}
            hidden = words.get("no_cli")
            if isinstance(hidden, ast.Constant) and hidden.value:
                continue
            own = texts_of(words.get("cli_name"), {}) or (node.target.id,)
            others = texts_of(words.get("aliases"), {}) or ()
            names = {bare(x) for x in (*own, *others) if not x.startswith("-") or x.startswith("--")}
            said = " ".join(plain_source(x) for x in (*more[:1], words.get("help")) if isinstance(x, ast.Constant))
            yield Field(frozenset(names), of_type, words, node.value, said)


def _parsers(top: Path) -> dict[str, frozenset[str]]:
    """Tool and reasoning parsers: keys of the two mappings that detectors stand in."""
    out: dict[str, frozenset[str]] = {}
    files = [*(top / "function_call").rglob("*.py"), *(top / "parser").rglob("*.py"), top / "reasoning_parser.py"]
    tables = {"ToolCallParserEnum": "tool-call-parser", "DetectorMap": "reasoning-parser"}
    for module in parse_all(files):
        for node in ast.walk(module):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and target.id in tables and isinstance(value, ast.Dict):
                out[tables[target.id]] = frozenset(k.value for k in value.keys if isinstance(k, ast.Constant))
    return out
