"""Which module of a package imports which, read from the source: at the top, inside functions, and for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from code_facts import list_nodes, read_tree

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"

Graph = dict[str, set[str]]


def modules(package: Path) -> dict[str, Path]:
    """Module name -> its file."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def trees(package: Path) -> dict[str, ast.Module]:
    """Module name -> its source as a tree."""
    return {name: read_tree(path) for name, path in modules(package).items()}


def import_graph(package: Path = PACKAGE) -> Graph:
    """Module -> the modules of the package that any statement in it imports, wherever the statement stands."""
    known = modules(package)
    return {name: set(_imported(name, tree, known)) for name, tree in trees(package).items()}


def _imported(name: str, tree: ast.Module, known: dict[str, Path]) -> Iterator[str]:
    for node in list_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = _base(name, known[name], node)
            for a in node.names:  # `from package import module` means the module
                target = f"{base}.{a.name}" if f"{base}.{a.name}" in known else base
                if target in known and target != name:
                    yield target


def _base(name: str, path: Path, node: ast.ImportFrom) -> str:
    """The module behind `from`, also of a relative import."""
    if not node.level:
        return node.module or ""
    parts = name.split(".")
    parts = parts[: len(parts) - node.level + (path.name == "__init__.py")]
    return ".".join([*parts, *([node.module] if node.module else [])])


def circles(graph: Graph) -> list[frozenset[str]]:
    """Sets of modules that reach one another (Tarjan's strongly connected components of two modules or more)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        open_.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in open_:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            cut = open_.index(node)
            circle = frozenset(open_[cut:])
            del open_[cut:]
            if len(circle) > 1:
                found.append(circle)

    for node in graph:
        if node not in number:
            visit(node)
    return found
