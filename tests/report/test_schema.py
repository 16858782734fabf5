"""JSON output against the schema files that ship, validated by an independent implementation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import advisor
from advisor.cli.main import root
from tools.pages.schemas import SHAPES, make_schema_files

FOLDER = Path(advisor.__file__).parent / "schemas"


@cache
def load_validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def validate(name: str, body: Any) -> None:
    load_validator(name).validate(body)


def run(*words: str, stdin: str | None = None) -> Any:
    result = CliRunner().invoke(root, list(words), input=stdin, standalone_mode=False)
    assert result.exception is None, result.exception
    return result.stdout


def test_files_are_what_the_shapes_say() -> None:
    for name, text in make_schema_files().items():
        assert (FOLDER / name).read_text() == text, "make pages"
    assert {p.stem for p in FOLDER.glob("*.json")} == set(SHAPES)


@pytest.mark.parametrize(
    "words",
    [
        ("--on", "1x RTX 4090, 64GB RAM", "--model", "llama3.1:8b"),
        ("--on", "1x RTX 4090, 64GB RAM", "--model", "70B", "--concurrency", "8"),
        ("--on", "cpu, 1GB RAM", "--model", "70B"),
        ("--on", "cpu, 16GB RAM", "--endpoint", "http://127.0.0.1:1/v1"),
        (
            "--on",
            "M3 Max 64GB",
        ),
        ("--on", "RTX 4090", "--guide", "choosing-a-backend"),
    ],
)
def test_recommend(words: tuple[str, ...]) -> None:
    validate("recommend", json.loads(run("recommend", "--json", *words)))


@pytest.mark.parametrize(
    "words", [(), ("--on", "2x RTX 3090"), ("--on", "cpu, 64GB RAM"), ("--engine", "vllm", "--quant", "fp8")]
)
def test_explain(words: tuple[str, ...]) -> None:
    body = json.loads(run("explain", "--json", "--model", "8B", *words))
    validate("explain", body)
    assert len(body["estimates"]) >= 3


@pytest.mark.parametrize("words", [("--budget", "3000EUR"), ("--rent", "900USD/month"), ("--budget", "1EUR")])
def test_hardware(words: tuple[str, ...]) -> None:
    validate("hardware", json.loads(run("hardware", "--json", "--model", "qwen3:14b", "--users", "4", *words)))


def test_probe() -> None:
    validate("probe", json.loads(run("probe", "--json")))


def test_estimate_and_its_errors() -> None:
    asked = {"id": [1, {"a": None}], "model": "8B", "hardware": "1x RTX 4090", "context_length": "8k"}
    validate("request", asked)
    lines = run(
        "estimate", "--jsonl", "-", stdin=json.dumps(asked) + "\n" + '{"model": "no such model"}\n'
    ).splitlines()
    validate("estimate", json.loads(lines[0]))
    assert json.loads(lines[0])["id"] == asked["id"]
    validate("error", json.loads(lines[1]))


def test_a_wrong_answer_would_be_noticed() -> None:
    body = json.loads(run("explain", "--json", "--model", "8B"))
    body["estimates"][0]["devices"][0]["weights_bytes"] = "many"
    with pytest.raises(jsonschema.ValidationError):
        validate("explain", body)
