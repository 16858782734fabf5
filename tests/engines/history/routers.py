"""Routers before an engine's servers: their flags and closed lists, read out of an unpacked wheel or a git tag.

SGLang's router gives every flag a prefix that is empty when it is started alone: `f"--{prefix}policy"`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from readings import Reading, bare, named_texts, parse_all, texts_of

FILES = {  # relative to the folder of a release
    "sglang-router": ("sglang_router/router_args.py", "sglang_router/launch_router.py", "sglang_router/mini_lb.py"),
    "mlx-lm": ("mlx_lm/server.py",),
    "mlx-vlm-server": ("mlx_vlm/server.py", "mlx_vlm/server/cli.py"),
    "production-stack-router": ("src/vllm_router/parsers/parser.py", "src/vllm_router/parser.py"),
}
TYPES = {"int": "int", "float": "float", "json": "json"}


def read(folder: Path, router: str) -> Reading:
    """The flags and lists of one release."""
    values: dict[str, frozenset[str]] = {}
    flags: set[str] = set()
    for names, words, named in _arguments(folder, router):
        flags |= set(map(bare, names))
        choices = texts_of(words.get("choices"), named)
        if choices:
            values |= {bare(n): frozenset(choices) for n in names if n.startswith("--")}
    return Reading(frozenset(flags - {"help", "h"}), values)


def describe(folder: Path, router: str) -> dict[str, dict[str, Any]]:
    """What each flag takes, as rules/flags writes it."""
    out: dict[str, dict[str, Any]] = {}
    for names, words, named in _arguments(folder, router):
        long = [n for n in names if n.startswith("--")]
        if not long or bare(long[0]) == "help":
            continue
        action, kind = _text(words.get("action")), words.get("type")
        entry: dict[str, Any] = {}
        if action in ("store_true", "store_false"):
            entry["t"] = "flag"
        elif isinstance(kind, ast.Name) and kind.id in TYPES:
            entry["t"] = TYPES[kind.id]
        if len(names) > 1:
            entry["a"] = [n for n in names if n != long[0]]
        choices = texts_of(words.get("choices"), named)
        if choices:
            entry["c"] = list(choices)
        if _text(words.get("nargs")) in ("*", "+") or action == "append":
            entry["n"] = True
        if _text(words.get("nargs")) in ("?", "*"):
            entry["o"] = True
        out[bare(long[0])] = entry
    return out


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _arguments(
    folder: Path, router: str
) -> Iterator[tuple[tuple[str, ...], dict[str, ast.expr], dict[str, tuple[str, ...]]]]:
    modules = parse_all(folder / name for name in FILES[router])
    named = named_texts(modules)
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                names = tuple(s for a in node.args if (s := _spelling(a)) is not None and s.startswith("-"))
                if any(n.startswith("--") for n in names):
                    yield names, {k.arg: k.value for k in node.keywords if k.arg}, named


def _spelling(node: ast.expr) -> str | None:
    """A literal, or a literal with the prefix that is empty."""
    if isinstance(node, ast.JoinedStr):
        parts = [p for p in node.values if isinstance(p, ast.Constant)]
        return "".join(str(p.value) for p in parts)
    return _text(node)
