"""`advise compare`: cells from the entries, the sources' tables as their authors wrote them, the generated page."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

import advisor
from advisor.advice.compare import compare_engines, source_tables
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.errors import BadInput, UnknownName

RULES = catalog([shipped_root()])
TOP = Path(__file__).parents[2]
# the first document's rows, as its text has them: feature, then Ollama vLLM SGLang MAX llama.cpp
WRITTEN = """
NVIDIA CUDA|Yes Yes Yes Yes Yes
AMD ROCm|Yes Partial No Preview Yes
Apple Silicon|Yes No No No Yes
CPU|Yes No No No Yes
Install complexity|Low Medium Medium Medium Medium
Python required|No Yes Yes Yes No
Multi-GPU|Limited Yes Yes Planned No
KV-cache reuse|No No Yes Partial No
Continuous batching|Yes Yes Yes Yes Limited
Structured output|Limited Yes Yes Partial Yes
Speculative decoding|No Yes Yes Planned Yes
Memory efficiency|Good Excellent Excellent Excellent Good
Relative throughput (7B)|1.0x 1.4x 1.5x 1.5x 0.8x
"""
# the fifth document's rows: vLLM Native LlamaCPP Remote SGLang; y = yes, n = no
FIFTH = {
    "Continuous batching": "ynnyy", "Tensor parallelism": "yynyy", "LoRA adapters": "yyyyy",
    "4-bit quantization": "nyynn", "GGUF format": "nnynn", "Prefix caching": "ynnyy", "Streaming": "yyyyy",
    "Vision models": "yyyyy",
}  # fmt: skip


def run(*words: str) -> str:
    done = CliRunner().invoke(root, ["compare", *words], standalone_mode=False)
    assert done.exception is None, done.exception
    return done.stdout


def test_authors_cells_are_as_written() -> None:
    first, fifth = source_tables(RULES)
    said = {line.label: [c.said for c in line.cells] for line in first.lines}
    for row in WRITTEN.strip().splitlines():
        label, cells = row.split("|")
        assert [str(c).split(" ")[0].lower() for c in said[label]] == cells.lower().split()
    told = {line.label: "".join(str(c.said)[0] for c in line.cells) for line in fifth.lines}
    assert {k: v for k, v in told.items() if k in FIFTH} == FIFTH


def test_every_changed_cell_has_a_source_with_a_date() -> None:
    changed = [c for t in source_tables(RULES) for line in t.lines for c in line.cells if c.changed]
    assert len(changed) > 30
    assert all(c.source and "202" in c.source for c in changed)


@pytest.mark.parametrize(
    ("row", "engine", "now"),
    [  # verdicts of the claims table, cell by cell where it calls the author stale or wrong
        ("S0-T02", "vllm", "yes"), ("S0-T02", "sglang", "yes"), ("S0-T03", "vllm", "partial"),
        ("S0-T04", "max", "partial"), ("S0-T08", "llama.cpp", "yes"), ("S0-T08", "max", "yes"),
        ("S0-T09", "vllm", "yes"), ("S0-T09", "ollama", "yes"), ("S0-T10", "ollama", "partial"),
        ("S0-T10", "llama.cpp", "yes"), ("S0-T12", "max", "yes"), ("S4-F01", "transformers", "yes"),
        ("S4-F04", "vllm", "yes"), ("S4-F05", "vllm", "partial"), ("S4-F09", "sglang", "partial"),
    ],
)  # fmt: skip
def test_corrected_cells(row: str, engine: str, now: str) -> None:
    for t in source_tables(RULES):
        for line in t.lines:
            if line.id == row:
                cell = line.cells[t.engines.index(engine)]
                assert (cell.value, cell.changed) == (now, True)
                return
    pytest.fail(row)


def test_the_page_is_what_the_command_prints() -> None:
    assert (TOP / "docs/comparison.md").read_text(encoding="utf-8") == run("--all", "--markdown")


def test_no_speed_claim_is_made() -> None:
    text = run("vllm", "sglang", "ollama", "llama.cpp", "-v").lower()
    assert not any(word in text for word in ("faster", "fastest", "slower"))


@pytest.mark.parametrize("words", [("vllm", "sglang"), ("vllm", "ollama", "--on", "RX 7900 XTX, linux"), ("--all",)])
def test_fits_80_columns_and_the_schema(words: tuple[str, ...]) -> None:
    assert max(map(len, run(*words).splitlines())) <= 80
    schema = json.loads((Path(advisor.__file__).parent / "schemas/compare.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(run(*words, "--json")))


def test_hardware_decides_the_row_and_the_refusals() -> None:
    here = compare_engines(["vllm", "mlx-lm"], advisor.machine("M3 Max 64GB"), RULES)
    row = next(line for line in here.lines if line.label == "this hardware")
    assert [c.value for c in row.cells] == ["partial", "yes"]
    volta = compare_engines(["vllm", "lmdeploy"], advisor.machine("Tesla V100 16GB, linux"), RULES)
    assert set(volta.refused) == {"vllm"}
    assert "7.5" in volta.refused["vllm"][0]


def test_bad_questions() -> None:
    with pytest.raises(BadInput, match="at least two"):
        compare_engines(["vllm", "vllm"], None, RULES)
    with pytest.raises(UnknownName):
        compare_engines(["vllm", "vlmm"], None, RULES)
