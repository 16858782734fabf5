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


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Test -> its outcomes (a test and what ends it are told apart), in a run as CI makes it."""
    folder = tmp_path_factory.mktemp("run")
    for name in ("tests/conftest.py", "tests/programs.py", ".ci/apt.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(TOP / name, folder / name)
    (folder / "tests" / "test_guarded.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-rA", "--tb=line", "tests"]
    outer = {"CI": "true", "OUTER": str(Path.home()), "ADVISOR_RULES": "/nowhere"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")} | outer
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = {}
    for outcome, name in re.findall(r"(?m)^(PASSED|FAILED|ERROR) .*?::(\S+)", done.stdout):
        found.setdefault(name, set()).add(outcome)
    found["skipped"] = set(re.findall(r"(?m)^SKIPPED .*?\.py:\d+: (.*)$", done.stdout))
    assert len(found) > 5, done.stdout + done.stderr
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_skip_refused", {"FAILED"}),
        ("test_skipif_refused", {"ERROR"}),
        ("test_network_refused", {"FAILED", "ERROR"}),
        ("test_network_taken_calmly_refused", {"PASSED", "ERROR"}),
        ("test_loopback_allowed", {"PASSED"}),
        ("test_home_allowed", {"PASSED"}),
    ],
)
def test_what_is_refused_and_what_not(outcomes: dict[str, set[str]], name: str, said: set[str]) -> None:
    assert outcomes[name] == said


def test_a_skip_with_a_reason_that_holds_in_ci(outcomes: dict[str, set[str]]) -> None:
    assert outcomes["skipped"] == {f"{programs.SHARED}no corpus"}
