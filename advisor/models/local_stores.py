"""Models that lie on this machine already: the stores of Ollama, Hugging Face, LM Studio and llama.cpp.

Names and sizes are read, no weights; nothing is fetched, linked folders are not followed, and a store that cannot be
read is passed over. Layouts: Ollama's `manifests/<host>/<namespace>/<model>/<tag>` (0.3 and later), huggingface_hub's
`models--org--name/snapshots/<commit>`, LM Studio's `models/<publisher>/<repository>/<files>`, llama.cpp's cache of
files named after repository and file (`common/download.cpp`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from advisor.errors import BadFile
from advisor.files import read_json
from advisor.models.hub_cache import cache_folder
from advisor.models.ollama_store import MODEL_LAYER, list_stores
from advisor.patterns import pattern_when_used
from advisor.record import Record
from advisor.units import MIB

Store = Literal["ollama-store", "hub-cache", "lm-studio-folder", "llama-cache"]
MOST_ENTRIES = 5000  # files and folders looked at in one store
WEIGHTS = (".gguf", ".safetensors")
_PART_OF = pattern_when_used(r"-(\d{5})-of-\d{5}(?=\.gguf$)", re.I)
_TYPE = pattern_when_used(
    r"((?:UD-)?(?:I?Q\d(?:_[A-Za-z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?))(?=[-.](?:\d{5}-of|gguf))", re.I
)


class StoredModel(Record, frozen=True, kw_only=True):
    """A model in a store."""

    store: Store
    name: str  # Ollama's tag, a repository, or a file
    spelled: str  # what resolvers of names take: `org/name:Q4_K_M`, `qwen3:8b`
    path: str
    bytes: int


def list_stored_models() -> tuple[StoredModel, ...]:
    """All models in the stores of this machine's user, each store in the order of its names."""
    out: list[StoredModel] = []
    for read in (_ollama, _hub, _lm_studio, _llama_cpp):
        try:
            out += sorted(read(), key=lambda m: m.name)
        except OSError:
            continue
    return tuple(out)


def _ollama() -> Iterator[StoredModel]:
    for store in list_stores():
        root = store / "manifests"
        for file in _files(root):
            parts = file.relative_to(root).parts
            if len(parts) != 4:
                continue
            host, namespace, model, tag = parts
            try:
                layers = read_json(file, MIB)["layers"]
                size = sum(int(x["size"]) for x in layers if x.get("mediaType") == MODEL_LAYER)
            except (BadFile, KeyError, TypeError, ValueError):
                continue
            spelled = f"{namespace}/{model}:{tag}" if namespace != "library" else f"{model}:{tag}"
            name = spelled if host == "registry.ollama.ai" else f"{host}/{spelled}"
            yield StoredModel(store="ollama-store", name=name, spelled=spelled, path=str(file), bytes=size)


def _hub() -> Iterator[StoredModel]:
    root = cache_folder()
    for folder in _folders(root):
        if not folder.name.startswith("models--"):
            continue
        name = folder.name.removeprefix("models--").replace("--", "/", 1)
        sizes: dict[str, int] = {}
        for snapshot in _folders(folder / "snapshots"):
            for file in _files(snapshot):
                if file.suffix.lower() in WEIGHTS:
                    sizes[str(file.relative_to(snapshot))] = _size(file)
        yield from _by_format("hub-cache", name, str(folder), sizes)


def _lm_studio() -> Iterator[StoredModel]:
    home = Path(os.environ.get("LMSTUDIO_HOME") or Path.home() / ".lmstudio")
    for root in (home / "models", Path.home() / ".cache/lm-studio/models"):
        for publisher in _folders(root):
            for repository in _folders(publisher):
                sizes = {f.name: _size(f) for f in _files(repository) if f.suffix.lower() in WEIGHTS}
                yield from _by_format("lm-studio-folder", f"{publisher.name}/{repository.name}", str(repository), sizes)


def _llama_cpp() -> Iterator[StoredModel]:
    own = os.environ.get("LLAMA_CACHE")
    root = Path(own) if own else Path(f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/llama.cpp")
    for file in _files(root):
        if file.suffix.lower() == ".gguf" and not _is_later_part(file.name) and "mmproj" not in file.name.lower():
            name = _PART_OF.sub("", file.name)
            spelled = re.sub(r"(?i)\.gguf$", "", re.split(r"(?i)[-_]gguf_", name)[-1])
            yield StoredModel(store="llama-cache", name=file.name, spelled=spelled, path=str(file), bytes=_size(file))


def _by_format(store: Store, name: str, path: str, sizes: dict[str, int]) -> Iterator[StoredModel]:
    """One model a type of GGUF file, or one for all safetensors."""
    plain = sum(n for f, n in sizes.items() if f.lower().endswith(".safetensors"))
    if plain:
        yield StoredModel(store=store, name=name, spelled=name, path=path, bytes=plain)
    types: dict[str, int] = {}
    for file, n in sizes.items():
        m = _TYPE.search(file)
        if m and "mmproj" not in file.lower():
            types[m[1].upper()] = types.get(m[1].upper(), 0) + n
    for kind, n in types.items():
        yield StoredModel(store=store, name=f"{name}:{kind}", spelled=f"{name}:{kind}", path=path, bytes=n)


def _is_later_part(name: str) -> bool:
    m = _PART_OF.search(name)
    return m is not None and int(m[1]) > 1


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            found = [Path(e.path) for e in islice(entries, MOST_ENTRIES) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found)


def _files(root: Path) -> Iterator[Path]:
    """Files below a folder; links are given only where they are files (the hub's snapshots link into its blobs)."""
    seen = 0
    for folder, _, names in os.walk(root, followlinks=False):
        for name in sorted(names):
            seen += 1
            if seen > MOST_ENTRIES:
                return
            yield Path(folder, name)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
