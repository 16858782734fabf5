"""`advise calibrate`: what it compares, what it keeps, and what later answers make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import advise
from engine_lines import write_log

from advisor import history
from advisor.calibration.calibrate import LogCalibration, calibrate_memory
from advisor.calibration.logged_deployment import CalibrationRequest
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import BadInput
from advisor.estimation import estimate, find_machine, resolve_request
from advisor.session import Session
from advisor.units import GIB
from tools.accuracy.rows import TableRow, read_rows
from tools.accuracy.startup import make_startup_request

RULES = catalog([shipped_root()])
DATA = Path(__file__).parent.parent / "data"
POOLED = read_rows(DATA / "startup_logs.csv")
PLACED = read_rows(DATA / "llama_startup_logs.csv")
NEAR = 0.2  # GiB


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "kept"))


def calibrate(row: TableRow, keep: bool = True) -> LogCalibration:
    return calibrate_memory(
        CalibrationRequest(
            text=write_log(row), model=row["model"], quantization=row["quantization"], engine=row["engine"],
            engine_version=row["engine_version"] or None, machine=find_machine(row["hardware"], RULES), keep=keep,
        ),
        Session(RULES),
    )  # fmt: skip


def pool_error(row: TableRow) -> float:
    """Logged less what is predicted now, GiB."""
    deployment, _ = resolve_request(make_startup_request(row), RULES)
    available = estimate(deployment, Session(RULES)).kv_cache.available_bytes
    assert available is not None
    return float(row["pool"]) + float(row["state"] or 0) - available / GIB


def rows_of(group: str, engine: str, model: str, rows: list[TableRow] = POOLED) -> list[TableRow]:
    return [r for r in rows if (r["group"], r["engine"]) == (group, engine) and r["model"].endswith(model)]


# logs of one rig in another setting: (source, engine, model of the first, model of the second)
PAIRS = [
    ("Zzsf11", "vllm", "Qwen3-VL-30B-A3B-Instruct", "Qwen3-VL-30B-A3B-Instruct"),
    ("LzyFischer", "vllm", "Qwen2.5-3B-Instruct", "Llama-3.1-8B-Instruct"),
    ("Sandermage", "vllm", "Qwen3.6-35B-A3B", "Qwen3.6-35B-A3B"),
    ("mattbucci", "sglang", "Devstral-Small-2-24B-Instruct-2512", "Devstral-Small-2-24B-Instruct-2512"),
    ("mattbucci", "sglang", "gemma-4-31B-it", "gemma-4-31B-it"),
    ("llm-d-incubation", "vllm", "granite-3.1-8b-instruct", "granite-3.1-2b-instruct"),
]


@pytest.mark.parametrize(("group", "engine", "first", "second"), PAIRS)
def test_after_one_log_of_a_rig_the_next_is_predicted(group: str, engine: str, first: str, second: str) -> None:
    one = rows_of(group, engine, first)[0]
    mine = (one["model"], one["settings"])
    other = next(r for r in reversed(rows_of(group, engine, second)) if (r["model"], r["settings"]) != mine)
    assert calibrate(one).kept
    after = pool_error(other)
    assert abs(after) <= NEAR


def test_what_other_machines_releases_and_classes_logged_changes_nothing() -> None:
    row = rows_of("Zzsf11", "vllm", "Qwen3-VL-30B-A3B-Instruct")[0]
    request = make_startup_request(row)
    before = estimate(resolve_request(request, RULES)[0], Session(RULES))
    calibrate(row)
    others = [
        {"hardware": "2x H200"}, {"engine_version": "0.13.0"}, {"model": "Qwen/Qwen3-32B"},
        {"settings": {**request.settings, "enforce-eager": True}},
        {"settings": {**request.settings, "tensor-parallel-size": 1}},
    ]  # fmt: skip
    for change in others:
        asked = resolve_request(type(request)(**{**request.to_dict(), **change}), RULES)[0]
        assert estimate(asked, Session(RULES)).calibration is None, change
    now = estimate(resolve_request(request, RULES)[0], Session(RULES))
    assert now.calibration is not None
    assert now.kv_cache.available_bytes != before.kv_cache.available_bytes
    assert now.devices[0].low_bytes is not None
    assert before.devices[0].high_bytes is not None
    assert now.devices[0].high_bytes is not None
    assert before.devices[0].low_bytes is not None
    assert (
        now.devices[0].high_bytes - now.devices[0].low_bytes
        < before.devices[0].high_bytes - before.devices[0].low_bytes
    )


def test_buffers_of_llama_server_beside_ours() -> None:
    """KV cache and state of every published log; weights of those in a format that llama-quantize makes."""
    cache: list[bool] = []
    weights: list[bool] = []
    for row in PLACED:
        sums: dict[str, list[int]] = {}
        for part in calibrate(row, keep=False).parts:
            if part.predicted is not None and part.place != "host memory":
                logged, predicted = sums.setdefault(part.part, [0, 0])
                sums[part.part] = [logged + part.logged, predicted + part.predicted]
        near = {k: abs(a - b) <= 0.02 * a + 8 * 2**20 for k, (a, b) in sums.items()}
        cache += [near[k] for k in ("KV cache", "recurrent state") if k in near]
        if row["quantization"] in ("Q4_K_M", "Q8_0", "Q4_0", "F16", "Q5_K_M") and "weights" in near:
            weights.append(near["weights"])
    assert len(cache) >= 70
    assert sum(cache) >= len(cache) - 1
    assert len(weights) >= 40
    assert sum(weights) / len(weights) >= 0.8  # others are vendors' own mixes under the same name


@pytest.mark.parametrize(
    ("first", "second"), [(r, s) for r in PLACED for s in PLACED
                          if r["group"] == s["group"] in ("Jantoniio3", "on1659", "BlazeFireson", "Nikolayy1")
                          and r["model"] == s["model"] and r["settings"] != s["settings"]][:4]
)  # fmt: skip
def test_the_total_of_the_next_llama_server(first: TableRow, second: TableRow) -> None:
    calibrate(first)
    after = calibrate(second, keep=False)
    request = CalibrationRequest(text="", keep=False)
    assert request.machine is None
    deployment_row = [p for p in after.parts if p.part == "together" and p.place != "host memory"]
    predicted = sum(p.predicted or 0 for p in deployment_row)
    assert abs(predicted - sum(p.logged for p in deployment_row)) <= NEAR * GIB


def test_the_command_from_end_to_end(tmp_path: Path) -> None:
    row = rows_of("Zzsf11", "vllm", "Qwen3-VL-30B-A3B-Instruct")[0]
    log = tmp_path / "start.log"
    log.write_text("\n".join([
        "export HF_TOKEN=hf_secretsecretsecret", write_log(row), "loading /home/me/private/model-of-mine",
    ]), encoding="utf-8")  # fmt: skip
    on = ["--on", row["hardware"]]
    done = advise("calibrate", str(log), *on, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)["memory"]
    pool = next(p for p in answer["parts"] if p["part"] == "KV cache pool")
    assert pool["logged"] == pytest.approx(float(row["pool"]) * GIB, rel=0.001)
    kept = Path(answer["kept"])
    text = kept.read_text(encoding="utf-8")
    assert not [x for x in ("secret", "/home", "private", "hf_", "api_key") if x in text]
    same = [*on, "--model", row["model"], "--engine", "vllm", "--context", "8k"]
    assert "Calibrated by a start-up log of this machine" in advise("explain", *same).stdout
    listed = advise("calibrate", "--list")
    assert "Qwen3-VL-30B-A3B" in listed.stdout
    text_answer = advise("calibrate", str(log), *on, "--no-keep")
    assert "KV cache pool" in text_answer.stdout
    assert max(map(len, text_answer.stdout.splitlines())) <= 80
    assert advise("calibrate", "--forget").returncode == 0
    assert not kept.exists()
    assert (
        "Nothing" in advise("calibrate", "--list").stdout or "No start-up log" in advise("calibrate", "--list").stdout
    )


def test_explain_names_the_log_it_uses() -> None:
    row = rows_of("LzyFischer", "vllm", "Llama-3.1-8B-Instruct")[0]
    calibrate(row)
    done = advise("explain", "--on", row["hardware"], "--model", row["model"], "--engine", "vllm", "--json")
    estimates = json.loads(done.stdout)["estimates"]
    assert all("calibrated by a start-up log of this machine" in e["calibration"] for e in estimates)
    assert "alibrated by a start-up log" in advise(
        "explain", "--on", row["hardware"], "--model", row["model"], "--engine", "vllm"
    ).stdout.replace("\n  ", " ")


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("", [], "no start-up log"),
        ("srv  llama_server: listening on http://127.0.0.1:8080\n", [], "-lv 4"),
        ("load_tensors: CUDA0 model buffer size = 10.0 MiB\n", ["--on", "RTX 4090"], "--model"),
        ("Model loading took 14.99 GiB and 5 seconds [gpu_worker.py:1]\n", ["--on", "cpu, 8GB RAM"], "--model"),
    ],
)  # fmt: skip
def test_a_log_that_tells_too_little_says_what_is_wanted(text: str, words: list[str], said: str) -> None:
    done = advise("calibrate", "-", *words, stdin=text)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_log_of_another_deployment_is_not_kept() -> None:
    row = dict(rows_of("Zzsf11", "vllm", "Qwen3-VL-30B-A3B-Instruct")[0])
    row["pool"] = "1.5"
    found = calibrate(row)
    assert found.kept is None
    assert found.unkept is not None
    assert "is this the deployment" in found.unkept
    assert history.load_residuals() == ()


def test_a_file_that_is_none_of_ours_is_named_and_forgotten(tmp_path: Path) -> None:
    where = history.residuals_path()
    where.parent.mkdir(parents=True)
    where.write_text("[]", encoding="utf-8")
    done = advise("calibrate", "--list")
    assert done.returncode == 2
    assert "--forget" in done.stderr
    assert advise("calibrate", "--forget").returncode == 0
    assert not where.exists()


def test_an_engine_whose_logs_are_not_read() -> None:
    with pytest.raises(BadInput, match="are not read"):
        calibrate_memory(CalibrationRequest(text="x", engine="tgi"), Session(RULES))
