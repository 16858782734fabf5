"""llama.cpp's memory against its own planner: weights, KV cache and state to the byte, scratch within a tolerance."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import MemoryEstimate
from advisor.estimation import estimate, resolve_request
from advisor.session import Session
from tools.accuracy.rows import make_llama_request

_LINES = (Path(__file__).parent.parent / "data" / "llamacpp_rows.csv").read_text().splitlines()
ROWS = list(csv.DictReader(line for line in _LINES if not line.startswith("#")))
RULES = catalog([shipped_root()])
MIB = 2**20


def estimated(r: dict[str, str]) -> MemoryEstimate:
    return estimate(resolve_request(make_llama_request(r), RULES)[0], Session(RULES))


def planned(r: dict[str, str]) -> dict[str, tuple[int, int, int]]:
    """Device -> (weights, context, compute) as the engine planned them."""
    pieces = (piece.split("=") for piece in r["per_device"].split(";"))
    out = {}
    for name, values in pieces:
        a, b, c = (int(x) for x in values.split("/"))
        out[name] = (a, b, c)
    return out


def name(r: dict[str, str]) -> str:
    parts = (
        "quant",
        "gpus",
        "ngl",
        "cpu_moe",
        "n_ctx",
        "n_seq",
        "kv_unified",
        "ctk",
        "ctv",
        "fa",
        "n_ubatch",
        "swa_full",
    )
    return "-".join([r["model"].split("/")[1], *(r[p] for p in parts), r["n_outputs_max"]])


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_weights_cache_and_state_are_the_engines_own_bytes(row: dict[str, str]) -> None:
    m = estimated(row)
    want = planned(row)
    cuda = [want[k] for k in sorted(want) if k.startswith("CUDA") and k != "CUDA_Host"]
    assert len(m.devices) == len(cuda)
    for got, (weights, context, _) in zip(m.devices, cuda, strict=True):
        assert got.weights_bytes == weights
        # one figure for what the context holds: the table counts row padding of quantised caches apart from the rows
        assert got.kv_cache_bytes is not None
        assert got.recurrent_state_bytes is not None
        assert got.kv_cache_bytes + got.recurrent_state_bytes == context
    assert m.host is not None
    on_host = (m.host.kv_cache_bytes or 0) + (m.host.recurrent_state_bytes or 0)
    assert on_host == sum(want[k][1] for k in want if k in ("CPU", "CUDA_Host"))
    if not cuda:
        assert m.host.weights_bytes == int(row["weights_host_bytes"])


RECURRENT = [r for r in ROWS if "f16" == r["ctk"] == r["ctv"] and r["recurrent_bytes"] != "0"]


@pytest.mark.parametrize("row", RECURRENT, ids=name)
def test_recurrent_state_stands_apart_from_the_cache(row: dict[str, str]) -> None:
    m = estimated(row)
    places = (*m.devices, m.host) if m.host else m.devices
    assert sum(p.recurrent_state_bytes or 0 for p in places) == int(row["recurrent_bytes"])
    assert sum(p.kv_cache_bytes or 0 for p in places) == int(row["kv_bytes"])


def _error(row: dict[str, str]) -> float:
    """Relative error of weights, cache, state and scratch together (the engine's plan has no driver context)."""
    m = estimated(row)
    places = m.devices or ((m.host,) if m.host else ())
    got = sum((p.total_bytes or 0) - (p.overhead_bytes or 0) for p in places)
    return got / int(row["total_dev_bytes"]) - 1


def test_totals_are_within_two_percent() -> None:
    """A server's rows; library callers reserve logits for a whole batch, which no flag of the server says."""
    server = [r for r in ROWS if r["n_outputs_max"] != "n_batch"]
    errors = {name(r): _error(r) for r in server}
    near = sum(abs(e) <= 0.02 for e in errors.values())
    assert near / len(errors) >= 0.98, sorted(errors.items(), key=lambda e: -abs(e[1]))[:10]
    assert all(-0.15 < e < 0.15 for e in errors.values())


@pytest.mark.parametrize("fa", ["on", "off"])
def test_scratch_of_dense_models_on_one_gpu_is_exact(fa: str) -> None:
    """The formula's own claim (`exact`): within 1 MiB wherever the estimate says so and nothing else is special."""
    checked = 0
    for r in ROWS:
        if (
            r["gpus"] != "1"
            or r["fa"] != fa
            or r["ctk"] != "f16"
            or r["ctv"] != "f16"
            or r["n_outputs_max"] == "n_batch"
        ):
            continue
        m = estimated(r)
        if m.basis["compute"] != "exact":
            continue
        checked += 1
        assert abs((m.devices[0].compute_bytes or 0) - int(r["compute_dev_bytes"])) < MIB, name(r)
    assert checked >= 8


def test_every_interval_contains_its_value() -> None:
    for r in ROWS[::7]:
        for p in estimated(r).devices:
            assert p.low_bytes is not None
            assert p.high_bytes is not None
            assert p.low_bytes <= (p.total_bytes or 0) <= p.high_bytes
