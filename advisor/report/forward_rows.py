"""Peaks of vLLM's forward pass by shapes (tests/data/vllm_forward.csv), and what our formula gives for each.

The formula's sampler is left out: the forward pass has none. Bytes of one rank.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from advisor.catalog import Catalog
from advisor.deployment import Deployment
from advisor.engines import find_engine_module
from advisor.engines.pool_constants import read_constants
from advisor.engines.pool_settings import resolve_pool_settings
from advisor.engines.pool_sizes import activation_bytes
from advisor.engines.versions import pick_version
from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.models.hf_config import model_from_config
from advisor.models.types import Model
from advisor.report.measured_rows import TableRow

TOKENS = (2048, 8192)
COLUMNS = (
    "name", "class", "tp", *(f"{how}_{n}" for how in ("compiled", "eager") for n in TOKENS), "engine", "version",
    "error",
)  # fmt: skip
LENGTH = 2048  # of a request: the formula does not depend on it
CARD = "H100 80GB SXM"  # the pretended device


class ForwardComparison(NamedTuple):
    """Our peak of the forward pass compared with the engine's on one rank."""

    family: str  # the engine's class
    tp: int  # tensor-parallel ranks
    peaks: dict[int, tuple[float, int]]  # tokens in a batch -> bytes (ours, theirs with torch.compile)
    low: float  # bounds of the rules, multiples of ours
    high: float

    @property
    def agrees(self) -> bool:
        """Whether every peak lies within the bounds."""
        return all(self.low <= theirs / ours <= self.high for ours, theirs in self.peaks.values())


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
    entry = find_engine_module(row["engine"], rules.engines())[1]
    constants = read_constants(entry)
    peak = pick_version(constants.activation, row["version"])
    alone = structs.replace(peak, sampler_bytes=0, sampler_hidden=0)
    machine = find_machine(f"{row['tp']}x {CARD}", rules)
    peaks = {}
    for tokens in TOKENS:
        deployment = Deployment(
            model=model,
            engine=row["engine"],
            engine_version=row["version"],
            quantization="BF16",
            machine=machine,
            sequences=1,
            settings={
                "tensor-parallel-size": int(row["tp"]),
                "max-num-batched-tokens": tokens,
                "max-model-len": LENGTH,
            },
        )
        settings = resolve_pool_settings(deployment, entry, constants)
        peaks[tokens] = (activation_bytes(model, settings, alone), int(row[f"compiled_{tokens}"]))
    return ForwardComparison(row["class"], int(row["tp"]), peaks, peak.low, peak.high)


def median_ratios(comparisons: Iterable[ForwardComparison]) -> dict[str, float]:
    """Median of theirs / ours, by class."""
    found: dict[str, list[float]] = defaultdict(list)
    for comparison in comparisons:
        found[comparison.family] += [theirs / ours for ours, theirs in comparison.peaks.values()]
    return {family: statistics.median(ratios) for family, ratios in sorted(found.items())}
