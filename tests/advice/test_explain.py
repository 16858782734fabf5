"""`explain` says what starts where the deployment does not fit on the cards, and `recommend` says the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from advisor.advice.explain import explain
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.estimation import estimate, find_machine
from advisor.questions.recommend import ExplainQuestion
from advisor.report.explain import describe_explanation
from advisor.session import Session

RULES = catalog()


@pytest.mark.parametrize(
    ("model", "hardware", "engine"),
    [
        ("openai/gpt-oss-120b", "RTX 3090, 128GB RAM", None),
        ("openai/gpt-oss-120b", "2x RTX 3090, 128GB RAM", "ollama"),
        ("meta-llama/Llama-3.3-70B-Instruct", "RTX 3090, 64GB RAM", None),
    ],
)
def test_what_starts_with_layers_in_host_memory_is_what_recommend_says(
    model: str, hardware: str, engine: str | None
) -> None:
    machine = find_machine(hardware, RULES)
    told = explain(ExplainQuestion(model=model, engine=engine, context=8192), machine, Session(RULES))
    assert told.planned is not None
    asked = RecommendRequest(
        machine, Workload(use_case="chat", context=8192), model, told.quantization, told.deployment.engine
    )
    chosen = recommend(asked, Session(RULES)).chosen
    assert chosen is not None
    assert told.planned.command == chosen.command
    assert told.planned.deployment is not None
    assert told.planned.memory is not None
    host = told.planned.memory.host
    assert host is not None
    assert (host.weights_bytes or 0) > 2**30
    assert estimate(told.planned.deployment, Session(RULES)).fits is True
    text = describe_explanation(told)
    assert "What starts here" in text
    assert "host memory" in text
    own = [x.strip() for x in (chosen.command or "").splitlines()]
    assert all(len(x) <= 80 for x in text.splitlines() if x.strip() not in own)
    assert told.to_dict()["planned"]["settings"] == chosen.settings


def test_nothing_is_planned_where_it_fits_or_nothing_starts() -> None:
    small, large = ExplainQuestion(model="Qwen/Qwen3-8B"), ExplainQuestion(model="deepseek-ai/DeepSeek-V3")
    assert explain(small, find_machine("RTX 4090, 64GB RAM", RULES), Session(RULES)).planned is None
    assert explain(large, find_machine("RTX 3060, 16GB RAM", RULES), Session(RULES)).planned is None
    assert explain(small, None, Session(RULES)).planned is None


def test_states_of_fewer_requests_are_counted_where_those_of_all_have_no_room() -> None:
    """vLLM's 256 requests have no blocks of recurrent state on one card of 32 GB; one request does, and says so."""
    machine = find_machine("RTX 5090, 64GB RAM, linux", RULES)
    asked = ExplainQuestion(model="Qwen3.6-27B", engine="vllm", quantization="AWQ", context=32768)
    told = explain(asked, machine, Session(RULES))
    assert told.fits is True
    assert told.limits is not None
    assert told.limits.cards_needed == 1
    assert any("--max-num-seqs 1" in w for w in told.warnings)
    plain = explain(replace(asked, model="qwen3:8b"), machine, Session(RULES))  # without such states
    assert plain.fits is True
    assert not any("--max-num-seqs" in w for w in plain.warnings)
