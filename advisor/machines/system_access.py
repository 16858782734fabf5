"""How probes read the world: bounded files under a root, short system commands, and what one source found.

Everything that a probe reads comes through here, so that a recorded tree drives the same code as a live machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.errors import BadFile
from advisor.files import read_bytes
from advisor.machines.types import Device
from advisor.record import Value

RunCommand = Callable[[Sequence[str]], "str | None"]
MAX_SYSTEM_FILE = 4 * 2**20
MAX_OUTPUT = 4 * 2**20


class ProbeResult(Value, frozen=True):
    """What one source contributes to the Machine."""

    devices: tuple[Device, ...] = ()
    drivers: dict[str, str] = {}
    notes: tuple[str, ...] = ()


def read_system_text(path: Path) -> str | None:
    """The stripped text of a system file; None when it is absent, unreadable, huge or empty."""
    try:
        found = read_bytes(path, MAX_SYSTEM_FILE).decode("utf-8", "replace").strip("\0 \t\r\n")
    except BadFile:
        return None
    return found or None


def read_number(path: Path) -> int | None:
    """A whole number in a system file (decimal or 0x...); None when there is none."""
    return parse_whole_number(read_system_text(path))


def parse_whole_number(value: str | None) -> int | None:
    """Text as a whole number (decimal or 0x...); None when it is not one."""
    if value is None or len(value) > 40:
        return None
    try:
        return int(value, 0) if value.lower().startswith("0x") else int(value)
    except ValueError:
        return None


def list_names(folder: Path) -> list[str]:
    """Sorted names inside a folder; empty when it is absent or unreadable."""
    try:
        return sorted(p.name for p in folder.iterdir())
    except OSError:
        return []


def path_exists(path: Path) -> bool:
    """Whether something is there; unreadable counts as absent."""
    try:
        return path.exists()
    except OSError:
        return False


def parse_fields(body: str | None, separator: str) -> dict[str, str]:
    """`key<separator>value` lines as a dict (first wins)."""
    out: dict[str, str] = {}
    for line in (body or "").splitlines():
        key, found, value = line.partition(separator)
        if found:
            out.setdefault(key.strip(), value.strip())
    return out


def run_command(argv: Sequence[str], timeout: float = 2.0) -> str | None:
    """Standard output (then standard error) of a program; None when it is absent, fails to start or takes too long."""
    import subprocess

    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, shell=False
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return (done.stdout + b"\n" + done.stderr)[:MAX_OUTPUT].decode("utf-8", "replace").strip() or None


def run_slow_command(argv: Sequence[str]) -> str | None:
    """`run_command` with the patience that macOS' system_profiler and a fresh Python need (6 s)."""
    return run_command(argv, timeout=6.0)


def run_nothing(argv: Sequence[str]) -> str | None:
    """The `RunCommand` of a recorded tree: nothing can be started there."""
    return None
