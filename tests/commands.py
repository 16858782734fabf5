"""`advise` as a user runs it, in the process of the test: no start-up, and the rules are read once.

What only a process shows (its own environment, limits of memory, pipes, signals, start-up) is started as one.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from advisor.cli.main import run_command_line

ADVISE = str(Path(sys.executable).parent / "advise")


class Finished(NamedTuple):
    """Exit status and what went to the two streams; fields are named as those of subprocess.CompletedProcess."""

    returncode: int
    stdout: str
    stderr: str


def advise(*words: str, folder: Path | None = None, stdin: str = "", env: dict[str, str] | None = None) -> Finished:
    """Run one command line: in `folder`, with `stdin` on standard input, and with `env` next to the environment."""
    out, err = _stream(), _stream()
    before = Path.cwd()
    try:
        if folder is not None:
            os.chdir(folder)
        with (
            mock.patch.dict(os.environ, env or {}),
            mock.patch.multiple(sys, stdin=_stream(stdin), stdout=out, stderr=err),
        ):
            status = run_command_line(list(words))
    finally:
        os.chdir(before)
    return Finished(status, _text(out), _text(err))


def started(
    *words: str, folder: Path | None = None, stdin: str | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [ADVISE, *words],
        cwd=folder,
        input=stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
