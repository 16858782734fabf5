"""Rows of llama.cpp's own planner over the catalogue (tests/data/llamacpp_catalogue.csv), and our answer to each."""

from __future__ import annotations

from typing import NamedTuple

from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.report.measured_rows import RowSettings, TableRow
from advisor.units import MIB

COLUMNS = (
    "model", "architecture", "quantization", "gpus", "layers", "experts_on_host", "context", "ubatch", "slots",
    "unified", "flash", "keys", "values", "devices", "host",
)  # fmt: skip
SCRATCH_SHARE, SCRATCH_SLACK, TOTAL_SHARE = 0.15, 16 * MIB, 0.02
CARD = "H100"  # the pretended device


class PlannerComparison(NamedTuple):
    """Our answer beside the planner's, on all devices together; bytes (ours, theirs)."""

    weights: tuple[int, int]
    context: tuple[int, int]  # cache and state
    scratch: tuple[int, int]
    basis: str  # of our scratch

    @property
    def exact(self) -> bool:
        """Whether weights, cache and state are equal to the byte."""
        return self.weights[0] == self.weights[1] and self.context[0] == self.context[1]

    @property
    def near(self) -> bool:
        """Whether scratch is within 15 % + 16 MiB."""
        ours, theirs = self.scratch
        return abs(ours - theirs) <= SCRATCH_SHARE * theirs + SCRATCH_SLACK

    @property
    def total_near(self) -> bool:
        """Whether all together is within 2 %."""
        ours, theirs = (sum(x[i] for x in (self.weights, self.context, self.scratch)) for i in (0, 1))
        return abs(ours - theirs) <= TOTAL_SHARE * theirs

    @property
    def agrees(self) -> bool:
        """Whether all three bars are met."""
        return self.exact and self.near and self.total_near


def make_planner_request(row: TableRow, model: str | None = None) -> EstimateRequest:
    """The question of a row; `model` replaces its name, by the path of a file for example."""
    settings: RowSettings = {
        "ctx-size": int(row["context"]), "parallel": int(row["slots"]), "ubatch-size": int(row["ubatch"]),
        "flash-attn": "on" if row["flash"] == "1" else "off", "kv-unified": row["unified"] == "1", "fit": False,
        "n-gpu-layers": "all" if row["layers"] == "all" else int(row["layers"]),
    }  # fmt: skip
    if row["experts_on_host"] == "1":
        settings["cpu-moe"] = True
    return EstimateRequest(
        model=model or row["model"],
        engine="llama.cpp",
        quantization=None if model else row["quantization"],
        hardware=f"{row['gpus']}x {CARD}",
        kv_cache_type={"k": row["keys"], "v": row["values"]},
        settings=settings,
    )


def compare_planner_row(row: TableRow, rules: Catalog, model: str | None = None) -> PlannerComparison | None:
    """Our answer beside the row's; None where we give none."""
    try:
        ours = estimate(resolve_request(make_planner_request(row, model), rules)[0], rules)
    except BadInput:
        return None
    devices = [[int(x) for x in piece.split("/")] for piece in row["devices"].split(";")]
    theirs = [sum(x) for x in zip(*devices, strict=True)]
    weights = sum(x.weights_bytes or 0 for x in ours.devices)
    context = sum((x.kv_cache_bytes or 0) + (x.recurrent_state_bytes or 0) for x in ours.devices)
    scratch = sum(x.compute_bytes or 0 for x in ours.devices)
    return PlannerComparison(
        (weights, theirs[0]), (context, theirs[1]), (scratch, theirs[2]), ours.basis.get("compute", "unknown")
    )
