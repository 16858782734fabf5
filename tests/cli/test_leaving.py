"""A command ends at once; handlers, threads and whole output are not lost by it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

START = "import sys; from advisor.cli.main import main; sys.argv = ['advise', {words}]; {before}; main()"


def run(words: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    code = START.format(words=", ".join(repr(w) for w in words.split()), before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_objects_are_not_taken_apart() -> None:
    spoken = "import os; kept = type('Kept', (), {'__del__': lambda self, w=os.write: w(1, b'taken apart')})()"
    done = run("--version", spoken)
    assert done.returncode == 0
    assert "taken apart" not in done.stdout
    traced = run("--version", f"{spoken}; sys.settrace(lambda *_: None)")
    assert "taken apart" in traced.stdout


@pytest.mark.parametrize(
    "before",
    [
        "import atexit; atexit.register(print, 'last words')",
        "import threading, time; threading.Timer(0.2, print, ['last words']).start()",
    ],
)
def test_handlers_and_threads_are_awaited(before: str) -> None:
    done = run("--version", before)
    assert done.returncode == 0
    assert done.stdout.endswith("last words\n")


def test_output_is_whole_and_the_status_is_the_commands() -> None:
    done = run("list models --json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)) > 300
    wrong = run("explain --model no-such-model")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("advise: unknown model")
