"""A model by whatever people call it: catalogue name, hub id, `.gguf` file, config.json directory, Ollama's store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from advisor.catalog.store import Catalog
from advisor.errors import AdvisorError, AmbiguousName, BadFile, BadInput, UnknownName
from advisor.models.types import Model
from advisor.near import simplify_name
from advisor.record import Value

if TYPE_CHECKING:
    from advisor.catalog.model_spellings import NamedModel


_REFUSED: ContextVar[bool] = ContextVar("local models are refused", default=False)
SHOWN = 8  # choices in a message
ALIKE = 0.8  # of the letters of two names, one of which may be a slip of the other
_FILES = (".gguf", ".json", ".safetensors", ".yaml", ".yml")
LONGEST_NAME = 4096  # characters, as of a path


class ResolvedModel(Value, frozen=True):
    """A model, the local path of its weights, and the weight format that the files (or the name) themselves state."""

    model: Model
    path: str | None = None
    quantization: str | None = None
    note: str | None = None
    kind: str | None = None  # of checkpoint, where the name or the files tell: gguf, hf_safetensors
    alike: tuple[str, ...] = ()  # others that may as well be meant, where it stands for a name that is not known


class AmbiguousModel(AmbiguousName):
    """A name that several models have: a family, a size. `choices` are their ids, the largest first."""

    def __init__(self, name: str, choices: Sequence[str]) -> None:
        self.choices = tuple(choices)
        shown = ", ".join(c.rpartition("/")[2] for c in choices[:SHOWN])
        more = f" and {len(choices) - SHOWN} more" if len(choices) > SHOWN else ""
        super().__init__(
            "ambiguous_model", f"{name!r} may be several models: {shown}{more}. Say which.", choices[:SHOWN]
        )


def resolve_model(name: str, rules: Catalog) -> ResolvedModel:
    """The model that `name` means. Paths win over names; nothing is ever fetched.

    Raises UnknownName with near matches, AmbiguousModel for a family or size, BadFile for a path that cannot be read.
    """
    from advisor.catalog.model_spellings import is_address, strip_address

    if len(name) > LONGEST_NAME:
        raise UnknownName("model", name)
    alone = "/" not in name and name.lower().endswith(".gguf")  # the name of a file that there is not
    alone = alone and (are_local_models_refused() or not Path(name).exists())
    if alone and (named := _find_by_spelling(name, name, rules)) is not None:
        return named
    if not are_local_models_refused() and (named := _find_by_folder(name, rules)) is not None:
        return named
    if _is_path(name) and not is_address(name, rules):
        if are_local_models_refused():
            raise BadInput(f"{_shown(name)} is a path, and no file is read for a question from outside: name the model")
        try:
            path = Path(name).expanduser()
        except (RuntimeError, ValueError):  # `~somebody` that there is not, or a zero byte
            path = Path(name)
        return _from_path(name, path, rules)
    bare = strip_address(rules, name)
    try:
        return ResolvedModel(rules.find_model(bare))
    except UnknownName as unknown:
        return _find_in_stores(bare, rules) or _find_by_spelling(bare, name, rules) or _refuse(bare, unknown, rules)


def resolve_or_size(name: str, rules: Catalog) -> ResolvedModel:
    """The model that `name` means; where nothing of that name is known and it states a size, one of that size under its
    name, with a note. For questions about memory and speed: a file is judged by what is known."""
    from advisor.catalog.model_spellings import find_by_words, list_of_same_size

    try:
        return resolve_model(name, rules)
    except (UnknownName, AmbiguousModel) as error:
        rows = list_of_same_size(name, rules)
        if not rows or isinstance(error, AmbiguousModel) or (_is_path(name) and not name.endswith(".gguf")):
            raise
        without = re.sub(r"(?i)\d+(?:\.\d+)?b(?:-?a\d+(?:\.\d+)?b)?\b", " ", name)
        family = any(c.isdigit() for c in without) and find_by_words(without, rules)
        if family or any(_is_slip(name, near) for near in error.near):  # a choice is offered
            raise
        model = _under_name(rules.find_model(rows[0].id), name.strip())
        note = f"{name.strip()} is not known: memory and speed are those of {rows[0].id}, which is as large; --online"
        note += " reads its own config, `advise list models` names what is known"
        return ResolvedModel(model, note=note, alike=tuple(row.id for row in rows[1:]))


def _is_slip(name: str, near: str) -> bool:
    """Whether two names differ in few letters and in no digit."""
    from difflib import SequenceMatcher

    plain, other = (simplify_name(n.rpartition("/")[2]) for n in (name, near))
    digits = [re.sub(r"\D", "", n) for n in (plain, other)]
    return digits[0] == digits[1] and SequenceMatcher(None, plain, other).ratio() >= ALIKE


def _find_in_stores(name: str, rules: Catalog) -> ResolvedModel | None:
    """A model that lies on this machine under that name: Ollama's store, Hugging Face's cache."""
    if ":" in name:
        from advisor.models.local_stores import find_ollama_model

        try:
            blob = find_ollama_model(name)
        except BadInput:  # no name of Ollama's
            blob = None
        if blob is not None:
            return _from_gguf(blob, rules, f"{name} was read from Ollama's local store")
    from advisor.models.local_stores import find_cached_folder

    folder = find_cached_folder(name)
    if folder is None:
        return None
    found = _from_directory(folder, rules)
    note = f"{name} was read from Hugging Face's cache on this machine"
    return replace(found, model=replace(found.model, id=name), note=note)


def _find_by_folder(name: str, rules: Catalog) -> ResolvedModel | None:
    """A folder of models that is not on this machine, by its last name where the catalogue has just that."""
    from advisor.catalog import model_spellings

    if not name.startswith((".", "/", "~")) or Path(name).expanduser().exists() or Path(name).suffix in _FILES:
        return None
    named = model_spellings.find_named_model(Path(name).name, rules)
    found = None if named is None else _copy_of(Path(name).name, named, rules)
    note = f"{name} is not on this machine: taken as {found.model.id}, by its name" if found else None
    return replace(found, note=note) if found else None


def _find_by_spelling(bare: str, name: str, rules: Catalog) -> ResolvedModel | None:
    """A model of the catalogue under another spelling. Raises AmbiguousModel."""
    from advisor.catalog import model_spellings

    named = model_spellings.find_named_model(bare, rules)
    if named is not None:
        return _copy_of(bare, named, rules)
    rows = model_spellings.find_by_words(bare, rules)
    corrected = model_spellings.correct_spelling(bare, rules) if not rows else None
    if corrected is not None:
        if model_spellings.is_in_catalogue(corrected, rules):
            model = rules.find_model(corrected)
            return ResolvedModel(model, note=f"{name} is taken as {corrected} ({model.id})")
        rows = model_spellings.find_by_words(corrected, rules)
        rows = rows if len(rows) == 1 else ()  # a slip is forgiven where one model is meant
    if not rows:
        rows = model_spellings.find_alike(bare, rules)
        if rows:
            raise AmbiguousModel(name, [r.id for r in sorted(rows, key=lambda r: r.release_date or "", reverse=True)])
        return None
    if len(rows) > 1:
        raise AmbiguousModel(name, [r.id for r in sorted(rows, key=lambda r: -r.params_total)])
    return ResolvedModel(rules.find_model(rows[0].id), note=f"{name} is taken as {rows[0].id}")


def _copy_of(name: str, named: NamedModel, rules: Catalog) -> ResolvedModel | None:
    """The catalogue's model with the repository that was named as its download in the format that the name says."""
    model = rules.find_model(named.name)
    note = None if simplify_name(model.id) == simplify_name(name) else f"{name} is taken as {model.id}"
    repository = re.sub(r"^(hf\.co|huggingface\.co)/", "", name)
    repository = repository.partition(":")[0] if "/" in repository else ""
    short = named.quantization and simplify_name(named.quantization) in rules.document("shorthands.yaml")["names"]
    if short:
        return ResolvedModel(model, None, named.quantization, named.assumed)
    try:
        format = rules.quantization(named.quantization) if named.quantization else None
    except UnknownName:
        return None
    gguf = named.gguf or (format is not None and format.family == "gguf")
    if note and format:
        note += f" in {format.id}"
    if repository and gguf:
        model = replace(model, gguf_repos=(repository, *model.gguf_repos))
    elif repository and format is not None and format.family != "none":
        model = replace(model, quantized_repos={**model.quantized_repos, format.id: repository})
    elif repository:
        model = _under_name(model, repository)
    kind = "gguf" if gguf else "hf_safetensors" if format is not None and format.format == "safetensors" else None
    return ResolvedModel(model, None, format.id if format else None, f"{note}, by its name" if note else None, kind)


