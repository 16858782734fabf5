"""`advise replay`: of what `recommend` and `fleet plan` wrote, and of launch files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run_command_line

ON = "1x RTX PRO 6000"


@pytest.fixture(name="trace")
def write_trace(tmp_path: Path) -> Path:
    rng, at, rows = random.Random(7), 0.0, ["arrival_s,prompt_tokens,output_tokens"]
    for _ in range(80):
        at += rng.expovariate(8)
        rows.append(f"{at:.3f},{rng.randint(50, 1500)},{rng.randint(20, 300)}")
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(rows))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = run_command_line([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture(name="plan")
def write_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    words = ("--model", "llama3.1:8b", "--engine", "vllm", "--quant", "BF16", "--rate", "8", "--context", "8k")
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(run(capsys, "recommend", "--on", f"2x {ON[3:]}", *words)[1]))
    return path


def test_a_plan_of_recommend_by_a_launch_file_and_by_an_estimate(
    plan: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same engine on the same card under the same trace waits as long, whoever describes it."""
    saved = json.loads(plan.read_text())
    script = tmp_path / "run.sh"
    seqs = saved["chosen"]["settings"]["max-num-seqs"]
    script.write_text(f"vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --max-num-seqs {seqs}\n")
    status, answer = run(capsys, "replay", str(script), "--on", ON, "--trace", str(trace))
    assert status == 0
    rows = [line.split(",") for line in trace.read_text().splitlines()[1:]]
    begin = float(rows[0][0])
    line = {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "engine": "vllm", "hardware": ON, "quantization": "BF16",
        "settings": {"max-model-len": 8192, "max-num-seqs": seqs},
        "workload": {"arrivals": "trace", "trace": [[float(t) - begin, int(p), int(o)] for t, p, o in rows]},
    }  # fmt: skip
    (tmp_path / "line.jsonl").write_text(json.dumps(line))
    assert run_command_line(["estimate", "--jsonl", str(tmp_path / "line.jsonl")]) == 0
    estimated = json.loads(capsys.readouterr().out)["arrivals"]
    found = answer["replayed"]["arrivals"]
    for figure in ("ttft_s", "tpot_s", "e2e_s"):
        assert found[figure]["p90"]["value"] == pytest.approx(estimated[figure]["p90"]["value"], rel=0.02)
    assert sum(w["requests"] for w in answer["replayed"]["windows"]) == len(rows)


def test_targets_decide_and_the_density_that_keeps_them_is_said(
    plan: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = run(capsys, "replay", str(plan), "--trace", str(trace), "--ttft", "30@p99")
    assert (status, answer["targets"]["met"]) == (0, True)
    assert answer["replayed"]["most_density"] >= 1
    status, answer = run(capsys, "replay", str(plan), "--trace", str(trace), "--ttft", "0.001@p99")
    assert (status, answer["targets"]["met"]) == (1, False)
    assert (answer["replayed"]["most_density"], answer["replayed"]["breaks_first"]) == (None, "ttft_s")
    assert run_command_line(["replay", str(plan), "--trace", str(trace)]) == 0
    assert capsys.readouterr().out.startswith("80 requests in ")


def test_sessions_are_kept_and_plain_requests_are_not(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Turns of 1,000 tokens more each: of 1 + ... + 6 thousand tokens nearly 1 + ... + 5 were said before."""
    rows = [f"{turn * 30 + s},{1000 * (turn + 1)},100,agent{s}" for turn in range(6) for s in range(4)]
    shares = []
    for head, cut in (
        ("arrival_s,prompt_tokens,output_tokens,session", 4),
        ("arrival_s,prompt_tokens,output_tokens", 3),
    ):
        path = tmp_path / f"{cut}.csv"
        path.write_text("\n".join([head, *(",".join(r.split(",")[:cut]) for r in rows)]))
        one = ("--trace", str(path), "--on", ON)
        shares.append(run(capsys, "replay", str(plan), *one)[1]["replayed"]["kept_share"])
    assert shares[0] == pytest.approx(15 / 21, rel=0.06)
    assert shares[1] in (None, 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"chosen": null}', "holds no plan"),
        ('{"pools": []}', "no launch that can be replayed"),
        ("echo hello", "no launch that can be replayed"),
    ],
)
def test_what_is_no_plan_is_refused(
    text: str, problem: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.sh"
    path.write_text(text)
    assert run_command_line(["replay", str(path), "--on", ON, "--trace", str(trace)]) == 2
    assert problem in capsys.readouterr().err


def test_a_trace_without_times_is_refused(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("ContextTokens,GeneratedTokens\n10,10\n")
    assert run_command_line(["replay", str(plan), "--trace", str(path)]) == 2
    assert "has no times" in capsys.readouterr().err
