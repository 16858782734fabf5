"""Readers of text files that are not deployment files: seeds, the file they stand in, and what reads it.

Each is read as the command that takes the file reads it, to the end of its answer.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from advisor.calibration.calibrate import calibrate
from advisor.calibration.logged_deployment import CalibrationRequest
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.config import load_config
from advisor.checks.findings import CheckReport
from advisor.checks.lock import build_lock_overlay, lock_model
from advisor.checks.report.formats import remove_baseline
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, RememberedNames, estimate, find_machine, resolve_request
from advisor.machines.snapshot import load_snapshot
from advisor.planning.trace import read_trace
from advisor.request_lines import estimate_or_fault
from advisor.session import Session

TESTS = Path(__file__).parent.parent
DATA = TESTS / "data"
RULES = catalog([shipped_root()])
MOST = 12_000  # bytes of a seed: changes land in what is read


class TextTarget(NamedTuple):
    """A kind of file."""

    seeds: Callable[[Path], list[bytes]]
    name: str
    read: Callable[[Path], Any]


def log_seeds(_: Path) -> list[bytes]:
    sys.path.insert(0, str(TESTS / "calibration"))
    from engine_lines import write_log  # type: ignore[import-not-found]

    lines = (DATA / "startup_logs.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(x for x in lines if not x.startswith("#")))
    by_engine = {row["engine"]: row for row in rows}
    return [write_log(row).encode() for row in by_engine.values()] + [
        (DATA / "logs" / "llama-server-amx.log").read_bytes()[:MOST]
    ]


def result_seeds(_: Path) -> list[bytes]:
    sys.path.insert(0, str(TESTS / "calibration"))
    import test_result_files as known  # type: ignore[import-not-found]

    made = [known.RATES, known.AIPERF, known.SERVE]
    texts = [known.METRICS, known.LLAMA_METRICS, known.LOG, known.OLLAMA, *map(json.dumps, made)]
    return [t.encode() for t in texts] + [(DATA / "guidellm-0.8.1.json").read_bytes()[:MOST]]


def calibrated(path: Path) -> None:
    machine = find_machine("H100 80GB SXM", RULES)
    text = path.read_text(encoding="utf-8", errors="replace")
    calibrate(CalibrationRequest(text=text, model="Qwen/Qwen3-8B", machine=machine, keep=False), Session(RULES))


def trace_seeds(_: Path) -> list[bytes]:
    rows = [
        {"timestamp": i * 250, "input_length": 4096 + i, "output_length": 10, "hash_ids": [1, 2, i]} for i in range(20)
    ]
    azure = (DATA / "azure_2023_conv.csv").read_bytes()[:1500].rpartition(b"\n")[0]
    return [azure, "\n".join(map(json.dumps, rows)).encode()]


def snapshot_seeds(_: Path) -> list[bytes]:
    texts = ("RTX 4090, 64GB RAM", "8x H100 80GB SXM", "M3 Max 64GB", "cpu, 64GB RAM", "2x RX 7900 XTX")
    return [json.dumps(find_machine(t, RULES).to_dict()).encode() for t in texts]


def estimated_on_snapshot(path: Path) -> None:
    asked = EstimateRequest(model="llama3.1:8b", engine="vllm", hardware="RTX 4090", context_length=4096)
    deployment, _ = resolve_request(asked, RULES)
    estimate(msgspec.structs.replace(deployment, machine=load_snapshot(path)), Session(RULES))


def lock_seeds(folder: Path) -> list[bytes]:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "num_hidden_layers": 4,
              "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 32000,
              "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}  # fmt: skip
    private = folder / "private"
    private.mkdir(exist_ok=True)
    (private / "config.json").write_text(json.dumps(config))
    lock = folder / "seed.lock"
    lock.unlink(missing_ok=True)
    lock_model(str(private), "acme/private", lock, RULES)
    return [lock.read_bytes()]


def config_seeds(_: Path) -> list[bytes]:
    return [
        b'[check]\non = "2x H100 80GB SXM"\nignore = ["exposed-no-auth"]\nselect = ["start", "memory"]\n',
        b"[check]\nignore = []\n[check.x]\ny = 1\n",
    ]


def baseline_seeds(_: Path) -> list[bytes]:
    rows = [{"file": f"a/{i}.yaml", "resource": "v", "rule": "shm-small", "count": i} for i in range(4)]
    return [json.dumps({"version": 1, "findings": rows}, indent=2).encode()]


def line_seeds(_: Path) -> list[bytes]:
    asked = [
        {"model": "llama3.1:8b", "engine": "vllm", "hardware": "RTX 4090", "context_length": 8192, "id": 7},
        {"model": "70B", "quantization": "q4", "hardware": "2x RTX 3090, 128GB RAM", "settings": {"n-gpu-layers": 40}},
        {"model": "Qwen/Qwen3-30B-A3B", "engine": "sglang", "hardware": "H100 80GB SXM", "concurrency": 16,
         "settings": {"kv-cache-dtype": "fp8_e5m2", "tp-size": "1"}},
    ]  # fmt: skip
    return [json.dumps(x).encode() for x in asked]


def answered(path: Path) -> None:
    found = estimate_or_fault(path.read_bytes(), Session(RULES), RememberedNames())
    answer = json.loads(msgspec.json.encode(found))
    if "error" in answer:
        raise AdvisorError("refused", str(answer["error"]))


def hardware_seeds(_: Path) -> list[bytes]:
    texts = (
        "2x RTX 3090, 128GB RAM",
        "M3 Max 64GB",
        "8x H100 80GB SXM, 2 nodes",
        "cpu, EPYC 9654, 12 channels",
        "MI300X",
    )
    return [t.encode() for t in texts]


TARGETS = {
    "log": TextTarget(log_seeds, "start.log", calibrated),
    "results": TextTarget(result_seeds, "result.json", calibrated),
    "trace": TextTarget(trace_seeds, "trace.csv", read_trace),
    "snapshot": TextTarget(snapshot_seeds, "machine.json", estimated_on_snapshot),
    "lock": TextTarget(lock_seeds, "advise.lock", lambda p: build_lock_overlay(p.parent, RULES)),
    "configuration": TextTarget(config_seeds, "advisor.toml", lambda p: load_config(p.parent)),
    "baseline": TextTarget(baseline_seeds, "baseline.json", lambda p: remove_baseline(CheckReport(), str(p))),
    "line": TextTarget(line_seeds, "request.json", answered),
    "hardware": TextTarget(hardware_seeds, "words", lambda p: find_machine(p.read_text("utf-8", "replace"), RULES)),
}
