"""What others bring into the project is named exactly: actions by commit, a development environment by hashes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).resolve().parent.parent
LOCK = TOP / ".ci" / "requirements.lock"
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_actions_of_others_are_pinned_by_commit() -> None:
    """With the version as a comment, which is what a person reads and a bot keeps up."""
    files = [TOP / "action.yml", TOP / "README.md", *(TOP / ".github").rglob("*.yml"), *(TOP / "docs").rglob("*.yml")]
    used = [u for f in files for u in re.findall(r"(?m)^\s*(?:- )?uses: (.+)$", f.read_text(encoding="utf-8"))]
    assert len(used) >= 6
    for use in used:
        if not use.startswith("your-org/"):  # the reader's own copy
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} +# v\d+\.\d+\.\d+", use), use


@pytest.fixture(scope="module")
def locked() -> dict[str, list[Requirement]]:
    """Distribution -> its lines in the lock."""
    text = LOCK.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [x.split(" --hash")[0] for x in text.splitlines() if x.strip() and not x.lstrip().startswith("#")]
    out: dict[str, list[Requirement]] = {}
    for line in lines:
        r = Requirement(line)
        out.setdefault(canonicalize_name(r.name), []).append(r)
    return out


def test_the_lock_holds_what_the_project_asks_for(locked: dict[str, list[Requirement]]) -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [Requirement(x) for x in (*PROJECT["dependencies"], *extras["test"], *extras["lint"], *extras["slow"])]
    systems = [{"platform_system": p, "python_version": "3.11"} for p in ("Linux", "Windows", "Darwin")]
    for want in asked:  # the tests' own packages want 3.11
        if want.marker is not None and not any(want.marker.evaluate(s) for s in systems):
            continue
        pinned = locked.get(canonicalize_name(want.name))
        assert pinned, f"{want.name} is not locked: make lock"
        for pin in pinned:
            (only,) = pin.specifier
            assert only.operator == "=="
            assert want.specifier.contains(only.version, prereleases=True), f"{want} against {pin}: make lock"


def test_every_line_of_the_lock_has_hashes() -> None:
    for line in LOCK.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line[:80]
    assert "http" not in re.sub(r"(?m)^\s*#.*|httpx?[\w-]*|httpcore[\w-]*", "", LOCK.read_text(encoding="utf-8"))


def test_optional_parts_do_not_come_unasked() -> None:
    """What a plain install brings is small, and none of it replaces what other programs pin (docs/library.md)."""
    names = {canonicalize_name(Requirement(x).name) for x in PROJECT["dependencies"]}
    assert names == {
        "click",
        "msgspec",
        "pyyaml",
        "jinja2",
        "tabulate",
        "psutil",
        "tomli",
        "nvidia-ml-py",
        "py-cpuinfo",
        "tree-sitter",
        "tree-sitter-bash",
        "tree-sitter-hcl",
    }
    for x in PROJECT["dependencies"]:
        assert not [s for s in Requirement(x).specifier if s.operator in ("<", "<=", "==", "~=")], x
