"""No circles between modules. Imports inside functions and for types count, too."""

from __future__ import annotations

import itertools
import random
from functools import cache
from pathlib import Path

from import_graph import PACKAGE, Graph, circles, import_graph, modules

MOST = 0  # may only shrink
ALLOWED: dict[str, str] = {}  # modules that may lie in a circle together -> why


@cache
def of_this_package() -> Graph:
    return import_graph()


def matches(module: str, pattern: str) -> bool:
    return module.startswith(pattern.removesuffix("*"))


def test_modules_lie_in_no_circle() -> None:
    found = circles(of_this_package())
    for circle in found:
        homes = [p for p in ALLOWED if all(matches(m, p) for m in circle)]
        assert homes, f"a circle of imports: {', '.join(sorted(circle))}"
    assert len(found) <= len(ALLOWED) <= MOST


def test_an_exception_that_is_not_needed_goes() -> None:
    found = circles(of_this_package())
    for pattern in ALLOWED:
        assert any(all(matches(m, pattern) for m in circle) for circle in found), f"{pattern}: take it off the list"


def test_the_graph_sees_imports_wherever_they_stand(tmp_path: Path) -> None:
    """Each way to import closes a circle between two modules of its own."""
    back = {
        "top": "from package.top_a import x",
        "function": "def f():\n    from package import function_a\n",
        "types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import package.types_a\n",
        "relative": "from . import relative_a",
        "method": "class C:\n    def f(self):\n        if self:\n            from .method_a import x\n",
    }
    package = tmp_path / "package"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, text in back.items():
        (package / f"{name}_a.py").write_text(f"import package.{name}_b\n")
        (package / f"{name}_b.py").write_text(text)
    (package / "deep/__init__.py").write_text("from .inner import x\n")
    (package / "deep/inner.py").write_text("from package.deep import y\n")
    (package / "alone.py").write_text("import json\nimport package.top_a\n")
    found = {frozenset(m.removeprefix("package.") for m in c) for c in circles(import_graph(package))}
    assert found == {*(frozenset((f"{n}_a", f"{n}_b")) for n in back), frozenset(("deep", "deep.inner"))}


def test_circles_are_those_of_a_plain_search() -> None:
    """Against reachability by brute force, on random graphs."""
    rng = random.Random(14)
    for _ in range(200):
        names = [str(n) for n in range(rng.randint(1, 8))]
        graph: Graph = {n: {m for m in names if m != n and rng.random() < 0.2} for n in names}
        reach = {n: set(graph[n]) for n in names}
        for k, i, j in itertools.product(names, repeat=3):
            if k in reach[i] and j in reach[k]:
                reach[i].add(j)
        together = {frozenset({n, *(m for m in names if m in reach[n] and n in reach[m])}) for n in names}
        assert set(circles(graph)) == {c for c in together if len(c) > 1}


def test_every_module_is_looked_at() -> None:
    assert len(of_this_package()) == len(modules(PACKAGE)) == len(list(PACKAGE.rglob("*.py")))
