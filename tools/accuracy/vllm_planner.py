"""Rows of vLLM's own planner and model code over configs and the catalogue, and our answer to each.

tests/data/vllm_catalogue.csv has the planner's sizes, vllm_forward.csv the peaks of its forward pass; bytes of a rank.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import structs

from advisor.catalog import Catalog, catalog
from advisor.deployment import Deployment
from advisor.errors import AdvisorError
from advisor.estimation import estimate, find_machine
from advisor.memory.working_memory import size_forward_peak
from advisor.models.hf_config import model_from_config
from advisor.models.types import Model
from advisor.record import Value
from advisor.session import Session
from tools.accuracy.rows import TableRow

LENGTHS = (4096, 8192, 32768, 131072)
COLUMNS = (
    "name", "tp", "kv_cache_type", "quantization", "weights", "per_token", *(f"request_{n}" for n in LENGTHS),
    "sequences", "batched_tokens", "engine", "version",
)  # fmt: skip
FORMATS = {"": "BF16", "fp8": "FP8", "gpt_oss_mxfp4": "MXFP4"}  # the engine's word -> ours
CARD = "H100 80GB SXM"  # the pretended device
WEIGHTS_SHARE, PADDED_SHARE = 0.005, 0.09  # the planner's weights are those before loading, which pads MXFP4 experts


class VllmComparison(Value, frozen=True):
    """Our answer compared with the planner's for one rank; bytes (ours, theirs), requests by length."""

    weights: tuple[int, int]
    requests: dict[int, tuple[int, int]]
    padded: bool  # loading pads the weights

    @property
    def weights_agree(self) -> bool:
        """Whether weights are within half a percent, or above it by no more than padding adds."""
        ours, theirs = self.weights
        return -WEIGHTS_SHARE <= ours / theirs - 1 <= (PADDED_SHARE if self.padded else WEIGHTS_SHARE)

    @property
    def agrees(self) -> bool:
        """Whether weights agree and every request is equal to the byte."""
        return self.weights_agree and all(ours == theirs for ours, theirs in self.requests.values())


@lru_cache(maxsize=256)
def _read_config(path: Path) -> Model:
    return model_from_config(json.loads(path.read_text(encoding="utf-8")), path.stem, catalog().config_classes)


def compare_row(row: TableRow, rules: Catalog, configs: Path) -> VllmComparison | None:
    """Our answer to a row; None where its format is none of FORMATS or a config cannot be read.

    `configs`: folder of the published configs, for rows that are named after one.
    """
    quantization = FORMATS.get(row["quantization"])
    if quantization is None:
        return None
    try:
        model = _read_config(configs / row["name"]) if row["name"].endswith(".json") else rules.find_model(row["name"])
    except AdvisorError:
        return None
    deployment = Deployment(
        model=structs.replace(model, vision=None),  # the text part was planned
        engine=row["engine"],
        engine_version=row["version"],
        quantization=quantization,
        machine=find_machine(f"{row['tp']}x {CARD}", rules),
        sequences=1,
    )
    requests, weights = {}, 0
    for length in LENGTHS:
        wanted = row[f"request_{length}"]
        settings = {
            "tensor-parallel-size": int(row["tp"]), "max-model-len": length, "max-num-seqs": int(row["sequences"]),
            "max-num-batched-tokens": int(row["batched_tokens"]), "kv-cache-dtype": row["kv_cache_type"],
        }  # fmt: skip
        if not wanted and weights:
            continue
        if not wanted:
            settings["max-model-len"] = min(length, model.max_context or length)
        first = estimate(structs.replace(deployment, settings=settings), Session(rules)).devices[0]
        weights = first.weights_bytes or 0
        if wanted:
            requests[length] = ((first.kv_cache_bytes or 0) + (first.recurrent_state_bytes or 0), int(wanted))
    return VllmComparison((weights, int(row["weights"])), requests, padded=quantization == "MXFP4")


def make_vllm_section(rows: Sequence[TableRow], rules: Catalog, configs: Path) -> list[str]:
    """vLLM's planner: a table of docs/accuracy.md, by where the layers come from."""
    groups: dict[str, list[VllmComparison]] = defaultdict(list)
    for row in rows:
        comparison = compare_row(row, rules, configs)
        if comparison is not None:
            groups["published configs" if row["name"].endswith(".json") else "catalogue models"].append(comparison)
    out = [
        "| layers from | rows | requests | equal to the byte | weights of a rank within 0.5 % |",
        "| --- | --- | --- | --- | --- |",
    ]
    for group, found in groups.items():
        requests = [x for c in found for x in c.requests.values()]
        equal = sum(a == b for a, b in requests) / len(requests)
        weights = sum(c.weights_agree for c in found) / len(found)
        out.append(f"| {group} | {len(found)} | {len(requests)} | {100 * equal:.1f} % | {100 * weights:.1f} % |")
    return out


TOKENS = (2048, 8192)
FORWARD_COLUMNS = (
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
