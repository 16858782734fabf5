"""What is given is used, refused or named as without effect: one thing is added to a question at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from advisor.advice import hardware_request
from advisor.advice.effects import ECHO, WhereItMatters
from advisor.advice.recommend import answer as recommend
from advisor.catalog import catalog
from advisor.catalog.documents import decode_document
from advisor.deployment import Workload
from advisor.machines.types import Machine
from advisor.planning.traffic import describe_cut_lengths, read_traffic
from advisor.questions import list_fields, make_asking
from advisor.questions.hardware import HardwareQuestion
from advisor.questions.recommend import RecommendQuestion
from advisor.session import Session

RULES = catalog()
ON = "RTX 4090, 64GB RAM, linux"
# a value of each field that need not matter, apart from those that need others
VALUES: dict[str, Any] = {
    "prompt_p95": 20000, "output_p95": 9000, "burst": 8.0, "confidence": "safe", "full_length": True,
    "depth_tokens": 30000, "shared_prefix": 0.9, "structured_output": True, "tool_calling": True, "vision": True,
    "api": "openai", "lora_rank": 64, "priority": "latency", "stage": "production", "willing_to_tune": True,
    "checkpoint_format": "hf_safetensors", "form_factor": "phone", "cloud": "allowed", "os": "linux",
    "backend": "vulkan",
    "licence": "permissive", "fewest": True, "thinking": False, "min_ability": -9.0, "hours_per_month": 100.0,
    "electricity_price": 0.4, "duty": 0.5, "api_price": 40.0, "exchange_rates": {"GBP": 0.7},
}  # fmt: skip


def ask(question: Any) -> Any:
    asking, session = make_asking(type(question), "cli"), Session(RULES)
    if isinstance(question, HardwareQuestion):
        return hardware_request.answer_question(question, session, asking)
    return recommend.answer_question(question, session, asking, False, False)


def strip(answer: Any) -> Any:
    """An answer without what repeats the question, by a reading of its JSON."""
    body = msgspec.json.decode(msgspec.json.encode(answer))

    def less(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: less(v) for k, v in value.items() if k not in ECHO}
        return [less(v) for v in value] if isinstance(value, list) else value

    return less(body)


@pytest.fixture(scope="module")
def bases() -> dict[type, tuple[Any, Any]]:
    questions = (
        RecommendQuestion(model="qwen3:14b", hardware=ON, context=8192, concurrency=2),
        HardwareQuestion(model="8B", budget="2000EUR", concurrency=2),
    )
    return {type(q): (q, strip(ask(q))) for q in questions}


def test_all_that_need_not_matter_is_a_field() -> None:
    fields = {f.attribute for kind in (RecommendQuestion, HardwareQuestion) for f in list_fields(kind)}
    words = decode_document(catalog(), "effects.yaml", WhereItMatters)
    assert set(words.matters) <= fields
    assert set(words.matters) - {"answers"} == set(VALUES)
    assert set(words.machine_matters) <= set(Machine.__struct_fields__)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k in (RecommendQuestion, HardwareQuestion) for n in VALUES if n in make_asking(k, "cli").names],
)
def test_a_field_changes_the_answer_or_is_named(kind: type[Any], name: str, bases: dict[type, tuple[Any, Any]]) -> None:
    names = make_asking(kind, "cli").names
    question, base = bases[kind]
    answer = ask(replace(question, **{name: VALUES[name]}))
    called = names[name] + (" GBP" if name == "exchange_rates" else "")
    named = [n for n in getattr(answer, "warnings", getattr(answer, "notes", ())) if f"{called} has no effect" in n]
    rest = strip(answer)
    for place in ("warnings", "notes"):
        if place in rest:
            rest[place] = [n for n in rest[place] if " has no effect" not in n]
    assert (rest == base) is bool(named)


def test_each_of_several_is_judged_by_itself() -> None:
    answer = ask(RecommendQuestion(model="qwen3:14b", hardware=ON, rate=2.0, burst=8.0, licence="permissive"))
    told = answer.warnings[0]
    assert told.startswith("--licence has no effect: it matters where no model is named")
    assert "burst" not in told


def test_a_field_by_its_name_in_a_workload() -> None:
    answer = ask(RecommendQuestion(model="qwen3:14b", hardware=ON, workload={"burst": "8"}))
    assert answer.warnings[0] == "--workload burst has no effect: it matters where requests arrive at a rate"


@pytest.mark.parametrize(
    ("on", "word"),
    [("RTX 4090, linux", "WSL2"), (ON, "NVLink"), (ON, "arm64"), (ON, "650W PSU")],
    ids=lambda x: x,
)
def test_a_word_of_the_machine_is_named(on: str, word: str) -> None:
    """WSL2 where the RAM that it halves is not known."""
    answer = ask(RecommendQuestion(model="qwen3:4b", engine="vllm", hardware=f"{on}, {word}"))
    assert any("has no effect" in w and w.lower().startswith(word.lower()[:5]) for w in answer.warnings)


def test_words_that_always_matter_are_not() -> None:
    answer = ask(RecommendQuestion(model="qwen3:4b", engine="vllm", hardware=ON))
    assert not any("has no effect" in w for w in answer.warnings)


@pytest.mark.parametrize("kind", [RecommendQuestion, pytest.param(HardwareQuestion, marks=pytest.mark.slow)])
def test_the_context_holds_the_long_request(kind: type[Any]) -> None:
    """Without a context of its own a plan refuses none of the requests that were stated."""
    more: dict[str, Any] = {"hardware": "2x H100 80GB SXM"} if kind is RecommendQuestion else {"budget": "9000EUR"}
    answer = ask(kind(model="qwen3:14b", concurrency=4, prompt_p95=20000, depth_tokens=10000, **more))
    context = answer.chosen.memory.context_length if kind is RecommendQuestion else answer.context_length
    assert 30000 < context <= 40960


def test_lengths_that_the_context_has_no_room_for_are_told() -> None:
    load = Workload(context=8192, prompt_p95=20000, output_tokens=100)
    assert describe_cut_lengths(load, read_traffic(load, None, RULES)) == (
        "prompt_p95 20,000: a context of 8,192 tokens has no room for that, so such requests are refused"
    )
    fits = Workload(prompt_p95=20000, depth_tokens=4000)
    assert describe_cut_lengths(fits, read_traffic(fits, None, RULES)) is None


def test_a_conversation_that_is_there_already_slows_the_answer() -> None:
    """In one format: another may be chosen for a long one."""
    asked = RecommendQuestion(model="qwen3:4b", hardware=ON, engine="vllm", quantization="BF16", context=32768)
    plain, deep = (ask(replace(asked, depth_tokens=n)) for n in (None, 24000))
    rates = [a.chosen.speed.decode_tps.value for a in (plain, deep)]
    assert rates[1] < 0.95 * rates[0]
    assert deep.chosen.holds.typical < plain.chosen.holds.typical or deep.chosen.holds.typical == 1
