"""What a deployment file calls a model: a place in some file system, a name that a lock file knows."""

from __future__ import annotations

import re

_PATHS = re.compile(r"^(/|\.{1,2}/|~/|s3://|gs://|az://|oci://|pvc://|\$|file://|[A-Za-z]:\\)")


LOCKED = "advise lock"  # source of a model that a lock file pins, before what it was pinned from


def is_path(name: str) -> bool:
    """Whether the name is a place in some file system, which nobody can look into here."""
    return bool(_PATHS.match(name)) or name.startswith("/")


def locked_id(path: str) -> str:
    """What a lock file calls the model at a path: words that nothing takes for a path."""
    return "locked " + re.sub(r"[^A-Za-z0-9]+", " ", path).strip()
