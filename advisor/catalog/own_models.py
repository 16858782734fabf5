"""Models of your own: entries in the user's rules folder, made from the headers of a repository or from files."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import msgspec

from advisor.catalog.resolve import ResolvedModel
from advisor.catalog.roots import user_rules
from advisor.catalog.store import Catalog
from advisor.errors import BadFile, BadInput
from advisor.models.types import Model

HEAD = "# Written by `advise models add`. An entry of this id goes before the shipped one.\n"
FILLED_IN = ("gguf_name", "gguf_architecture", "downloads")  # from other rule files


def add_model(
    found: ResolvedModel, name: str | None, rules: Catalog, folder: Path | None = None, force: bool = False
) -> tuple[Model, Path]:
    """Write the model's entry, as `name` where one is given, into `folder` (default: the user's own rules).

    Returns the entry and its file. Raises BadInput for a model without layers, for one that the catalogue has already
    and for a file that is there (both unless `force`), BadFile where nothing can be written.
    """
    own = name or found.model.id
    if found.model.layout is None:
        raise BadInput(f"{own}: its layer layout is not known, so there is nothing to add")
    if Path(own).is_absolute() or own.startswith((".", "~")):
        raise BadInput(f"{own} is a path: say with --name what the model is called (org/name)")
    if not force and any(row.id == own for row in rules.model_index()):
        raise BadInput(f"{own} is in the catalogue already: --force adds an entry that goes before it")
    read = (found.note or f"files at {found.path}" if found.path else "a name of the catalogue").strip()
    source = f"{re.sub(r'; .*', '', read)}, {datetime.date.today().isoformat()}"
    aliases = tuple(a for a in found.model.aliases if a != own) if found.path is None else ()
    model = msgspec.structs.replace(
        found.model, id=own, aliases=() if name else aliases, source=(source,), family=_family(found.model, own)
    )
    target = (folder or user_rules()) / "models" / f"{re.sub(r'[^A-Za-z0-9._-]+', '--', own)}.yaml"
    if target.exists() and not force:
        raise BadInput(f"{target} already exists: --force overwrites it")
    import yaml

    body = yaml.safe_dump({"models": [list_plain_fields(model)]}, sort_keys=False, width=120, allow_unicode=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(HEAD + body, encoding="utf-8")
    except OSError as e:
        raise BadFile(target, f"cannot be written: {e.strerror or e}") from None
    return model, target


def _family(model: Model, name: str) -> str:
    """The family, where the files name one; else the model's own name."""
    return model.family if model.family and "/" not in model.family else name.rpartition("/")[2].lower()


def list_plain_fields(model: Model) -> dict[str, object]:
    """The fields of the model's entry, JSON-ready."""
    data: dict[str, object] = msgspec.json.decode(msgspec.json.encode(model))
    usual = {f.name: f.default for f in msgspec.structs.fields(Model) if f.default is not msgspec.NODEFAULT}
    return {
        k: v
        for k, v in data.items()
        if k not in FILLED_IN and v not in (None, [], {}) and not (k in usual and v == usual[k])
    }
