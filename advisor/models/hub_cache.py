"""Checkpoints that Hugging Face's own cache already holds on this machine. Nothing is fetched.

Layout: models--org--name/refs/main names the commit, snapshots/<commit> holds the files (huggingface_hub, "Understand
caching").
"""

from __future__ import annotations

import os
from pathlib import Path

from advisor.patterns import pattern_when_used

_REPO = pattern_when_used(r"\w[\w.-]*/\w[\w.-]*")
_COMMIT = pattern_when_used(r"[0-9a-zA-Z]{7,64}")


def cache_folder() -> Path:
    """Where downloaded repositories lie: HF_HUB_CACHE, else HF_HOME/hub, else the XDG cache."""
    if own := os.environ.get("HF_HUB_CACHE"):
        return Path(own).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


def find_cached_folder(name: str) -> Path | None:
    """The folder of a downloaded `org/name` with its config.json; None where it is not in the cache."""
    if not _REPO.fullmatch(name):
        return None
    folder = cache_folder() / ("models--" + name.replace("/", "--"))
    try:
        commit = (folder / "refs" / "main").open(encoding="ascii").read(80).strip()
        found = folder / "snapshots" / commit
        return found if _COMMIT.fullmatch(commit) and (found / "config.json").is_file() else None
    except (OSError, ValueError):
        return None
