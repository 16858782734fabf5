"""docs/reference/library.md: the functions and errors of the library, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

import advisor

HEAD = """# Library reference

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
    out = [HEAD, "## Functions\n", *map(_show_function, functions), "## Errors\n", *map(_show_class, errors)]
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
