"""Whether what a file says hangs on others: scripts, variables, Dockerfiles, bases, a chart's values."""

from __future__ import annotations

import re
from pathlib import PurePath

_OTHERS = re.compile(rb"extends|env_file|\.sh\b|^[ \t]*(?:source|\.)[ \t]|\bbuild[\"']?:|\.Values\b|include \"", re.M)
# one of which every match has: looked for first, since that is ten times as fast
_WORDS = (b"extends", b"env_file", b".sh", b"source", b". ", b".\t", b"build", b".Values", b'include "')


def reads_others(source: bytes, name: str) -> bool:
    """Whether a text names other files that are read with it."""
    if PurePath(name).stem.lower() == "kustomization":
        return True
    return any(word in source for word in _WORDS) and _OTHERS.search(source) is not None
