"""A server process: started in a group of its own, watched until it answers, stopped."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from advisor.bench.endpoint import Endpoint, answers_health, ask_question
from advisor.deployment import Interval, SpeedEstimate
from advisor.errors import BadInput
from advisor.record import Record, Value

POLL_S = 0.2
GRACE_S = 20.0  # that a server has to end by itself
TAIL = 2000  # characters of a log that an error shows
QUESTION = "Write a short paragraph about the sea."
TOKENS = 96  # of the answer that is measured


class ServerCommand(Value, frozen=True):
    """Words and variables that start a server."""

    words: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def shown(self) -> str:
        """As one would type it."""
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.environment.items()), shlex.join(self.words)])


class FirstAnswer(Record, frozen=True, kw_only=True):
    """One measured request, and the rate that was predicted. None = not told."""

    output_tokens: int
    seconds: float
    output_tps: float
    predicted_tps: Interval | None

    @property
    def inside(self) -> bool | None:
        """Whether the measured rate is within the predicted bounds."""
        if self.predicted_tps is None:
            return None
        return self.predicted_tps.low <= self.output_tps <= self.predicted_tps.high


def parse_command(text: str) -> ServerCommand:
    """The words of a rendered command; variables stand before the program. Raises BadInput where one is left open."""
    if "${" in text:
        raise BadInput("the command has something to fill in; `advise recommend` shows what")
    words = shlex.split(text.replace(" \\\n", " "))
    environment: dict[str, str] = {}
    while words and "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    return ServerCommand(tuple(words), environment)


def start_process(command: ServerCommand, more: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """The process, whose output goes to `log`. Raises BadInput where the program is not on this machine."""
    program = shutil.which(command.words[0])
    if program is None:
        raise BadInput(f"{command.words[0]} is not on this machine; nothing is installed unasked")
    with log.open("wb") as out:
        return subprocess.Popen(  # noqa: S603 - words of our own rendering, no shell
            [program, *command.words[1:], *more],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **command.environment},
            start_new_session=True,
        )


def wait_until_healthy(
    process: subprocess.Popen[bytes], url: str, path: str, seconds: float, log: Path, progress: Callable[[float], None]
) -> float:
    """Seconds until the server answers at `path`. Raises BadInput with the end of its log where it does not."""
    begin = time.monotonic()
    while True:
        passed = time.monotonic() - begin
        if process.poll() is not None:
            raise BadInput(f"the server ended with status {process.returncode}: {_tail(log)}")
        if answers_health(url, path):
            return passed
        if passed > seconds:
            raise BadInput(f"the server did not answer within {seconds:.0f} s: {_tail(log)}")
        progress(passed)
        time.sleep(POLL_S)


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Inside, SIGTERM ends the program as Ctrl-C does, so that what was started is stopped."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_process(process: subprocess.Popen[bytes]) -> int:
    """Ends the whole group: asked first, killed after a while; the exit status."""
    for sign, wait in ((signal.SIGINT, GRACE_S), (signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        if process.poll() is None:
            try:
                os.killpg(process.pid, sign)
            except ProcessLookupError:
                break
            try:
                return process.wait(wait)
            except subprocess.TimeoutExpired:
                continue
    return process.wait()


def _tail(log: Path) -> str:
    try:
        return " ".join(log.read_bytes()[-TAIL:].decode("utf-8", "replace").split())[-TAIL:]
    except OSError:
        return "it wrote nothing"


def measure_answer(endpoint: Endpoint, speed: SpeedEstimate | None, timeout: float = 600) -> FirstAnswer:
    """One request, timed from asking to its last token. Raises BadInput where it fails or says no tokens."""
    begin = time.monotonic()
    tokens = ask_question(endpoint, endpoint.models[0], QUESTION, TOKENS, timeout)
    seconds = time.monotonic() - begin
    if not tokens:
        raise BadInput(f"{endpoint.url}: the answer does not say how many tokens it has")
    return FirstAnswer(
        output_tokens=tokens,
        seconds=round(seconds, 3),
        output_tps=round(tokens / seconds, 2),
        predicted_tps=speed.decode_tps if speed is not None else None,
    )
