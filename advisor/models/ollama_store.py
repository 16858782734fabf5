"""Ollama's store of pulled models: a name to the GGUF file that holds its weights.

Layout: `manifests/<host>/<namespace>/<model>/<tag>` is JSON whose layer of the model media type names a digest;
`blobs/sha256-<digest>` is the file. Source: Ollama's store as its server writes it (0.3 and later).
"""

from __future__ import annotations

import os
from pathlib import Path

from advisor.errors import BadFile, BadInput
from advisor.files import read_json
from advisor.patterns import pattern_when_used
from advisor.units import MIB

MODEL_LAYER = "application/vnd.ollama.image.model"
DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG = "registry.ollama.ai", "library", "latest"
SERVICE_STORE = Path("/usr/share/ollama/.ollama/models")  # where the Linux service keeps its models
_PART = pattern_when_used(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")
_HOST = pattern_when_used(r"[A-Za-z0-9][A-Za-z0-9.\-]{0,252}(:\d{1,5})?")
_DIGEST = pattern_when_used(r"sha256[:-]([0-9a-f]{64})")


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
    host, namespace, tag = DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG
    rest = name.strip()
    head, _, last = rest.rpartition("/")
    last, colon, given = last.partition(":")
    if colon:
        tag = given
    parts = [*head.split("/"), last] if head else [last]
    if len(parts) == 3:
        host, namespace, model = parts
    elif len(parts) == 2:
        namespace, model = parts
    else:
        model = parts[-1]
    plain = all(_PART.fullmatch(p) and ".." not in p for p in (namespace, model, tag))
    if len(parts) > 3 or not plain or not _HOST.fullmatch(host) or ".." in host:
        raise BadInput(f"{name[:80]!r} is not an Ollama model name; one looks like `llama3.1:8b` or `user/model:tag`")
    return host, namespace, model, tag


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
