"""Code names no engine and knows no version of one: both stand in rules/engines. Exceptions are listed with a reason.

The lists can only shrink: what is no longer needed has to leave them.
"""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from code_facts import TOP, cut_offs, list_nodes, modules, texts

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root

ENGINES = "advisor/engines/"  # modules of single engines live there
IDS = {p.stem for p in (TOP / "rules/engines").glob("*.yaml")}
MOST = 20

# (module, engine id) -> why the name has to stand in code
NAMED: dict[tuple[str, str], str] = {
    ("advisor/checks/read/launch.py", "llama-swap"): "the kind of a file, which stands in the JSON of answers",
    ("advisor/checks/read/custom_resources.py", "nim"): "the key of a resource in rules/checks/resources.yaml",
    ("advisor/fleet/render.py", "llm-d"): "the name of a target, which its chart has given to an engine, too",
    ("advisor/estimation.py", "llama.cpp"): "the default of a field of the public request, which no rules are read for",
}
# (module, text) -> why it is no version of an engine, or has to stand in code
VERSIONS: dict[tuple[str, str], str] = {
    ("advisor/__init__.py", "0.1.0"): "our own version",
    ("advisor/web/openapi.py", "3.1.0"): "the version of OpenAPI that is written",
    ("advisor/checks/report/formats.py", "2.1.0"): "the version of SARIF that is written",
    ("advisor/checks/report/formats.py", "8.0"): "a security severity of GitHub's code scanning",
    ("advisor/checks/report/formats.py", "5.0"): "a security severity of GitHub's code scanning",
    ("advisor/checks/report/formats.py", "2.0"): "a security severity of GitHub's code scanning",
    ("advisor/decision/facts.py", "13.0"): "CUDA by driver branch: NVIDIA's compatibility guide, no engine's version",
    ("advisor/decision/facts.py", "12.0"): "CUDA by driver branch",
    ("advisor/decision/facts.py", "11.0"): "CUDA by driver branch",
}


def named_engines() -> Counter[tuple[str, str]]:
    """How often each engine's id stands as a text in each module."""
    return Counter(
        (path, n.value)
        for path, tree in modules()
        if not path.startswith(ENGINES)
        for n in texts(tree)
        if n.value in IDS
    )


def test_code_names_no_engine() -> None:
    found = named_engines()
    assert set(found) - set(NAMED) == set(), "say it in rules/engines, or here why not"
    assert set(NAMED) - set(found) == set(), "no longer needed"
    assert sum(found.values()) <= MOST
    assert all(NAMED.values())


def test_code_decides_by_no_version() -> None:
    """Those that are listed are there, too."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, tree in modules():
        for cut in cut_offs(tree):
            found.setdefault((path, cut.partition(": ")[2]), []).append(cut)
    assert {place: cuts for place, cuts in found.items() if place not in VERSIONS} == {}
    assert set(VERSIONS) <= set(found), "no longer needed"


def test_no_default_of_an_engine_is_written_out() -> None:
    """Shares of memory by default that their digits distinguish from others: 0.92 is one, 0.9 may be anything."""
    engines = catalog([shipped_root()]).engines().values()
    numbers = {x.number for e in engines for x in e.concepts.memory_share.default}
    telling = {n for n in numbers if round(n, 1) != n}
    assert telling
    found = Counter(
        path
        for path, tree in modules()
        for n in list_nodes(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, float) and n.value in telling
    )
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        'if engine == "vllm" and key(version) < key("0.8"): pass',
        'if version.startswith("b") and key(version) < key("b4000"): pass',
        'name = "before 0.8" if k < (0, 8) else "0.19 on"',
        "if key(v.launch.version) < (0, 26): pass",
        "old = not (version and version >= (0, 12))",
        "before = max((k for k in versions if k < key(since)), default=(0, 8, 5))",
        'if r["engine_version"][:2] in ("b1", "b2"): pass',
        'answer = "x" if is_before(version, "v0.21.1rc2") else "y"',
        'Request(engine_version="0.19.0")',
        'LATEST = "0.8.5.post1"',
    ],
)
def test_cut_offs_are_found(code: str) -> None:
    assert cut_offs(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "if sys.version_info >= (3, 11): pass",
        "if key(version) < key(entry.before): pass",
        'host = "127.0.0.1"',
        'def f():\n    """Since 0.8."""',
        'x = "0.8 of the memory"',
        "for share in (1, 2): pass",
    ],
)
def test_other_numbers_are_no_cut_offs(code: str) -> None:
    assert not cut_offs(ast.parse(code))


def test_names_are_found() -> None:
    tree = ast.parse('"""vllm"""\nif engine in ("vllm", "x"):\n    table = {"ollama": f"{engine}"}\n')
    assert [n.value for n in texts(tree) if n.value in IDS] == ["vllm", "ollama"]
