"""Rates that are answered, shares and factors, and unlike cards: worked out by hand."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from test_search_by_hand import RULES, asked, memory, row
from test_traffic_parts import make_traffic
from test_trials_by_hand import trial

from advisor.deployment import (
    Holds,
    Interval,
    KvCache,
    SpeedEstimate,
)
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning import arrange, search
from advisor.planning.candidates import _rank_step
from advisor.planning.resident import count_need
from advisor.planning.rules import PlanRules, load_plan_rules
from advisor.planning.traffic import MOST_SERVERS, _wait_of_arrivals
from advisor.planning.types import CardLayout, Plan, Rejection, TriedFormat
from advisor.session import Session

# --- rates, shares and rules


def plan_with(output: float | None, **more: Any) -> Plan:
    around = Interval(value=output, low=output / 2, high=2 * output) if output is not None else None
    nothing: Any = None
    fields: dict[str, Any] = {"speed": SpeedEstimate(output_tps=around)} | more
    return Plan(nothing, nothing, RULES.quantization("Q8_0"), False, (), (), **fields)


def test_what_answers_a_rate() -> None:
    """Two requests a second of 250 tokens, twice as many in a busy moment, times 1.15 to spare: 1,150 tokens/s."""
    request = asked("llama3.1:8b", "1x RTX 4090", rate=2.0, burst=2.0)
    assert search.answers_rate(plan_with(1150.0), request, 1.15) is True
    assert search.answers_rate(plan_with(1149.0), request, 1.15) is False
    safe = asked("llama3.1:8b", "1x RTX 4090", rate=2.0, burst=2.0, confidence="safe")
    assert search.answers_rate(plan_with(2300.0), safe, 1.15) is True
    assert search.answers_rate(plan_with(2299.0), safe, 1.15) is False
    assert search.answers_rate(plan_with(None), request, 1.15) is None
    assert search.answers_rate(plan_with(None, speed=None), request, 1.15) is None
    assert search.answers_rate(plan_with(None), asked("llama3.1:8b", "1x RTX 4090"), 1.15) is True
    # an embedding is one token of output
    embedding = asked("BAAI/bge-m3", "1x RTX 4090", use_case="embeddings", rate=100.0)
    assert embedding.traffic.output.mean == 0
    assert search.answers_rate(plan_with(115.1), embedding, 1.15) is True
    assert search.answers_rate(plan_with(114.9), embedding, 1.15) is False


def test_copies_of_a_plan() -> None:
    assert plan_with(1.0, servers=3).copies == 3
    assert plan_with(1.0, servers=3, layout=CardLayout(data=2)).copies == 6
    assert plan_with(1.0, servers=3, layout=CardLayout(data=2, dp_attention=True)).copies == 3
    waiting = Holds(asked=3, typical=2, full_length=1, waiting=1, wait_s=None, shared_prefix=0.0, ladder=())
    assert plan_with(1.0).holds_all
    assert not plan_with(1.0, holds=waiting).holds_all
    assert plan_with(1.0, holds=replace(waiting, waiting=0)).holds_all


def test_formats_that_would_have_been_wider() -> None:
    for name, fits, larger in (
        ("F16", False, True),
        ("F16", None, False),
        ("Q4_0", False, False),
        ("Q8_0", False, False),
    ):
        tried = TriedFormat(quantization=name, fits=fits, text="x")
        assert search._compare(tried, plan_with(1.0), RULES).larger is larger


def test_engines_of_other_formats_are_named_or_left_out() -> None:
    entry = RULES.engine("vllm")
    request = asked("llama3.1:8b", "1x RTX 4090", "Q4_K_M")
    assert search._foreign_gguf(entry, request, RULES) is not None
    assert search._foreign_gguf(entry, replace(request, asked=frozenset(["vllm"])), RULES) is None
    assert search._foreign_gguf(RULES.engine("llama.cpp"), request, RULES) is None
    for name in (None, "AWQ", "4bit"):
        assert search._foreign_gguf(entry, replace(request, quantization=name), RULES) is None
    refused = search.prepare_engine(entry, request, Session(RULES))
    assert isinstance(refused, Rejection)
    client = search.prepare_engine(RULES.engine("remote-openai"), replace(request, quantization=None), Session(RULES))
    assert isinstance(client, Rejection)


def test_what_a_model_needs_next_to_others() -> None:
    """Of each card at its most, without its cache, and for each user 1,450 tokens of 10 bytes on each of two cards."""
    traffic = make_traffic((1200, 3600), (250, 750), users=3)
    rows = (
        row(high_bytes=1000, total_bytes=5, kv_cache_bytes=100, recurrent_state_bytes=30),
        row(total_bytes=500),
        row(),
    )
    kept = KvCache(bytes_per_token=10)
    assert count_need(memory(*rows[:2], kv_cache=kept), traffic) == 870 + 500 + 3 * 1450 * 10 * 2
    assert count_need(memory(rows[2], kv_cache=kept), traffic) == 3 * 1450 * 10
    assert count_need(memory(host=rows[0], kv_cache=kept), traffic) == 870 + 3 * 1450 * 10
    assert count_need(memory(), traffic) == 0


def test_many_servers_are_counted_as_the_most() -> None:
    """More than 4,096 at once behave like 4,096 at the same load of each."""
    traffic = make_traffic((100, 100), (100, 100), rate=0.9999 * MOST_SERVERS)
    most = _wait_of_arrivals(traffic, MOST_SERVERS, 1.0)
    assert most is not None
    assert most > 0
    twice = _wait_of_arrivals(replace(traffic, rate=0.9999 * 2 * MOST_SERVERS), 2 * MOST_SERVERS, 1.0)
    assert twice == pytest.approx(most / 2)


@pytest.mark.parametrize("name", ["same", "worth_waiting", "behind", "spare", "admitted", "named"])
def test_factors_are_one_or_more(name: str) -> None:
    known = msgspec.structs.asdict(load_plan_rules(RULES))
    assert getattr(PlanRules(**{**known, name: 1}), name) == 1
    with pytest.raises(ValueError, match=rf"plans.{name}` is a factor of 1 or more"):
        PlanRules(**{**known, name: 0.99})


def test_the_rank_that_holds_adapters() -> None:
    """vLLM takes 8, 16, 32, 64 and more; an engine without such steps takes the rank as it is."""
    vllm = RULES.engine("vllm")
    found = [_rank_step(vllm, n, RULES) for n in (1, 8, 9, 16, 17, 64)]
    assert found[1:] == [8, 16, 16, 32, 64]
    assert _rank_step(vllm, 10**6, RULES) is None
    assert _rank_step(RULES.engine("llama.cpp"), 9, RULES) == 9


# --- unlike cards


def test_what_is_better_of_unlike_cards() -> None:
    """Starts; holds all; on time; steps of five percent of the rate; then fewer cards."""
    here = trial(asked("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM", concurrency=9))
    waiting = Holds(asked=3, typical=2, full_length=1, waiting=1, wait_s=None, shared_prefix=0.0, ladder=())
    one, two = CardLayout(devices=(0,)), CardLayout(devices=(0, 1))
    order = [
        plan_with(500.0, starts=None),
        plan_with(500.0, holds=waiting),
        plan_with(500.0, on_time=False),
        plan_with(0.0),
        plan_with(100.0, layout=two),
        plan_with(100.5, layout=one),
        plan_with(120.0, layout=two),
    ]
    ranks = [arrange._worth(here, p) for p in order]
    assert all(a < b for a, b in itertools.pairwise(ranks))
    assert arrange._worth(here, plan_with(0.0))[3] == -1000
    assert arrange._worth(here, plan_with(1.0))[3] == 0


def usable(machine: Machine) -> int:
    return len(machine.usable_devices)


def test_an_attempt_takes_the_cards_that_answer_best() -> None:
    """A card that the model does not fit on is left out of a set of unlike ones."""
    request = asked("Qwen/Qwen3-8B", "1x RTX 4090 + 1x RTX 3060 12GB, 64GB RAM")
    found = arrange.plan_attempt(trial(request))
    assert found is not None
    assert found.starts
    assert found.layout.devices == (0,)
    model: Model = request.model
    assert found.deployment.model == model
    assert found.deployment.environment  # it is told which card
    same = arrange.plan_attempt(trial(asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM")))
    assert same is not None
    assert not same.deployment.environment
