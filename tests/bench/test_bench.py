"""`advise bench`: what servers answer, what the generator reports, and how a run calibrates later predictions."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.bench import endpoint, guidellm
from advisor.bench.guidellm import LoadTest
from advisor.catalog import catalog
from advisor.cli.main import run_command_line
from advisor.deployment import Deployment, SpeedEstimate
from advisor.errors import BadFile, BadInput
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.machines.types import Machine
from advisor.speed import bench_history
from advisor.speed.estimator import MeasuredLoad, estimate_speed, fit_measured_factors
from advisor.speed.load import RequestLoad

DATA = Path(__file__).parents[1] / "data"
RULES = catalog()
WANTED = LoadTest("http://x", "m", 2, 200, 32, 12, 60, 1.1, 7)


def report() -> Any:
    return json.loads((DATA / "guidellm-0.8.1.json").read_bytes())


def test_the_report_says_what_its_requests_say() -> None:
    """Medians and the time between tokens, worked out again from the single requests of the same report."""
    m = guidellm.read_result(report(), WANTED)
    rows = report()["benchmarks"][0]["requests"]["successful"]
    first = [r["time_to_first_token_ms"] / 1000 for r in rows]
    between = [(r["request_latency"] - r["time_to_first_token_ms"] / 1000) / (r["output_tokens"] - 1) for r in rows]
    assert m.requests == len(rows)
    assert m.tool == "guidellm 0.8.1"
    assert m.ttft_s.mean == pytest.approx(statistics.mean(first), rel=0.01)
    assert min(first) <= m.ttft_s.p50 <= m.ttft_s.p95 <= m.ttft_s.p99 == pytest.approx(max(first), rel=0.01)
    assert m.tpot_s is not None
    assert m.tpot_s.mean == pytest.approx(statistics.mean(between), rel=0.01)
    assert (m.prompt_tokens, m.output_tokens) == (224, 32)
    assert m.output_tps == pytest.approx(sum(r["output_tokens"] for r in rows) / m.seconds, rel=0.1)


@pytest.mark.parametrize("spoil", ["benchmarks", "metrics", "request_totals", "time_to_first_token_ms"])
def test_another_report_is_refused_in_one_line(spoil: str) -> None:
    text = json.dumps(report()).replace(f'"{spoil}"', '"other"')
    with pytest.raises(BadInput, match=r"the report of guidellm is not as that of 0\.8"):
        guidellm.read_result(json.loads(text), WANTED)


def test_a_run_without_an_answer_is_refused() -> None:
    data = report()
    data["benchmarks"][0]["metrics"]["request_totals"] = {"successful": 0, "errored": 3}
    with pytest.raises(BadInput, match=r"no request was answered \(3 failed\) within 60 s: allow more with --seconds"):
        guidellm.read_result(data, WANTED)


def test_prompts_differ_from_the_first_word_on() -> None:
    """A prefix cache would answer the same beginning at once."""
    prompts = [p["prompt"] for p in guidellm.make_prompts(WANTED)]
    assert len({p.split()[0] for p in prompts}) == len(prompts) == 12
    assert all(len(p.split()) == round(200 / 1.1) + 1 for p in prompts)
    assert guidellm.make_prompts(WANTED) != guidellm.make_prompts(WANTED._replace(seed=8))


def test_the_key_is_no_argument(tmp_path: Path) -> None:
    made = guidellm.make_config(WANTED, tmp_path / "p", tmp_path / "r", "secret")
    assert made["spec"]["backend"]["api_key"] == "secret"
    assert made["spec"]["profile"] == {"kind": "concurrent", "streams": [2]}


# ---- the address

ANSWERS: dict[str, tuple[int, bytes]] = {
    "/html/v1/models": (200, b"<html>"),
    "/none/v1/models": (200, b'{"data": []}'),
    "/list/v1/models": (200, b"[1, 2]"),
    "/deep/v1/models": (200, b"[" * 100_000),
    "/large/v1/models": (200, b" " * (endpoint.LIMIT + 1)),
    "/key/v1/models": (401, b'{"error": {"message": "no"}}'),
    "/broken/v1/models": (500, b'{"error": {"message": "out of\\nmemory"}}'),
    "/vllm/v1/models": (200, b'{"data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 4096}]}'),
    "/vllm/version": (200, b'{"version": "0.33.0"}'),
    "/llama/v1/models": (200, b'{"data": [{"id": "x", "owned_by": "llamacpp"}]}'),
    "/llama/props": (
        200,
        b'{"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "model_path": "/m.gguf",'
        b' "build_info": "b10434-abc"}',
    ),
    "/mine/v1/models": (200, b'{"data": [{"id": "x", "owned_by": "llamacpp"}]}'),
    "/mine/props": (200, b'{"total_slots": 1, "build_info": "b1-abc"}'),
    "/odd/v1/models": (200, b'{"data": [{"id": "x", "owned_by": "llamacpp"}]}'),
    "/odd/props": (200, b'{"default_generation_settings": [1], "total_slots": "two"}'),
    "/ollama/v1/models": (200, b'{"data": [{"id": "qwen3:8b", "owned_by": "library"}]}'),
}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = ANSWERS.get(self.path, (404, b"{}"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("html", "is not JSON"),
        ("none", "lists no model"),
        ("list", "lists no model"),
        ("deep", "is not JSON"),
        ("large", "more than 4 MiB"),
        ("key", "asks for a key: put it into OPENAI_API_KEY"),
        ("broken", "HTTP 500: out of memory"),
        ("absent", "HTTP 404"),
    ],
)
def test_what_is_wrong_with_an_address_is_one_line(base: str, path: str, said: str) -> None:
    with pytest.raises(BadInput) as e:
        endpoint.ask_server(f"{base}/{path}", RULES.engines())
    assert said in e.value.line()
    assert "\n" not in e.value.line()


def test_nobody_there() -> None:
    with pytest.raises(BadInput, match="nothing answers there"):
        endpoint.ask_server("http://127.0.0.1:9", RULES.engines(), timeout=2)


@pytest.mark.parametrize("url", ["", "ftp://x", "file:///etc/passwd", "http://a b", "http://", "http://x\n/y"])
def test_no_address(url: str) -> None:
    with pytest.raises(BadInput, match=r"is no address|nothing answers"):
        endpoint.ask_server(url, RULES.engines(), timeout=1)


def test_what_servers_say_of_themselves(base: str) -> None:
    v = endpoint.ask_server(f"{base}/vllm/v1", RULES.engines())
    assert (v.engine, v.engine_version, v.context_length) == ("vllm", "0.33.0", 4096)
    x = endpoint.ask_server(f"{base}/llama/", RULES.engines())
    assert (x.engine, x.engine_version, x.context_length, x.slots, x.model_path) == (
        "llama.cpp", "b10434", 4096, 2, "/m.gguf",
    )  # fmt: skip
    assert endpoint.ask_server(f"{base}/ollama", RULES.engines()).engine_version is None  # /api/version is not there
    mine = endpoint.ask_server(
        f"{base}/mine", RULES.engines()
    )  # a build of one's own has no number that means something
    assert (mine.engine, mine.engine_version, mine.slots) == ("llama.cpp", None, 1)
    odd = endpoint.ask_server(f"{base}/odd", RULES.engines())  # nothing where it is looked for
    assert (odd.engine, odd.engine_version, odd.context_length, odd.slots) == ("llama.cpp", None, None, None)


def test_without_the_generator(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidellm, "find_guidellm", lambda: None)
    assert run_command_line(["bench", "http://127.0.0.1:9"]) == 2
    assert "advise bench runs guidellm, which is not here: pip install" in capsys.readouterr().err


# ---- calibration


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "data"))


def probed(model: str = "llama3.1:8b", hardware: str = "RTX 3090", quantization: str = "Q4_K_M") -> Deployment:
    """A deployment on hardware as if a probe had found it."""
    request = EstimateRequest(model=model, engine="llama.cpp", hardware=hardware, quantization=quantization,
                      context_length=4096, sequences=4)  # fmt: skip
    d, _ = resolve_request(request, RULES)
    assert d.machine is not None
    machine: Machine = msgspec.structs.replace(d.machine, source="probe", text=None)
    return msgspec.structs.replace(d, machine=machine)


def kept(d: Deployment, decode: float, prefill: float, **more: Any) -> bench_history.BenchRun:
    assert d.machine is not None
    fields: dict[str, Any] = {
        "date": "2026-11-21",
        "machine": bench_history.fingerprint_machine(d.machine),
        "engine": d.engine,
        "model": d.model.id,
        "quantization": d.quantization,
        "format": "k-quant",
        "concurrency": 1,
        "prompt_tokens": 512,
        "output_tokens": 128,
        "ttft_s": 0.1,
        "tpot_s": 0.01,
        "output_tps": 90.0,
        "decode": decode,
        "prefill": prefill,
        "tool": "guidellm",
    }
    return bench_history.BenchRun(**{**fields, **more})


def times(s: SpeedEstimate | None) -> tuple[float, float]:
    """(time to first token, time between tokens), seconds."""
    assert s is not None
    assert s.ttft_s is not None
    assert s.tpot_s is not None
    return s.ttft_s.value, s.tpot_s.value


@settings(max_examples=60)
@given(
    decode=st.floats(0.2, 5), prefill=st.floats(0.2, 5), slower=st.floats(1.05, 4), wait=st.floats(1.05, 4),
    at_once=st.sampled_from([2, 4]),
)  # fmt: skip
def test_with_its_factors_the_prediction_is_what_was_measured(
    decode: float, prefill: float, slower: float, wait: float, at_once: int
) -> None:
    """Whatever a server did: fitted, kept and predicted again, alone and under load."""
    d = probed()
    m = estimate(d, RULES)
    one, many = RequestLoad(prompt=512, output=128), RequestLoad(concurrency=at_once, prompt=512, output=128)
    usual = estimate_speed(d, m, RULES, one, calibrated=False)
    busy = estimate_speed(d, m, RULES, many, calibrated=False)
    alone = MeasuredLoad(one, times(usual)[0] / prefill, times(usual)[1] / decode)
    loaded = MeasuredLoad(many, times(busy)[0] / prefill * wait, times(busy)[1] / decode * slower)
    found = fit_measured_factors(d, m, RULES, alone, loaded)
    if found is None:
        return
    assert found.decode == pytest.approx(decode, rel=1e-6)
    bench_history.store_run(kept(d, **found._asdict()))
    again = estimate_speed(d, m, RULES, one)
    assert again is not None
    assert again.calibration is not None
    assert times(again)[1] == pytest.approx(alone.tpot_s, rel=1e-6)
    if alone.ttft_s * 0.8 > 0.1:  # below, what every request costs hides the prompt
        assert times(again)[0] == pytest.approx(alone.ttft_s, rel=1e-6)
    under = times(estimate_speed(d, m, RULES, many))
    inside = [f for f in (found.mixing, found.queue) if f is None or 0.03 < f < 39]
    if len(inside) == 2:
        assert under == (pytest.approx(loaded.ttft_s, rel=1e-6), pytest.approx(loaded.tpot_s, rel=1e-6))


def test_the_same_model_first_then_its_kind_then_nothing() -> None:
    d = probed()
    bench_history.store_run(kept(d, 2.0, 1.0, model="other/model"))
    bench_history.store_run(kept(d, 8.0, 1.0, model="third/model"))
    assert bench_history.find_local_factors(d, "k-quant").decode == pytest.approx(4.0)  # type: ignore[union-attr]
    bench_history.store_run(kept(d, 1.5, 0.5))
    found = bench_history.find_local_factors(d, "k-quant")
    assert found is not None
    assert (found.decode, found.prefill, len(found.runs)) == (pytest.approx(1.5), pytest.approx(0.5), 1)
    assert "on 2026-11-21, meta-llama/Llama-3.1-8B-Instruct Q4_K_M): decoding x1.50, prompts x0.50" in found.note
    assert bench_history.find_local_factors(d, "q8_0") is None
    assert bench_history.find_local_factors(msgspec.structs.replace(d, engine="ollama"), "k-quant") is None
    assert bench_history.find_local_factors(probed(hardware="RTX 4090"), "k-quant") is None
    assert d.machine is not None
    elsewhere = msgspec.structs.replace(d.machine, source="text")
    assert bench_history.find_local_factors(msgspec.structs.replace(d, machine=elsewhere), "k-quant") is None


def test_a_later_run_of_the_same_load_replaces_the_earlier_one() -> None:
    d = probed()
    bench_history.store_run(kept(d, 2.0, 1.0))
    bench_history.store_run(kept(d, 3.0, 1.0))
    bench_history.store_run(kept(d, 5.0, 1.0, concurrency=4))
    assert [r.decode for r in bench_history.load_runs().runs] == [3.0, 5.0]
    assert bench_history.forget_runs() == 2
    assert bench_history.load_runs().runs == ()


def test_a_file_of_somebody_else_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    bench_history.history_path().parent.mkdir(parents=True)
    bench_history.history_path().write_text('{"runs": [{"date": 1}]}')
    with pytest.raises(BadFile, match="is no file of `advise bench`"):
        bench_history.load_runs()
    assert run_command_line(["bench", "--list"]) == 2
    assert "--forget` removes it" in capsys.readouterr().err
    assert run_command_line(["bench", "--forget"]) == 0
    assert not bench_history.history_path().exists()


def test_factors_far_off_are_no_calibration() -> None:
    d = probed()
    m = estimate(d, RULES)
    assert fit_measured_factors(d, m, RULES, MeasuredLoad(RequestLoad(), 0.1, 1e-7), None) is None
    assert fit_measured_factors(d, m, RULES, MeasuredLoad(RequestLoad(), 0.1, 1e3), None) is None
