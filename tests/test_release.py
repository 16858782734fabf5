"""What an adopter expects of the repository: one version, a changelog, forms, systems that are tried."""

from __future__ import annotations

import datetime
import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml

import advisor

TOP = Path(__file__).resolve().parent.parent
CHECK = runpy.run_path(str(TOP / ".ci" / "release_check"))
CHANGELOG = (TOP / "CHANGELOG.md").read_text(encoding="utf-8")
TODAY = datetime.date(2026, 11, 24)


def test_the_version_stands_in_one_place() -> None:
    assert CHECK["version"]() == advisor.__version__
    text = (TOP / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in text
    assert not re.search(r"(?m)^version = ", text)


def test_the_changelog_has_dated_sections_newest_first() -> None:
    names = re.findall(r"(?m)^## \[([^\]]+)\](?: - (\S+))?$", CHANGELOG)
    assert names[0] == ("Unreleased", "")
    days = [datetime.date.fromisoformat(day) for _, day in names[1:]]
    assert days == sorted(days, reverse=True)


@pytest.mark.parametrize(
    ("tag", "text", "said"),
    [
        ("v1.0.0", "## [1.0.0] - 2026-11-20\n\n- first\n", None),
        ("v1.0.1", "## [1.0.0] - 2026-11-20\n\n- first\n", "is not v1.0.0"),
        ("v1.0.0", "## [Unreleased]\n\n- first\n", "no section"),
        ("v1.0.0", "## [1.0.0] - 2027-01-01\n\n- first\n", "to come"),
        ("v1.0.0", "## [1.0.0] - soon\n\n- first\n", "is no day"),
        ("v1.0.0", "## [1.0.0] - 2026-11-20\n\n## [0.9.0] - 2026-11-01\n\n- older\n", "is empty"),
    ],
)
def test_what_may_be_released(tag: str, text: str, said: str | None) -> None:
    fault = CHECK["fault"](tag, "1.0.0", text, TODAY)
    assert fault is None if said is None else said in fault


def test_every_supported_python_and_system_is_tried() -> None:
    flow = yaml.safe_load((TOP / ".github/workflows/systems.yml").read_text())
    matrix = flow["jobs"]["installed"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert {x["os"].partition("-")[0] for x in matrix["include"]} == {"macos", "windows"}
    least = re.search(r'requires-python = ">=([\d.]+)"', (TOP / "pyproject.toml").read_text())
    assert least is not None
    assert least[1] == matrix["python"][0]


def test_workflows_start_what_is_there() -> None:
    for path in (TOP / ".github/workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        flow = yaml.safe_load(text)
        assert flow["permissions"] == {"contents": "read"}, path.name
        for program in re.findall(r"(?<![\w/])(\.ci/[\w.]+)", text):
            assert (TOP / program).exists(), program
        targets = re.findall(r"\bmake ([a-z ]+)", text)
        makefile = (TOP / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"(?m)^{t}:", makefile) for found in targets for t in found.split())


def test_forms_of_issues_have_what_forms_need() -> None:
    folder = TOP / ".github/ISSUE_TEMPLATE"
    forms = [p for p in folder.glob("*.yml") if p.name != "config.yml"]
    assert len(forms) >= 3
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        ids = [part["id"] for part in form["body"]]
        assert len(ids) == len(set(ids))
        assert all(part["type"] in ("input", "textarea") and part["attributes"]["label"] for part in form["body"])


def test_owners_own_what_is_there() -> None:
    lines = (TOP / ".github/CODEOWNERS").read_text(encoding="utf-8").splitlines()
    rows = [x.split() for x in lines if x and not x.startswith("#")]
    assert rows[0][0] == "*"
    for path, *owners in rows:
        assert owners
        assert all(o.startswith("@") for o in owners)
        assert path == "*" or (TOP / path.strip("/")).exists()


@pytest.mark.slow
def test_what_must_hold_on_every_system_holds_here() -> None:
    import subprocess

    done = subprocess.run([sys.executable, str(TOP / ".ci/smoke")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
