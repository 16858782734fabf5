"""What is remembered hangs on what it was worked out for (advisor/memo.py). No module keeps a cache of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from code_facts import list_nodes
from import_graph import PACKAGE, trees

CACHES = ("cache", "lru_cache")
CONTAINERS = {"dict", "list", "set", "deque", "defaultdict", "OrderedDict", "Counter"}
# Tables that are filled when modules are imported, and never again -> why; may only shrink
FILLED_ON_IMPORT: dict[tuple[str, str], str] = {}
# functools' caches are for functions of plain values, whose answers no catalogue, file or setting changes
PLAIN = {"str", "int", "float", "bool", "bytes", "type", "Path", "Stamp", "tuple"}
ROOT_OF_ALL = ("advisor.catalog.store", "_catalog")  # the catalogues themselves, by their folders


def empty_containers(tree: ast.Module) -> Iterator[str]:
    """Names at the top of a module that hold an empty container, which only later code can fill."""
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if _is_empty(node.value):
            yield from (t.id for t in targets if isinstance(t, ast.Name))


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, (ast.Dict, ast.List)):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    if isinstance(value, ast.Call):
        called = value.func.value if isinstance(value.func, ast.Subscript) else value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name.startswith("Weak") or (name in CONTAINERS and not any(True for _ in value.args))
    return False


def functools_caches(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | None, set[str]]]:
    """(function, names in its parameters' types) of those under functools' cache, methods too; None for any other use
    at the top of the module. One inside a function lives as long as a call does."""
    for node in [n for top in tree.body for n in (top.body if isinstance(top, ast.ClassDef) else [top])]:
        if isinstance(node, ast.FunctionDef):
            if any(_named(d.func if isinstance(d, ast.Call) else d) in CACHES for d in node.decorator_list):
                parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                kinds = [n for p in parameters if p.annotation for n in ast.walk(p.annotation)]
                yield node, {k.id for k in kinds if isinstance(k, ast.Name)}
        elif any(_named(n) in CACHES for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))):
            yield None, set()


def _named(node: ast.expr) -> str:
    """`lru_cache` of `lru_cache` and `functools.lru_cache`; `x.cache` of another object is none of it."""
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id == "functools" else ""
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ""


def test_no_module_keeps_a_container_that_is_filled_later() -> None:
    found = {(name, x) for name, tree in trees(PACKAGE).items() for x in empty_containers(tree)}
    assert found == set(FILLED_ON_IMPORT)


def test_no_function_sets_a_global() -> None:
    found = [name for name, tree in trees(PACKAGE).items() for node in list_nodes(tree) if isinstance(node, ast.Global)]
    assert found == []


def test_functools_caches_are_for_plain_values() -> None:
    seen = 0
    for name, tree in trees(PACKAGE).items():
        for function, kinds in functools_caches(tree):
            assert function is not None, f"{name}: a cache that is no decorator"
            if (name, function.name) != ROOT_OF_ALL:
                assert kinds <= PLAIN, f"{name}.{function.name} remembers records: memoize_by_identity is for these"
            seen += 1
    assert seen > 5


def test_the_search_sees_what_it_looks_for(tmp_path: Path) -> None:
    tree = ast.parse(
        "from functools import lru_cache\nA = {}\nB: dict[str, int] = {}\nC = dict[str, int]()\nD = []\nE = set()\n"
        "F = WeakKeyDictionary()\nG = {'a': 1}\nH = collections.deque()\nI = frozenset()\n"
        "@lru_cache(maxsize=4)\ndef f(rules: Catalog, n: int) -> int: ...\n"
        "g = lru_cache(maxsize=4)(Knowledge)\n"
    )
    assert list(empty_containers(tree)) == ["A", "B", "C", "D", "E", "F", "H"]
    (first, kinds), (second, _) = functools_caches(tree)
    assert first is not None
    assert (first.name, kinds) == ("f", {"Catalog", "int"})
    assert second is None
