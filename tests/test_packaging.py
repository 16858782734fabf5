"""What a user installs: the wheel holds the program, its rules, templates and types, and works without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.pages.shell_files import COMPLETIONS, MAN_PAGE, make_shell_files

TOP = Path(__file__).resolve().parent.parent


def started(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`advise WORDS` of one interpreter, from an empty folder and with a home of its own."""
    home = folder / "home"
    empty = folder / "empty"
    home.mkdir(exist_ok=True)
    empty.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADVISOR_", "XDG_", "PYTHON"))}
    done = subprocess.run(
        [str(python), "-m", "advisor.cli.main", *words],
        cwd=empty, env={**kept, "HOME": str(home)}, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert not list(empty.iterdir()), "the program leaves files in the current folder"
    return done


WORDS = (
    "explain",
    "--model",
    "llama3.1:8b",
    "--quant",
    "q4",
    "--on",
    "RTX 4090, 64GB RAM",
    "--context",
    "8k",
    "--json",
)


def test_advisor_runs_from_the_checkout(tmp_path: Path) -> None:
    done = started(Path(sys.executable), tmp_path, *WORDS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["quantization"] == "Q4_K_M"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a user's pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(TOP)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_everything(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
        compiled = json.loads(z.read("advisor/_data/compiled.json"))
    for folder, suffix, inside in (
        ("advisor", ".py", "advisor"),
        ("rules", ".yaml", "advisor/_data/rules"),
        ("templates", ".j2", "advisor/_data/templates"),
        ("advisor/schemas", ".json", "advisor/schemas"),
    ):
        wanted = {f"{inside}/{p.relative_to(TOP / folder).as_posix()}" for p in (TOP / folder).rglob(f"*{suffix}")}
        assert wanted <= names, sorted(wanted - names)[:5]
    assert "advisor/py.typed" in names
    data = {n.partition(".data/data/")[2] for n in names if ".data/data/" in n}
    assert data == {MAN_PAGE, *COMPLETIONS.values()}
    assert compiled
    assert not [n for n in names if n.startswith(("tests/", "docs/", ".ci/")) or "__pycache__" in n]


@pytest.mark.slow
def test_wheel_works_without_the_checkout_and_says_the_same(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = next(p for p in (tmp_path / "venv/bin/python", tmp_path / "venv/Scripts/python.exe") if p.exists())
    subprocess.run([str(python), "-m", "pip", "install", "-q", str(wheel)], check=True)
    where = subprocess.run(
        [str(python), "-c", "import advisor; print(advisor.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(tmp_path)
    installed, here = started(python, tmp_path, *WORDS), started(Path(sys.executable), tmp_path, *WORDS)
    assert installed.returncode == 0, installed.stderr
    assert json.loads(installed.stdout) == json.loads(here.stdout)
    listed = started(python, tmp_path, "list", "engines")
    assert listed.returncode == 0, listed.stderr
    assert "llama.cpp" in listed.stdout
    assert list((tmp_path / "venv").glob("*/advise*")), "the wheel installs no `advise`"
    for file, text in make_shell_files().items():
        assert (tmp_path / "venv" / file).read_text(encoding="utf-8").split() == text.split()
