"""What the server answers is what the commands answer with --json, in the shapes that it publishes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import commands
import jsonschema
import openapi_spec_validator
import pytest
import server
from random_requests import requests

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = "services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B, --swap-space, '4'], gpus: all}}\n"
UNIT = "[Service]\nExecStart=/usr/bin/llama-server -m /models/Qwen3-8B-Q4_K_M.gguf -c 8192\n"
NODES = "nodes: [{name: a, count: 2, hardware: '2x RTX 4090, 128GB RAM, linux', price_per_hour: 1.5}]\n"
DEMAND = "models: [{model: qwen3-8b, rate: 1, prompt_tokens: 500, output_tokens: 200}]\n"

# path, body, the command's words
SAME = [
    ("recommend", {"hardware": "2x RTX 3090, 64GB RAM, linux", "concurrency": 4},
     ("recommend", "--on", "2x RTX 3090, 64GB RAM, linux", "--concurrency", "4")),
    ("recommend", {"hardware": "RTX 3060 12GB, 16GB RAM, linux", "model": "70B", "quantization": "BF16"},
     ("recommend", "--on", "RTX 3060 12GB, 16GB RAM, linux", "--model", "70B", "--quant", "BF16")),
    ("explain", {"model": "70B", "quantization": "q4", "hardware": "2x RTX 4090", "context_length": 16384},
     ("explain", "--model", "70B", "--quant", "q4", "--on", "2x RTX 4090", "--context", "16384")),
    ("explain", {"model": "gpt-oss:20b"}, ("explain", "--model", "gpt-oss:20b")),
    ("hardware", {"model": "8B", "budget": "800USD"},
     ("hardware", "--model", "8B", "--budget", "800USD")),
    ("check", {"files": {"compose.yaml": COMPOSE, "units/llama.service": UNIT}, "hardware": "RTX 4090"},
     ("check", ".", "--on", "RTX 4090")),
    ("fleet/plan", {"nodes": NODES, "models": DEMAND}, ("fleet", "plan", "nodes", "--models", "models")),
]  # fmt: skip
FILES = {"compose.yaml": COMPOSE, "units/llama.service": UNIT}


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def _without(answer: Any, *names: str) -> Any:
    """An answer without fields that name the day, a time or a folder."""
    if isinstance(answer, dict):
        return {k: _without(v, *names) for k, v in answer.items() if k not in names}
    return [_without(v, *names) for v in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize(("path", "body", "words"), SAME, ids=[" ".join(w) for _, _, w in SAME])
def test_as_the_command(local: server.Server, path: str, body: Any, words: tuple[str, ...], tmp_path: Path) -> None:
    _write(FILES if path == "check" else {"nodes": NODES, "models": DEMAND}, tmp_path)
    status, answer = server.ask(local, f"/v1/{path}", body)
    assert status == 200, answer
    plain = json.loads(commands.advise(*words, "--json", folder=tmp_path).stdout)
    assert _without(answer, "seconds") == _without(plain, "seconds")


def _document(local: server.Server) -> dict[str, Any]:
    found: dict[str, Any] = server.ask(local, "/openapi.json")[1]
    return found


def test_the_document_is_openapi(local: server.Server) -> None:
    document = _document(local)
    assert document["openapi"].startswith("3.1")
    openapi_spec_validator.validate(document)
    paths = {
        "recommend",
        "explain",
        "estimate",
        "check",
        "compare",
        "hardware",
        "migrate",
        "render",
        "upgrade",
        "fleet/plan",
    }
    assert {p for p in document["paths"] if p.startswith("/v1/")} == {f"/v1/{p}" for p in paths}


@pytest.mark.parametrize(
    ("path", "body"), [*[(p, b) for p, b, _ in SAME], ("estimate", {"model": "8B", "hardware": "L40S"})]
)
def test_bodies_and_answers_are_of_the_document(local: server.Server, path: str, body: Any) -> None:
    document = _document(local)
    post = document["paths"][f"/v1/{path}"]["post"]
    asked = post["requestBody"]["content"]["application/json"]["schema"]
    status, answer = server.ask(local, f"/v1/{path}", body)
    said = post["responses"][str(status)]["content"]["application/json"]["schema"]
    for schema, value in ((asked, body), (said, answer)):
        whole = {**schema, "components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(value)


@pytest.mark.parametrize("path", ["estimate", "explain", "recommend"])
def test_faults_are_of_the_document(local: server.Server, path: str) -> None:
    document = _document(local)
    status, answer = server.ask(local, f"/v1/{path}", {"model": "qwen3:8bb", "hardware": "RTX 4090"})
    responses = document["paths"][f"/v1/{path}"]["post"]["responses"]
    schema = responses[str(status)]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(answer)
    assert "qwen3-8b" in " ".join(answer["error"]["near"]).lower()


def test_estimates_as_lines(local: server.Server, tmp_path: Path) -> None:
    """The answers of `estimate --jsonl`, faults on their lines, in the order of the requests."""
    made = "".join(json.dumps(r) + "\n" for r in requests(catalog([shipped_root()]), 40, 7)).encode()
    lines = made + b'{"id": "x", "model": "8B", "hardware": "RTX 40900"}\n\n{nope}\n'
    (tmp_path / "requests.jsonl").write_bytes(lines)
    status, text = server.ask(local, "/v1/estimate", lines, {"Content-Type": "application/x-ndjson"})
    assert status == 200
    plain = commands.advise("estimate", "--jsonl", "requests.jsonl", folder=tmp_path).stdout
    assert [json.loads(x) for x in text.splitlines()] == [json.loads(x) for x in plain.splitlines()]
    one = next(x for x in lines.splitlines() if x)
    assert server.ask(local, "/v1/estimate", one)[1] == json.loads(plain.splitlines()[0])
    assert server.ask(local, "/v1/estimate", b"{}\n" * 1001, {"Content-Type": "application/x-ndjson"})[0] == 400


@pytest.mark.parametrize(
    "settings",
    [
        ("llama.cpp", {"model-draft": "PATH/x.gguf"}),
        ("vllm", {"speculative-config": {"model": "PATH"}}),
        ("vllm", None),
    ],
)
def test_no_file_of_the_machine_is_a_model(
    local: server.Server, settings: tuple[str, dict[str, Any] | None], tmp_path: Path
) -> None:
    """An answer is the same whether a model lies at a path or not."""
    engine, given = settings
    config = (ROOT / "tests" / "models" / "configs" / "Qwen--Qwen3-4B.json").read_text()
    there, missing = tmp_path / "a", tmp_path / "b"
    there.mkdir()
    (there / "config.json").write_text(config)
    (there / "x.gguf").write_bytes(b"GGUF" + bytes(100))

    def ask(folder: Path) -> tuple[int, str]:
        body: dict[str, Any] = {"model": "8B", "hardware": "RTX 4090", "engine": engine}
        if given is None:
            body["model"] = str(folder)
        else:
            body["settings"] = json.loads(json.dumps(given).replace("PATH", str(folder)))
        status, answer = server.ask(local, "/v1/estimate", body)
        return status, json.dumps(answer).replace(str(folder), "PATH")

    assert ask(there) == ask(missing)
    assert ask(there)[0] == (400 if given is None else 200)


@pytest.mark.parametrize(
    "name", ["../x.yaml", "/tmp/x.yaml", "a\\b.yaml", "c:x.yaml", "", ".", "a\0b", "x\n.yaml", "n" * 300]
)
def test_names_of_files_that_leave_the_folder(local: server.Server, name: str) -> None:
    status, answer = server.ask(local, "/v1/check", {"files": {name: COMPOSE}})
    assert status == 400, answer
    assert answer["error"]["code"] == "bad_input"


def test_metrics(local: server.Server) -> None:
    """Prometheus' own reader takes them, and they count what was asked."""
    from prometheus_client.parser import text_string_to_metric_families

    def count() -> float:
        families = text_string_to_metric_families(server.ask(local, "/metrics")[1])
        samples = [s for f in families for s in f.samples if s.name == "advise_requests_total"]
        return sum(s.value for s in samples if s.labels["path"] == "/v1/explain" and s.labels["status"] == "200")

    before = count()
    server.ask(local, "/v1/explain", {"model": "8B"})
    assert count() == before + 1


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (
            "services: {s: {image: 'ghcr.io/ggml-org/llama.cpp:server-cuda', gpus: all,"
            " command: [-hf, 'bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M', -c, '4096']}}",
            0,
        ),
        (COMPOSE.replace("Qwen/Qwen3-8B", "meta-llama/Llama-3.3-70B-Instruct"), 1),
        ("services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: [somebody/nobody-knows], gpus: all}}\n", 2),
    ],
)
def test_a_gate_reads_the_exit_status(local: server.Server, text: str, status: int, tmp_path: Path) -> None:
    answer = server.ask(local, "/v1/check", {"text": text, "name": "compose.yaml", "hardware": "RTX 4090"})[1]
    (tmp_path / "compose.yaml").write_text(text)
    done = commands.advise("check", "compose.yaml", "--on", "RTX 4090", "--json", folder=tmp_path)
    assert done.returncode == answer["summary"]["exit_status"] == status
    assert json.loads(done.stdout)["summary"]["exit_status"] == status


def test_questions_of_the_page_are_answered(local: server.Server) -> None:
    """docs/serving.md and the help of the command: what curl sends there."""
    texts = [(ROOT / "docs/serving.md").read_text(), commands.advise("serve", "--help").stdout]
    sent = [m for t in texts for m in re.findall(r"127.0.0.1:8642(/v1/\S+).*?\\\n\s+-d '([^']+)'", t)]
    assert len(sent) == 2
    for path, body in sent:
        status, answer = server.ask(local, path, body.encode())
        assert status == 200, answer
