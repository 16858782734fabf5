"""What `advise bench` measured on this machine, and how later predictions for this machine use it.

A run keeps factors: how much faster (above 1) or slower decoding and prompts were than the rules predict, and how much
more or less the prompts of others cost. They scale the efficiencies of the same engine and weight format on the same
machine: the runs of the same model where there are any, else the geometric mean of all. Bounds stay as wide as the
rules make them: one run says nothing about spread.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from advisor.catalog.roots import data_dir
from advisor.deployment import Deployment
from advisor.errors import BadFile, BadInput
from advisor.files import read_bytes
from advisor.machines.fingerprint import fingerprint_machine
from advisor.record import Record
from advisor.speed.efficiencies import Efficiencies
from advisor.speed.laws import Efficiency

KEPT = 200  # runs; the oldest go first
LIMIT = 2**20
COSTS = ("layer", "moe_layer", "exchange")  # seconds; all other fields are shares of a peak


class BenchRun(Record, frozen=True, kw_only=True):
    """One run of a load generator against a server on this machine, and what the rules had predicted."""

    date: str  # YYYY-MM-DD
    machine: str  # as `fingerprint_machine` writes it
    engine: str
    engine_version: str | None = None
    model: str
    quantization: str
    format: str  # weight formats whose kernels are alike
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    ttft_s: float  # median
    tpot_s: float  # median time between tokens
    output_tps: float
    decode: float  # measured speed over predicted speed, of one request alone
    prefill: float
    mixing: float | None = None  # measured over predicted delay by the prompts of others; None = one request at once
    queue: float | None = None
    tool: str


class BenchHistory(Record, frozen=True, kw_only=True):
    """The file."""

    schema: int = 1
    runs: tuple[BenchRun, ...] = ()


class LocalFactors(Record, frozen=True, kw_only=True):
    """Factors for one deployment, and the runs they come from."""

    decode: float
    prefill: float
    mixing: float
    queue: float
    runs: tuple[BenchRun, ...]

    @property
    def note(self) -> str:
        """One line that names them."""
        newest = max(self.runs, key=lambda r: r.date)
        of = f"{len(self.runs)} runs of advise bench here, the last" if len(self.runs) > 1 else "advise bench here"
        return (
            f"calibrated on this machine ({of} on {newest.date}, {newest.model} {newest.quantization}): "
            f"decoding x{self.decode:.2f}, prompts x{self.prefill:.2f} of the published rate"
        )


def history_path() -> Path:
    """Where the runs are kept."""
    return data_dir() / "calibration.json"


def load_runs() -> BenchHistory:
    """All runs; none where nothing was measured. Raises BadFile for a file that is none of ours."""
    where = history_path()
    if not where.exists():
        return BenchHistory()
    try:
        return msgspec.json.decode(read_bytes(where, LIMIT), type=BenchHistory)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise BadFile(where, f"is no file of `advise bench` ({e}); `advise bench --forget` removes it") from None


def store_run(run: BenchRun) -> Path:
    """Adds a run; an earlier one of the same load on the same deployment goes. Raises BadFile, BadInput."""

    def same(bench_run: BenchRun) -> tuple[object, ...]:
        return bench_run.machine, bench_run.engine, bench_run.model, bench_run.quantization, bench_run.concurrency

    kept = [r for r in load_runs().runs if same(r) != same(run)]
    where = history_path()
    data = msgspec.json.format(msgspec.json.encode(BenchHistory(runs=(*kept, run)[-KEPT:])))
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        beside = where.with_name(f"{where.name}.{os.getpid()}")
        beside.write_bytes(data)
        beside.replace(where)
    except OSError as e:
        raise BadInput(f"{where}: cannot be written: {e.strerror or e}") from None
    return where


def forget_runs() -> int:
    """Removes all runs; how many there were (0 also for a file that could not be read)."""
    try:
        n = len(load_runs().runs)
    except BadFile:
        n = 0
    history_path().unlink(missing_ok=True)
    return n


def find_local_factors(
    deployment: Deployment, format_: str, runs: Sequence[BenchRun] | None = None
) -> LocalFactors | None:
    """The factors for a deployment on the machine it was probed on; None elsewhere, and where nothing was measured."""
    if deployment.machine is None or deployment.machine.source != "probe":
        return None
    here = fingerprint_machine(deployment.machine)
    known = load_runs().runs if runs is None else runs
    alike = [r for r in known if (r.machine, r.engine, r.format) == (here, deployment.engine, format_)]
    own = [r for r in alike if (r.model, r.quantization) == (deployment.model.id, deployment.quantization)]
    chosen = own or alike
    if not chosen:
        return None
    return LocalFactors(
        decode=_mean([r.decode for r in chosen]),
        prefill=_mean([r.prefill for r in chosen]),
        mixing=_mean([r.mixing for r in chosen if r.mixing is not None]),
        queue=_mean([r.queue for r in chosen if r.queue is not None]),
        runs=tuple(chosen),
    )


def _mean(factors: Sequence[float]) -> float:
    """The geometric mean; 1 of none."""
    return math.exp(sum(math.log(f) for f in factors) / len(factors)) if factors else 1.0


def scale_efficiencies(
    efficiencies: Efficiencies, decode: float, prefill: float, mixing: float = 1.0, queue: float = 1.0
) -> Efficiencies:
    """Efficiencies with which every pass takes 1/factor of the time, and waits `mixing` and `queue` times as long."""
    waits = efficiencies.waits._replace(
        mixing=efficiencies.waits.mixing * mixing, queue=efficiencies.waits.queue * queue
    )
    return efficiencies._replace(
        decode=_faster(efficiencies.decode, decode), prefill=_faster(efficiencies.prefill, prefill), waits=waits
    )


def _faster(efficiency: Efficiency, factor: float) -> Efficiency:
    ratios = ("experts", "cache")  # shares of `memory`, which is scaled itself
    return Efficiency(
        *(
            v / factor if n in COSTS else v if n in ratios else v * factor
            for n, v in zip(efficiency._fields, efficiency, strict=True)
        )
    )
