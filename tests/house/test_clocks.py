"""No test judges by the clock, and none lets Hypothesis do so: a busy machine must not make a good program fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from code_facts import list_nodes, read_tree
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "thread_time", "timeit"}
# what may read a clock, and why
MAY = {
    "benchmarks/load.py": "a benchmark: rates of two ways in one run; its test asks for a ratio, three times at most",
    "benchmarks/recommend.py": "a benchmark: it prints what it saw",
    "benchmarks/sweep.py": "a benchmark: it prints what it saw",
    "benchmarks/soak.py": "runs for as long as it is given, and judges nothing by it",
    "e2e/conftest.py": "waits for a server, and gives up after minutes",
    "gpu/llama_speed.py": "measures: it writes down how fast an engine is",
    "gpu/transformers_speed.py": "measures: it writes down how fast an engine is",
    "fuzz/mutate_check.py": "processor time, against a bound some twenty times what is usual",
    "fuzz/mutate_readers.py": "processor time, against a bound some twenty times what is usual",
}
LEAST_SECONDS = 120  # that a program which a test starts is given, where it is given a bound at all
FILES = sorted(p.relative_to(TESTS).as_posix() for p in TESTS.rglob("*.py"))


def parsed(file: str) -> ast.Module:
    return read_tree(TESTS / file)


def names(tree: ast.Module) -> Iterator[str]:
    """Names and attributes that a file uses or imports."""
    for node in list_nodes(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (a.name for a in node.names)


def arguments(tree: ast.Module, function: str) -> Iterator[dict[str, ast.expr]]:
    """Named arguments of every call of a function or method of this name."""
    for node in list_nodes(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            if name == function:
                yield {k.arg: k.value for k in node.keywords if k.arg}


def test_only_listed_files_read_a_clock() -> None:
    found = {f for f in FILES if CLOCKS & set(names(parsed(f)))}
    assert found == set(MAY)


def test_no_test_has_a_deadline_or_a_health_check_of_its_own() -> None:
    """They stand in one place, conftest.py; who lets another check off must keep the clock's off too."""
    wrong = []
    for file in FILES:
        for given in arguments(parsed(file), "settings"):
            off = given.get("suppress_health_check")
            if "deadline" in given or (off is not None and "too_slow" not in ast.unparse(off)):
                wrong.append(file)
    assert wrong == []


def test_a_started_program_has_the_time_it_takes() -> None:
    """pytest-timeout ends what hangs; a bound of some seconds on a process ends what is only slow."""
    bounded = [
        f"{f}: {function}(timeout={ast.unparse(given['timeout'])})"
        for f in FILES
        for function in ("run", "check_output", "communicate")
        for given in arguments(parsed(f), function)
        if isinstance(given.get("timeout"), ast.Constant) and given["timeout"].value < LEAST_SECONDS
    ]
    assert bounded == []


def test_the_profile_is_loaded() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
