"""The commands as users run them: exit status, what goes to stdout, help, width, and the cases of the README."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from commands import advise, started


def answer(*words: str, status: int = 0) -> Any:
    p = advise(*words, "--json")
    assert p.returncode == status, (p.returncode, p.stderr)
    return json.loads(p.stdout)


def test_explain_70b_q4() -> None:
    """The case everybody asks: a published file of 42.5 GB; per device and context; which cards hold it."""
    body = answer("explain", "--model", "70B", "--quant", "q4")
    assert body["model"] == "meta-llama/Llama-3.3-70B-Instruct"
    assert body["quantization"] == "Q4_K_M"
    assert round(body["file_bytes"] / 1e9, 1) == 42.5
    assert len(body["estimates"]) >= 3
    for e in body["estimates"]:
        for part in ("weights_bytes", "kv_cache_bytes", "compute_bytes", "overhead_bytes"):
            assert e["devices"][0][part] > 0
    # 80 layers x 8 KV heads x 128 x 2 x 2 bytes
    assert body["estimates"][0]["kv_cache"]["bytes_per_token"] == 327680
    fits = {f["hardware"]: f["fits"] for f in body["fits_on"]}
    assert fits["2x GeForce RTX 4090"] is True
    assert fits["1x L40S"] is True
    assert "1x GeForce RTX 4090" not in fits
    assert any("Q4_K_M" in w for w in body["warnings"])


def test_explain_text_fits_80_columns_and_has_no_colour_in_a_pipe() -> None:
    for words in (
        ("--quant", "q4"),
        ("--on", "2x RTX 3090, 64GB RAM"),
        ("--engine", "vllm"),
        ("--on", "cpu, 64GB RAM", "-v"),
    ):
        text = advise("explain", "--model", "70B", *words).stdout
        assert "\033" not in text
        assert max(map(len, text.splitlines())) <= 80, max(text.splitlines(), key=len)


def test_recommend_14b_for_16_users_on_a_4090() -> None:
    body = answer("recommend", "--on", "1x RTX 4090", "--model", "Qwen/Qwen2.5-14B-Instruct", "--concurrency", "16")
    chosen = body["chosen"]
    assert chosen["memory"]["fits"] is True
    assert chosen["starts"] is True
    assert chosen["memory"]["context_length"] == 8192  # the use's own, not cut for the 16
    assert chosen["holds"]["typical"] >= 16 > chosen["holds"]["full_length"] == chosen["memory"]["sequences"]
    device = chosen["memory"]["devices"][0]
    assert device["high_bytes"] <= device["budget_bytes"]
    bf16 = next(t for t in chosen["tried"] if t["quantization"] == "BF16")
    assert bf16["fits"] is False
    assert "29.5 GB" in bf16["text"]
    assert any("BF16 does not fit" in w for w in body["warnings"])


def test_72b_in_bf16_is_never_offered_on_one_h100() -> None:
    for words in ((), ("--concurrency", "8"), ("--priority", "throughput")):
        body = answer("recommend", "--on", "1x H100 80GB SXM", "--model", "Qwen/Qwen2.5-72B-Instruct", *words)
        offered = [body["chosen"], *body["alternatives"]]
        assert offered[0] is not None
        assert all(x["quantization"] not in ("BF16", "F16") for x in offered)


def test_a_p40_never_gets_vllm() -> None:
    for words in ((), ("--concurrency", "16"), ("--engine", "vllm")):
        p = advise("recommend", "--on", "Tesla P40", "--json", *words)
        body = json.loads(p.stdout)
        assert all(x["engine"] != "vllm" for x in [body["chosen"], *body["alternatives"]] if x)
        why = next(r for r in body["rejected"] if r["engine"] == "vllm")
        assert "compute_capability_below_floor" in [r["code"] for r in why["reasons"]]
        assert all(r["text"] and r["rule"] for r in why["reasons"])


def test_a_mac_gets_the_engines_of_a_mac() -> None:
    body = answer("recommend", "--on", "M3 Max 64GB")
    offered = [x["engine"] for x in [body["chosen"], *body["alternatives"]]]
    assert body["chosen"]["engine"] in ("llama.cpp", "mlx-lm", "ollama")
    assert {"llama.cpp", "mlx-lm", "ollama"} <= set(offered)


@pytest.mark.parametrize(
    "hardware", ["1x RTX 4090", "cpu, 64GB RAM", "M3 Max 64GB", "8x H100 80GB SXM", "RX 7900 XTX", "Tesla P40"]
)
def test_an_archived_engine_is_never_offered_unasked(hardware: str) -> None:
    body = answer("recommend", "--on", hardware, "--model", "8B")
    assert all(x["engine"] != "tgi" for x in [body["chosen"], *body["alternatives"]])
    assert "archived" in [r["code"] for x in body["rejected"] if x["engine"] == "tgi" for r in x["reasons"]]


def test_every_rejection_has_a_reason() -> None:
    body = answer("recommend", "--on", "1x RTX 3060 12GB, 64GB RAM", "--model", "70B", "--concurrency", "4")
    assert body["rejected"]
    for r in body["rejected"]:
        assert r["reasons"], r["engine"]
        assert all(x["code"] and x["text"] for x in r["reasons"])
    assert all(step["rule"] for step in body["trace"])


def test_nothing_fits_is_1_with_remedies() -> None:
    body = answer("recommend", "--on", "1x GTX 1050 Ti, 4GB RAM", "--model", "70B", status=1)
    assert body["chosen"] is None
    assert body["remedies"]
    assert advise("explain", "--model", "70B", "--quant", "q4", "--on", "1x RTX 4090, 16GB RAM").returncode == 1


def test_unknown_host_memory_cannot_be_a_fit() -> None:
    p = advise("explain", "--model", "8B", "--quant", "q4", "--on", "cpu", "--json")
    assert p.returncode == 2
    assert json.loads(p.stdout)["fits"] is None
    p = advise("recommend", "--model", "8B", "--on", "cpu", "--json")
    body = json.loads(p.stdout)
    assert p.returncode == 2
    assert body["chosen"]["memory"]["fits"] is None
    assert body["chosen"]["command"]


def test_a_superchip_shows_the_memory_it_is_sold_with() -> None:
    said = " ".join(advise("recommend", "--on", "GH200", "--model", "llama3.1:8b").stdout.split())
    assert "(95.6 GiB); 106 to 447 GiB RAM" in said
    said = " ".join(advise("recommend", "--on", "NVIDIA GH200 480GB", "--model", "llama3.1:8b").stdout.split())
    assert "424.7 GiB RAM" in said


def test_recommend_on_this_machine_is_under_a_screen() -> None:
    p = started("recommend")
    assert p.returncode in (0, 1), p.stderr
    lines = p.stdout.splitlines()
    assert len(lines) <= 40
    assert max(len(x) for x in lines if not x.startswith("  llama-server") and "http" not in x) <= 80
    assert lines[0].startswith("Machine ")
    assert len(started("recommend", "-v").stdout.splitlines()) > len(lines)


def test_insisting_on_an_engine() -> None:
    assert (
        answer("recommend", "--on", "1x RTX 4090", "--model", "8B", "--engine", "sglang")["chosen"]["engine"]
        == "sglang"
    )
    body = answer("recommend", "--on", "1x RTX 4090", "--model", "8B", "--engine", "tgi")
    assert body["chosen"]["engine"] == "tgi"
    assert any("archived" in w for w in body["warnings"])


@pytest.mark.parametrize("what", ["engines", "models", "accelerators", "guides", "rules", "quantizations"])
def test_lists(what: str) -> None:
    rows = answer("list", what)
    counts = {"engines": 27, "models": 376, "accelerators": 225, "guides": 6}
    assert len(rows) >= counts.get(what, 20)
    assert len({r["id"] for r in rows}) == len(rows)
    text = advise("list", what).stdout
    assert len(text.splitlines()) == len(rows) + 1


@pytest.mark.parametrize("command", ["recommend", "explain", "estimate", "probe", "list", "render"])
def test_help_has_examples(command: str) -> None:
    p = advise(command, "--help")
    assert p.returncode == 0
    assert "Examples:" in p.stdout
    assert f"advise {command}" in p.stdout


def test_version_and_bare_call() -> None:
    assert started("--version").stdout.startswith("advise 0.")
    assert "recommend" in started().stdout + started().stderr


def test_completion_script() -> None:
    p = started(env={"_ADVISE_COMPLETE": "bash_source"})
    assert "complete" in p.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--model", "8B", "--on", "RTX 4090", "--json"),
        ("explain", "--model", "70B", "--quant", "q4", "--on", "1x RTX 4090, 64GB RAM"),
        ("recommend", "--on", "RTX 4900"),
        ("list", "engines"),
    ],
)
def test_a_process_says_what_the_function_says(words: tuple[str, ...]) -> None:
    """Most tests here call the function that the command calls."""
    p = started(*words)
    assert advise(*words) == (p.returncode, p.stdout, p.stderr)


def test_stdout_is_only_the_answer() -> None:
    p = started("probe", "--json")
    assert p.stderr == ""
    json.loads(p.stdout)


@pytest.mark.parametrize(
    ("hardware", "model", "quant"),
    [
        ("M3 Max 64GB", "Qwen/Qwen3-235B-A22B-Instruct-2507", "Q3_K_M"),
        ("Ryzen AI Max+ 395, 128GB RAM", "Qwen/Qwen3-235B-A22B-Instruct-2507", "Q4_K_M"),
        ("M2 24GB", "qwen3-coder:30b", "Q6_K"),
    ],
)
def test_unified_memory_is_counted_once(hardware: str, model: str, quant: str) -> None:
    """GPU and host rows together exceed the RAM that both are: the rest is read from disk, which is no yes."""
    done = advise("recommend", "--on", hardware, "--model", model, "--quant", quant, "--engine", "llama.cpp", "--json")
    assert done.returncode == 1
    body = json.loads(done.stdout)
    memory, ram = body["chosen"]["memory"], body["machine"]["memory"]["total_bytes"]
    assert memory["fits"] is False
    assert memory["disk"]["weights_bytes"] > 0
    assert sum(d["total_bytes"] for d in memory["devices"]) + memory["host"]["total_bytes"] <= ram


def test_requests_that_wait_are_said_and_the_server_takes_them() -> None:
    asked = ("--model", "qwen3:32b", "--engine", "vllm", "--quant", "AWQ", "--concurrency", "16", "--context", "32k")
    lengths = ("--prompt-tokens", "12k", "--output-tokens", "1k")
    body = answer("recommend", "--on", "2x RTX 3090, linux, 64GB RAM", *asked, *lengths)
    chosen, holds = body["chosen"], body["chosen"]["holds"]
    assert chosen["memory"]["sequences"] == holds["full_length"] < holds["typical"] < 16
    assert chosen["settings"]["max-num-seqs"] == 16
    assert holds["waiting"] == 16 - holds["typical"]
    assert holds["wait_s"]["low"] <= holds["wait_s"]["value"] <= holds["wait_s"]["high"]
    text = advise("recommend", "--on", "2x RTX 3090, linux, 64GB RAM", *asked, *lengths).stdout
    assert f"{holds['waiting']} of 16 wait" in " ".join(text.split())


def test_the_context_of_the_use_is_never_cut() -> None:
    """What does not start with it does not fit."""
    body = answer("recommend", "--on", "1x RTX 4090", "--model", "Qwen/Qwen2.5-14B-Instruct", "--concurrency", "64")
    assert body["chosen"]["memory"]["context_length"] == 8192
    body = answer("recommend", "--on", "1x L4, 16GB RAM", "--model", "405B", "--use-case", "agent", status=1)
    assert body["chosen"] is None


@pytest.mark.usefixtures("own_cache")
def test_an_engine_of_an_overlay_does_not_break_the_others(tmp_path: Path) -> None:
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "mine.yaml").write_text(
        "id: mine\nname: Mine\nkind: engine\nhealth: {status: active}\nhardware:\n  nvidia: {support: 'yes'}\n"
    )
    body = answer("recommend", "--rules", str(tmp_path), "--on", "RTX 4090", "--model", "qwen3:8b")
    assert body["chosen"]
    assert any(r["engine"] == "mine" for r in body["rejected"])


def test_gpt_oss_downloads_a_file_that_exists() -> None:
    body = answer("recommend", "--on", "cpu, 32GB RAM", "--model", "gpt-oss:20b")
    assert "-hf ggml-org/gpt-oss-20b-GGUF:MXFP4 " in body["chosen"]["command"]


def test_all_launch_files_with_a_readme(tmp_path: Path) -> None:
    """One folder, a README that names each file, nothing overwritten, reasons on request."""
    asked = [
        "render",
        "--target",
        "all",
        "--on",
        "RTX 4090, linux",
        "--model",
        "llama3.1:8b",
        "--engine",
        "vllm",
        "--context",
        "8k",
    ]
    out = tmp_path / "deploy"
    done = advise(*asked, "--output", str(out), "-v")
    assert done.returncode == 0, done.stderr
    names = {p.name for p in out.iterdir()}
    assert {Path(x).name for x in done.stdout.split()} == names
    assert {"run.sh", "install.sh", "compose.yaml", "kubernetes.yaml", "README.md"} <= names
    readme = (out / "README.md").read_text()
    assert all(n in readme for n in names - {"README.md"})
    assert "# --max-num-seqs: " in (out / "run.sh").read_text()
    assert os.access(out / "run.sh", os.X_OK)
    (out / "run.sh").write_text("mine")
    again = advise(*asked, "--output", str(out))
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert (out / "run.sh").read_text() == "mine"


def test_files_for_an_endpoint_that_is_there() -> None:
    done = advise("render", "--target", "openai-client", "--endpoint", "http://10.0.0.5:8000/v1", "--output", "-")
    assert done.returncode == 0
    assert "http://10.0.0.5:8000/v1" in done.stdout
    done = advise("render", "--target", "systemd", "--endpoint", "http://10.0.0.5:8000/v1", "--output", "-")
    assert done.returncode == 2
    assert "openai-client" in done.stderr


def test_a_server_without_a_key_is_said() -> None:
    asked = [
        "render",
        "--target",
        "command",
        "--on",
        "RTX 4090, linux",
        "--model",
        "llama3.1:8b",
        "--output",
        "-",
        "--host",
        "0.0.0.0",
    ]
    assert "asks its clients for no key" in advise(*asked, "--engine", "ollama").stderr
    assert "no key" not in advise(*asked, "--engine", "vllm").stderr


def test_several_models_in_one_llama_swap_file() -> None:
    import yaml

    asked = [
        "render",
        "--target",
        "llama-swap",
        "--on",
        "RTX 4090, 64GB RAM, linux",
        "--context",
        "8k",
        "--output",
        "-",
    ]
    done = advise(*asked, "--models", "qwen3:8b, llama3.1:8b")
    assert done.returncode == 0, done.stderr
    body = yaml.safe_load(done.stdout)
    assert list(body["models"]) == ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct"]
    assert body["groups"]["main"]["members"] == list(body["models"])
    assert body["groups"]["main"]["swap"] is True
    assert all(m["cmd"].startswith("llama-server ") and "${PORT}" in m["cmd"] for m in body["models"].values())
    assert advise(*asked, "--models", "qwen3:8b,qwen3:8b").returncode == 2
    assert advise(*asked, "--models", "qwen3:8b,deepseek-r1:671b", "--quant", "Q8_0").returncode == 1
    assert advise(*asked[:2], "systemd", *asked[3:], "--models", "qwen3:8b,llama3.1:8b").returncode == 2