def _under_name(model: Model, repository: str) -> Model:
    """The model as the repository that was named, which is what the command has to download: a mirror, or another
    training of the same shape (`-Base`), whose quantized copies are not those of the model."""
    if repository.lower() == model.id.lower():
        return model
    blocks = {repository: model.weight_blocks[model.id]} if model.id in model.weight_blocks else {}
    named = replace(model, id=repository, weight_blocks={**model.weight_blocks, **blocks})
    if simplify_name(repository.rpartition("/")[2]) == simplify_name(model.id.rpartition("/")[2]):
        return named
    return replace(named, gguf_repos=(), quantized_repos={}, downloads=(), published={})


def _refuse(name: str, unknown: UnknownName, rules: Catalog) -> NoReturn:
    from advisor.catalog.model_spellings import find_elsewhere, list_tuned_sizes

    sizes = list_tuned_sizes(name, rules)
    if sizes:
        shown = f"{_shown(name)!r} says no size that is known: {', '.join(sizes)}. Say which."
        raise AmbiguousName("ambiguous_model", shown, sizes) from None
    elsewhere = find_elsewhere(name, rules)
    if elsewhere is not None:
        raise AdvisorError(elsewhere.code, f"{_shown(name)}: {elsewhere.says}.") from None
    if "/" in name:
        raise UnknownName("model", name, unknown.near, "--online reads its config and headers from the hub.") from None
    hint = "A path to a .gguf file or to a directory with config.json works too."
    raise UnknownName("model", name, unknown.near, "" if unknown.near else hint) from None


