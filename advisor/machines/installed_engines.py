"""Engines that are installed here: programs on PATH and Python packages, with their version.

Python packages are read from *.dist-info folder names and never imported. Only programs whose version stands nowhere
else are started, with a time-out, and only where the program exists.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from advisor.machines.system_access import RunCommand, list_names
from advisor.machines.types import InstalledEngine
from advisor.patterns import pattern_when_used
from advisor.record import Record


class KnownEngines(Record, frozen=True, kw_only=True):
    """What engines look like when they are installed, by the catalogue (`recognition` in rules/engines)."""

    programs: dict[str, str] = {}  # program on PATH -> engine id
    packages: dict[str, str] = {}  # Python distribution (PEP 503 name) -> engine id
    bindings: frozenset[str] = frozenset()  # distributions whose version is the binding's, not the engine's
    version_programs: dict[str, str] = {}  # engine id -> the program that prints its version, which stands nowhere else
    builds: dict[str, dict[str, str | None]] = {}  # engine id -> build number -> version, for engines that count builds


MAX_FOLDERS = 64
_DIST = pattern_when_used(r"([A-Za-z0-9][A-Za-z0-9._-]*?)-(\d[A-Za-z0-9.!+_]*)\.dist-info")


def read_installed(
    root: Path,
    env: Mapping[str, str],
    run: RunCommand,
    site: Iterable[Path] | None = None,
    known: KnownEngines | None = None,
    system: str = sys.platform,
) -> tuple[InstalledEngine, ...]:
    """Engines found, programs first.

    `site` are the folders that hold *.dist-info (None = this Python's own). A build that `known` does not name leaves
    the version unknown.
    """
    found: list[InstalledEngine] = []
    known = known or KnownEngines()
    for name, engine in known.programs.items():
        path = find_program(name, env, root, system)
        if path is None:
            continue
        printed = run([str(path), "--version"]) if known.version_programs.get(engine) == name else None
        version, build = _version(printed, known.builds.get(engine))
        found.append(InstalledEngine(engine=engine, version=version, build=build, path=_shown(path, root)))
    folders = [Path(p or ".") for p in sys.path] if site is None else list(site)
    for name, number in find_distributions(folders).items():
        if name in known.packages:
            version = None if name in known.bindings else number
            found.append(InstalledEngine(engine=known.packages[name], version=version, build=number, package=name))
    return tuple(_merged(found, known))


def find_program(name: str, env: Mapping[str, str], root: Path, system: str) -> Path | None:
    """The executable file `name` on PATH under `root`; None when there is none."""
    import os

    suffixes = (".exe", ".cmd", "") if system == "win32" else ("",)
    for folder in env.get("PATH", "").split(";" if system == "win32" else ":")[:MAX_FOLDERS]:
        if not folder:
            continue
        for suffix in suffixes:
            path = (root / folder.lstrip("/") if str(root) != "/" else Path(folder)) / (name + suffix)
            try:
                if path.is_file() and os.access(path, os.X_OK):
                    return path
            except (OSError, ValueError):
                continue
    return None


def find_distributions(folders: Iterable[Path]) -> dict[str, str]:
    """Normalised name -> version of the Python distributions in `folders`; an earlier folder wins, as on sys.path."""
    out: dict[str, str] = {}
    for folder in list(folders)[:MAX_FOLDERS]:
        for entry in list_names(folder):
            m = _DIST.fullmatch(entry)
            if m:
                out.setdefault(re.sub(r"[-_.]+", "-", m[1]).lower(), m[2])
    return out


def parse_llama_version(printed: str) -> tuple[str | None, str | None]:
    """(version, build) that `llama-server --version` prints: `version: 10434 (hash)`, `version: 0.5.0 (b10400)`."""
    line = re.search(r"(?im)^.*\bversion:?\s*v?(\d[^\n]*)", printed)
    body = line[1] if line else ""
    semantic = re.match(r"\d+\.\d+\.\d+(?:[-+.][0-9A-Za-z.-]+)?", body)
    number = re.search(r"\bb(\d{3,6})\b", printed) or (re.match(r"(\d{3,6})\b(?!\.)", body) if not semantic else None)
    return (semantic[0] if semantic else None), (f"b{number[1]}" if number else None)


def _version(printed: str | None, builds: Mapping[str, str | None] | None) -> tuple[str | None, str | None]:
    """(version, build) of what `--version` prints; `builds` are those of an engine that counts them, else None."""
    if printed is None:
        return None, None
    if builds is not None:
        version, build = parse_llama_version(printed)
        if version is None and build is not None:
            version = builds.get(build)
        return version, build or version
    m = re.search(r"version(?: is)?:?\s+v?(\d+\.\d+[\w.+-]*)", printed)
    return (m[1], m[1]) if m else (None, None)


def _shown(path: Path, root: Path) -> str:
    return str(path) if str(root) == "/" else "/" + str(path.relative_to(root))


def _merged(found: Iterable[InstalledEngine], known: KnownEngines) -> list[InstalledEngine]:
    """One entry an engine where a package brings the program: the package knows the version, the program the path."""
    import msgspec

    out: list[InstalledEngine] = []
    for engine in found:
        twins = (i for i, o in enumerate(out) if o.engine == engine.engine and o.version is None and o.package is None)
        twin = next(twins, None)
        if engine.package is not None and twin is not None and engine.engine not in known.version_programs:
            out[twin] = msgspec.structs.replace(engine, path=out[twin].path)
        elif engine not in out:
            out.append(engine)
    return out
