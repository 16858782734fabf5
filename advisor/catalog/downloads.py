"""Repositories of quantized copies (rules/downloads), joined to the models they are copies of."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from advisor.decoding import decode_json
from advisor.meanings import ModelId, SourceKey
from advisor.models.types import Download, Model
from advisor.record import Record


class DownloadsFile(Record, frozen=True, kw_only=True):
    """One file of rules/downloads: by model, the preferred first."""

    as_of: str
    sources: dict[SourceKey, str]
    downloads: dict[ModelId, tuple[Download, ...]]


class _RawFile(msgspec.Struct):
    """The file with the entries of each model undecoded: one question is about one model."""

    downloads: dict[str, msgspec.Raw] = {}


def index_downloads(files: Iterable[bytes | msgspec.Raw]) -> dict[str, list[msgspec.Raw]]:
    """Undecoded entries by model id; those of later files stand first."""
    index: dict[str, list[msgspec.Raw]] = {}
    for file in files:
        for model, raw in decode_json(file, _RawFile).downloads.items():
            index.setdefault(model, []).insert(0, raw)
    return index


def join_downloads(model: Model, entries: Iterable[msgspec.Raw]) -> Model:
    """The model with these repositories behind those of its own entry."""
    found = [d for raw in entries for d in decode_json(raw, tuple[Download, ...])]
    if not found:
        return model
    gguf = (*model.gguf_repos, *(d.repository for d in found if d.gguf))
    return msgspec.structs.replace(
        model,
        downloads=tuple(found),
        gguf_repos=tuple(dict.fromkeys(gguf)),
        weight_blocks={**{d.repository: d.block for d in found if d.block}, **model.weight_blocks},
    )


def list_repositories(model: Model, format: str) -> tuple[str, ...]:
    """All repositories of the model in a weight format, the preferred first."""
    first = model.quantized_repos.get(format)
    rest = (d.repository for d in model.downloads if d.format == format)
    return tuple(dict.fromkeys([*([first] if first else []), *rest]))
