"""Benchmark programs as the servers that they stand for."""

from __future__ import annotations

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.read.benchmarks import as_server_words
from advisor.yaml_places import make_text

PROGRAMS = catalog([shipped_root()]).engines()["llama.cpp"].recognition.programs


# tools/llama-bench/llama-bench.cpp: the context of a test is n_prompt + n_gen + n_depth; its usual tests are 512 tokens
# of a prompt, and 128 generated ones; n_gpu_layers is 99
@pytest.mark.parametrize(
    ("words", "context", "holds"),
    [
        ("-m a.gguf", 512, "--n-gpu-layers 99"),
        ("-m a.gguf -p 512,4096 -n 128", 4096, "--model a.gguf"),
        ("-m a.gguf -p 0 -n 256 -d 8192", 8448, "--parallel 1"),
        ("-m a.gguf -pg 4096,256 -d 0,16384", 20736, "--n-gpu-layers 99"),
        ("--model=a.gguf --n-prompt 2048 -fa 0,1", 2048, "--flash-attn on"),
        ("-m a.gguf -nkvo 1 -ngl -1", 512, "--n-gpu-layers -1"),
        ("-m a.gguf -ctk q8_0 -r 2 -o json", 512, "--cache-type-k q8_0"),
    ],
)
def test_llama_bench(words: str, context: int, holds: str) -> None:
    benchmark = PROGRAMS["llama-bench"].benchmark
    assert benchmark is not None
    line = " ".join(as_server_words([make_text(w) for w in words.split()], benchmark))
    assert f"--ctx-size {context}" in line
    assert holds in line
    assert ("--no-kv-offload" in line) == ("-nkvo 1" in words)
    assert not {"json", "-r"} & {*line.split()}


def test_batched_bench() -> None:
    """It shares the server's flags but for those of its runs."""
    benchmark = PROGRAMS["llama-batched-bench"].benchmark
    assert benchmark is not None
    words = [make_text(w) for w in ["-m", "a.gguf", "-c", "16384", "-npp", "128,256", "-npl", "1,2,4"]]
    assert as_server_words(words, benchmark) == ("-m", "a.gguf", "-c", "16384", "--parallel", "4")
