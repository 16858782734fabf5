"""What stands behind words that a blind round had read wrongly: no entry point, templates, presets, open folders.

Sources: the Compose specification (`entrypoint`, `extends`), llama-swap's config.example.yaml (groups), llama.cpp's
tools/server/README.md (`--models-preset`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, rules_of

SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
IMAGE = "vllm/vllm-openai:v0.33.0"


@pytest.mark.parametrize(
    ("source", "name", "doubled"),
    [
        (
            f"services: {{v: {{image: '{IMAGE}', entrypoint: '', command: {SERVE}, gpus: all}}}}\n",
            "compose.yaml",
            False,
        ),
        (
            f"services: {{v: {{image: '{IMAGE}', entrypoint: [], command: {SERVE}, gpus: all}}}}\n",
            "compose.yaml",
            False,
        ),
        (f"services: {{v: {{image: '{IMAGE}', entrypoint: , command: {SERVE}}}}}\n", "compose.yaml", True),
        (f"docker run --gpus all --entrypoint '' {IMAGE} {SERVE}\n", "x.sh", False),
        (f"docker run --gpus all {IMAGE} {SERVE}\n", "x.sh", True),
    ],
)
def test_an_entry_point_that_is_taken_away(source: str, name: str, doubled: bool) -> None:
    found = check_text(source, name)
    assert ("entrypoint-doubled" in rules_of(found)) is doubled
    assert [d.model for d in found.verdicts] == ["Qwen/Qwen3-8B"]


@pytest.mark.parametrize(
    ("groups", "clash"),
    [
        ("", False),
        ("groups: {g: {members: [a, b]}}\n", False),
        ("groups: {g: {swap: false, members: [a, b]}}\n", True),
        ("groups: {g: {exclusive: false, members: [a]}}\n", True),
        ("groups: {g: {persistent: true, members: [a]}}\n", True),
        ("groups: {g: {members: [a]}, h: {members: [b]}}\n", False),
    ],
)
def test_a_port_of_two_models_clashes_where_both_can_be_up(groups: str, clash: bool) -> None:
    models = "".join(
        f"  {n}: {{proxy: 'http://x:9000', cmd: 'llama-server --port 9000 -m /m/{n}-Q4_K_M.gguf'}}\n" for n in "ab"
    )
    assert ("llama-swap-port-macro" in rules_of(check_text(f"models:\n{models}{groups}", "config.yaml"))) is clash


def test_a_script_behind_llama_swap(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(f"#!/bin/bash\nexec {SERVE} --port $1\n")
    text = "models:\n  a:\n    cmd: bash ./serve.sh ${PORT}\n"
    (found,) = check_text(text, str(tmp_path / "config.yaml"), tmp_path).verdicts
    assert found.model == "Qwen/Qwen3-8B"


def test_a_hidden_service_that_others_extend_starts_nothing() -> None:
    base = f"  .base: {{image: '{IMAGE}', gpus: all}}\n"
    one = "  a: {extends: {service: .base}, command: [--model, Qwen/Qwen3-8B]}\n"
    found = check_text(f"services:\n{base}{one}", "compose.yaml")
    assert [d.model for d in found.verdicts] == ["Qwen/Qwen3-8B"]


def test_a_file_of_presets_is_read_as_its_server_reads_it(tmp_path: Path) -> None:
    text = "version = 1\n[*]\nc = 4096\n[a]\nmodel = /m/Qwen3-8B-Q4_K_M.gguf\n[b]\nmodel = /m/Qwen3-4B-Q4_K_M.gguf\n"
    (tmp_path / "models.ini").write_text(text)
    found = check_text(text, str(tmp_path / "models.ini"), tmp_path)
    assert [d.engine for d in found.verdicts] == ["llama.cpp", "llama.cpp"]


def test_a_file_below_an_open_folder_is_known_by_its_name() -> None:
    text = 'DIR="$(cd "$(dirname "$0")" && pwd)"\nllama-server -m "$DIR/models/Qwen3-8B-Q4_K_M.gguf" -c 8192 -np 1\n'
    (found,) = check_text(text, "x.sh", on="RTX 3090").verdicts
    assert found.fits is True
    assert any("by the name of the path" in line for line in found.assumed)


def test_the_words_of_a_chart_stand_in_another_block() -> None:
    text = (
        "image: {repository: vllm/vllm-openai, tag: v0.33.0}\n"
        f"vllm:\n  command: [/bin/sh, -c]\n  args: ['{SERVE}']\nextraArgs: []\n"
    )
    (found,) = check_text(text, "values.yaml", on="RTX 5090").verdicts
    assert (found.model, found.fits) == ("Qwen/Qwen3-8B", True)


def test_flags_of_the_other_server_of_vllm() -> None:
    words = "-m vllm.entrypoints.{} --model Qwen/Qwen3-8B --api-key $KEY\n"
    for python in ("python", "python3"):
        assert "demo-server-flag" in rules_of(check_text(f"{python} {words.format('api_server')}", "x.sh"))
        assert "demo-server-flag" not in rules_of(check_text(f"{python} {words.format('openai.api_server')}", "x.sh"))
