"""Measured rows (tests/data) and our answer to each: the question a row asks, and the figures next to one another."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec

from advisor.catalog import Catalog
from advisor.deployment import DeviceMemory, MemoryEstimate, Setting
from advisor.engines import find_engine_module
from advisor.engines.flags import takes_share_of_device
from advisor.engines.pool import read_constants
from advisor.engines.versions import version_key
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.models.types import Model
from advisor.record import Value
from advisor.session import Session
from advisor.units import GIB

TableRow = dict[str, str]
RowSettings = dict[str, Setting | dict[str, object] | list[object]]


class RowComparison(Value, frozen=True):
    """One measured row next to our answer; GiB. None where the row does not give the figure."""

    row: TableRow
    engine: str
    model: Model
    version: str | None
    pool: tuple[float, float] | None  # ours, theirs
    weights: tuple[float, float] | None
    inside: tuple[float, float, float] | None  # low, high, measured: all of the device but the pool
    fits: bool | None
    ran: bool


def read_rows(path: Path) -> list[TableRow]:
    """Rows of a table of tests/data; lines that start with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(x for x in lines if not x.startswith("#")))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def make_row_request(row: TableRow) -> EstimateRequest | None:
    """The question of one row of vram_logs.csv; None for engines the product does not know."""
    if not row["engine_id"]:
        return None
    kv = row["kv_dtype"] if row["kv_dtype"] in ("fp8", "fp8_e5m2", "q8_0", "q4_0", "f16") else None
    return EstimateRequest(
        model=row["model_id"],
        engine=row["engine_id"],
        engine_version=row["engine_version"] if version_key(row["engine_version"]) else None,
        quantization=row["quantization"] or None,
        hardware=row["hardware"],
        context_length=int(row["max_model_len"]) if row["max_model_len"] else None,
        kv_cache_type=kv,
        settings=msgspec.json.decode(row["settings"]) if row["settings"] else {},
    )


def has_pool(engine: str, rules: Catalog) -> bool:
    """Whether an engine reserves a pool for its cache, and so logs what it holds."""
    return rules.engines()[engine].memory.get("family") == "pool"


def profiles_inside(engine: str, rules: Catalog) -> bool:
    """Whether an engine's share of the device holds its activation peak: then all of the share but the pool is
    given."""
    entry = find_engine_module(engine, rules.engines())[1]
    return takes_share_of_device(entry) and any(a.mlp for a in read_constants(entry).activation)


def compare_row(row: TableRow, rules: Catalog) -> RowComparison | None:
    """One row with our answer. Raises AdvisorError where we give none."""
    request = make_row_request(row)
    if request is None:
        return None
    deployment, _ = resolve_request(request, rules)
    memory_estimate = estimate(
        msgspec.structs.replace(deployment, any_release=request.engine_version is None), Session(rules)
    )
    ran = row["outcome"] in ("ok", "")
    pool = weights = inside = None
    pooled = has_pool(deployment.engine, rules)
    first = memory_estimate.devices[0]
    theirs, util, total = (_number(row[k]) for k in ("kv_avail_gib_per_gpu", "gpu_mem_util", "gpu_total_gib"))
    logged = _number(row["weights_gib_per_gpu"])
    if logged and first.weights_bytes is not None and row["fact_kind"] == "engine_log":
        mine = first.weights_bytes if pooled else sum(x.weights_bytes or 0 for x in memory_estimate.devices)
        weights = (mine / GIB, logged)
    if pooled:
        if theirs is not None and memory_estimate.kv_cache.available_bytes is not None:
            pool = (max(0, memory_estimate.kv_cache.available_bytes) / GIB, max(0.0, theirs))
            size = total * GIB if total else first.capacity_bytes
            if util and size and profiles_inside(deployment.engine, rules):
                inside = _fixed(first, util * size / GIB - theirs)
    else:
        inside = _total(row, memory_estimate)
    return RowComparison(
        row,
        deployment.engine,
        deployment.model,
        request.engine_version,
        pool,
        weights,
        inside,
        memory_estimate.fits,
        ran,
    )


def _fixed(row: DeviceMemory, measured: float) -> tuple[float, float, float]:
    """Everything but the pool: the interval of `row` without the cache of the asked requests."""
    cache = (row.kv_cache_bytes or 0) + (row.recurrent_state_bytes or 0)
    return ((row.low_bytes or 0) - cache) / GIB, ((row.high_bytes or 0) - cache) / GIB, measured


def _total(row: TableRow, memory_estimate: MemoryEstimate) -> tuple[float, float, float] | None:
    used, scope = _number(row["total_used_gib"]), row["total_used_scope"]
    if not used:
        return None
    if "GB as printed" in scope or "GB as given" in scope:
        used *= 1e9 / GIB
    rows = memory_estimate.devices[:1] if "per card" in scope else memory_estimate.devices
    planned = "sum of device buffers" in scope or scope == "projected device memory"
    beside = sum(x.overhead_bytes or 0 for x in rows) if planned else 0
    low, high = (sum(getattr(x, k) or 0 for x in rows) - beside for k in ("low_bytes", "high_bytes"))
    return low / GIB, high / GIB, used


def make_llama_request(row: TableRow) -> EstimateRequest:
    """The question of one row of llamacpp_rows.csv."""
    cards = {
        "75": "Quadro RTX 8000",
        "86": "RTX A6000",
        "89": "L40S",
        "90": "H100 80GB SXM",
        "120": "RTX PRO 6000 Blackwell",
    }
    gpus = int(row["gpus"])
    settings: RowSettings = {
        "ctx-size": int(row["n_ctx"]),
        "parallel": int(row["n_seq"]),
        "ubatch-size": int(row["n_ubatch"]),
        "flash-attn": row["fa"],
        "fit": "off",
        "kv-unified" if row["kv_unified"] == "1" else "no-kv-unified": True,
    }
    if row["swa_full"] == "1":
        settings["swa-full"] = True
    if row["cpu_moe"] == "1":
        settings["cpu-moe"] = True
    if gpus:
        settings["n-gpu-layers"] = "all" if row["ngl"] == "-1" else int(row["ngl"])
    return EstimateRequest(
        model=row["model"],
        engine=row["engine"],
        engine_version=row["engine_version"],
        quantization=row["quant"],
        settings=settings,
        hardware=f"{gpus}x {cards[row['cc']]}" if gpus else "cpu, 2000GB RAM",
        kv_cache_type={"k": row["ctk"], "v": row["ctv"]},
    )


def planned_request_bytes(row: TableRow, length: int, rules: Catalog) -> int:
    """Our bytes of one request of `length` tokens on the first rank, for a row of vllm_kv_rows.csv."""
    settings: RowSettings = {
        "tensor-parallel-size": int(row["tp"]),
        "max-model-len": length,
        "max-num-seqs": int(row["max_num_seqs"]),
        "max-num-batched-tokens": int(row["max_num_batched_tokens"]),
        "kv-cache-dtype": row["kv_cache_dtype"],
    }
    estimate_request = EstimateRequest(
        model=row["model"],
        engine=row["engine"],
        engine_version=row["engine_version"],
        quantization=row["quant"],
        settings=settings,
        hardware=f"{row['tp']}x H100 80GB SXM",
    )
    first = estimate(resolve_request(estimate_request, rules)[0], Session(rules)).devices[0]
    return (first.kv_cache_bytes or 0) + (first.recurrent_state_bytes or 0)
