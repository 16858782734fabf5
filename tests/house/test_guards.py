"""What conftest.py promises, in a run of its own: no network, a home of its own, and in CI no skip without a reason."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import programs
import pytest

TOP = Path(__file__).resolve().parents[2]
TESTS = """
import os, socket
from pathlib import Path
import pytest
from hypothesis import given, settings, strategies as st
from programs import SHARED

def test_skip_allowed(): pytest.skip(SHARED + "no corpus")
def test_skip_refused(): pytest.skip("no docker here")
@pytest.mark.skipif(True, reason="not today")
def test_skipif_refused(): pass
def test_network_refused(): socket.create_connection(("192.0.2.1", 80), timeout=1)
def test_network_taken_calmly_refused():
    try: socket.getaddrinfo("example.org", 80)
    except OSError: pass
def test_loopback_allowed():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0)); s.listen()
        socket.create_connection(s.getsockname()).close()
def test_home_allowed():
    assert str(Path.home()) != os.environ["OUTER"]
    assert "ADVISOR_RULES" not in os.environ
    assert settings.default.derandomize
"""


EXPECTED = {  # test -> its outcomes: a test that passes and what judges it afterwards are distinguished
    "test_skip_refused": {"FAILED"},
    "test_skipif_refused": {"ERROR"},
    "test_network_refused": {"FAILED", "ERROR"},
    "test_network_taken_calmly_refused": {"PASSED", "ERROR"},
    "test_loopback_allowed": {"PASSED"},
    "test_home_allowed": {"PASSED"},
}


@pytest.mark.slow
def test_what_is_refused_and_what_not_in_a_run_as_ci_makes_it(tmp_path: Path) -> None:
    for name in ("tests/conftest.py", "tests/markers.py", "tests/programs.py", ".ci/apt.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    (tmp_path / "tests" / "test_guarded.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-rA", "--tb=line", "tests"]
    outer = {"CI": "true", "OUTER": str(Path.home()), "ADVISOR_RULES": "/nowhere"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")} | outer
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = {}
    for outcome, name in re.findall(r"(?m)^(PASSED|FAILED|ERROR) .*?::(\S+)", done.stdout):
        found.setdefault(name, set()).add(outcome)
    assert found == EXPECTED, done.stdout + done.stderr
    skipped = re.findall(r"(?m)^SKIPPED .*?\.py:\d+: (.*)$", done.stdout)
    assert skipped == [f"{programs.SHARED}no corpus"]
