"""Repositories of quantized copies: hub ids, one kind each, no repeats, and bytes that the format can have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.catalog.downloads import DownloadsFile
from advisor.lint.faults import Fault
from advisor.lint.house import House, RuleDocument
from advisor.lint.rule_types import At

COPY_RANGE = (0.85, 2.2)  # of a format's nominal bits: embeddings, norms and towers stay wide


def find_faults(house: House) -> Iterator[Fault]:
    """Faults of all files of rules/downloads."""
    for path, document in house.documents.items():
        if path.startswith("downloads/"):
            file: DownloadsFile = document.value
            for model in file.downloads:
                yield from _copies(house, document, model)


def _copies(house: House, document: RuleDocument, id: str) -> Iterator[Fault]:
    model, seen = house.models.get(id), set[str]()
    for i, copy in enumerate(document.value.downloads[id]):
        at: At = ("downloads", id, i)
        if (copy.format is None) is not copy.gguf:
            yield document.place.field("wrong_value", at, "needs either `format` or `gguf: true`")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", copy.repository):
            yield document.place.field("wrong_value", at, f"{copy.repository!r} is no hub repository (org/name)")
        if copy.repository in seen:
            yield document.place.field("duplicate_name", at, f"{copy.repository} stands twice")
        seen.add(copy.repository)
        if copy.bytes and copy.format and model is not None:
            bits = 8 * copy.bytes / model.params_total
            low, high = (x * house.catalog.quantization(copy.format).bits_nominal for x in COPY_RANGE)
            if not low <= bits <= high:
                said = f"{copy.bytes / 1e9:,.2f} GB for {model.params_total:,} parameters are {bits:.2g} bits each"
                yield document.place.field("unit", at, f"{said}; {copy.format} has {low:.2g} to {high:.2g}")
