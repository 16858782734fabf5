"""Findings on llama-server's command line against the parser of a real llama-server."""

from __future__ import annotations

import subprocess

import pytest
from checking import check_text
from programs import program

PARSER_RULES = {
    "flag-unknown",
    "flag-wants-value",
    "llama-fa-needs-value",
    "llama-flag-removed",
    "kv-dtype-unknown",
    "flag-bad-value",
}


@pytest.mark.parametrize(
    "arguments",
    [
        "-m a.gguf -c 4096 -ngl 99 -fa on",
        "-m a.gguf -fa -ngl 99",
        "-m a.gguf --flash-attn auto --parallel 2 --kv-unified",
        "-m a.gguf --draft-max 16",
        "-m a.gguf --spec-draft-n-max 16",
        "-m a.gguf --ctx-sizee 4096",
        "-m a.gguf -ctk q8_0 -ctv q8_0",
        "-m a.gguf -ctk q4_K",
        "-m a.gguf --memory-f32",
        "-m a.gguf --load-mode none",
        "-m a.gguf --temp 0.6 --top-p 0.95 --min-p 0.01",
        "-m a.gguf --n-gpu-layers all --ubatch-size 256",
        "-m a.gguf --threads many",
        "-m a.gguf --grp-attn-n 4",
        "-m a.gguf --jinja --no-context-shift --metrics",
        "-m a.gguf --ctx-size",
    ],
)
def test_same_answer_as_the_parser(arguments: str) -> None:
    done = subprocess.run([program("llama-server"), *arguments.split(), "--help"], capture_output=True, check=False)
    found = check_text(f"llama-server {arguments}\n", engine_version="b10434", fit=False)
    said = {f.rule for f in found.findings} & PARSER_RULES
    if arguments.endswith("--ctx-size"):  # `--help` becomes its value there
        assert "flag-wants-value" in said
        return
    assert (done.returncode != 0) == bool(said), (done.stderr[-300:], said)
