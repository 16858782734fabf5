"""`advise compare --speed`: no order where bounds overlap, and one where they do not."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from advisor.cli.main import run_command_line
from tools.pages.schemas import make_schema


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert run_command_line(["compare", *words, "--speed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(make_schema("compare_speed")).validate(found)
    return found


def test_an_order_is_said_exactly_where_bounds_do_not_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("vllm", "sglang", "llama.cpp", "transformers", "--model", "70B", "--quant", "q4")
    found = answer(capsys, *words, "--on", "2x H100 80GB SXM", "--concurrency", "32")
    rows = {e["engine"]: e for e in found["engines"]}
    assert list(rows) == list(words[:4])
    said = {(p["faster"], p["slower"], p["quantity"]) for p in found["faster"]}
    apart = {
        (a, b, q)
        for a in rows for b in rows for q in ("decode_tps", "output_tps")
        if a != b and rows[a][q]["low"] > rows[b][q]["high"]
    }  # fmt: skip
    assert said == apart
    assert ("vllm", "llama.cpp", "decode_tps") in said
    assert run_command_line(["compare", *words, "--on", "2x H100 80GB SXM", "--concurrency", "32", "--speed"]) == 0
    text = capsys.readouterr().out
    assert "vllm is faster than llama.cpp (one request)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_no_order_where_bounds_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrapper is as fast as what it runs."""
    words = ("llama.cpp", "ollama", "--model", "8B", "--quant", "q4", "--on", "RTX 4090")
    found = answer(capsys, *words)
    assert found["faster"] == []
    one, other = found["engines"]
    assert one["decode_tps"]["value"] == pytest.approx(other["decode_tps"]["value"], rel=0.02)
    assert run_command_line(["compare", *words, "--speed"]) == 0
    assert "No order: the bounds overlap." in capsys.readouterr().out


def test_what_cannot_be_compared_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "tensorrt-llm", "llama.cpp", "--model", "8B", "--on", "M3 Max 64GB")
    assert found["engines"][0]["decode_tps"] is None
    assert found["engines"][0]["why"]
    for words, said in (
        (["--speed", "--on", "RTX 4090"], "--model"),
        (["--speed", "--model", "8B"], "--on"),
        (["--model", "8B"], "--speed"),
    ):
        assert run_command_line(["compare", "vllm", "llama.cpp", *words]) == 2
        assert said in capsys.readouterr().err
