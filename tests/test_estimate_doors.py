"""One deployment, one answer: the library's estimate is the batch line's, speed and faults included."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from random_requests import requests

import advisor
from advisor.catalog import catalog
from advisor.deployment import Estimate, MemoryEstimate
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import EstimateRequest, resolve_request

RULES = catalog()
SCHEMAS = Path(advisor.__file__).parent / "schemas"
GOOD = {"model": "llama3.1:8b", "engine": "vllm", "hardware": "1x RTX 4090, 64GB RAM", "context_length": 8192}


def of_the_library(request: dict[str, Any]) -> bytes:
    """What `advisor.estimate` says, as the line would: its value, or what it raises."""
    try:
        return msgspec.json.encode(advisor.estimate(request).to_dict())
    except AdvisorError as e:
        fault = {"code": e.code, "message": e.message, "near": list(e.near)}
        held = request.get("id")
        return msgspec.json.encode({"id": None if held == 2**70 else held, "error": fault})


def of_the_command(given: list[dict[str, Any]], capfdbinary: pytest.CaptureFixture[bytes], path: Path) -> list[bytes]:
    from advisor.cli.main import run_command_line

    path.write_text("\n".join(json.dumps(r) for r in given))
    assert run_command_line(["estimate", "--jsonl", str(path)]) == 0
    return capfdbinary.readouterr().out.splitlines()


def compare(count: int, seed: int, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    given = requests(RULES, count, seed)
    lines = of_the_command(given, capfdbinary, tmp_path / "requests.jsonl")
    assert len(lines) == count
    for request, line in zip(given, lines, strict=True):
        # a big whole number is no integer of JSON: both doors read it alike, and neither gives it back
        assert of_the_library(request) == line, request
    answers = [msgspec.json.decode(line) for line in lines]
    faults = [a for a in answers if "error" in a]
    assert count * 0.05 < len(faults) < count * 0.7
    assert len({a["error"]["code"] for a in faults}) >= 3
    assert sum(a.get("speed") is not None for a in answers) > count * 0.2
    assert {a["fits"] for a in answers if "fits" in a} == {True, False, None}


@pytest.mark.slow
def test_the_library_answers_as_the_line_does(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    compare(200, 14, capfdbinary, tmp_path)


@pytest.mark.slow
def test_the_library_answers_as_a_thousand_lines_do(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    compare(500, 15, capfdbinary, tmp_path)


def test_many_requests_answer_as_each_alone() -> None:
    given = requests(RULES, 40, 16)
    many = list(advisor.estimate_many(given))
    assert [msgspec.json.encode(a) for a in many] == [of_the_library(r) for r in given]


def test_an_estimate_is_a_frozen_value_with_the_parts_of_the_memory_estimate() -> None:
    x = advisor.estimate(GOOD)
    assert isinstance(x, Estimate)
    assert set(MemoryEstimate.__struct_fields__) < set(Estimate.__struct_fields__)
    assert (x.fits, x.engine, x.sequences, x.context_length) == (True, "vllm", 1, 8192)
    assert x.devices[0].total_bytes == sum(
        getattr(x.devices[0], f"{part}_bytes") or 0
        for part in ("weights", "kv_cache", "recurrent_state", "compute", "overhead")
    )
    assert x.speed is not None
    assert x.speed.decode_tps is not None
    assert x.speed.decode_tps.low <= x.speed.decode_tps.value <= x.speed.decode_tps.high
    with pytest.raises(AttributeError):
        x.fits = None  # type: ignore[misc]
    jsonschema.validate(x.to_dict(), json.loads((SCHEMAS / "estimate.json").read_text()))


def test_a_deployment_and_a_request_answer_alike() -> None:
    """A resolved deployment has no notes on names, and no id; all else is the same."""
    asked = {**GOOD, "engine_version": RULES.engine("vllm").version}  # without, a request leaves the release open
    d, notes = resolve_request(EstimateRequest(**asked), RULES)
    one, other = advisor.estimate(d).to_dict(), advisor.estimate(asked).to_dict()
    assert other["warnings"] == [*notes, *one["warnings"]]
    assert {**one, "warnings": []} == {**other, "warnings": []}
    assert advisor.estimate(EstimateRequest(**asked)).to_dict() == other


@pytest.mark.parametrize("request_", [{**GOOD, "id": object()}, {**GOOD, "settings": {"a": {1j}}}, 7, "70B"])
def test_what_json_cannot_hold_is_refused(request_: Any) -> None:
    with pytest.raises(BadInput, match="not a deployment"):
        advisor.estimate(request_)


def test_unknown_fields_are_named_with_near_matches() -> None:
    (a,) = advisor.estimate_many([{**GOOD, "contextlength": 1, "id": 3}])
    assert a["id"] == 3
    assert a["error"]["message"] == "unknown option 'contextlength' of estimate."
    assert a["error"]["near"] == ["context_length"]
    (a,) = advisor.estimate_many([{**GOOD, "workload": {"output_token": 1}}])
    assert a["error"]["near"][0] == "output_tokens"
    assert a["error"]["code"] == "bad_input"


def test_a_line_that_is_wrong_twice_still_gets_an_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown field is seen before the rest of the line is read, which need not be JSON."""
    from advisor.cli.main import run_command_line

    lines = b'{"nonsense": 1, broken\n{"nonsense": 1, "workload": 3}\n{"workload": {"x": 1}, "workload": 2}\n'
    stdin = io.TextIOWrapper(io.BytesIO(lines + b'{"' + b"n" * 500 + b'": 1}\n'))
    monkeypatch.setattr("sys.stdin", stdin)
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdout", stdout)
    assert run_command_line(["estimate", "--jsonl", "-"]) == 0
    answers = [json.loads(x) for x in stdout.buffer.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert [a["error"]["code"] for a in answers] == ["bad_input"] * 4
    assert "nonsense" in answers[1]["error"]["message"]
    assert len(answers[3]["error"]["message"]) < 200
