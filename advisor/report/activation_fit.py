"""vLLM's activation peak: our formula against measured ones, also fitted without the group that is judged."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.engines import find
from advisor.engines.pool import constants, resolve
from advisor.engines.pool_constants import Activation
from advisor.engines.pool_sizes import activation
from advisor.engines.versions import pick
from advisor.estimation import Request, deployment
from advisor.report.measured import Settings, read_rows, request_of
from advisor.units import GIB


class Peak(NamedTuple):
    """One measured activation peak, and what the formula needs of it."""

    group: str
    request: Request
    gib: float


def peaks(data: Path) -> list[Peak]:
    """Measured activation peaks: architectures on H100, and logs that print one."""
    out = []
    for r in read_rows(data / "vllm_activation.csv"):
        settings: Settings = {
            "tensor-parallel-size": int(r["tp"]),
            "max-num-seqs": int(r["max_num_seqs"]),
            "max-num-batched-tokens": int(r["max_num_batched_tokens"]),
        }
        q = Request(
            model=r["model"], engine=r["engine"], engine_version=r["engine_version"], quantization="BF16",
            hardware=r["hardware"], settings=settings,
        )  # fmt: skip
        out.append(Peak(r["architecture"], q, float(r["gib"])))
    for r in read_rows(data / "vram_logs.csv"):
        request = request_of(r) if r["activation_peak_gib"] else None
        if request is not None and request.engine_version and "residual" not in r["notes"]:
            out.append(Peak(r["group_id"], request, float(r["activation_peak_gib"])))
    return out


def peak_errors(all_peaks: Sequence[Peak], rules: Catalog, fit: bool) -> list[tuple[str, float, float]]:
    """(group, ours, measured) GiB. `fit`: the coefficients come from the other groups only, by least median error."""
    made = []
    for p in all_peaks:
        entry = find(p.request.engine, rules.engines())[1]
        c = constants(entry)
        d, _ = deployment(p.request, rules)
        made.append((p, d.model, resolve(d, entry, c), pick(c.activation, p.request.engine_version)))

    def ours(i: int, a: Activation) -> float:
        return activation(made[i][1], made[i][2], a) / GIB

    out = []
    for i, (p, _, _, a) in enumerate(made):
        others = [j for j, x in enumerate(made) if x[0].group != p.group]
        if fit:
            a = min(
                (msgspec.structs.replace(a, sampler_bytes=s, hidden=h) for s in range(8, 25) for h in (2, 3, 4, 5, 6)),
                key=lambda t: statistics.median(abs(ours(j, t) - made[j][0].gib) / made[j][0].gib for j in others),
            )
        out.append((p.group, ours(i, a), p.gib))
    return out


def median_error(pairs: Iterable[tuple[str, float, float]]) -> float:
    """Median relative error of (group, ours, measured), percent."""
    return 100 * statistics.median(abs(a - b) / b for _, a, b in pairs)
