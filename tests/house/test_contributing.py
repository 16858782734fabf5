"""The table "what to run when I changed …" of CONTRIBUTING.md, the markers and the Makefile, against what is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from markers import MARKED
from programs import program

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).resolve().parents[2]
TEXT = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
PART = TEXT.split("## What to run when I changed …")[1].split("\n## ")[0]
LINES = [line.strip("|").split(" | ") for line in PART.splitlines() if line.startswith("| ")]
ROWS = [tuple(cell.strip() for cell in cells) for cells in LINES[2:]]
INI = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
MARKERS = {line.split(":")[0] for line in INI["markers"]}
COMMANDS = [shlex.split(c) for _, cell in ROWS for c in re.findall(r"`(pytest [^`]*)`", cell)]
TARGETS = re.findall(r"(?m)^([a-z]+):.*## ", (TOP / "Makefile").read_text(encoding="utf-8"))


def test_the_table_has_rows() -> None:
    assert len(ROWS) >= 10
    assert len(COMMANDS) >= len(ROWS)


@pytest.mark.parametrize("changed", [c for row in ROWS for c in re.findall(r"`([^`]+)`", row[0])])
def test_what_may_be_changed_is_there(changed: str) -> None:
    assert (TOP / changed).exists() or changed == "rules/policy/"  # a folder of overlays alone


def test_commands_name_what_is_there() -> None:
    for _, *words in COMMANDS:
        expressions = [words[i + 1] for i, w in enumerate(words) if w == "-m"]
        used = {w for e in expressions for w in re.findall(r"\w+", e)} - {"and", "or", "not"}
        assert used <= MARKERS, used
        for path in (w for w in words if w.startswith("tests/")):
            assert (TOP / path).exists(), path


def test_every_folder_of_tests_and_every_room_is_in_the_table() -> None:
    """But for rooms whose own tests have the same name, which the reader finds without a table."""
    shown = " ".join(w for words in COMMANDS for w in words)
    rooms = {p.name for p in (TOP / "tests").iterdir() if list(p.glob("test_*.py"))}
    assert {r for r in rooms if f"tests/{r}" not in shown} <= {"bench", "house", "speed"}


def test_names_of_test_files_are_unique() -> None:
    """pytest imports them by their name alone: of two of one name, one is not run."""
    names = Counter(p.name for p in (TOP / "tests").rglob("*.py") if p.name != "conftest.py")
    assert [n for n, count in names.items() if count > 1] == []


def test_every_marker_is_in_the_table() -> None:
    shown = " ".join(w for words in COMMANDS for w in words)
    assert {m for m in MARKERS if not re.search(rf"\b{m}\b", shown)} == set()


def test_places_of_markers_are_there() -> None:
    assert set(MARKED) | {"slow"} == MARKERS
    for marker, places in MARKED.items():
        assert [p for p in places if not (TOP / "tests" / p).exists()] == [], marker


@pytest.mark.parametrize("target", TARGETS)
def test_targets_of_the_makefile_name_files_that_are_there(target: str) -> None:
    done = subprocess.run(
        [program("make"), "--dry-run", "--no-print-directory", target, "PYTHON=python"],
        cwd=TOP, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = re.findall(r"(?<![\w./])(?:tests|docs|\.ci)/[\w./-]+", done.stdout)
    assert files or re.search(r"-m (pytest|tools\.)", done.stdout)
    assert [f for f in files if not (TOP / f).exists()] == []


def test_long_runs_are_documented() -> None:
    text = (TOP / "docs" / "long-runs.md").read_text(encoding="utf-8")
    long = re.search(r"(?m)^long: ([a-z ]+?) *##", (TOP / "Makefile").read_text(encoding="utf-8"))
    assert long is not None
    for target in (*long[1].split(), "bench"):
        assert f"| `make {target}` |" in text, target
