"""Which weight format a name means for an engine: exact names, or shorthands (`q4`) that depend on the engine."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.catalog.types import Engine, Quantization
from advisor.errors import BadInput
from advisor.meanings import QuantizationName
from advisor.models.native import native_format
from advisor.models.types import Model
from advisor.near import plain


class Chosen(NamedTuple):
    """A weight format, and a note when the name asked for was a shorthand or left out."""

    quantization: Quantization
    note: str | None = None


class ShorthandsFile(msgspec.Struct, frozen=True):
    """rules/shorthands.yaml."""

    families: dict[str, str]
    names: dict[str, dict[str, QuantizationName]]
    ladders: dict[str, tuple[QuantizationName, ...]]
    source: str


def _shorthands(catalog: Catalog) -> ShorthandsFile:
    return typed(catalog, "shorthands.yaml", ShorthandsFile)


def own_format(entry: Engine) -> str:
    """The checkpoint format an engine is made for: its special one where it has one, else safetensors."""
    loads = [f for f, s in entry.formats.items() if s.support == "yes"]
    special = [f for f in loads if f != "hf_safetensors"]
    return entry.own_format or (special[0] if special else "hf_safetensors")


def family(entry: Engine, catalog: Catalog) -> str:
    """The family of weight formats an engine is made for: gguf, hf, mlx, exl3, mlc, ..."""
    if entry.runs and not any(s.support in ("yes", "partial") for s in entry.formats.values()):
        return family(catalog.engines()[entry.runs[0]], catalog)  # a wrapper loads what the first engine inside loads
    return _shorthands(catalog).families.get(own_format(entry), "hf")


def own_family(entry: Engine, catalog: Catalog) -> str | None:
    """The family that an engine itself reads; None for programs that pick an engine by the checkpoint."""
    return family(entry, catalog) if entry.kind == "engine" else None


def usual_engine(family: str, catalog: Catalog) -> Engine:
    """The engine that is taken for a family of weight formats where none is named. Raises BadInput where none is."""
    found = next((e for e in catalog.engines().values() if family in e.default_for), None)
    if found is None:
        raise BadInput(f"no engine is the usual one of {family} formats: name one (engine)")
    return found


def ladder(family: str, catalog: Catalog) -> tuple[str, ...]:
    """Formats of one family from wide to narrow, as answers step through them; empty where there is one only."""
    return _shorthands(catalog).ladders.get(family, ())


def is_shorthand(name: str, catalog: Catalog) -> bool:
    """Whether the name depends on the engine."""
    return plain(name) in _shorthands(catalog).names


def quantization(name: str | None, entry: Engine, model: Model, catalog: Catalog) -> Chosen:
    """The format that `name` means on this engine; without a name the checkpoint's own, or the engine's usual one.

    Raises UnknownName for a name nobody knows, BadInput for a shorthand this engine has nothing for.
    """
    kin = family(entry, catalog)
    if name is None:
        return _default(kin, entry, model, catalog)
    short = _shorthands(catalog).names.get(plain(name))
    if short is None:
        q = catalog.quantization(name)
        if q.id == "MXFP4" and kin == "gguf":
            return Chosen(catalog.quantization("MXFP4_MOE"), "MXFP4 is MXFP4_MOE in GGUF files")
        return Chosen(q)
    if kin not in short:
        known = ", ".join(sorted(n for n, m in _shorthands(catalog).names.items() if kin in m))
        raise BadInput(f"quantization {name!r} means nothing for {entry.name}; it has {known}")
    q = catalog.quantization(short[kin])
    return Chosen(q, f"{name} is taken as {q.id} on {entry.name}")


def _default(kin: str, entry: Engine, model: Model, catalog: Catalog) -> Chosen:
    native = native_format(model)
    if kin == "gguf":
        if native == "MXFP4":
            return Chosen(
                catalog.quantization("MXFP4_MOE"), f"no quantization given: MXFP4_MOE, as {model.id} is published"
            )
        return Chosen(
            catalog.quantization("Q4_K_M"), f"no quantization given: Q4_K_M, the usual download for {entry.name}"
        )
    if kin in ("mlx", "exl3", "mlc"):
        q = catalog.quantization(_shorthands(catalog).names["q4"][kin])
        return Chosen(q, f"no quantization given: {q.id}, the usual download for {entry.name}")
    if native is not None:
        return Chosen(catalog.quantization(native), f"no quantization given: {native}, as {model.id} is published")
    name = {"float16": "F16", "float32": "F32"}.get(model.dtype, "BF16")
    return Chosen(catalog.quantization(name), f"no quantization given: {name}, as {model.id} is published")


__all__ = [
    "Chosen",
    "family",
    "is_shorthand",
    "native_format",
    "own_family",
    "own_format",
    "quantization",
    "usual_engine",
]
