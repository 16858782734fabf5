"""How an engine is given which model: a path, a repository of the hub, or a tag."""

from __future__ import annotations

import re
from collections.abc import Set

from msgspec.structs import replace

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.downloads import list_repositories
from advisor.catalog.launch_types import ModelTags
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.models.types import Model
from advisor.record import Record


class ModelRef(Record, frozen=True, kw_only=True):
    """How the engine is given which model: path, repository or tag; `missing` says what the user must bring."""

    id: str
    quantization: str
    path: str | None = None  # as one argument: never taken for an option
    absolute: str | None = None  # `path` for files that are used from another folder
    folder: str | None = None  # its folder, and its name there
    file: str | None = None
    repository: str | None = None
    download: str | None = None  # repository and label of one GGUF file in it, as llama-server -hf takes it
    tag: str | None = None  # Ollama's name
    missing: str | None = None  # no download is known: what to provide
    online_quantization: str | None = None  # the engine quantizes the 16-bit checkpoint while loading


def make_model_reference(deployment: Deployment, rules: Catalog) -> ModelRef:
    """Where the engine gets the weights from."""
    quantization, entry = rules.quantization(deployment.quantization), rules.engines()[deployment.engine]
    tags = entry.start.tags if entry.start else None
    plain = ModelRef(id=deployment.model.id, quantization=deployment.quantization)
    if deployment.model_path:
        from advisor.models.headers import read_origin

        come = read_origin(deployment.model_path)  # headers alone: the engine downloads the rest
        if come is None:
            return make_local_reference(plain, deployment.model_path)
        label = f"{come.repository}:{deployment.quantization}"
        if tags:
            return replace(plain, tag=tags.repository.replace("{download}", label))
        return replace(plain, repository=come.repository, download=label if quantization.family == "gguf" else None)
    if tags and (tag := _tag(deployment, quantization, tags)):
        return replace(plain, tag=tag)
    if quantization.family == "gguf" or formats.own_family(entry, rules) == "gguf":
        return _gguf_ref(deployment, plain)
    native = (deployment.model.native_quant or "").lower()
    if quantization.family == "none" or native.startswith(quantization.id.lower()):
        return replace(plain, repository=deployment.model.id)
    vendors = {x.vendor for x in deployment.machine.usable_devices} if deployment.machine else set()
    known = find_repository(deployment.model, quantization, vendors)
    if known:
        return replace(plain, repository=known)
    online = entry.start.online_formats.get(quantization.id) if entry.start else None
    if online:
        return replace(plain, repository=deployment.model.id, online_quantization=online)
    return replace(
        plain,
        missing=f"a checkpoint of {deployment.model.id} in {quantization.id}: none is in the catalogue, so name yours",
    )


def find_repository(model: Model, quantization: Quantization, vendors: Set[str]) -> str | None:
    """The preferred repository of the model in a format that is not GGUF, for devices of these vendors; None if none
    is known."""
    known = [*list_repositories(model, quantization.id)]
    if quantization.family == "mlx":
        size = model.published.get("mlx:" + quantization.id.removeprefix("MLX-"))
        known[:0] = [size.repo] if size and size.repo else []
    # checkpoints of a maker of cards are made with its tools, for its cards
    return next((r for r in known if not (r.split("/")[0] in ("nvidia", "amd") and vendors - {r.split("/")[0]})), None)


def make_local_reference(plain: ModelRef, path: str) -> ModelRef:
    """A model on disk. A relative path that starts with a dash gets `./`, or programs would read an option."""
    from pathlib import Path

    whole = Path(path).absolute()
    safe = f"./{path}" if path.startswith("-") else path
    return replace(
        plain, path=safe, absolute=str(whole), folder=str(whole.parent), file=whole.name, tag=local_name(path)
    )


def make_declaration(ref: ModelRef, entry: Engine, target: str, rules: Catalog) -> str | None:
    """The comment that tells `advise check` which model of the catalogue it is, where the file's words do not."""
    tags = entry.start.tags if entry.start else None
    words = ref.path is None and ref.missing is None and not (tags and target in tags.told_later)
    if words or not any(m.id == ref.id for m in rules.model_index()):
        return None
    return f"advise: model={ref.id} quant={ref.quantization}"


def _tag(deployment: Deployment, quantization: Quantization, tags: ModelTags) -> str | None:
    """The tag of the library, or of a GGUF repository that can be pulled; None where neither is known."""
    tag = next((a for a in deployment.model.aliases if re.fullmatch(r"[a-z0-9._-]+:[a-z0-9._-]+", a)), None)
    if tag and quantization.id in tags.formats:
        return tag
    repository = deployment.model.gguf_repos[0] if deployment.model.gguf_repos else None
    return tags.repository.replace("{download}", f"{repository}:{deployment.quantization}") if repository else None


def _gguf_ref(deployment: Deployment, plain: ModelRef) -> ModelRef:
    if deployment.model.gguf_repos:
        repo = deployment.model.gguf_repos[0]
        # llama.cpp looks for the label in the repository's file names, where MXFP4_MOE is just MXFP4
        label = "MXFP4" if deployment.quantization == "MXFP4_MOE" else deployment.quantization
        return replace(plain, repository=repo, download=f"{repo}:{label}")
    missing = (
        f"a GGUF file of {deployment.model.id} in {deployment.quantization}: none is in the catalogue, so it is "
        "expected here"
    )
    name = f"{local_name(deployment.model.id)}-{deployment.quantization}.gguf"
    return replace(plain, path=name, absolute=name, folder=".", file=name, tag=local_name(name), missing=missing)


def local_name(text: str) -> str:
    """The last part of an id or path without its suffix, as a name that Ollama and servers accept."""
    name = re.sub(r"\.gguf$", "", re.split(r"[\\/]", text.rstrip("/\\"))[-1])
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "model"
