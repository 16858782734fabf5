"""docs/reference/json.md and library.md: answers from the types that write them, the library from its docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from typing import Any

import advisor
from advisor.record import SCHEMA_VERSION
from tools.pages.markdown import escape_cell, make_markdown_table
from tools.pages.schemas import SHAPES, make_schema

COMMANDS = {
    "request": "a line of `advise estimate --jsonl`, and the body of `POST /v1/estimate`",
    "estimate": "`advise estimate --jsonl`: one line of the answer",
    "compare_speed": "`advise compare --speed --json`",
    "error": "every command with `--json`, where it cannot answer",
    "probe": "`advise probe --json`, and the file of `advise probe --save`",
    "facts": "`advise facts --json`",
    "fleet-show": "`advise fleet show --json`",
    "fleet-plan": "`advise fleet plan --json`",
    "fleet-check": "`advise fleet check --json`",
}
JSON_HEAD = f"""# JSON

Every command answers in JSON with `--json`, the library with `to_dict()`, the server on its paths. `schema_version` is
{SCHEMA_VERSION}; it grows where a field goes or changes its meaning, not where one is added. The schemas (JSON Schema
2020-12) come with the package: `advisor/schemas/NAME.json`.

Amounts of memory are in bytes, times in seconds, rates in tokens a second, unless the name of a field says otherwise.
`null` is "not known" or "not asked", never 0.
"""


def make_json_page() -> str:
    """The page as Markdown."""
    records: dict[str, dict[str, Any]] = {}
    rows = []
    for name in SHAPES:
        schema = make_schema(name)
        records.update({_anchor(k): v for k, v in schema["$defs"].items()})
        top = _anchor(schema["$ref"].rpartition("/")[2])
        rows.append((f"`{name}.json`", COMMANDS.get(name, f"`advise {name} --json`"), f"[{top}](#{top.lower()})"))
    out = [JSON_HEAD, make_markdown_table(("schema", "written by", "record"), rows)]
    comments = _read_comments()
    for name in sorted(records):
        out.append(_make_record(name, records[name], comments.get(name, {})))
    return "\n".join(out)


def _anchor(name: str) -> str:
    """`PlannedLaunch` of a definition's name, which may hold the parameters of a generic type."""
    return re.sub(r"\W+", "_", name).strip("_")


def _make_record(name: str, schema: dict[str, Any], comments: dict[str, str]) -> str:
    """A section with the fields of one record."""
    text = " ".join((schema.get("description") or "").split())
    if "properties" not in schema:
        return f"## {name}\n\n{text}\n\n{_say_type(schema)}\n"
    required = set(schema.get("required", ()))
    rows = [
        (
            f"`{field}`",
            _say_type(kind),
            "" if field in required else _say_default(kind),
            escape_cell(comments.get(field, "")),
        )
        for field, kind in schema["properties"].items()
    ]
    return f"## {name}\n\n{text}\n\n" + make_markdown_table(("field", "type", "if left out", "meaning"), rows)


def _say_default(kind: dict[str, Any]) -> str:
    value = kind.get("default")
    return "null" if value is None else f"`{value}`" if not isinstance(value, str) else f'`"{value}"`'


def _say_type(kind: dict[str, Any]) -> str:
    """A JSON Schema in words: `integer or null`, `list of Finding`."""
    if "$ref" in kind:
        name = _anchor(kind["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(dict.fromkeys(_say_type(k) for k in kind["anyOf"]))
    if "enum" in kind:
        return " or ".join(
            "null" if v is None else f'`"{v}"`' if isinstance(v, str) else f"`{v}`" for v in kind["enum"]
        )
    if "const" in kind:
        return f"`{kind['const']}`"
    if kind.get("type") == "array":
        inner = kind.get("items")
        return f"list of {_say_type(inner)}" if inner else "list"
    if kind.get("type") == "object" and isinstance(kind.get("additionalProperties"), dict):
        return f"object of {_say_type(kind['additionalProperties'])}"
    return str(kind.get("type", "any"))


def _read_comments() -> dict[str, dict[str, str]]:
    """Record -> field -> the comment that stands next to the field in the source."""
    out: dict[str, dict[str, str]] = {}
    for module in [m for name, m in sys.modules.items() if name.startswith("advisor.")]:
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ != module.__name__ or not hasattr(kind, "__struct_fields__"):
                continue
            for base in reversed(kind.__mro__):
                if base.__module__.startswith("advisor.") and hasattr(base, "__struct_fields__"):
                    out.setdefault(name, {}).update(_read_comments_of(base))
    return out


@cache  # many records have the same base
def _read_comments_of(kind: type) -> list[tuple[str, str]]:
    return re.findall(r"(?m)^    (\w+): [^#\n]*#\s*(.+?)\s*$", list_class_sources(kind.__module__)[kind.__name__])


@cache
def list_class_sources(module: str) -> dict[str, str]:
    """The source of each class of a module; `inspect` takes the whole module apart for each of them."""
    source = inspect.getsource(sys.modules[module])
    lines = source.splitlines(keepends=True)
    classes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef)]
    return {n.name: "".join(lines[n.lineno - 1 : n.end_lineno]) for n in classes}


LIBRARY_HEAD = """# Library reference

`import advisor` gives these names; [library.md](../library.md) shows how they are used. Amounts of memory are in bytes,
times in seconds, rates in tokens a second; None is "not known" or "not asked". The fields of the values are those of
the [JSON](json.md).
"""


def make_library_page() -> str:
    """The page as Markdown."""
    names = [n for n in advisor.__all__ if n != "__version__"]
    functions = [n for n in names if inspect.isfunction(getattr(advisor, n))]
    errors = [n for n in names if inspect.isclass(getattr(advisor, n)) and issubclass(getattr(advisor, n), Exception)]
    values = [n for n in names if n not in (*functions, *errors)]
    out = [LIBRARY_HEAD, "## Functions\n", *map(_show_function, functions), "## Errors\n", *map(_show_class, errors)]
    return "\n".join([*out, "## Values\n", *map(_show_class, values)])


def _show_function(name: str) -> str:
    function: Any = getattr(advisor, name)
    signature = inspect.signature(function)
    parameters = [str(p).replace("'", "") for p in signature.parameters.values()]
    lines = "".join(f"    {p},\n" for p in _with_marker(signature, parameters))
    shown = f"advisor.{name}(\n{lines})" if parameters else f"advisor.{name}()"
    return f"### {name}\n\n```python\n{shown} -> {signature.return_annotation}\n```\n\n{_read_text(function)}\n"


def _with_marker(signature: inspect.Signature, shown: list[str]) -> list[str]:
    """Parameters with the `*` before those that are given by name."""
    kinds = [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        at = kinds.index(inspect.Parameter.KEYWORD_ONLY)
        return [*shown[:at], "*", *shown[at:]]
    return shown


def _show_class(name: str) -> str:
    kind: Any = getattr(advisor, name)
    fields = getattr(kind, "__struct_fields__", ())
    listed = "\nFields: " + ", ".join(f"`{f}`" for f in fields) + "\n" if fields else ""
    return f"### {name}\n\n{_read_text(kind)}\n{listed}"


def _read_text(thing: Any) -> str:
    """A docstring as Markdown paragraphs."""
    text = inspect.getdoc(thing) or ""
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", p) for p in text.split("\n\n"))
