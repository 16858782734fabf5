"""Engines, launch files and readers of others: installed packages with an entry point of the group `advisor.plugins`.

An entry point names a module that may have RULES and TEMPLATES (folders that are layered over the shipped ones),
ENGINES (engine id -> module, or its dotted name) and READERS (functions). docs/plugins.md shows an example.
Code of a package runs only where the package was installed next to this one; `ADVISOR_PLUGINS=off` leaves all out.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, BadInput
from advisor.record import Value

GROUP = "advisor.plugins"

# a text and the name of its file -> (line, command) of what it starts; None where it is no file of its kind
Reader = Callable[[str, str], "Sequence[tuple[int, str]] | None"]
EntryPoint = tuple[str, str]  # name, module


class Plugin(Value, frozen=True):
    """What one package brings."""

    name: str
    rules: Path | None
    templates: Path | None
    engines: Mapping[str, Any]  # id -> module, or its dotted name
    readers: tuple[Reader, ...]


def load_plugins() -> tuple[Plugin, ...]:
    """All plugins by name. Raises BadInput with one line for a plugin that cannot be used."""
    return () if os.environ.get("ADVISOR_PLUGINS") == "off" else _load(_list_entry_points(tuple(sys.path)))


@lru_cache(maxsize=4)
def _list_entry_points(folders: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of our group in the folders of a search path."""
    return tuple(sorted({point for folder in dict.fromkeys(folders) for point in _scan(folder or ".")}))


def find_plugin_module(plugins: Sequence[Plugin], engine_id: str) -> Any:
    """The module that a plugin has for an engine; None where none has one. Raises BadInput where it lacks functions."""
    for plugin in plugins:
        module = plugin.engines.get(engine_id)
        if isinstance(module, str):
            module = _import(plugin.name, module)
        if module is None:
            continue
        for function in ("memory", "launch_settings"):
            if not callable(getattr(module, function, None)):
                raise BadInput(f"plugin {plugin.name}: its module for {engine_id} has no function `{function}`")
        return module
    return None


def read_by_plugins(plugins: Sequence[Plugin], text: str, name: str) -> Sequence[tuple[int, str]] | None:
    """(line, command) of what a text starts, by the first reader whose kind of file it is. Raises BadInput."""
    for plugin in plugins:
        for reader in plugin.readers:
            try:
                found = reader(text, name)
            except AdvisorError:
                raise
            except Exception as e:
                raise BadInput(f"plugin {plugin.name}: its reader fails at {name}: {_describe(e)}") from None
            if found is not None:
                return found
    return None


def _scan(folder: str) -> list[EntryPoint]:
    """Entry points of the packages that are installed in one folder.

    `importlib.metadata` would tell the same, and takes longer to import than a command to start.
    """
    out: list[EntryPoint] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith((".dist-info", ".egg-info")):
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    out += _parse(Path(entry.path, "entry_points.txt").read_text(encoding="utf-8"))
    return out


def _parse(text: str) -> list[EntryPoint]:
    out, inside = [], False
    for line in text.splitlines():
        words = line.split("#")[0].strip()
        if words.startswith("["):
            inside = words == f"[{GROUP}]"
        elif inside and "=" in words:
            name, _, module = words.partition("=")
            out.append((name.strip(), module.strip()))
    return out


@lru_cache(maxsize=4)
def _load(points: tuple[tuple[str, str], ...]) -> tuple[Plugin, ...]:
    return tuple(_make_plugin(name, _import(name, module)) for name, module in points)


def _import(name: str, module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except Exception as e:
        raise BadInput(
            f"plugin {name} cannot be loaded ({_describe(e)}): correct or uninstall it, or set ADVISOR_PLUGINS=off"
        ) from None


def _make_plugin(name: str, module: Any) -> Plugin:
    folders: dict[str, Path | None] = {"RULES": None, "TEMPLATES": None}
    for key in folders:
        stated = getattr(module, key, None)
        if stated is not None:
            folders[key] = Path(stated)
            if not Path(stated).is_dir():
                raise BadInput(f"plugin {name}: {key} is not a folder: {stated}")
    engines, readers = getattr(module, "ENGINES", {}), tuple(getattr(module, "READERS", ()))
    if not isinstance(engines, Mapping) or not all(map(callable, readers)):
        raise BadInput(f"plugin {name}: ENGINES maps ids of engines to modules, READERS are functions")
    return Plugin(name, folders["RULES"], folders["TEMPLATES"], engines, readers)


def _describe(e: Exception) -> str:
    return " ".join(f"{type(e).__name__}: {e}".split())[:200]
