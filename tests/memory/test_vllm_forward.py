"""The forward pass by shapes against vLLM's own model code (tests/data/vllm_forward.csv).

tests/planner/vllm_forward.py makes the table; nothing of the formula is fitted to it.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory.working_memory import expert_width, size_forward_peak
from advisor.models.types import Moe
from tools.accuracy.rows import read_rows
from tools.accuracy.vllm_planner import ForwardComparison, compare_forward, median_ratios

TESTS = Path(__file__).resolve().parents[1]
ROWS = read_rows(TESTS / "data" / "vllm_forward.csv")
RULES = catalog([shipped_root()])
# classes whose median is more than 5 % off -> what is not known of them
OFF = {
    "CohereForCausalLM": "attention and MLP side by side, which the layout does not say",
    "DeepseekV32ForCausalLM": "room that the index takes with small batches",
    "Gemma3nForCausalLM": "copies of its hidden states; configs are read without the inputs of every layer",
    "Gemma4ForCausalLM": "configs are read without the inputs of every layer",
    "JambaForCausalLM": "Mamba's projections at TP 8",
    "KimiLinearForCausalLM": "projections of linear attention",
    "ModernBertModelForEmbedding": "projections of its own",
    "Qwen3NextForCausalLM": "projections of linear attention at TP 8",
}


@pytest.fixture(scope="module")
def found() -> list[ForwardComparison]:
    configs = TESTS / "models" / "configs"
    return [c for r in ROWS if (c := compare_forward(r, RULES, configs)) is not None]


def test_nearly_every_row_is_compared(found: list[ForwardComparison]) -> None:
    """Left out: classes that this release no longer has, and ranks that do not divide the heads."""
    assert len(found) >= 0.9 * len(ROWS)
    assert all(r["error"] for r in ROWS if not r["compiled_8192"])


def test_peaks_are_those_of_the_engine(found: list[ForwardComparison]) -> None:
    errors = sorted(abs(1 / ratio - 1) for c in found for ratio in c.ratios)
    assert len(errors) > 550
    assert statistics.median(errors) < 0.001
    assert sum(e <= 0.10 for e in errors) / len(errors) > 0.87
    assert errors[int(0.9 * len(errors))] < 0.14


def test_classes_that_are_off_are_known(found: list[ForwardComparison]) -> None:
    off = {k for k, v in median_ratios(found).items() if abs(v - 1) > 0.05}
    assert off == OFF.keys()


def test_experts_have_two_caches_of_the_wider_width() -> None:
    """Qwen3-30B-A3B: 8 experts of 768 in a model of 2,048: max(768, 2,048) + max(2 x 768, 2,048) elements each."""
    layout = RULES.find_model("Qwen/Qwen3-30B-A3B").layout
    assert layout is not None
    moe = next(g for g in layout.ffn if isinstance(g, Moe))
    assert expert_width(moe, 2048, 1) == 8 * (2048 + 2048)
    assert expert_width(moe, 1024, 1) == 8 * (1024 + 1536)
    assert expert_width(moe, 1024, 2) == 8 * (1024 + 1024)


def test_a_dense_layer_by_hand() -> None:
    """Llama-3.1-8B, 8,192 tokens: two residuals, what attention gave, three widths of the MLP; 2 bytes each."""
    model = RULES.find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert size_forward_peak(model, 8192, 1, 1) == 2 * 8192 * (2 * 4096 + 4096 + 3 * 14336)
    half = size_forward_peak(model, 8192, 2, 2)
    assert half == 2 * 8192 * (2 * 4096 + 2048 + 3 * 7168)


def test_latent_attention_widens_earlier_context_whatever_the_batch() -> None:
    model = RULES.find_model("deepseek-ai/DeepSeek-V3")
    wide = 2 * 65_536 * 128 * (128 + 128)
    assert size_forward_peak(model, 1, 1, 1) == pytest.approx(wide, rel=0.01)
    assert size_forward_peak(model, 1, 8, 8) == pytest.approx(wide / 8, rel=0.01)
