"""The markers, the Makefile and the pages for contributors, against what is there."""

from __future__ import annotations

import re
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
INI = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
MARKERS = {line.split(":")[0] for line in INI["markers"]}
TARGETS = re.findall(r"(?m)^([a-z]+):.*## ", (TOP / "Makefile").read_text(encoding="utf-8"))


def test_names_of_test_files_are_unique() -> None:
    """pytest imports them by their name alone: of two of one name, one is not run."""
    names = Counter(p.name for p in (TOP / "tests").rglob("*.py") if p.name != "conftest.py")
    assert [n for n, count in names.items() if count > 1] == []


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


def test_there_is_a_page_for_each_kind_of_contribution() -> None:
    """CONTRIBUTING.md is short and leads to all of them; the index of the documents and the site, too."""
    pages = {p.name for p in (TOP / "docs/contributing").glob("*.md")} - {"index.md"}
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert set(re.findall(r"docs/contributing/([\w-]+\.md)", text)) - {"index.md"} == pages
    assert len(pages) >= 9
    site = (TOP / "mkdocs.yml").read_text(encoding="utf-8")
    assert {p for p in pages if f"docs/contributing/{p}" not in site} == set()
