"""`advise bench`: what servers answer, what the generator reports, and how a run calibrates later predictions."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from advisor.bench import endpoint, guidellm
from advisor.bench.guidellm import LoadTest
from advisor.catalog import catalog
from advisor.cli.main import run_command_line
from advisor.errors import BadInput

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
    assert guidellm.make_prompts(WANTED) != guidellm.make_prompts(replace(WANTED, seed=8))


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
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
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
    with pytest.raises(BadInput, match=r"is not an address|nothing answers"):
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
    )  # a build of your own has no number that means something
    assert (mine.engine, mine.engine_version, mine.slots) == ("llama.cpp", None, 1)
    odd = endpoint.ask_server(f"{base}/odd", RULES.engines())  # nothing where it is looked for
    assert (odd.engine, odd.engine_version, odd.context_length, odd.slots) == ("llama.cpp", None, None, None)


def test_without_the_generator(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidellm, "find_guidellm", lambda: None)
    assert run_command_line(["bench", "http://127.0.0.1:9"]) == 2
    assert "advise bench runs guidellm, which is not here: pip install" in capsys.readouterr().err
