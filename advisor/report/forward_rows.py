"""Peaks of vLLM's forward pass (tests/data/vllm_forward.csv) and ours by shapes; bytes of a rank."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from msgspec import structs

from advisor.catalog import Catalog
from advisor.errors import AdvisorError
from advisor.memory.forward_peak import size_forward_peak
from advisor.models.hf_config import model_from_config
from advisor.models.types import Model
from advisor.record import Value
from advisor.report.measured_rows import TableRow

TOKENS = (2048, 8192)
COLUMNS = (
    "name", "class", "tp", *(f"{how}_{n}" for how in ("compiled", "eager") for n in TOKENS), "engine", "version",
    "error",
)  # fmt: skip


class ForwardComparison(Value, frozen=True):
    """Our peak of the forward pass compared with the engine's on one rank."""

    family: str  # the engine's class
    tp: int  # tensor-parallel ranks
    peaks: dict[int, tuple[float, int]]  # tokens in a batch -> bytes (ours, theirs with torch.compile)

    @property
    def ratios(self) -> list[float]:
        """Theirs over ours, of each size of batch."""
        return [theirs / ours for ours, theirs in self.peaks.values()]


@lru_cache(maxsize=256)
def _read_config(path: Path) -> Model:
    return model_from_config(json.loads(path.read_text(encoding="utf-8")), path.stem)


def read_model(name: str, rules: Catalog, configs: Path) -> Model | None:
    """The model of a row, its text part; None where the config cannot be read or layers are not known."""
    try:
        model = _read_config(configs / name) if name.endswith(".json") else rules.find_model(name)
    except AdvisorError:
        return None
    return structs.replace(model, vision=None) if model.layout is not None else None


def compare_forward(row: TableRow, rules: Catalog, configs: Path) -> ForwardComparison | None:
    """Our answer to a row; None where the engine could not run it or the model's layers are not known.

    `configs`: folder of the published configs, for rows that are named after one.
    """
    model = read_model(row["name"], rules, configs)
    if row["error"] or model is None:
        return None
    tp = int(row["tp"])
    peaks = {n: (size_forward_peak(model, n, tp, tp), int(row[f"compiled_{n}"])) for n in TOKENS}
    return ForwardComparison(row["class"], tp, peaks)


def median_ratios(comparisons: Iterable[ForwardComparison]) -> dict[str, float]:
    """Median of theirs / ours, by class."""
    found: dict[str, list[float]] = defaultdict(list)
    for comparison in comparisons:
        found[comparison.family] += comparison.ratios
    return {family: statistics.median(ratios) for family, ratios in sorted(found.items())}
