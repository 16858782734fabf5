"""`recommend` as text: the short answer stays short, says what the JSON says, and its lines agree with the files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import commands
import msgspec
import pytest
from msgspec.structs import replace

import advisor
from advisor.report.recommend import MOST_LINES

MACHINES = (
    "RTX 4090",
    "2x RTX 3090, 64GB RAM, linux",
    "8x H100 80GB SXM, 512GB RAM",
    "M3 Max 64GB",
    "cpu, 16GB RAM",
    "Ryzen AI Max+ 395 128GB",
    "RTX 3060 12GB, 32GB RAM, windows",
    "8x MI300X, 1TB RAM",
    "AMD Ryzen Threadripper PRO 7995WX 96-Cores + RTX 5090, 256GB RAM, linux, driver 580.10",
)
USES = (
    (),
    ("--use-case", "rag", "--concurrency", "40"),
    ("--model", "70B", "--concurrency", "200", "--ttft", "2", "--tpot", "0.05"),
)


def _around(text: str) -> list[str]:
    """The lines of an answer that are not its command."""
    lines = text.rstrip("\n").split("\n")
    return [line for line in lines if not line.startswith("  ") or line.startswith(" " * 9)]


# each machine with one use; every machine with every use is slow
PAIRS = [
    pytest.param(machine, use, marks=() if i % len(USES) == k else pytest.mark.slow)
    for i, machine in enumerate(MACHINES)
    for k, use in enumerate(USES)
]


@pytest.mark.parametrize(("machine", "use"), PAIRS)
def test_short(machine: str, use: tuple[str, ...]) -> None:
    done = commands.advise("recommend", "--on", machine, *use)
    if done.returncode != 1:  # where nothing fits the answer says what would change that
        assert len(_around(done.stdout)) <= MOST_LINES, done.stdout
        assert {line.split()[0] for line in done.stdout.splitlines() if line[:1].isupper()} >= {
            "Machine", "Model", "Engine", "Test", "Holds", "Speed", "All"
        }  # fmt: skip
    assert max(map(len, done.stdout.splitlines())) <= 80 or "--" in max(done.stdout.splitlines(), key=len)


def test_figures_are_those_of_the_json() -> None:
    words = ("recommend", "--on", "2x RTX 3090, 64GB RAM", "--model", "qwen3-8b", "--concurrency", "4")
    text = commands.advise(*words).stdout
    chosen = json.loads(commands.advise(*words, "--json").stdout)["chosen"]
    flat = " ".join(text.split())
    place = chosen["memory"]["devices"][0]
    assert f"{place['total_bytes'] / 2**30:.1f} of {place['budget_bytes'] / 2**30:.1f} GiB" in flat
    assert f"weights {place['weights_bytes'] / 2**30:.1f}" in flat
    assert re.search(rf"{chosen['holds']['full_length']} (requests? )?of 8k tokens", flat)
    assert chosen["install"] in flat
    assert chosen["test"] in flat
    for line in chosen["command"].splitlines():
        assert line.strip() in text


@pytest.mark.parametrize(
    ("machine", "engine"),
    [
        ("RTX 4090, linux", "vllm"), ("RTX 4090, linux", "sglang"), ("RTX 4090, linux", "ollama"),
        ("M3 Max 64GB", "llama.cpp"), ("M3 Max 64GB", "mlx-lm"), ("8x MI300X, linux", "vllm"),
        ("cpu, 64GB RAM, linux", "vllm"), ("RTX 4090, linux", "tensorrt-llm"), ("RTX 4090, linux", "lmdeploy"),
    ],
)  # fmt: skip
def test_install_line_is_that_of_the_script(machine: str, engine: str) -> None:
    words = ("--on", machine, "--model", "qwen3-8b", "--engine", engine)
    chosen = json.loads(commands.advise("recommend", *words, "--json").stdout)["chosen"]
    script = commands.advise("render", "--target", "install", "--output", "-", *words).stdout
    asked = [w for w in shlex.split(chosen["install"]) if w not in ("uv", "pip", "install")]
    assert set(asked) <= set(shlex.split(script, comments=True)), (asked, script)


@pytest.mark.parametrize("docker", [True, False])
def test_an_image_where_there_is_no_docker(tmp_path: Path, docker: bool) -> None:
    snapshot = tmp_path / "machine.json"
    machine = replace(advisor.machine("cpu, 64GB RAM, linux"), docker=docker, source="snapshot")
    snapshot.write_bytes(msgspec.json.encode(machine))
    words = ("--machine", str(snapshot), "--model", "qwen3-8b", "--engine", "llama.cpp")
    flat = " ".join(commands.advise("recommend", *words).stdout.split())
    assert "docker pull" in flat
    assert ("no docker was found" in flat) is not docker


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ollama", "lmdeploy", "transformers"])
def test_the_test_line_asks_where_the_command_listens(engine: str) -> None:
    words = ("--on", "RTX 4090, 64GB RAM, linux", "--model", "qwen3-8b", "--engine", engine)
    chosen = json.loads(commands.advise("recommend", *words, "--json").stdout)["chosen"]
    found = re.fullmatch(r"curl http://127\.0\.0\.1:(\d+)/v1/models", chosen["test"])
    assert found
    assert found[1] in chosen["command"]


def test_everything_with_v() -> None:
    short, whole = (commands.advise("recommend", "--on", "RTX 4090", *v).stdout for v in ((), ("-v",)))
    for part in ("Alternatives:", "Not these:", "As it grows:", "Settings:", "Trace:", "Install:", "Test:"):
        assert part in whole
        assert part not in short


def test_other_engines_rates_are_those_of_the_same_load() -> None:
    """What stands behind `Else` may be compared with `Speed`: both are what each of the 32 requests gets."""
    words = ("recommend", "--on", "1x H100 80GB SXM", "--model", "70B", "--concurrency", "32")
    flat = " ".join(commands.advise(*words).stdout.split())
    answer = json.loads(commands.advise(*words, "--json").stdout)
    shown = re.findall(r"([\w.]+) (\w+) \(([\d.]+) tokens/s\)", flat.partition(" Else ")[2])
    assert shown
    for engine, quantization, rate in shown:
        mine = [
            1 / x["speed"]["tpot_s"]["value"]
            for x in answer["alternatives"]
            if x["quantization"] == quantization and x["engine"] == engine.lower()
        ]
        assert any(abs(float(rate) - x) <= 0.02 * x for x in mine), (engine, quantization, rate, mine)


def test_the_verdict_on_a_named_target_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from advisor.cli.main import run_command_line

    monkeypatch.setenv("COLUMNS", "60")
    for most, verdict in (("10", "10 s: met"), ("0.001", "1 ms: not met")):
        asked = ["--on", "RTX 4090, 64GB RAM, linux", "--model", "qwen3:8b", "--concurrency", "4", "--ttft", most]
        run_command_line(["recommend", *asked])
        text = " ".join(capsys.readouterr().out.split())
        assert f"asked {verdict}" in text


def test_the_long_form_says_what_the_speed_rests_on() -> None:
    """And that an agent's prompt is mostly in the cache: its first token comes soon for that reason."""
    words = ("recommend", "--on", "RTX 4090, 64GB RAM", "--model", "qwen3:8b", "--use-case", "agent", "-v")
    text = " ".join(commands.advise(*words).stdout.split())
    assert "of 12,000 tokens of a prompt 10,800 are in the cache already" in text
    assert "from published measurements" in text
