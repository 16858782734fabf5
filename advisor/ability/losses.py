"""What a weight format or a cache type costs in percent of a test's score, and what a licence allows."""

from typing import Literal

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.meanings import QuantizationName
from advisor.models.types import Model
from advisor.record import Record

LicenceClass = Literal["permissive", "conditions", "noncommercial", "unknown"]


class SizedLoss(Record, frozen=True, kw_only=True):
    """The loss of models of a size."""

    below: float | None = None  # billions of parameters; None: all larger ones
    percent: tuple[float, float]


class FormatLoss(Record, frozen=True, kw_only=True):
    """Formats that cost about the same."""

    names: tuple[QuantizationName, ...]
    loss: tuple[SizedLoss, ...]


class CacheLoss(Record, frozen=True, kw_only=True):
    """Cache types that cost about the same."""

    names: tuple[str, ...]
    percent: tuple[float, float]


class FormatLossFile(Record, frozen=True, kw_only=True):
    """rules/format-loss.yaml."""

    as_of: str
    source: str
    formats: tuple[FormatLoss, ...]
    caches: tuple[CacheLoss, ...]


class LicencesFile(Record, frozen=True, kw_only=True):
    """rules/licences.yaml."""

    source: str
    as_of: str
    permissive: tuple[str, ...]
    conditions: tuple[str, ...]
    noncommercial: tuple[str, ...]


def find_format_loss(format: str, model: Model, rules: Catalog) -> tuple[float, float] | None:
    """Least and most percent of a test's score that a format costs this model; (0, 0) for the format it was published
    in, None where nothing is known."""
    if (model.native_quant or "").lower().startswith(format.lower()) and model.native_quant:
        return (0.0, 0.0)
    file = decode_document(rules, "format-loss.yaml", FormatLossFile)
    name = format.removeprefix("UD-") if format.startswith("UD-I") else format
    for row in file.formats:
        if name in row.names:
            size = model.params_total / 1e9
            return next((x.percent for x in row.loss if x.below is None or size < x.below), None)
    return None


def find_cache_loss(cache: str, rules: Catalog) -> tuple[float, float] | None:
    """Least and most percent that a KV cache type costs; None where nothing is known."""
    file = decode_document(rules, "format-loss.yaml", FormatLossFile)
    return next((x.percent for x in file.caches if cache in x.names), None)


def classify_licence(name: str | None, rules: Catalog) -> LicenceClass:
    """What a licence allows, by its name."""
    file = decode_document(rules, "licences.yaml", LicencesFile)
    low = (name or "").lower()
    if low in file.permissive:
        return "permissive"
    if low in file.conditions:
        return "conditions"
    return "noncommercial" if low in file.noncommercial else "unknown"
