"""`make check`: what is run for what changed, against what is there; and that it stops where something fails."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from markers import MARKED
from programs import program

from tools.check_changed import ROWS, choose_commands, is_below, main, run_commands

TOP = Path(__file__).resolve().parents[2]
NOT_THERE = ("rules/policy",)  # a folder that only overlays have


def shown(*changed: str, slow: bool = False) -> list[str]:
    return [" ".join(words).replace(sys.executable, "python") for words in choose_commands(changed, slow)]


def test_what_may_be_changed_and_what_is_run_is_there() -> None:
    for row in ROWS:
        assert [p for p in row.changed if p not in NOT_THERE and not (TOP / p).exists()] == []
        assert [t for t in (*row.tests, *row.slow) if not (TOP / "tests" / t).exists()] == []
        assert set(row.marks) <= set(MARKED)
    assert {mark for row in ROWS for mark in row.marks} == set(MARKED)


def test_every_room_is_named() -> None:
    """But for rooms whose own tests have the same name, and single files that the house tests hold."""
    for folder in ("rules", "advisor"):
        for path in (TOP / folder).iterdir():
            name = f"{folder}/{path.name}"
            own = [row for row in ROWS if any(is_below(name, p) for p in row.changed)]
            assert own, name
    run = {t.partition("/")[0] for row in ROWS for t in (*row.tests, *row.slow)}
    folders = {p.name for p in (TOP / "tests").iterdir() if list(p.glob("test_*.py"))}
    assert folders - run <= {"house", "tools"}


def test_a_model_is_linted_alone_and_asked_for_by_its_tests() -> None:
    first, pages, tests, marks = shown("rules/models/qwen3.yaml")
    assert first == "python -m advisor rules lint rules/models/qwen3.yaml"
    assert pages == "python -m tools.pages"
    assert tests == "python -m pytest tests/catalog tests/memory tests/golden tests/advice"
    assert marks == "python -m pytest -m (rules or documents) and not slow"


def test_a_file_that_is_gone_is_looked_for_by_the_whole_lint() -> None:
    assert shown("rules/models/no-such.yaml")[0] == "python -m advisor rules lint"


def test_code_is_held_to_types_and_contracts_before_its_tests() -> None:
    commands = shown("advisor/lint/run.py", "tests/lint/test_concerns.py")
    assert [c.split()[2] for c in commands[:3]] == ["ruff", "ruff", "mypy"]
    assert commands[3].endswith("lint-imports")
    assert commands[4] == "python -m pytest tests/lint/test_concerns.py tests/lint tests/decision"
    assert not any("slow tests" in c for c in commands)


def test_slow_tests_are_run_when_they_are_asked_for() -> None:
    assert not [c for c in shown("advisor/web/server.py") if "-m slow" in c]
    assert shown("advisor/web/server.py", slow=True)[-1] == "python -m pytest -m slow tests/web"


def test_a_document_needs_no_linter() -> None:
    assert shown("docs/tutorial.md") == ["python -m pytest -m (documents) and not slow"]


@pytest.mark.parametrize(
    ("path", "place", "below"),
    [
        ("advisor/web/server.py", "advisor/web", True),
        ("advisor", "advisor/web", True),
        ("advisor/web", "advisor/web", True),
        ("advisor/website.py", "advisor/web", False),
        ("rules/speed.yaml", "rules/speed-engines.yaml", False),
    ],
)
def test_below(path: str, place: str, below: bool) -> None:
    assert is_below(path, place) is below


def test_the_first_failure_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> int:
        ran.append(words)
        return 3 if "bad" in words else 0

    assert run_commands([["good"], ["bad", "a b"], ["never"]], run) == 3
    assert ran == [["good"], ["bad", "a b"]]
    assert capsys.readouterr().out == "$ good\n$ bad 'a b'\n"
    assert run_commands([["good"]], run) == 0


def test_make_hands_the_paths_over(capsys: pytest.CaptureFixture[str]) -> None:
    words = [program("make"), "--dry-run", "--no-print-directory", "check", "PYTHON=python", "CHANGED=docs/style.md"]
    made = subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"python -m tools\.check_changed +docs/style\.md *\n", made)
    assert main(["--dry-run", "docs/style.md"]) == 0
    assert capsys.readouterr().out.startswith("$ python -m pytest -m ")
