"""`explain --verify`: the engine's own plan compared with ours, from a program that prints what llama-fit-params
prints."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
import tiny_model
from programs import ELSEWHERE

from advisor.cli.main import run_command_line
from advisor.engines.llama_cpp import verify
from advisor.engines.llama_cpp.verify import parse_rows

pytestmark = pytest.mark.skipif(os.name == "nt", reason=f"{ELSEWHERE}the stand-in is a shell script")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model.write(tmp_path / "tiny.gguf")


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, name: str = "llama-fit-params") -> None:
    """A llama-fit-params on PATH, and a machine without GPUs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_agreement(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the program printed for this file with llama.cpp b11434 (`Host 0 1 5`) agrees with ours."""
    stand_in(tmp_path, monkeypatch, "echo 'a line of the log'; echo 'Host 0 1 5 '")
    status = run_command_line(["explain", "--model", str(model), "--verify", "--context", "4096", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["verified"]["agrees"] is True
    assert {p["part"] for p in said["verified"]["parts"]} == {"weights", "context", "compute"}
    assert status in (0, 2)


@pytest.mark.parametrize("row", ["Host 0 9 5", "Host 9 1 5", "Host 0 1 90"])
def test_a_difference_is_an_error(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    stand_in(tmp_path, monkeypatch, f"echo '{row}'")
    assert run_command_line(["explain", "--model", str(model), "--verify", "--context", "4096"]) == 1
    assert "differs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 3", "failed"),
        ("echo nothing", "no memory plan"),
        ("echo 'CUDA0 1 1 1'; echo 'Host 0 1 5'", "sees 1 devices"),
        ("echo 'error: bad file' >&2; exit 1", "bad file"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], body: str,
    words: str,
) -> None:  # fmt: skip
    stand_in(tmp_path, monkeypatch, body)
    assert run_command_line(["explain", "--model", str(model), "--verify"]) == 2
    assert words in capsys.readouterr().err


def test_it_needs_the_program_and_a_file(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify, "find_planner", lambda: None)
    for words, wanted in (
        (["--model", str(model)], "is installed"),
        (["--model", "70B", "--engine", "vllm"], "no program"),
        (["--model", str(model), "--on", "RTX 4090"], "leave --on"),
    ):
        assert run_command_line(["explain", *words, "--verify"]) == 2
        assert wanted in capsys.readouterr().err


BREAKDOWN = """0.51 I common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context   compute    unaccounted |
0.51 I common_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24077 =  945 + (19187 = 17904 +     384 +     898) +        3945 |
0.51 I common_memory_breakdown_print: |   - Host               |                  264 =   222 +      21 +      20                |
0.51 I common_memory_breakdown_print: |   - CPU_REPACK         |                   12 =    12 +       0 +       0                |
0.90 I common_memory_breakdown_print: |   - Host               |                  276 =   235 +      21 +      20                |
"""  # noqa: E501


def test_breakdown_of_a_server() -> None:
    """The first table counts; what the processor repacks is the host's."""
    assert [(r.name, r.weights >> 20, r.context >> 20, r.compute >> 20) for r in parse_rows(BREAKDOWN)] == [
        ("CUDA0", 17904, 384, 898),
        ("Host", 234, 21, 20),
    ]


def test_a_server_is_stopped_at_its_plan(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "| x |\\n|   - Host   | 7 = 0 + 1 + 5 |\\nprojected to use 7 MiB"
    stand_in(tmp_path, monkeypatch, f"printf '{table}\\n'; exec sleep 100", "llama-server")
    run_command_line(["explain", "--model", str(model), "--verify", "--context", "4096", "--json"])
    assert json.loads(capsys.readouterr().out)["verified"]["agrees"] is True


def test_rows() -> None:
    text = "main: printing\nCUDA0 100 20 3 \nHost 5 0 1 \nhuge 1 2 " + "9" * 40
    assert [(r.name, r.weights, r.context, r.compute) for r in parse_rows(text)] == [
        ("CUDA0", 100 << 20, 20 << 20, 3 << 20),
        ("Host", 5 << 20, 0, 1 << 20),
    ]
