"""The quick bound on a GGUF file's bytes is never above what the file's own tensors add up to, and near it."""

from __future__ import annotations

import pytest

from advisor.catalog import catalog
from advisor.engines.llama_cpp.plan import count_file_bytes, least_file_bytes
from advisor.errors import BadInput
from advisor.memory.gguf_weights import BASE, NARROWED

RULES = catalog()
MODELS = [RULES.find_model(name) for name in RULES.model_ids()]


MIXES = ("Q4_K_M", "Q8_0", "Q4_0")
# a third of the models for each mix, and all of them
CASES = [(mix, i, 3) for i, mix in enumerate(MIXES)]
ALL = [pytest.param(mix, 0, 1, marks=pytest.mark.slow) for mix in MIXES]


@pytest.mark.parametrize(("mix", "first", "step"), [*CASES, *ALL])
def test_no_model_takes_less(mix: str, first: int, step: int) -> None:
    seen = 0
    for model in MODELS[first::step]:
        try:
            whole = count_file_bytes(model, mix, True)
        except BadInput:
            continue
        seen += 1
        assert least_file_bytes(model, mix) <= whole, model.id
    assert seen > 300 / step


def test_every_mix_of_some_models() -> None:
    for model in MODELS[::60]:
        for mix in BASE:
            try:
                whole = count_file_bytes(model, mix, True)
            except BadInput:
                continue
            assert least_file_bytes(model, mix) <= whole, (model.id, mix)


def test_the_bound_decides_something() -> None:
    model = RULES.find_model("Qwen/Qwen3-32B")
    assert least_file_bytes(model, "Q4_K_M") > 0.85 * count_file_bytes(model, "Q4_K_M", True)
    assert [least_file_bytes(model, m) for m in (*sorted(NARROWED), "AWQ")] == [0] * (len(NARROWED) + 1)
