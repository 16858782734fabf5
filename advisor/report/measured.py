"""Measured rows (tests/data) and our answer to each: the question a row asks, and the figures beside one another."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.deployment import DeviceMemory, MemoryEstimate, Setting
from advisor.engines import find
from advisor.engines.flags import takes_share_of_device
from advisor.engines.pool import constants
from advisor.engines.versions import key
from advisor.estimation import Request, deployment, estimate
from advisor.models.types import Model
from advisor.units import GIB

Row = dict[str, str]
Settings = dict[str, Setting | dict[str, object] | list[object]]


class Compared(NamedTuple):
    """One measured row beside our answer; GiB. None where the row does not give the figure."""

    row: Row
    engine: str
    model: Model
    version: str | None
    pool: tuple[float, float] | None  # ours, theirs
    weights: tuple[float, float] | None
    inside: tuple[float, float, float] | None  # low, high, measured: all of the device but the pool
    fits: bool | None
    ran: bool


def read_rows(path: Path) -> list[Row]:
    """Rows of a table of tests/data; lines that start with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(x for x in lines if not x.startswith("#")))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def request_of(r: Row) -> Request | None:
    """The question of one row of vram_logs.csv; None for engines the product does not know."""
    if not r["engine_id"]:
        return None
    kv = r["kv_dtype"] if r["kv_dtype"] in ("fp8", "fp8_e5m2", "q8_0", "q4_0", "f16") else None
    return Request(
        model=r["model_id"],
        engine=r["engine_id"],
        engine_version=r["engine_version"] if key(r["engine_version"]) else None,
        quantization=r["quantization"] or None,
        hardware=r["hardware"],
        context_length=int(r["max_model_len"]) if r["max_model_len"] else None,
        kv_cache_type=kv,
        settings=msgspec.json.decode(r["settings"]) if r["settings"] else {},
    )


def has_pool(engine: str, rules: Catalog) -> bool:
    """Whether an engine reserves a pool for its cache, and so logs what it holds."""
    return rules.engines()[engine].memory.get("family") == "pool"


def profiles_inside(engine: str, rules: Catalog) -> bool:
    """Whether an engine's share of the device holds its activation peak: then all of the share but the pool is told."""
    entry = find(engine, rules.engines())[1]
    return takes_share_of_device(entry) and any(a.mlp for a in constants(entry).activation)


def compare(r: Row, rules: Catalog) -> Compared | None:
    """One row with our answer. Raises AdvisorError where we give none."""
    request = request_of(r)
    if request is None:
        return None
    d, _ = deployment(request, rules)
    m = estimate(d, rules)
    ran = r["outcome"] in ("ok", "")
    pool = weights = inside = None
    pooled = has_pool(d.engine, rules)
    first = m.devices[0]
    theirs, util, total = (_number(r[k]) for k in ("kv_avail_gib_per_gpu", "gpu_mem_util", "gpu_total_gib"))
    logged = _number(r["weights_gib_per_gpu"])
    if logged and first.weights_bytes is not None and r["fact_kind"] == "engine_log":
        mine = first.weights_bytes if pooled else sum(x.weights_bytes or 0 for x in m.devices)
        weights = (mine / GIB, logged)
    if pooled:
        if theirs is not None and m.kv_cache.available_bytes is not None:
            pool = (max(0, m.kv_cache.available_bytes) / GIB, max(0.0, theirs))
            size = total * GIB if total else first.capacity_bytes
            if util and size and profiles_inside(d.engine, rules):
                inside = _fixed(first, util * size / GIB - theirs)
    else:
        inside = _total(r, m)
    return Compared(r, d.engine, d.model, request.engine_version, pool, weights, inside, m.fits, ran)


def _fixed(x: DeviceMemory, measured: float) -> tuple[float, float, float]:
    """Everything but the pool: the interval of `x` without the cache of the asked requests."""
    cache = (x.kv_cache_bytes or 0) + (x.recurrent_state_bytes or 0)
    return ((x.low_bytes or 0) - cache) / GIB, ((x.high_bytes or 0) - cache) / GIB, measured


def _total(r: Row, m: MemoryEstimate) -> tuple[float, float, float] | None:
    used, scope = _number(r["total_used_gib"]), r["total_used_scope"]
    if not used:
        return None
    if "GB as printed" in scope or "GB as given" in scope:
        used *= 1e9 / GIB
    rows = m.devices[:1] if "per card" in scope else m.devices
    planned = "sum of device buffers" in scope or scope == "projected device memory"
    beside = sum(x.overhead_bytes or 0 for x in rows) if planned else 0
    low, high = (sum(getattr(x, k) or 0 for x in rows) - beside for k in ("low_bytes", "high_bytes"))
    return low / GIB, high / GIB, used


def llama_request(r: Row) -> Request:
    """The question of one row of llamacpp_rows.csv."""
    cards = {
        "75": "Quadro RTX 8000",
        "86": "RTX A6000",
        "89": "L40S",
        "90": "H100 80GB SXM",
        "120": "RTX PRO 6000 Blackwell",
    }
    gpus = int(r["gpus"])
    settings: Settings = {
        "ctx-size": int(r["n_ctx"]),
        "parallel": int(r["n_seq"]),
        "ubatch-size": int(r["n_ubatch"]),
        "flash-attn": r["fa"],
        "fit": "off",
        "kv-unified" if r["kv_unified"] == "1" else "no-kv-unified": True,
    }
    if r["swa_full"] == "1":
        settings["swa-full"] = True
    if r["cpu_moe"] == "1":
        settings["cpu-moe"] = True
    if gpus:
        settings["n-gpu-layers"] = "all" if r["ngl"] == "-1" else int(r["ngl"])
    return Request(
        model=r["model"],
        engine=r["engine"],
        engine_version=r["engine_version"],
        quantization=r["quant"],
        settings=settings,
        hardware=f"{gpus}x {cards[r['cc']]}" if gpus else "cpu, 2000GB RAM",
        kv_cache_type={"k": r["ctk"], "v": r["ctv"]},
    )


def planned_request(r: Row, length: int, rules: Catalog) -> int:
    """Our bytes of one request of `length` tokens on the first rank, for a row of vllm_kv_rows.csv."""
    settings: Settings = {
        "tensor-parallel-size": int(r["tp"]),
        "max-model-len": length,
        "max-num-seqs": int(r["max_num_seqs"]),
        "max-num-batched-tokens": int(r["max_num_batched_tokens"]),
        "kv-cache-dtype": r["kv_cache_dtype"],
    }
    q = Request(
        model=r["model"],
        engine=r["engine"],
        engine_version=r["engine_version"],
        quantization=r["quant"],
        settings=settings,
        hardware=f"{r['tp']}x H100 80GB SXM",
    )
    first = estimate(deployment(q, rules)[0], rules).devices[0]
    return (first.kv_cache_bytes or 0) + (first.recurrent_state_bytes or 0)
