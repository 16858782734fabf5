"""A release that is named with an engine, and stand-ins for models of no known name."""

from __future__ import annotations

import pytest

import advisor

HARDWARE = "RTX 4090, 64GB RAM"


@pytest.mark.parametrize(
    ("engine", "version", "said"),
    [
        ("vLLM 0.28.0", "0.28.0", "release 0.28.0, as it was named"),
        ("llama.cpp b9000", "b9000", "release b9000, as it was named"),
        ("vLLM 99.1", None, "release 99.1 has no effect"),
        ("koboldcpp v1.98", None, "release 1.98 has no effect"),
        ("vllm", None, None),
    ],
)
def test_a_named_release_is_answered_for_or_said_to_have_no_effect(
    engine: str, version: str | None, said: str | None
) -> None:
    answer = advisor.recommend(hardware=HARDWARE, model="qwen3:8b", engine=engine)
    assert answer.chosen is not None
    if version is None:
        assert answer.chosen.engine_version != engine.rpartition(" ")[2]
    else:
        assert answer.chosen.engine_version == version
        assert version in (answer.chosen.install or "") + answer.chosen.command
    told = " ".join(answer.warnings)
    assert said in told if said else "release" not in told


def test_a_stand_in_has_bounds_that_hold_for_the_models_of_its_size() -> None:
    made = advisor.explain(model="somebody/Whatever-27B-v2", hardware=HARDWARE, context="32k", engine="llama.cpp")
    other = advisor.explain(model="google/gemma-3-27b-it", hardware=HARDWARE, context="32k", engine="llama.cpp")
    mine, its = made.estimates[0].devices[0], other.estimates[0].devices[0]
    assert mine.low_bytes <= its.total_bytes <= mine.high_bytes


@pytest.mark.parametrize("use", ["translate", "extract", "summarise"])
def test_uses_of_texts_have_an_answer(use: str) -> None:
    answer = advisor.recommend(hardware=HARDWARE, use_case=use)
    assert answer.chosen is not None
    assert answer.workload.use_case == use
