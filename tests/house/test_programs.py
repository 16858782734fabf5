"""Programs of others: each is listed, CI installs what is missing, and a missing one is a failure there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import programs
import pytest

TESTS = Path(__file__).resolve().parents[1]
TOP = TESTS.parent


def asked() -> set[str]:
    """Names that tests give to `program`."""
    texts = [p.read_text(encoding="utf-8") for p in TESTS.rglob("*.py") if p.name != "test_programs.py"]
    return {n for t in texts for n in re.findall(r"\bprogram\(\"([\w.-]+)\"\)", t)}


def test_every_program_is_listed_and_every_listed_one_is_asked_for() -> None:
    listed = {*programs.debian_packages(), *programs.OF_PIP}
    assert len(asked()) >= 4
    assert asked() == listed


def test_a_program_that_no_list_names_is_an_error() -> None:
    with pytest.raises(KeyError, match="apt"):
        programs.program("no-such-program")


@pytest.mark.parametrize("ci", [True, False])
def test_a_missing_program(ci: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "CI", ci)
    monkeypatch.setattr(programs, "found", lambda name: None)
    with pytest.raises(pytest.fail.Exception if ci else pytest.skip.Exception, match="apt install systemd brings it"):
        programs.program("systemd-analyze")
    with pytest.raises(pytest.fail.Exception if ci else pytest.skip.Exception, match=r"pip install -e '\.\[test\]'"):
        programs.program("shellcheck")


def install(folder: Path, user: int, there: str = "", apt: bool = True) -> tuple[str, list[str]]:
    """What `.ci/install_programs` prints, and how it called apt-get, on a machine that has the packages `there`."""
    calls = folder / "calls"
    calls.write_text("")
    tools = {
        "id": f"echo {user}",
        "dpkg-query": f'for last; do :; done; case " {there} " in *" $last "*) echo "install ok installed";; esac',
    }
    if apt:
        tools["apt-get"] = f'echo "$@" >> {calls}'
    for name, body in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    for name in ("bash", "env", "sed", "grep", "dirname"):
        (folder / name).symlink_to(shutil.which(name) or name)
    words = [programs.program("bash"), str(TOP / ".ci" / "install_programs")]
    done = subprocess.run(words, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, calls.read_text().splitlines()


def test_ci_installs_what_is_missing(tmp_path: Path) -> None:
    packages = sorted(set(programs.debian_packages().values()))
    (tmp_path / "a").mkdir()
    said, calls = install(tmp_path / "a", 0, there="bash")
    assert [c.split()[0] for c in calls] == ["update", "install"]
    assert calls[1].split()[-len(packages) + 1 :] == [p for p in packages if p != "bash"]
    assert "installed: " in said


@pytest.mark.parametrize(("user", "apt"), [(1000, True), (0, False)])
def test_ci_says_what_it_may_not_install(user: int, apt: bool, tmp_path: Path) -> None:
    said, calls = install(tmp_path, user, apt=apt)
    assert calls == []
    assert "systemd" in said
    assert "will fail" in said


def test_nothing_is_done_where_all_is_there(tmp_path: Path) -> None:
    said, calls = install(tmp_path, 0, there=" ".join(programs.debian_packages().values()))
    assert (said, calls) == ("all there\n", [])


def test_ci_calls_it() -> None:
    text = (TOP / ".ci" / "run").read_text(encoding="utf-8")
    assert ".ci/install_programs" in text
    assert text.index(".ci/install_programs") < text.index("test command")
    assert os.access(TOP / ".ci" / "install_programs", os.X_OK)
