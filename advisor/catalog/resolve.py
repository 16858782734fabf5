"""A model by whatever people call it: catalogue name, hub id, `.gguf` file, config.json directory, Ollama's store."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from advisor.catalog.store import Catalog
from advisor.errors import BadFile, UnknownName
from advisor.models.types import Model


class ResolvedModel(NamedTuple):
    """A model, the local path of its weights, and the weight format that the files themselves state."""

    model: Model
    path: str | None = None
    quantization: str | None = None
    note: str | None = None


def resolve_model(name: str, rules: Catalog) -> ResolvedModel:
    """The model that `name` means. Paths win over names; nothing is ever fetched.

    Raises UnknownName with near matches, BadFile for a path that cannot be read.
    """
    path = Path(name).expanduser()
    if _is_path(name, path):
        return _from_path(name, path, rules)
    try:
        return ResolvedModel(rules.find_model(name))
    except UnknownName as unknown:
        if ":" in name and not unknown.near:
            from advisor.models.ollama_store import find_ollama_model

            blob = find_ollama_model(name)
            if blob is not None:
                return _from_gguf(blob, rules, f"{name} was read from Ollama's local store")
        from advisor.models.hub_cache import find_cached_folder

        folder = find_cached_folder(name)
        if folder is not None:
            found = _from_directory(folder, rules)
            note = f"{name} was read from Hugging Face's cache on this machine"
            return found._replace(model=msgspec.structs.replace(found.model, id=name), note=note)
        if "/" in name:
            said = "--online reads its config and headers from the hub."
            raise UnknownName("model", name, unknown.near, said) from None
        hint = "A path to a .gguf file or to a directory with config.json works too."
        raise UnknownName("model", name, unknown.near, "" if unknown.near else hint) from None


def choose_file_format(found: ResolvedModel, asked: str | None, rules: Catalog) -> str | None:
    """The weight format to go by: the file's own where there is a file. Raises BadInput where another was asked for."""
    if found.quantization is None or asked is None:
        return asked or found.quantization
    from advisor.errors import BadInput
    from advisor.near import simplify_name

    own = simplify_name(found.quantization)
    if simplify_name(asked) == own or (len(simplify_name(asked)) == 2 and own.startswith(simplify_name(asked))):
        return found.quantization
    raise BadInput(f"{found.path} holds {found.quantization}, not {asked}; leave --quant out, or name another file")


def _is_path(name: str, path: Path) -> bool:
    if name.startswith((".", "/", "~")) or name.endswith((".gguf", ".json", ".safetensors")):
        return True
    try:
        return path.is_dir() and (path / "config.json").exists()
    except (OSError, ValueError):
        return False


def _from_path(name: str, path: Path, rules: Catalog) -> ResolvedModel:
    try:
        if not path.exists():
            raise BadFile(_shown(name), "no such file or directory")
        if path.is_dir():
            return _from_directory(path, rules)
    except OSError as e:
        raise BadFile(_shown(name), f"cannot be read: {e.strerror or type(e).__name__}") from None
    except ValueError as e:
        raise BadFile(_shown(name), f"is no path: {e}") from None
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

    return _named(ResolvedModel(rules.name_gguf(read_model_dir(path)), str(path)), path)


def _named(found: ResolvedModel, path: Path) -> ResolvedModel:
    """A model whose headers came from the hub goes by its hub name."""
    from advisor.models.headers import read_origin

    come = read_origin(path)
    if come is None:
        return found
    said = f"config and headers of {come.repository} at {come.revision[:12]} were read from the hub"
    note = f"{found.note}; {said}" if found.note else said
    sides = tuple(found.model.weight_blocks.values())
    blocks = {come.repository: sides[0]} if sides else {}
    model = msgspec.structs.replace(found.model, id=come.repository, weight_blocks=blocks)
    return found._replace(model=model, note=note)


def _from_gguf(path: Path, rules: Catalog, note: str | None = None) -> ResolvedModel:
    from advisor.models.gguf import read_gguf
    from advisor.models.gguf_model import gguf_quantization, model_from_gguf

    file = read_gguf(path)
    missing = file.bytes_missing if file.truncated else 0
    if missing:
        note = f"{path.name} is cut off: {missing:,} bytes of tensor data are missing, so no engine will load it"
    model = model_from_gguf(file, path, rules.gguf_architectures)
    return _named(ResolvedModel(model, str(path), gguf_quantization(file), note), path)
