"""`advise.lock`: dimensions of private models, committed next to the deployment files.

The file has the form of `rules/models/*.yaml`, so it is read as a rules folder layered over the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.model_spellings import find_named_model
from advisor.catalog.own_models import list_plain_fields
from advisor.catalog.roots import cache_dir
from advisor.checks.findings import Finding
from advisor.checks.resolve import launch_reader
from advisor.decoding import Json
from advisor.errors import BadFile, BadInput
from advisor.files import read_bytes, read_text, read_yaml, replace_file, write_report
from advisor.models.types import Model
from advisor.record import Value
from advisor.tree import describe_link, leads_out

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
    own = launch_reader.locked_id(called) if launch_reader.is_path(called) else called
    known = None if launch_reader.is_path(called) else find_named_model(called, rules)
    if known is not None:
        as_ = "" if known.name == called else f" as {known.name}"
        raise BadInput(f"{called} is in the catalogue{as_}: a lock file pins the dimensions of what no catalogue has")
    pinned = replace(found, id=own, aliases=(), source=(f"{launch_reader.LOCKED} {model}",))
    if pinned.layout is None:
        raise BadInput(f"{model}: its layer layout is not known, so there is nothing to pin")
    rows = {m["id"]: m for m in _rows(path)} if path.exists() else {}
    rows[pinned.id] = list_plain_fields(pinned)
    import yaml

    body = yaml.safe_dump({"models": [rows[k] for k in sorted(rows)]}, sort_keys=False, width=120)
    write_report(path, HEAD + body)
    return pinned


def _rows(path: Path) -> list[Json]:
    data = read_yaml(path, MAX_BYTES)
    rows = data.get("models") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and isinstance(r.get("id"), str) for r in rows):
        raise BadFile(path, "is not a lock file: `advise lock MODEL` writes one")
    return rows


class LockOverlay(Value, frozen=True):
    """The rules folder that a lock file makes (None: it pins nothing), and the models it may not replace."""

    folder: Path | None
    refused: tuple[Finding, ...]


def build_lock_overlay(folder: Path, rules: Catalog) -> LockOverlay:
    """What a lock file in `folder` adds to the rules; what they have already stays as it is. Raises BadFile."""
    path = folder / NAME
    if leads_out(path):
        raise BadFile(path, describe_link(path))
    if not path.is_file():
        return LockOverlay(None, ())
    rows = _rows(path)
    lines = read_text(path, MAX_BYTES).splitlines()
    names = {row["id"]: _find_known(row, rules) for row in rows}
    refused = tuple(_refuse(path, lines, own, known) for own, known in names.items() if known is not None)
    kept = [row for row in rows if names[row["id"]] is None]
    return LockOverlay(_write_overlay(kept) if kept else None, refused)


def _find_known(row: Json, rules: Catalog) -> str | None:
    """The model of the catalogue that an entry would stand in for."""
    aliases = row.get("aliases") or ()
    names = (row["id"], *(aliases if isinstance(aliases, list) else ()))
    found = (find_named_model(str(name), rules) for name in names)
    return next((x.name for x in found if x is not None), None)


def _refuse(path: Path, lines: Sequence[str], own: str, known: str) -> Finding:
    line = next((n for n, text in enumerate(lines, 1) if own in text), 1)
    named = own if own == known else f"{own} ({known})"
    return Finding(
        rule="lock-replaces-model", severity="error", file=str(path), line=line,
        message=f"{named} is in the catalogue, whose dimensions are taken: a lock file pins what no catalogue has",
        fix="Take the entry out of the lock file", phase="lint"
    )  # fmt: skip


def _write_overlay(rows: Sequence[Json]) -> Path:
    """A rules folder with these models, in the user's cache; in a temporary folder where that cannot be written."""
    import yaml

    data = yaml.safe_dump({"models": list(rows)}, sort_keys=False, width=120).encode()
    root = cache_dir() / "locks" / hashlib.blake2b(data, digest_size=12).hexdigest()
    target = root / "models" / "lock.yaml"
    try:
        if read_bytes(target, MAX_BYTES) == data:
            return root
    except BadFile:
        pass
    try:
        replace_file(target, data)
    except BadInput:
        root = Path(_make_temporary_folder())
        replace_file(root / "models" / "lock.yaml", data)
    return root


def _make_temporary_folder() -> str:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="advise-lock-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
