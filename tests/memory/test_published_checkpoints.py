"""Sizes of published safetensors checkpoints against ours: the catalogue's own byte counts.

A checkpoint may hold more than an engine loads: a block that predicts further tokens.
"""

from __future__ import annotations

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.memory import hf_weights
from advisor.models.types import native_format
from advisor.units import GIB

RULES = catalog([shipped_root()])
TWICE = {"openai/gpt-oss-20b", "openai/gpt-oss-120b"}  # the repository holds the weights twice, for two programs
PREDICTION = 0.03  # of the whole, at most


def published() -> dict[str, float]:
    found = {}
    for name in RULES.model_ids():
        size = RULES.find_model(name).published.get("safetensors")
        if size is not None and RULES.find_model(name).layout is not None and name not in TWICE:
            found[name] = float(size.bytes or (size.gib or 0) * GIB or (size.gb or 0) * 1e9)
    return found


@pytest.mark.parametrize(("name", "size"), published().items())
def test_weights_are_as_large_as_the_checkpoint(name: str, size: float) -> None:
    model = RULES.find_model(name)
    quantization = RULES.quantization(native_format(model) or "BF16")
    ours = sum(hf_weights.rank_weights(model, quantization, 1).stages)
    assert -PREDICTION <= ours / size - 1 <= 0.005


def test_groups_of_integers_are_those_of_the_checkpoint() -> None:
    """Groups of 32 hold 12 % more than groups of 128, which other publishers use."""
    for name in ("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.7-Code"):
        ours = sum(hf_weights.rank_weights(RULES.find_model(name), RULES.quantization("INT4"), 1).stages)
        assert ours == pytest.approx(published()[name], rel=0.002)
