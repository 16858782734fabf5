"""Whether what a file says hangs on others beside it: scripts, variables, Dockerfiles, bases, values."""

from __future__ import annotations

import re

_OTHERS = re.compile(
    r"extends|env_file|\.sh\b|^[ \t]*(?:source|\.)[ \t]|^[ \t]+build:|^(?:resources|bases|components):"
    r"|\.Values\b",
    re.M,
)


def reads_others(source: str) -> bool:
    """Whether a text names other files that are read with it."""
    return _OTHERS.search(source) is not None
