"""Rows of llama.cpp's own planner over the catalogue (tests/data/llamacpp_catalogue.csv), and our answer to each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from advisor.catalog import Catalog
from advisor.deployment import MemoryEstimate
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.record import Value
from advisor.session import Session
from advisor.units import MIB
from tools.accuracy.rows import RowSettings, TableRow

COLUMNS = (
    "model", "architecture", "quantization", "gpus", "layers", "experts_on_host", "context", "ubatch", "slots",
    "unified", "flash", "keys", "values", "devices", "host",
)  # fmt: skip
SCRATCH_SHARE, SCRATCH_SLACK, TOTAL_SHARE = 0.15, 16 * MIB, 0.02
CARD = "H100"  # the pretended device


class PlannerComparison(Value, frozen=True):
    """Our answer compared with the planner's, on all devices together; bytes (ours, theirs)."""

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
        quantization=None if model else row["quantization"],
        hardware=f"{row['gpus']}x {CARD}",
        kv_cache_type={"k": row["keys"], "v": row["values"]},
        settings=settings,
    )


def compare_planner_row(row: TableRow, rules: Catalog, model: str | None = None) -> PlannerComparison | None:
    """Our answer compared with the row's; None where we give none."""
    try:
        ours = estimate(resolve_request(make_planner_request(row, model), rules)[0], Session(rules))
    except BadInput:
        return None
    return compare_planner_estimate(row, ours)


def compare_planner_estimate(row: TableRow, ours: MemoryEstimate) -> PlannerComparison:
    """An estimate compared with the row's."""
    devices = [[int(x) for x in piece.split("/")] for piece in row["devices"].split(";")]
    theirs = [sum(x) for x in zip(*devices, strict=True)]
    weights = sum(x.weights_bytes or 0 for x in ours.devices)
    context = sum((x.kv_cache_bytes or 0) + (x.recurrent_state_bytes or 0) for x in ours.devices)
    scratch = sum(x.compute_bytes or 0 for x in ours.devices)
    return PlannerComparison(
        (weights, theirs[0]), (context, theirs[1]), (scratch, theirs[2]), ours.basis.get("compute", "unknown")
    )


def make_planner_section(rows: Sequence[TableRow], rules: Catalog) -> list[str]:
    """llama.cpp's planner over the catalogue: a table of docs/accuracy.md, by how a model is placed."""
    groups: dict[str, list[PlannerComparison | None]] = defaultdict(list)
    for row in rows:
        groups[_name_place(row)].append(compare_planner_row(row, rules))
    out = [
        "| placed | rows | weights, KV cache, state equal to the byte | scratch equal | scratch within 15 % + 16 MiB |"
        " total within 2 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in [*groups.items(), ("all", [x for each in groups.values() for x in each])]:
        told = [x for x in found if x is not None]
        counts = (
            sum(x.exact for x in told),
            sum(x.scratch[0] == x.scratch[1] for x in told),
            sum(x.near for x in told),
            sum(x.total_near for x in told),
        )
        shares = " | ".join(f"{100 * n / len(found):.1f} %" for n in counts)
        out.append(f"| {name} | {len(found)} | {shares} |")
    return out


def _name_place(row: TableRow) -> str:
    if row["experts_on_host"] == "1":
        return "experts in host memory"
    if row["layers"] != "all":
        return "half of the layers on a GPU"
    return "on one GPU" if row["gpus"] == "1" else f"on {row['gpus']} GPUs"
