"""The tree that a file belongs to: what is checked out together. Nothing in it may lead out of it by a link."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def find_tree_root(path: Path | str) -> Path:
    """The Git root above a file; else the current folder, where the file lies in it; else the file's own folder."""
    return _find_root(os.path.normpath(Path(path).parent.absolute()), str(Path.cwd()))


@lru_cache(1024)
def _find_root(folder: str, here: str) -> Path:
    at = Path(folder)
    for above in (at, *at.parents):
        if (above / ".git").exists():
            return above
    return Path(here) if at.is_relative_to(here) else at


def leads_out(path: Path | str) -> bool:
    """Whether a file is reached through a link that leads out of its tree. Pipes and devices do not count as files."""
    p = Path(os.path.normpath(Path(path).absolute()))
    try:
        real = Path(os.path.realpath(p))
        if real.exists() and not real.is_file():
            return False
        return not real.is_relative_to(os.path.realpath(find_tree_root(p)))
    except (OSError, ValueError):
        return False


def describe_link(path: Path | str) -> str:
    """What is reported about a file that a link puts elsewhere."""
    return f"is reached by a link that leads out of {find_tree_root(path)}: name the file itself"
