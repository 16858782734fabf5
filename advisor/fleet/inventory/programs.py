"""Programs that are asked for an inventory: started without a shell, with a bound on time and on what they print."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence

from advisor.errors import BadInput
from advisor.fleet.inventory.foreign import MAX_INVENTORY

SECONDS = 120.0  # that a program has to answer


def ask_program(
    words: Sequence[str], seconds: float = SECONDS, limit: int = MAX_INVENTORY, more: Mapping[str, str] | None = None
) -> bytes:
    """What a program prints on standard output, at most `limit` bytes; `more`: variables in addition to ours.

    Raises BadInput where it is absent, fails (with the last line that it wrote about it), takes longer than `seconds`
    or prints more.
    """
    name = os.path.basename(words[0])  # noqa: PTH119 - a word of a command
    program = shutil.which(words[0])
    if program is None:
        raise BadInput(f"{name} is not on this machine; give its output as a file instead")
    shown = " ".join([name, *words[1:4]])
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - words of our own, no shell
                [program, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(more or {})},
            )
        except OSError as e:
            raise BadInput(f"{name} could not be started: {e.strerror or e}") from None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.terminate()

        timer = threading.Timer(seconds, stop)
        last = threading.Timer(seconds + 10, process.kill)
        timer.start()
        last.start()
        try:
            assert process.stdout is not None
            with process.stdout:
                data = process.stdout.read(limit + 1)
            if len(data) > limit:
                process.kill()
            status = process.wait()
        finally:
            timer.cancel()
            last.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
        if late.is_set():
            raise BadInput(f"{shown} did not answer within {seconds:g} s")
        if len(data) > limit:
            raise BadInput(f"{shown} printed more than {limit // 2**20} MiB")
        if status != 0:
            errors.seek(0)
            raise BadInput(f"{shown} failed: {_last_line(errors.read(4000), status)}")
    return data


def _last_line(said: bytes, status: int) -> str:
    lines = [x.strip() for x in said.decode("utf-8", "replace").splitlines() if x.strip()]
    return lines[-1][:300] if lines else f"exit status {status}"
