"""An engine that nobody has heard of is one YAML file: it is listed, sized, recommended, rendered, recognised."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from advisor.cli.main import run_command_line
from advisor.session import Session

ENTRY = """\
id: newserve
name: NewServe
kind: engine
version: 1.0.0
license: Apache-2.0
health: {status: active}
os: {linux: {support: 'yes', src: [new]}}
hardware: {nvidia: {support: 'yes', src: [new]}}
formats: {hf_safetensors: {support: 'yes', src: [new]}}
quantization: {awq: {support: 'yes', src: [new]}, fp8: {support: 'yes', src: [new]}}
port: 9000
concepts:
  model: {flags: [model]}
  context_length: {flags: [longest]}
  sequences: {flags: [at-once]}
  tensor_parallel: {flags: [ranks]}
  memory_share:
    flags: [share]
    default: [{number: 0.88, before: '0.9', source: its parser}, {number: 0.9, source: its parser}]
  kv_cache_type: {flags: [cache-type]}
  address: {flags: [host]}
  port: {flags: [port]}
recognition:
  programs: {newserve: {after: [run]}}
  server: {port: 9000, host: 127.0.0.1}
  source: its documentation of 1.0.0, 2026-11-22
start:
  program: [newserve, run]
  model: [--model, '{model}']
  listen: [--host, '{host}', --port, '{port}']
targets: [command, systemd]
memory:
  family: pool
  source: 'newserve 1.0.0: assumed like vLLM'
  fraction_of: total
  kv_bytes: {auto: 2, fp8: 1}
  tiers: [{from_gib: 0, batched_tokens: 4096, sequences: 64}]
  activation: [{mlp: 3, hidden: 4, sampler_bytes: 14, low: 0.5, high: 2, source: assumed}]
  graphs_gib: [{low: 0, value: 0.3, high: 1, source: assumed}]
  outside_gib: [{low: 0.1, value: 0.4, high: 1, source: assumed}]
  planner: plain
sources: {new: {title: its documentation, version: 1.0.0, date: '2026-11-22'}}
"""
FLAGS = """\
engine: newserve
version: 1.0.0
source: its parser of 1.0.0
flags:
  model: {}
  longest: {t: int}
  at-once: {t: int}
  ranks: {t: int}
  share: {t: float}
  cache-type: {c: [auto, fp8]}
  host: {}
  port: {t: int}
"""
CARD = "2x RTX 4090, 64GB RAM, linux"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: rules are compiled once."""
    made = tmp_path_factory.mktemp("new") / "rules"
    (made / "engines").mkdir(parents=True)
    (made / "engines/newserve.yaml").write_text(ENTRY)
    return made


@pytest.fixture
def rules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADVISOR_RULES", str(folder))
    return folder


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = run_command_line(list(words))
    return status, capsys.readouterr().out


def test_it_is_recommended_with_its_own_flags(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = answer(
        capsys, "recommend", "--on", CARD, "--model", MODEL, "--engine", "newserve", "--concurrency", "4",
        "--quant", "BF16", "--context", "8192", "--full-length", "--priority", "latency", "--json",
    )  # fmt: skip
    assert status == 0
    chosen = json.loads(text)["chosen"]
    assert chosen["settings"] == {"longest": 8192, "at-once": 4, "share": 0.9, "ranks": 2}
    words = "newserve run --model meta-llama/Llama-3.1-8B-Instruct --longest 8192 --at-once 4 --share 0.9 --ranks 2"
    assert " ".join(chosen["command"].replace("\\\n", " ").split()) == f"{words} --host 127.0.0.1 --port 9000"
    # 32 layers x keys and values x 8 heads x 128 x 2 bytes a token, 4 requests of 8192, over 2 cards
    assert chosen["memory"]["devices"][0]["kv_cache_bytes"] == 32 * 2 * 8 * 128 * 2 * 8192 * 4 // 2


@pytest.mark.parametrize(("version", "share"), [("0.8.1", 0.88), ("1.0.0", 0.9)])
def test_its_defaults_go_by_version(rules: Path, version: str, share: float) -> None:
    from advisor.catalog import catalog
    from advisor.estimation import EstimateRequest, estimate, resolve_request

    known = catalog()
    request = EstimateRequest(
        model=MODEL, engine="newserve", engine_version=version, hardware="RTX 4090", context_length=4096
    )
    first = estimate(resolve_request(request, known)[0], Session(known)).devices[0]
    hidden = 512 * 2**20  # of a CUDA device, that programs do not see
    assert first.budget_bytes == int((first.capacity_bytes - hidden) * share)  # type: ignore[operator]


def test_its_files_are_made_and_its_launches_recognised(
    rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--engine", "newserve", "--on", CARD, "--model", MODEL, "--quant", "BF16", "--output", "-")
    status, unit = answer(capsys, "render", "--target", "systemd", *options)
    assert status == 0
    assert '"newserve" "run" "--model"' in unit
    file = tmp_path / "start.sh"
    file.write_text(f"#!/bin/sh\nnewserve run --model {MODEL} --longest 4096 --share 0.5\n")
    status, said = answer(capsys, "check", str(file), "--on", "RTX 4090")
    assert status == 1
    assert "does not fit" in said
    file.write_text(f"#!/bin/sh\nnewserve run --model {MODEL} --longest 4096 --share 0.95\n")
    assert answer(capsys, "check", str(file), "--on", "RTX 4090")[0] == 0


def test_its_flags_are_checked_by_rules_that_name_no_engine(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of its flags and its memory constants are enough for the general rules of `advise check`."""
    (tmp_path / "flags").mkdir()
    (tmp_path / "flags/newserve.yaml").write_text(FLAGS)
    monkeypatch.setenv("ADVISOR_RULES", f"{folder}{os.pathsep}{tmp_path}")
    file = tmp_path / "start.sh"
    words = "--longest 4096 --share 0.5 --at-once many --max-model-len 4096 --cache-type fp9"
    file.write_text(f"#!/bin/sh\nnewserve run --model {MODEL} {words}\n")
    status, said = answer(capsys, "check", str(file), "--on", "RTX 4090", "--format", "json")
    assert status == 1
    found = {f["rule"] for f in json.loads(said)["findings"]}
    assert {"flag-unknown", "flag-bad-value", "kv-dtype-unknown"} <= found
    file.write_text(f"#!/bin/sh\nnewserve run --model {MODEL} --longest 4096 --share 0.5\n")
    status, said = answer(capsys, "check", str(file), "--on", "RTX 4090", "--format", "json")
    assert "weights-exceed-budget" in {f["rule"] for f in json.loads(said)["findings"]}
    file.write_text(f"#!/bin/sh\nnewserve run --model {MODEL} --longest 4096 --ranks 2\n")
    status, said = answer(capsys, "check", str(file), "--on", "1x RTX 4090", "--format", "json")
    assert "world-size-exceeds-gpus" in {f["rule"] for f in json.loads(said)["findings"]}


def test_it_is_listed(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "newserve" in answer(capsys, "list", "engines")[1]


@pytest.mark.slow
def test_its_file_has_no_faults(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "rules", "lint", str(rules))[0] == 0
