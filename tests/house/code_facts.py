"""Facts about engines that stand in code instead of in the rules, found in the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PACKAGE = TOP / "advisor"
# 0.8, v1.2.3rc1, 0.8.5.post1; builds of llama.cpp: b4000. Four numbers are an address.
VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?(\.?(a|b|rc|post|dev)\d+)?|b\d{1,6}")
COMPARERS = {"key", "pick", "is_before"}  # functions of advisor/engines/versions.py


@cache
def read_tree(path: Path) -> ast.Module:
    """A module as a tree, which nobody changes: parsed once for all tests of a process."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def list_nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module, which many tests look through: walked once for all of them."""
    return tuple(ast.walk(tree))


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its path from the top."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(TOP).as_posix(), read_tree(path)


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [n.body for n in list_nodes(tree) if isinstance(n, documented)]
    docstrings = {id(b[0].value) for b in bodies if b and isinstance(b[0], ast.Expr)}
    for node in list_nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def cut_offs(tree: ast.Module) -> list[str]:
    """Versions that code decides by: texts that read as one, and numbers that something of a version is compared with.

    Numbers are tuples of whole numbers in an ordered comparison, or in a statement that calls a function on versions.
    """
    found = {(n.lineno, n.value) for n in texts(tree) if VERSION.fullmatch(n.value)}
    compares = any(isinstance(n, ast.Name) and n.id in COMPARERS for n in list_nodes(tree))
    for node in list_nodes(tree):
        if isinstance(node, ast.Compare) and any(isinstance(o, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for o in node.ops):
            sides = [node.left, *node.comparators]
            if not any(isinstance(s, ast.Attribute) and s.attr == "version_info" for s in sides):  # Python's own
                found |= {(s.lineno, ast.unparse(s)) for s in sides if _numbers(s)}
        elif compares and isinstance(node, ast.stmt) and not hasattr(node, "body") and _calls(node) & COMPARERS:
            found |= {(n.lineno, ast.unparse(n)) for n in ast.walk(node) if _numbers(n)}
    return [f"{line}: {what}" for line, what in sorted(found)]


def _numbers(node: ast.AST) -> bool:
    """Whether it is a tuple of two or more whole numbers."""
    return (
        isinstance(node, ast.Tuple)
        and len(node.elts) > 1
        and all(isinstance(x, ast.Constant) and type(x.value) is int for x in node.elts)
    )


def _calls(node: ast.AST) -> set[str]:
    return {c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}
