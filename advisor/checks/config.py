"""Configuration: `[tool.advisor.check]` in pyproject.toml, or `[check]` in advisor.toml, of the current folder.

A proposed change may bring its own configuration: `--config-from REF` takes the one of another commit, and what a
configuration leaves out is reported in every report.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from advisor.checks.findings import CONFIGURATION, Finding
from advisor.decoding import Json
from advisor.errors import BadFile, BadInput
from advisor.files import decode_text, read_text
from advisor.near import near_matches
from advisor.record import Value
from advisor.tree import describe_link, leads_out

KEYS = {"on": str, "select": list, "ignore": list}
PLACES = (("advisor.toml", ("check",)), ("pyproject.toml", ("tool", "advisor", "check")))
MOST = 2**20  # bytes
PATIENCE = 30  # seconds that Git gets


class Configuration(Value, frozen=True):
    """The settings, and the file that has them."""

    settings: Json
    file: str = ""


def load_config(folder: Path | None = None, ref: str | None = None) -> Configuration:
    """The settings of a folder, as they are there or at a commit; empty where there are none.

    Raises BadFile for what cannot be read or is unknown, BadInput for a commit that is none.
    """
    here = folder or Path()
    commit = _find_commit(here, ref) if ref is not None else None
    for name, path in PLACES:
        text = _read(here / name) if commit is None else _read_at(here, commit, name)
        found = _table(text, here / name, path) if text is not None else None
        if found is not None:
            return Configuration(_checked(found, here / name), name)
    return Configuration({})


def describe_left_out(configuration: Configuration) -> tuple[Finding, ...]:
    """What the configuration leaves out, as a finding that fails nothing."""
    ignored, selected = configuration.settings.get("ignore"), configuration.settings.get("select")
    parts = [f"ignores {', '.join(map(str, ignored))}"] if ignored else []
    parts += [f"selects {', '.join(map(str, selected))} alone"] if selected else []
    if not parts:
        return ()
    message = f"the configuration {' and '.join(parts)}: other rules were not asked"
    fix = (
        "Nothing, if you mean that; --no-config asks all rules, --config-from REF takes another commit's configuration"
    )
    return (
        Finding(
            rule="rules-left-out", severity="info", file=configuration.file, line=1, message=message, fix=fix,
            phase=CONFIGURATION,
        ),
    )  # fmt: skip


def _read(file: Path) -> str | None:
    if leads_out(file):
        raise BadFile(file, describe_link(file))
    return read_text(file, MOST) if file.is_file() else None


def _find_commit(folder: Path, ref: str) -> str:
    found = _ask_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}")
    if found is None:
        raise BadInput(f"--config-from {ref}: this repository has no such commit")
    return found.decode("ascii", "replace").strip()


def _read_at(folder: Path, commit: str, name: str) -> str | None:
    data = _ask_git(folder, "cat-file", "blob", f"{commit}:./{name}")
    if data is not None and len(data) > MOST:
        raise BadFile(f"{commit[:12]}:{name}", "is too large to be a configuration")
    return None if data is None else decode_text(data, f"{commit[:12]}:{name}")


def _ask_git(folder: Path, *words: str) -> bytes | None:
    """What Git prints; None where it fails. Raises BadInput where there is no Git."""
    import shutil
    import subprocess

    git = shutil.which("git")
    if git is None:
        raise BadInput("--config-from needs Git, and `git` was not found")
    try:
        done = subprocess.run(  # noqa: S603  reads one object, no shell
            [git, *words], cwd=folder, capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        raise BadInput(f"--config-from needs Git: {e}") from None
    return done.stdout if done.returncode == 0 else None


def _table(text: str, file: Path, path: tuple[str, ...]) -> Json | None:
    if path[-1] not in text:
        return None
    from importlib import import_module

    tomllib: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        data: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        if file.name == "pyproject.toml":
            return None
        raise BadFile(file, f"is not valid TOML: {e}") from None
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else None


def _checked(found: Json, file: Path) -> Json:
    for key, value in found.items():
        if key not in KEYS:
            near = near_matches(key, KEYS)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
            raise BadFile(file, f"unknown setting {key!r}; {meant}")
        if not isinstance(value, KEYS[key]):
            raise BadFile(file, f"{key} must be a {'text' if KEYS[key] is str else 'list of texts'}")
    return found
