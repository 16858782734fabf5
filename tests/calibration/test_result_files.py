"""Results of six kinds of tools and servers: read, compared, kept, and used by later answers.

guidellm's report is its own (tests/data); the others are those of sample_results.py.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_results import AIPERF, LLAMA_METRICS, LOG, METRICS, OLLAMA, RATES, SERVE, llama_bench

from advisor.calibration.calibrate import calibrate
from advisor.calibration.logged_deployment import CalibrationRequest
from advisor.calibration.result_files import ResultFile, read_duration, read_result_file
from advisor.catalog import catalog
from advisor.cli.main import run_command_line
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import find_machine
from advisor.machines.types import Machine
from advisor.session import Session

DATA = Path(__file__).parents[1] / "data"
RULES = catalog()
ENGINES = RULES.engines()


def read(text: str) -> ResultFile:
    found = read_result_file(text, ENGINES)
    assert found is not None
    return found


def test_llama_bench() -> None:
    for text in (json.dumps(RATES), "\n".join(map(json.dumps, RATES))):
        found = read(text)
        assert (found.engine, found.engine_version, found.model_type) == ("llama.cpp", "b10434", RATES[0]["model_type"])
        shown = [(x.prompt_tokens, x.output_tokens, x.depth_tokens, x.prefill_tps, x.decode_tps) for x in found.loads]
        assert shown == [(512, 1, 0, 4100.0, None), (1, 128, 0, None, 118.5), (1, 128, 8192, None, 95.0)]
        assert found.settings["flash-attn"] == "on"
        assert found.settings["n-gpu-layers"] == "99"
    mixed = [llama_bench(), llama_bench(n_gpu_layers=0)]
    with pytest.raises(BadInput, match="one of them at a time"):
        read_result_file(json.dumps(mixed), ENGINES)


def test_guidellm() -> None:
    found = read((DATA / "guidellm-0.8.1.json").read_text())
    (load,) = found.loads
    assert (found.tool, found.engine) == ("guidellm 0.8.1", None)
    assert (load.prompt_tokens, load.output_tokens) == (224, 32)
    assert load.ttft_s is not None
    assert load.tpot_s is not None
    assert 0.1 < load.ttft_s < 10
    assert 0.001 < load.tpot_s < 1


@pytest.mark.parametrize("data", [AIPERF, {"records": {k: v for k, v in AIPERF.items() if k != "input_config"},
                                           "input_config": AIPERF["input_config"]}])  # fmt: skip
def test_aiperf(data: dict[str, Any]) -> None:
    found = read(json.dumps(data))
    (load,) = found.loads
    assert (found.engine, found.model) == (None, "Qwen/Qwen3-32B")
    assert (load.concurrency, load.prompt_tokens, load.output_tokens) == (32, 1000, 256)
    assert (load.ttft_s, load.tpot_s, load.output_tps) == (pytest.approx(0.3), pytest.approx(0.028), 1070.0)


@pytest.mark.parametrize(("more", "engine"), [({}, "vllm"), ({"backend": "sglang-oai"}, "sglang"),
                                              ({"backend": "openai"}, None)])  # fmt: skip
def test_bench_serve(more: dict[str, Any], engine: str | None) -> None:
    found = read(json.dumps(SERVE | more))
    (load,) = found.loads
    assert (found.engine, found.model) == (engine, "Qwen/Qwen3-32B")
    assert (load.concurrency, load.prompt_tokens, load.output_tokens) == (32, 1000, 256)
    assert (load.ttft_s, load.tpot_s) == (pytest.approx(0.31), pytest.approx(0.0285))
    with pytest.raises(BadInput, match="at a rate of requests"):
        read_result_file(json.dumps(SERVE | {"request_rate": 4.0, "max_concurrency": None}), ENGINES)


def test_metrics() -> None:
    found = read(METRICS)
    (load,) = found.loads
    assert (found.engine, found.model) == ("vllm", "Qwen/Qwen3-32B")
    assert (load.concurrency, load.prompt_tokens, load.output_tokens) == (32, 1000, 256)
    assert load.tpot_s == pytest.approx(0.0285)
    assert load.ttft_s is None
    assert found.notes == ()
    (alone,) = read(LLAMA_METRICS).loads
    assert "512 and 128 tokens are assumed" in read(LLAMA_METRICS).notes[0]
    assert (alone.concurrency, alone.tpot_s, alone.prefill_tps) == (1, pytest.approx(110 / 12800), 4096.0)
    with pytest.raises(BadInput, match="no finished request"):
        read_result_file("vllm:num_requests_running 0\n", ENGINES)


def test_timings_of_logs() -> None:
    found = read(LOG + LOG.replace("512", "100").replace("118.52", "1"))
    assert (found.engine, found.log) == ("llama.cpp", True)
    assert [(x.prompt_tokens, x.output_tokens) for x in found.loads] == [(100, 128), (512, 128)]
    assert found.loads[1].decode_tps == pytest.approx(118.52, rel=1e-4)
    assert found.loads[1].prefill_tps == pytest.approx(4096)
    (load,) = read(OLLAMA).loads
    assert (load.prompt_tokens, load.output_tokens) == (512, 128)
    assert load.decode_tps == pytest.approx(128 / 61.08)
    assert load.prefill_tps == pytest.approx(4096)


@pytest.mark.parametrize(("prompt", "rate"), [(63, None), (64, 512.0)])
def test_a_prompt_below_64_tokens_gives_no_rate(prompt: int, rate: float | None) -> None:
    (load,) = read(LOG.replace("/   512 tokens", f"/   {prompt} tokens")).loads
    assert load.prefill_tps == rate


def test_answers_below_8_tokens_are_passed_over() -> None:
    assert read_result_file(LOG.replace("/   128 tokens", "/     7 tokens"), ENGINES) is None
    (load,) = read(LOG.replace("/   128 tokens", "/     8 tokens")).loads
    assert load.output_tokens == 8


@pytest.mark.parametrize(("busy", "alone"), [("1.49", True), ("1.5", False)])
def test_rates_of_prompts_count_where_requests_run_one_by_one(busy: str, alone: bool) -> None:
    (load,) = read(LLAMA_METRICS.replace("1.02", busy)).loads
    assert (load.prefill_tps is not None) is alone


@pytest.mark.parametrize(
    ("text", "seconds"), [("1m2.5s", 62.5), ("230.1ms", 0.2301), ("2h0m1s", 7201), ("9\u00b5s", 9e-6)]
)
def test_durations_as_go_writes_them(text: str, seconds: float) -> None:
    assert read_duration(text) == pytest.approx(seconds)


NAMES = [*SERVE, *AIPERF, *RATES[0], "benchmarks", "metrics", "avg", "successful"]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=8),
)


def refusal(text: str) -> str | None:
    """The line with which a file is refused; None where it is not."""
    try:
        read_result_file(text, ENGINES)
    except BadInput as e:
        return e.line()
    return None


@settings(max_examples=100)
@given(st.text() | JSON.map(json.dumps))
def test_anything_else_is_no_result_or_one_line(text: str) -> None:
    assert "\n" not in (refusal(text) or "")


@settings(max_examples=100)
@given(st.sampled_from([RATES[0], AIPERF, SERVE]), st.data())
def test_a_field_that_is_spoiled_is_refused_or_left_out(row: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(row)))
    bad = data.draw(st.sampled_from([None, "", [], {}, -1, 0, "x" * 300, 1e400, True]))
    text = json.dumps(row | {name: bad})
    refused = refusal(text)
    if refused is not None:
        assert len(refused) < 400
        return
    found = read_result_file(text, ENGINES)
    for load in found.loads if found else ():
        for value in (load.decode_tps, load.prefill_tps, load.ttft_s, load.tpot_s, load.output_tps):
            assert value is None or 0 < value < float("inf")


# ---- compared and kept


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "data"))


def machine(text: str) -> Machine:
    return msgspec.structs.replace(find_machine(text, RULES), source="probe", text=None)


@pytest.mark.parametrize(
    ("text", "hardware", "more"),
    [
        (json.dumps(RATES), "RTX 3090", {}),
        ((DATA / "guidellm-0.8.1.json").read_text(), "cpu, 64GB RAM, 16 cores",
         {"model": "gemma-3-270m", "engine": "llama.cpp", "quantization": "Q4_K_M"}),
        (json.dumps(AIPERF), "1x H100 80GB SXM", {"engine": "vllm", "quantization": "FP8"}),
        (json.dumps(SERVE), "1x H100 80GB SXM", {"quantization": "FP8"}),
        (METRICS, "1x H100 80GB SXM", {"quantization": "FP8"}),
        (OLLAMA.replace("1m1.08s", "1.08s"), "RTX 3090", {"model": "llama3.1:8b", "quantization": "Q4_K_M"}),
    ],
    ids=["llama-bench", "guidellm", "aiperf", "bench serve", "metrics", "timings"],
)  # fmt: skip
def test_each_kind_narrows_the_bounds_of_its_machine(text: str, hardware: str, more: dict[str, Any]) -> None:
    found = calibrate(CalibrationRequest(text=text, machine=machine(hardware), **more), Session(RULES)).speed
    assert found is not None
    assert found.compared
    if found.unkept is not None:  # a processor whose bandwidth no table has is too far off to say
        assert found.kept is None
        return
    assert found.kept is not None
    for c in found.compared:
        assert c.after is not None
        if c.before.low <= c.measured <= c.before.high:
            assert c.after.high / c.after.low < c.before.high / c.before.low
            assert c.after.low <= c.measured <= c.after.high
        else:  # what lay outside is nearer
            assert abs(math.log(c.after.value / c.measured)) < abs(math.log(c.before.value / c.measured))


def test_what_a_file_does_not_tell_is_asked_for() -> None:
    here = machine("1x H100 80GB SXM")
    for more, said in (({}, "--engine"), ({"engine": "vllm", "model": "no-such-model-at-all"}, "model")):
        with pytest.raises(AdvisorError) as e:
            calibrate(CalibrationRequest(text=json.dumps(AIPERF), machine=here, **more), Session(RULES))
        assert said in e.value.line()
    unknown = AIPERF | {"input_config": {"endpoint": {"model_names": ["my-own"]}, "loadgen": {"concurrency": 2}}}
    with pytest.raises(BadInput, match="my-own, as the file calls its model, is not in the catalogue"):
        calibrate(CalibrationRequest(text=json.dumps(unknown), machine=here, engine="vllm"), Session(RULES))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(RATES))
    assert run_command_line(["calibrate", str(path), "--on", "RTX 3090"]) == 0
    shown = capsys.readouterr().out
    assert "by llama-bench" in shown
    assert "Not kept: it is kept for the machine it was run on" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    assert run_command_line(["calibrate", str(path), "--on", "RTX 3090", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["memory"] is None
    assert [c["kind"] for c in answer["speed"]["compared"]] == ["prefill", "decode", "decode"]
    path.write_text('{"neither": 1}')
    assert run_command_line(["calibrate", str(path)]) == 2
    assert "this JSON is of no kind that is read: llama-bench" in capsys.readouterr().err
    assert run_command_line(["calibrate", str(path), "--set", "tp"]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [("1080.00", "1080.0.0.00"), ("128 tokens", "9" * 900 + " tokens"), ("1080.00", "...")]
)
def test_a_damaged_line_is_left_out(damage: tuple[str, str]) -> None:
    """Found by tests/fuzz: such a line ended `calibrate` with a traceback."""
    assert read_result_file(LOG.replace(*damage), ENGINES) is None
    assert len(read(LOG.replace(*damage) + LOG).loads) == 1
