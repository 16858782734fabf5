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

from advisor.errors import BadFile, BadInput
from advisor.files import read_json
from advisor.patterns import pattern_when_used
from advisor.record import Record
from advisor.units import MIB

MODEL_LAYER = "application/vnd.ollama.image.model"
DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG = "registry.ollama.ai", "library", "latest"
SERVICE_STORE = Path("/usr/share/ollama/.ollama/models")  # where the Linux service keeps its models
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}"
_NAME = pattern_when_used(
    r"(?:(?:(?P<host>[A-Za-z0-9][A-Za-z0-9.\-]{0,252}(?::\d{1,5})?)/)?"
    rf"(?P<space>{_PART})/)?(?P<model>{_PART})(?::(?P<tag>{_PART}))?"
)
_DIGEST = pattern_when_used(r"sha256[:-]([0-9a-f]{64})")
_REPO = pattern_when_used(r"\w[\w.-]*/\w[\w.-]*")
_COMMIT = pattern_when_used(r"[0-9a-zA-Z]{7,64}")
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
        yield from _list_by_format("hub-cache", name, str(folder), sizes)


def _lm_studio() -> Iterator[StoredModel]:
    home = Path(os.environ.get("LMSTUDIO_HOME") or Path.home() / ".lmstudio")
    for root in (home / "models", Path.home() / ".cache/lm-studio/models"):
        for publisher in _folders(root):
            for repository in _folders(publisher):
                sizes = {f.name: _size(f) for f in _files(repository) if f.suffix.lower() in WEIGHTS}
                yield from _list_by_format(
                    "lm-studio-folder", f"{publisher.name}/{repository.name}", str(repository), sizes
                )


def _llama_cpp() -> Iterator[StoredModel]:
    own = os.environ.get("LLAMA_CACHE")
    root = Path(own) if own else Path(f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/llama.cpp")
    for file in _files(root):
        if file.suffix.lower() == ".gguf" and not _is_later_part(file.name) and "mmproj" not in file.name.lower():
            name = _PART_OF.sub("", file.name)
            spelled = re.sub(r"(?i)\.gguf$", "", re.split(r"(?i)[-_]gguf_", name)[-1])
            yield StoredModel(store="llama-cache", name=file.name, spelled=spelled, path=str(file), bytes=_size(file))


def _list_by_format(store: Store, name: str, path: str, sizes: dict[str, int]) -> Iterator[StoredModel]:
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


def find_ollama_model(name: str, root: Path | str | None = None) -> Path | None:
    """The GGUF file of a pulled model such as `llama3.1:8b`, `user/model:tag` or `hf.co/org/repo:Q4_K_M`.

    `root`: the models folder; default $OLLAMA_MODELS, else ~/.ollama/models, else the Linux service's folder. None if
    the model is not there. Raises BadInput for a name that cannot be one, BadFile for a damaged manifest or a
    missing blob.
    """
    host, namespace, model, tag = _split(name)
    for store in list_stores(root):
        manifest = store / "manifests" / host.replace(":", "+") / namespace / model / tag
        if not _is_file(manifest):
            manifest = store / "manifests" / host / namespace / model / tag
        if _is_file(manifest):
            return _blob(store, manifest)
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def list_stores(root: Path | str | None = None) -> list[Path]:
    """The folders that may hold models: the one named, else $OLLAMA_MODELS, else the user's and the service's."""
    if root is not None:
        return [Path(root)]
    named = os.environ.get("OLLAMA_MODELS")
    if named:
        return [Path(named)]
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    return [*([Path(home) / ".ollama" / "models"] if home else []), SERVICE_STORE]


def _split(name: str) -> tuple[str, str, str, str]:
    """Host, namespace, model and tag with Ollama's defaults."""
    m = _NAME.fullmatch(name.strip())
    if m is None or ".." in name:
        raise BadInput(f"{name[:80]!r} is not an Ollama model name; one looks like `llama3.1:8b` or `user/model:tag`")
    return m["host"] or DEFAULT_HOST, m["space"] or DEFAULT_NAMESPACE, m["model"], m["tag"] or DEFAULT_TAG


def _blob(store: Path, manifest: Path) -> Path:
    data = read_json(manifest, MIB)
    layers = data.get("layers") if isinstance(data, dict) else None
    if not isinstance(layers, list):
        raise BadFile(manifest, "is not an Ollama manifest (it has no `layers`)")
    for layer in layers:
        if isinstance(layer, dict) and layer.get("mediaType") == MODEL_LAYER:
            m = _DIGEST.fullmatch(str(layer.get("digest")))
            if not m:
                raise BadFile(
                    manifest,
                    f"names the digest {str(layer.get('digest'))[:80]!r}, sha256 and 64 hex digits are expected",
                )
            for blob in (store / "blobs" / f"sha256-{m[1]}", store / "blobs" / f"sha256:{m[1]}"):
                if _is_file(blob):
                    return blob
            raise BadFile(
                manifest, f"names the blob sha256-{m[1]}, which is not in {store / 'blobs'}; pull the model again"
            )
    raise BadFile(manifest, f"has no layer of type {MODEL_LAYER}")


def cache_folder() -> Path:
    """Where downloaded repositories lie: HF_HUB_CACHE, else HF_HOME/hub, else the XDG cache."""
    if own := os.environ.get("HF_HUB_CACHE"):
        return Path(own).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


def find_cached_folder(name: str) -> Path | None:
    """The folder of a downloaded `org/name` with its config.json; None where it is not in the cache."""
    if not _REPO.fullmatch(name):
        return None
    folder = cache_folder() / ("models--" + name.replace("/", "--"))
    try:
        commit = (folder / "refs" / "main").open(encoding="ascii").read(80).strip()
        found = folder / "snapshots" / commit
        return found if _COMMIT.fullmatch(commit) and (found / "config.json").is_file() else None
    except (OSError, ValueError):
        return None