def choose_file_format(found: ResolvedModel, asked: str | None, rules: Catalog) -> str | None:
    """The weight format to go by: the file's own where there is a file. Raises BadInput where another was asked for."""
    if found.quantization is None or asked is None:
        return asked or found.quantization
    own = simplify_name(found.quantization)
    if simplify_name(asked) == own or (len(simplify_name(asked)) == 2 and own.startswith(simplify_name(asked))):
        return found.quantization
    short = rules.document("shorthands.yaml")["names"].get(simplify_name(asked), {})
    if own in {simplify_name(meant) for meant in short.values()}:
        return found.quantization
    holds = f"{found.path} holds" if found.path else f"the name that was given for {found.model.id} says"
    raise BadInput(f"{holds} {found.quantization}, not {asked}; leave --quant out, or name another file or repository")


def _is_path(name: str) -> bool:
    if name.startswith((".", "/", "~")) or name.endswith((".gguf", ".json", ".safetensors")):
        return True
    if are_local_models_refused():
        return False
    return os.path.exists(os.path.join(name, "config.json"))  # noqa: PTH110, PTH118  # a third of pathlib's time


def _from_path(name: str, path: Path, rules: Catalog) -> ResolvedModel:
    try:
        if not path.exists():
            raise BadFile(_shown(name), "no such file or directory")
        if path.is_dir():
            return _from_directory(path, rules)
    except OSError as e:
        raise BadFile(_shown(name), f"cannot be read: {e.strerror or type(e).__name__}") from None
    except ValueError as e:
        raise BadFile(_shown(name), f"is not a path: {e}") from None
    if path.name == "config.json" or path.suffix == ".safetensors":
        return _from_directory(path.parent, rules)
    return _from_gguf(path, rules)


def _shown(name: str) -> str:
    return name if len(name) <= 200 else name[:197] + "..."


def _from_directory(path: Path, rules: Catalog) -> ResolvedModel:
    if not (path / "config.json").exists():
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1 or (files and "-00001-of-" in files[0].name):
            return _from_gguf(files[0], rules)
        found = f"{len(files)} .gguf files: name one of them" if files else "neither config.json nor a .gguf file"
        raise BadFile(path, f"holds {found}")
    from advisor.models.hf_config import read_model_dir

    return _named(ResolvedModel(rules.name_gguf(read_model_dir(path, rules.config_classes)), str(path)), path)


def _named(found: ResolvedModel, path: Path) -> ResolvedModel:
    """A model whose headers came from the hub goes by its hub name."""
    from advisor.models.headers import read_origin

    origin = read_origin(path)
    if origin is None:
        return found
    read_note = f"config and headers of {origin.repository} at {origin.revision[:12]} were read from the hub"
    note = f"{found.note}; {read_note}" if found.note else read_note
    sides = tuple(found.model.weight_blocks.values())
    blocks = {origin.repository: sides[0]} if sides else {}
    model = replace(found.model, id=origin.repository, weight_blocks=blocks)
    return replace(found, model=model, note=note)


def _from_gguf(path: Path, rules: Catalog, note: str | None = None) -> ResolvedModel:
    from advisor.models.gguf import read_gguf
    from advisor.models.gguf_model import gguf_quantization, model_from_gguf

    file = read_gguf(path)
    missing = file.bytes_missing if file.truncated else 0
    if missing:
        note = f"{path.name} is cut off: {missing:,} bytes of tensor data are missing, so no engine will load it"
    model = model_from_gguf(file, path, rules.gguf_architectures)
    return _named(ResolvedModel(model, str(path), gguf_quantization(file), note), path)


@contextmanager
def refuse_local_models() -> Iterator[None]:
    """In this context a model is a name; one that is written as a path is refused, and no file is looked for."""
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def are_local_models_refused() -> bool:
    """Whether a path is refused here."""
    return _REFUSED.get()
