"""`advise` alone: three questions on a terminal, the plain command they amount to; help where nobody can answer."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
from collections.abc import Sequence

import commands
import pytest
from programs import ELSEWHERE

pytestmark = pytest.mark.skipif(os.name == "nt", reason=f"{ELSEWHERE}a terminal of its own is asked for")
TRIES = 240  # of half a second each without a word from the program


def _converse(answers: Sequence[str]) -> tuple[str, int]:
    """(what the terminal shows, exit status): each answer is typed when a question stands there."""
    import pty

    process, terminal = pty.fork()
    if not process:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a run in the background ignores it
        os.environ.update(TERM="dumb", COLUMNS="100", NO_COLOR="1")
        os.execv(sys.executable, [sys.executable, "-m", "advisor"])
    shown, left, typed = b"", [f"{a}\n" if a != "\x03" else a for a in answers], ""
    for _ in range(TRIES):
        if not select.select([terminal], [], [], 0.5)[0]:
            if typed == "\x03":  # one that comes just before readline waits is lost
                os.write(terminal, typed.encode())
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        shown += piece
        if shown.endswith(b"]: ") and left:
            typed = left.pop(0)
            os.write(terminal, typed.encode())
    else:
        os.kill(process, signal.SIGKILL)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _command(shown: str) -> list[str]:
    return shlex.split(next(line for line in shown.splitlines() if line.startswith("$ advise"))[2:])


def test_enter_takes_what_was_found() -> None:
    shown, status = _converse(["", "", ""])
    assert status in (0, 1), shown
    assert _command(shown) == ["advise", "recommend"]
    assert "Machine  " in shown or "Machine: " in shown


def test_answers_become_options_and_the_command_answers_alike() -> None:
    shown, status = _converse(["code", "8B", "RTX 4090, 64GB RAM"])
    words = _command(shown)
    assert words == ["advise", "recommend", "--use-case", "code", "--model", "8B", "--on", "RTX 4090, 64GB RAM"]
    assert status == 0
    alone = commands.advise(*words[1:]).stdout
    command = next(line for line in alone.splitlines() if line.startswith("  ") and line.endswith("\\"))
    assert command in shown.replace("\r", "")


def test_wrong_answers_are_asked_again() -> None:
    shown, status = _converse(["chatt", "chat", "qwen3-8bb", "qwen3-8b", "RTX 40900", "RTX 4090"])
    assert status in (0, 2)
    assert "chat" in shown
    assert shown.count("What for") == 2
    assert shown.count("Which model") == 2
    assert _command(shown)[2:] == ["--model", "qwen3-8b", "--on", "RTX 4090"]


def test_interrupted() -> None:
    assert _converse(["\x03"])[1] == 130


def test_help_without_a_terminal() -> None:
    done = commands.advise()
    assert "Commands:" in done.stdout + done.stderr
