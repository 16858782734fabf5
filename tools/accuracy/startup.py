"""Start-up logs that people published (tests/data/startup_logs.csv) compared with the pool that is predicted.

Each source is also predicted without what it taught: a constant that rests on a kind of deployments is fitted again on
the other sources, and where no other source has the kind, the next wider kind's constant is taken; so for the peak of a
release, whose neighbour is taken.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.engines import find_engine_module, fitting
from advisor.engines.pool.settings import (
    ActivationPeak,
    PoolConstants,
    PoolSettings,
    RangeGib,
    read_constants,
    resolve_pool_settings,
)
from advisor.engines.pool.sizes import activation_bytes, list_overheads
from advisor.engines.versions import pick_version, version_key
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.models.types import Model
from advisor.record import Value
from advisor.session import Session
from advisor.units import GIB
from tools.accuracy.rows import RowSettings, TableRow, make_row_request, read_rows

SAMPLED = 0.2  # GiB of logits at 14 bytes each, from which on a log says something of the sampler


class StartupRow(Value, frozen=True):
    """One log, GiB: what was left for the cache, and what was predicted."""

    group: str
    engine: str
    unified: bool
    logged: float
    predicted: float
    low: float
    high: float
    model: Model
    quantization: str
    settings: PoolSettings
    constants: PoolConstants
    overheads: tuple[RangeGib, ...]  # the first is in the prediction
    peak: ActivationPeak  # is in the prediction

    @property
    def error(self) -> float:
        """Logged less predicted."""
        return self.logged - self.predicted

    @property
    def samples(self) -> bool:
        """Whether its sampler is large enough to be seen."""
        lay = self.model.layout
        return lay is not None and 14 * self.settings.sequences * lay.vocab_size / GIB >= SAMPLED


def make_startup_request(row: TableRow) -> EstimateRequest:
    """The deployment of a row."""
    settings: dict[str, Any] = json.loads(row["settings"])
    return EstimateRequest(
        model=row["model"], engine=row["engine"], engine_version=row["engine_version"],
        quantization=row["quantization"], hardware=row["hardware"], settings=settings,
    )  # fmt: skip


def read_startup_rows(data: Path, rules: Catalog) -> list[StartupRow]:
    """All rows with their predictions."""
    out = []
    for row in read_rows(data / "startup_logs.csv"):
        deployment, _ = resolve_request(make_startup_request(row), rules)
        found = estimate(deployment, Session(rules).without_history()).kv_cache
        if deployment.model.layout is None or found.available_bytes is None:
            continue
        entry = find_engine_module(row["engine"], rules.engines())[1]
        constants = read_constants(entry)
        settings = resolve_pool_settings(deployment, entry, constants)
        devices = fitting.used_devices(deployment)
        out.append(StartupRow(
            group=row["group"], engine=row["engine"], unified=any(x.unified for x in devices),
            logged=float(row["pool"]) + float(row["state"] or 0), predicted=found.available_bytes / GIB,
            low=(found.available_low_bytes or 0) / GIB, high=(found.available_high_bytes or 0) / GIB,
            model=deployment.model, quantization=deployment.quantization, settings=settings, constants=constants,
            overheads=list_overheads(constants, settings, devices),
            peak=pick_version(constants.activation, settings.version),
        ))  # fmt: skip
    return out


def predict_without_source(rows: Sequence[StartupRow]) -> list[float]:
    """Errors in GiB, logged less predicted, of each row by what the other sources say."""
    return [_error_without(row, [x for x in rows if x.group != row.group]) for row in rows]


def _error_without(row: StartupRow, others: Sequence[StartupRow]) -> float:
    peak = _peak_without(row, others)
    error = row.error - (_activation(row, row.peak) - _activation(row, peak))
    alike = [x for x in others if x.overheads[0] is row.overheads[0]]
    by_group: dict[str, list[float]] = defaultdict(list)
    for x in alike:
        by_group[x.group].append(x.error)
    if by_group:  # the constant that the others would have given
        return error - statistics.median(statistics.median(v) for v in by_group.values())
    if len(row.overheads) > 1:
        return error - (row.overheads[0].value - row.overheads[1].value)
    return error


def _peak_without(row: StartupRow, others: Sequence[StartupRow]) -> ActivationPeak:
    """The peak's constants of the row's release, or of its neighbour where nobody else saw its sampler."""
    if not row.samples or any(x.peak is row.peak and x.samples for x in others):
        return row.peak
    ordered = sorted(row.constants.activation, key=lambda p: version_key(p.before or "9999"))
    i = ordered.index(row.peak)
    return ordered[i - 1] if i else ordered[min(1, len(ordered) - 1)]


def _activation(row: StartupRow, peak: ActivationPeak) -> float:
    return activation_bytes(row.model, row.settings, peak, row.quantization) / GIB


class ErrorSummary(Value, frozen=True):
    """Errors of a set of rows, GiB; shares in percent."""

    rows: int
    sources: int
    median: float
    median_without: float  # each source predicted without what it taught
    within_half: float  # share within 0.5 GiB, predicted without
    inside: float  # share inside the bounds


def summarise(rows: Sequence[StartupRow], without: Sequence[float], keep: Iterable[bool]) -> ErrorSummary:
    """Figures of the rows that are kept."""
    chosen = [(r, e) for r, e, k in zip(rows, without, keep, strict=True) if k]
    return ErrorSummary(
        rows=len(chosen),
        sources=len({r.group for r, _ in chosen}),
        median=statistics.median(abs(r.error) for r, _ in chosen),
        median_without=statistics.median(abs(e) for _, e in chosen),
        within_half=100 * sum(abs(e) <= 0.5 for _, e in chosen) / len(chosen),
        inside=100 * sum(r.low <= r.logged <= r.high for r, _ in chosen) / len(chosen),
    )


def make_startup_section(data: Path, rules: Catalog) -> list[str]:
    """Lines of docs/accuracy.md."""
    rows = read_startup_rows(data, rules)
    without = predict_without_source(rows)
    kinds: dict[str, list[bool]] = {}
    for engine in sorted({r.engine for r in rows}):
        name = rules.engine(engine).name
        kinds[name] = [r.engine == engine for r in rows]
        if any(r.engine == engine and r.unified for r in rows):
            kinds[f"{name}, devices with memory of their own"] = [r.engine == engine and not r.unified for r in rows]
            kinds[f"{name}, unified memory"] = [r.engine == engine and r.unified for r in rows]
    out = [
        f"{len(rows)} logs of `startup_logs.csv`, from {len({r.group for r in rows})} sources: what was left for the",
        "KV cache of a rank. Without: every source predicted by constants that the others give.",
        "",
        "| engine | logs | sources | median error, GiB | without, GiB | within 0.5 GiB without, % | in bounds, % |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, keep in kinds.items():
        s = summarise(rows, without, keep)
        out.append(f"| {name} | {s.rows} | {s.sources} | {s.median:.2f} | {s.median_without:.2f} | "
                   f"{s.within_half:.0f} | {s.inside:.0f} |")  # fmt: skip
    return out


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
