"""What a deployment file calls a model: a place in some file system, a name that a lock file knows."""

from __future__ import annotations

import re

from advisor.catalog import Catalog
from advisor.errors import UnknownName

_PATHS = re.compile(r"^(/|\.{1,2}/|~/|s3://|gs://|az://|oci://|pvc://|\$|file://|[A-Za-z]:\\)")


LOCKED = "advise lock"  # source of a model that a lock file pins, before what it was pinned from


def is_path(name: str) -> bool:
    """Whether the name is a place in some file system, which nobody can look into here."""
    return bool(_PATHS.match(name)) or name.startswith("/")


def is_locked(name: str, rules: Catalog) -> bool:
    """Whether a lock file pins the model of this name."""
    try:
        return any(x.startswith(LOCKED) for x in rules.find_model(name).source)
    except UnknownName:
        return False


def describe_unknown(name: str) -> str:
    """What is reported about a model that the catalogue does not have."""
    if is_path(name):
        return f"what lies at {name} is not known here"
    return f"{name[:120]} is not in the catalogue (`advise lock` pins the dimensions of a private model)"


def locked_id(path: str) -> str:
    """What a lock file calls the model at a path: words that nothing takes for a path."""
    return "locked " + re.sub(r"[^A-Za-z0-9]+", " ", path).strip()
