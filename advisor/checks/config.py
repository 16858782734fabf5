"""Configuration: `[tool.advisor.check]` in pyproject.toml, or `[check]` in advisor.toml, of the current folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from advisor.errors import BadFile
from advisor.near import near_matches

KEYS = {"on": str, "select": list, "ignore": list}


def load_config(folder: Path | None = None) -> dict[str, Any]:
    """The settings of a folder; empty where there are none. Raises BadFile for what cannot be read or is unknown."""
    here = folder or Path()
    for name, path in (("advisor.toml", ("check",)), ("pyproject.toml", ("tool", "advisor", "check"))):
        file = here / name
        if file.is_file():
            found = _table(file, path)
            if found is not None:
                return _checked(found, file)
    return {}


def _table(file: Path, path: tuple[str, ...]) -> dict[str, Any] | None:
    from advisor.files import read_text

    text = read_text(file, 2**20)
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


def _checked(found: dict[str, Any], file: Path) -> dict[str, Any]:
    for key, value in found.items():
        if key not in KEYS:
            near = near_matches(key, KEYS)
            raise BadFile(
                file,
                f"unknown setting {key!r}"
                + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(KEYS)}"),
            )
        if not isinstance(value, KEYS[key]):
            raise BadFile(file, f"{key} must be a {'text' if KEYS[key] is str else 'list of texts'}")
    return found
