"""Models and facts of your own: entries in the user's rules folder, and bundles of facts that were carried here."""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from advisor.catalog.load import read_rule_document, read_rules
from advisor.catalog.resolve import ResolvedModel
from advisor.catalog.roots import MANIFEST, imported_facts, rule_files, shipped_root, user_rules
from advisor.catalog.store import Catalog
from advisor.decoding import decode_json
from advisor.errors import BadFile, BadInput
from advisor.files import read_bytes, read_text, replace_file
from advisor.models.types import Model
from advisor.record import Record

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


BUNDLE = 1  # form of a bundle; one of another is refused
MAX_BUNDLE = 64 * 2**20
MAX_FILES = 4000
_PATH = re.compile(r"[\w+-][\w.+-]*(?:/[\w+-][\w.+-]*){0,2}\.ya?ml", re.ASCII)


class FactsBundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `advise facts --export` writes: rule files by layer, the lowest first, of one day."""

    advisor_facts: int  # BUNDLE
    day: str  # the newest day of the facts in it
    made: str
    layers: tuple[dict[str, str], ...]
    sha256: str = ""  # of all the rest

    def checksum(self) -> str:
        """SHA-256 of the bundle without its own."""
        rest = msgspec.structs.replace(self, sha256="")
        return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


class CarriedFacts(Record, frozen=True):
    """What was written or read. `left_out`: file -> why this program cannot read it."""

    path: str
    day: str
    files: int
    sha256: str
    left_out: dict[str, str]


def export_facts(
    roots: Sequence[Path], carried: Sequence[str], days: tuple[str, str], target: Path, force: bool
) -> CarriedFacts:
    """Write the facts of `roots` into one file: of the shipped rules what `carried` names, of other folders all.

    `days`: of the newest fact, and today's. Raises BadInput for a file that is there, unless `force`.
    """
    if target.exists() and not force:
        raise BadInput(f"{target} already exists: --force overwrites it")
    layers = []
    for root in roots:
        names = [n for n, _ in rule_files(root) if root != shipped_root() or any(fnmatchcase(n, c) for c in carried)]
        layers.append({n: read_text(root / n) for n in names})
    made = FactsBundle(advisor_facts=BUNDLE, day=days[0], made=days[1], layers=tuple(x for x in layers if x))
    made = msgspec.structs.replace(made, sha256=made.checksum())
    replace_file(target, msgspec.json.encode(made))
    return CarriedFacts(str(target), made.day, sum(map(len, layers)), made.sha256, {})


def import_facts(
    source: Path, own_day: str, force: bool, find_fault: Callable[[str, object], str | None]
) -> CarriedFacts:
    """Read a bundle and lay it over the shipped rules, below the folders of the user's own.

    `find_fault` says what is wrong with a document at a path. Raises BadFile for what is no bundle, one of another
    form, a wrong checksum or a path that leads out; BadInput, unless `force`, for facts older than `own_day` and where
    a bundle was imported before.
    """
    bundle = _read_bundle(source)
    folder = imported_facts()
    if not force and bundle.day < own_day:
        raise BadInput(f"{source}: its facts are of {bundle.day}, those here of {own_day}: --force takes them anyway")
    if not force and (folder / MANIFEST).exists():
        raise BadInput(f"{folder} holds imported facts already: --force replaces them")
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    left_out: dict[str, str] = {}
    try:
        for i, layer in enumerate(bundle.layers):
            for name, text in layer.items():
                path = fresh / str(i) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                if (why := _find_unreadable(path, name, find_fault)) is not None:
                    left_out[name] = why
                    path.unlink()
        read_rules([shipped_root(), *(fresh / str(i) for i in range(len(bundle.layers)))])
        manifest = {"day": bundle.day, "made": bundle.made, "sha256": bundle.sha256, "layers": len(bundle.layers)}
        (fresh / MANIFEST).write_bytes(msgspec.json.encode(manifest))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    except OSError as e:
        raise BadInput(f"{folder}: cannot be written: {e.strerror or e}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return CarriedFacts(str(folder), bundle.day, sum(map(len, bundle.layers)) - len(left_out), bundle.sha256, left_out)


def _read_bundle(source: Path) -> FactsBundle:
    try:
        bundle = decode_json(read_bytes(source, MAX_BUNDLE), FactsBundle)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFile(source, "is no bundle of `advise facts --export`") from None
    if bundle.advisor_facts != BUNDLE:
        older = "export it again with a newer program" if bundle.advisor_facts < BUNDLE else "it needs a newer program"
        raise BadFile(source, f"is of form {bundle.advisor_facts}, and this program reads {BUNDLE}: {older}")
    if bundle.sha256 != bundle.checksum():
        raise BadFile(source, "its checksum does not match: it was changed, or is not whole")
    if sum(map(len, bundle.layers)) > MAX_FILES or not re.fullmatch(r"\d{4}-\d\d-\d\d", bundle.day):
        raise BadFile(source, "is no bundle of `advise facts --export`")
    odd = next((n for layer in bundle.layers for n in layer if not _PATH.fullmatch(n)), None)
    if odd is not None:
        raise BadFile(source, f"{odd[:80]!r} is no place of a rule file")
    return bundle


def _find_unreadable(path: Path, name: str, find_fault: Callable[[str, object], str | None]) -> str | None:
    """Why this program cannot read a rule file; None where it can."""
    try:
        return find_fault(name, read_rule_document(path))
    except BadFile as e:
        return e.problem
