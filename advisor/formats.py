"""Which weight format a name means for an engine: exact names, or shorthands (`q4`) that depend on the engine."""

from __future__ import annotations

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.downloads import list_repositories
from advisor.catalog.types import Engine, Quantization
from advisor.errors import BadInput
from advisor.meanings import QuantizationName
from advisor.memo import memoize_by_identity
from advisor.models.types import Model
from advisor.models.types import native_format as native_format
from advisor.near import simplify_name
from advisor.record import Value


class FormatChoice(Value, frozen=True):
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
    return decode_document(catalog, "shorthands.yaml", ShorthandsFile)


def engine_format(entry: Engine) -> str:
    """The checkpoint format an engine is made for: its special one where it has one, else safetensors."""
    loads = [f for f, s in entry.formats.items() if s.support == "yes"]
    special = [f for f in loads if f != "hf_safetensors"]
    return entry.own_format or (special[0] if special else "hf_safetensors")


def format_family(entry: Engine, catalog: Catalog) -> str:
    """The family of weight formats an engine is made for: gguf, hf, mlx, exl3, mlc, ..."""
    return _find_family(catalog, entry)


@memoize_by_identity
def _find_family(catalog: Catalog, entry: Engine) -> str:
    if entry.runs and not any(s.support in ("yes", "partial") for s in entry.formats.values()):
        return format_family(
            catalog.engines()[entry.runs[0]], catalog
        )  # a wrapper loads what the first engine inside loads
    return _shorthands(catalog).families.get(engine_format(entry), "hf")


def own_family(entry: Engine, catalog: Catalog) -> str | None:
    """The family that an engine itself reads; None for programs that pick an engine by the checkpoint."""
    return format_family(entry, catalog) if entry.kind == "engine" else None


def usual_engine(family: str, catalog: Catalog) -> Engine:
    """The engine that is taken for a family of weight formats where none is named. Raises BadInput where none is."""
    found = next((e for e in catalog.engines().values() if family in e.default_for), None)
    if found is None:
        raise BadInput(f"no engine is the usual one of {family} formats: name one (engine)")
    return found


def format_ladder(family: str, catalog: Catalog) -> tuple[str, ...]:
    """Formats of one family from wide to narrow, as answers step through them; empty where there is one only."""
    return _shorthands(catalog).ladders.get(family, ())


def is_shorthand(name: str, catalog: Catalog) -> bool:
    """Whether the name depends on the engine."""
    return simplify_name(name) in _shorthands(catalog).names


def choose_format(name: str | None, entry: Engine, model: Model, catalog: Catalog) -> FormatChoice:
    """The format that `name` means on this engine; without a name the checkpoint's own, or the engine's usual one.

    Raises UnknownName for a name nobody knows, BadInput for a shorthand this engine has nothing for.
    """
    family = format_family(entry, catalog)
    if name is None:
        return _default(family, entry, model, catalog)
    short = _shorthands(catalog).names.get(simplify_name(name))
    if short is None:
        quantization = catalog.quantization(name)
        if quantization.id == "MXFP4" and family == "gguf":
            return FormatChoice(catalog.quantization("MXFP4_MOE"), "MXFP4 is MXFP4_MOE in GGUF files")
        return FormatChoice(quantization, _describe_unpublished(quantization, family, entry, model))
    if family not in short:
        known = ", ".join(sorted(n for n, m in _shorthands(catalog).names.items() if family in m))
        raise BadInput(f"quantization {name!r} means nothing for {entry.name}; it has {known}")
    quantization = catalog.quantization(short[family])
    notes = (
        f"{name} is taken as {quantization.id} on {entry.name}",
        _describe_unpublished(quantization, family, entry, model),
    )
    return FormatChoice(quantization, "; ".join(n for n in notes if n))


def _describe_unpublished(quantization: Quantization, family: str, entry: Engine, model: Model) -> str | None:
    """What is reported about a format of a model that is published quantized, where no checkpoint in that format
    is known."""
    native = native_format(model)
    if family != "hf" or native is None or native == quantization.id or quantization.family == "none":
        return None
    if list_repositories(model, quantization.id) or (entry.start and quantization.id in entry.start.online_formats):
        return None
    return f"no {quantization.id} checkpoint of {model.id} is known: it is published as {native}"


def _default(family: str, entry: Engine, model: Model, catalog: Catalog) -> FormatChoice:
    native = native_format(model)
    name, why = {"float16": "F16", "float32": "F32"}.get(model.dtype, "BF16"), f"as {model.id} is published"
    if family == "gguf":
        name = "MXFP4_MOE" if native == "MXFP4" else "Q4_K_M"
        why = why if native == "MXFP4" else f"the usual download for {entry.name}"
    elif family in ("mlx", "exl3", "mlc"):
        name = catalog.quantization(_shorthands(catalog).names["q4"][family]).id
        why = f"the usual download for {entry.name}"
    elif native is not None:
        name = native
    elif name == "F32" and entry.loads_float32_as is not None:
        name, why = entry.loads_float32_as, f"as {entry.name} loads {model.id}, which is published in F32"
    return FormatChoice(catalog.quantization(name), f"no quantization given: {name}, {why}")
