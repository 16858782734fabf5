"""Functions and modules stay small enough to be held in the head; exceptions.toml has the others, and only shrinks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).resolve().parents[2]
EXCEPTIONS: dict[str, dict[str, int]] = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
PYPROJECT: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text())
FOLDERS = ("advisor", "tools", "tests", ".ci")
LIMITS = {"complexity": 15, "lines": 600}
# (entries, sum of their values) of the list, exactly. Whoever ends an exception lowers these; nobody raises them
AT_MOST = {"complexity": (0, 0), "lines": (0, 0)}
SLACK = {"complexity": 1, "lines": 25}  # what an entry may stand above the truth


def complexities() -> dict[str, int]:
    """`file::function` -> cyclomatic complexity of every function above the limit."""
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--ignore-noqa"]
    words += ["--config", f"lint.mccabe.max-complexity={LIMITS['complexity']}", "--output-format", "json"]
    done = subprocess.run([*words, *FOLDERS], cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = {}
    for fault in json.loads(done.stdout):
        assert fault["code"] == "C901", fault["message"]  # anything else is a file that is no Python
        _, name, rest = fault["message"].split("`")
        file = Path(fault["filename"]).relative_to(TOP).as_posix()
        found[f"{file}::{name}"] = int(rest.split("(")[1].split(" ")[0])
    return found


def lengths() -> dict[str, int]:
    """File -> lines of every module above the limit."""
    files = [p for folder in FOLDERS for p in (TOP / folder).rglob("*.py")]
    counted = {p.relative_to(TOP).as_posix(): len(p.read_text(encoding="utf-8").splitlines()) for p in files}
    return {f: n for f, n in counted.items() if n > LIMITS["lines"]}


MEASURED = {"complexity": complexities, "lines": lengths}


def faults(kind: str, found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """What is wrong with a list of exceptions, one line each."""
    limit, slack = LIMITS[kind], SLACK[kind]
    out = [
        f"{name}: {n} {kind}, at most {allowed.get(name, limit)} are allowed: split it by concern"
        for name, n in found.items()
        if n > allowed.get(name, limit)
    ]
    out += [f"{name} keeps to the limit now: take it out of exceptions.toml" for name in allowed if name not in found]
    out += [
        f"{name} has {found[name]} {kind} and {n} allowed: lower its number in exceptions.toml"
        for name, n in allowed.items()
        if name in found and n > found[name] + slack
    ]
    is_now = (len(allowed), sum(allowed.values()))
    if is_now[0] > AT_MOST[kind][0] or is_now[1] > AT_MOST[kind][1]:
        out.append(f"{kind}: the list of exceptions grew to {is_now}; it only shrinks, and was {AT_MOST[kind]}")
    elif is_now != AT_MOST[kind]:
        out.append(f"{kind}: the list shrank: write {is_now} into AT_MOST")
    return out


@pytest.mark.parametrize("kind", LIMITS)
def test_limits_hold_but_for_the_list_which_only_shrinks(kind: str) -> None:
    assert faults(kind, MEASURED[kind](), EXCEPTIONS[kind]) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"advisor/new.py": 601}, "advisor/new.py: 601 lines, at most 600 are allowed"),
        ({"advisor/large.py": 711}, "at most 710 are allowed"),
        ({"advisor/large.py": 680}, "lower its number"),
        ({"advisor/large.py": None}, "take it out"),
    ],
)
def test_what_is_refused(change: dict[str, int | None], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {"advisor/large.py": 710}
    monkeypatch.setitem(AT_MOST, "lines", (1, 710))
    found = {k: v for k, v in ({**allowed, **change}).items() if v is not None}
    (fault,) = faults("lines", found, allowed)
    assert said in fault


def test_a_new_entry_is_refused() -> None:
    grown = EXCEPTIONS["lines"] | {"advisor/new.py": 700}
    assert any("only shrinks" in f for f in faults("lines", grown, grown))


def test_ruff_lets_only_the_listed_files_off() -> None:
    assert PYPROJECT["tool"]["ruff"]["lint"]["mccabe"]["max-complexity"] == LIMITS["complexity"]
    ignored = PYPROJECT["tool"]["ruff"]["lint"]["per-file-ignores"]
    assert "C901" in PYPROJECT["tool"]["ruff"]["lint"]["select"]
    assert {f for f, codes in ignored.items() if "C901" in codes} == {
        k.split("::")[0] for k in EXCEPTIONS["complexity"]
    }
