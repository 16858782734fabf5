"""vLLM's activation peak: our formula against measured ones, also fitted without the group that is judged."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from advisor.catalog import Catalog
from advisor.engines import find_engine_module
from advisor.engines.pool import read_constants, resolve_pool_settings
from advisor.engines.pool_constants import ActivationPeak
from advisor.engines.pool_sizes import activation_bytes
from advisor.engines.versions import pick_version
from advisor.estimation import EstimateRequest, resolve_request
from advisor.record import Value
from advisor.report.measured_rows import RowSettings, make_row_request, read_rows
from advisor.units import GIB


class MeasuredPeak(Value, frozen=True):
    """One measured activation peak, and what the formula needs of it."""

    group: str
    request: EstimateRequest
    gib: float


def read_peaks(data: Path) -> list[MeasuredPeak]:
    """Measured activation peaks: architectures on H100, and logs that print one."""
    out = []
    for r in read_rows(data / "vllm_activation.csv"):
        settings: RowSettings = {
            "tensor-parallel-size": int(r["tp"]),
            "max-num-seqs": int(r["max_num_seqs"]),
            "max-num-batched-tokens": int(r["max_num_batched_tokens"]),
        }
        estimate_request = EstimateRequest(
            model=r["model"], engine=r["engine"], engine_version=r["engine_version"], quantization="BF16",
            hardware=r["hardware"], settings=settings,
        )  # fmt: skip
        out.append(MeasuredPeak(r["architecture"], estimate_request, float(r["gib"])))
    for r in read_rows(data / "vram_logs.csv"):
        request = make_row_request(r) if r["activation_peak_gib"] else None
        if request is not None and request.engine_version and "residual" not in r["notes"]:
            out.append(MeasuredPeak(r["group_id"], request, float(r["activation_peak_gib"])))
    return out


def peak_errors(all_peaks: Sequence[MeasuredPeak], rules: Catalog, fit: bool) -> list[tuple[str, float, float]]:
    """(group, ours, measured) GiB. `fit`: the coefficients come from the other groups only, by least median error."""
    made = []
    for measured_peak in all_peaks:
        entry = find_engine_module(measured_peak.request.engine, rules.engines())[1]
        constants = read_constants(entry)
        deployment, _ = resolve_request(measured_peak.request, rules)
        made.append(
            (
                measured_peak,
                deployment.model,
                resolve_pool_settings(deployment, entry, constants),
                pick_version(constants.activation, measured_peak.request.engine_version),
            )
        )

    def ours(i: int, activation: ActivationPeak) -> float:
        return activation_bytes(made[i][1], made[i][2], activation) / GIB

    out = []
    for i, (measured_peak, _, _, peak) in enumerate(made):
        others = [j for j, x in enumerate(made) if x[0].group != measured_peak.group]
        if fit:
            peak = min(
                (
                    msgspec.structs.replace(peak, sampler_bytes=s, hidden=h)
                    for s in range(8, 25)
                    for h in (2, 3, 4, 5, 6)
                ),
                key=lambda t: statistics.median(abs(ours(j, t) - made[j][0].gib) / made[j][0].gib for j in others),
            )
        out.append((measured_peak.group, ours(i, peak), measured_peak.gib))
    return out


def median_error(pairs: Iterable[tuple[str, float, float]]) -> float:
    """Median relative error of (group, ours, measured), percent."""
    return 100 * statistics.median(abs(a - b) / b for _, a, b in pairs)
