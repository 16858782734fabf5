"""`advise.lock`: dimensions of private models, committed beside the deployment files.

The file has the form of `rules/models/*.yaml`, so it is read as a rules folder laid over the others.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.roots import cache_dir
from advisor.checks import model_names
from advisor.errors import BadFile, BadInput
from advisor.models.plain_fields import list_plain_fields
from advisor.models.types import Model

NAME = "advise.lock"
HEAD = "# Written by `advise lock`: dimensions of models that no catalogue has. Commit it; `advise check` reads it.\n"
MAX_BYTES = 4 * 2**20


def lock_model(model: str, name: str | None, path: Path, rules: Catalog) -> Model:
    """Add a model (name, .gguf file or folder with config.json) to a lock file, as `name` in deployment files.

    Raises UnknownName, BadFile, BadInput where a path needs a name.
    """
    from advisor.catalog.resolve import resolve_model

    found = resolve_model(model, rules).model
    if name is None and found.id != model and ("/" in model or "." in model) and Path(model).exists():
        raise BadInput(f"{model} is a path: say with --name how deployment files call the model")
    called = name or model
    own = model_names.locked_id(called) if model_names.is_path(called) else called
    pinned = msgspec.structs.replace(found, id=own, aliases=(), source=(f"advise lock {model}",))
    if pinned.layout is None:
        raise BadInput(f"{model}: its layer layout is not known, so there is nothing to pin")
    rows = {m["id"]: m for m in _rows(path)} if path.exists() else {}
    rows[pinned.id] = list_plain_fields(pinned)
    import yaml

    body = yaml.safe_dump({"models": [rows[k] for k in sorted(rows)]}, sort_keys=False, width=120)
    try:
        path.write_text(HEAD + body, encoding="utf-8")
    except OSError as e:
        raise BadFile(path, f"cannot be written: {e.strerror or e}") from None
    return pinned


def _rows(path: Path) -> list[dict[str, Any]]:
    from advisor.files import read_yaml

    data = read_yaml(path, MAX_BYTES)
    rows = data.get("models") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and isinstance(r.get("id"), str) for r in rows):
        raise BadFile(path, "is no lock file: `advise lock MODEL` writes one")
    return rows


def build_lock_overlay(folder: Path) -> Path | None:
    """The rules folder that a lock file in `folder` makes; None without one. Raises BadFile."""
    path = folder / NAME
    if not path.is_file():
        return None
    from advisor.files import read_bytes

    _rows(path)
    data = read_bytes(path, MAX_BYTES)
    root = cache_dir() / "locks" / hashlib.blake2b(data, digest_size=12).hexdigest()
    target = root / "models" / "lock.yaml"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root
