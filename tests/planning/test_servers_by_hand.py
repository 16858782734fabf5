"""Users at a rate, servers on nodes, answers and traces: worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from test_layouts import make
from test_rates_and_rules_by_hand import plan_with
from test_search_by_hand import RULES, asked, tools
from test_traffic_parts import make_requests
from test_trials_by_hand import trial

from advisor import formats
from advisor.deployment import Interval, KvCache, MemoryEstimate, SpeedEstimate, Workload
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, estimate
from advisor.planning import arrange, search
from advisor.planning.candidates import Attempt
from advisor.planning.holding import answer_request
from advisor.planning.layouts import Unit
from advisor.planning.objective import Arrangement, SizedUnit
from advisor.planning.trace import read_trace, summarise_requests
from advisor.planning.traffic import P99_OF_NORMAL, read_traffic
from advisor.planning.types import CardLayout, Plan, SearchRequest
from advisor.session import Session

# --- a rate of requests


def found_at(hardware: str, rate: float, model: str = "Qwen/Qwen3-8B", **work: Any) -> tuple[Plan, SearchRequest]:
    request = asked(model, hardware, rate=rate, known={}, **work)
    found = search.find_best_plan(RULES.engine("vllm"), request, Session(RULES))
    assert isinstance(found, Plan)
    return found, request


def test_a_rate_is_planned_for_as_so_many_users() -> None:
    """N users and the 2.326 deviations that a random number of arrivals has: N + 2.326 x sqrt(N)."""
    found, request = found_at("1x H100", 1.0)
    assert found.on_time is True
    assert found.holds is not None
    users = found.holds.asked
    assert users in {n + -int(-P99_OF_NORMAL * n**0.5 // 1) for n in range(1, users + 1)}
    assert search.answers_rate(found, request, 1.15)
    more, _ = found_at("1x H100", 4.0)
    assert more.holds is not None
    assert more.holds.asked > users
    most, request = found_at("1x RTX 4090, 64GB RAM", 1000.0)
    assert most.on_time is False
    assert search.answers_rate(most, request, 1.15) is False


def test_speeds_that_are_not_known_are_told() -> None:
    request = asked("Qwen/Qwen3-8B", "1x H100", rate=1.0)
    nameless = tuple(replace(d, accelerator=None) for d in request.machine.devices)
    request = replace(request, machine=replace(request.machine, devices=nameless))
    found = search.find_best_plan(RULES.engine("vllm"), request, Session(RULES))
    assert isinstance(found, Plan)
    assert found.on_time is None
    assert any("whether it keeps up with the rate cannot be determined" in n for n in found.notes)


def at_rate(name: str, rate: float) -> Plan:
    made = make("Qwen/Qwen3-8B", "1x H100", quantization=name, context_length=8192, engine="vllm")
    speed = SpeedEstimate(tpot_s=Interval(value=1 / rate, low=1 / rate, high=1 / rate))
    return replace(
        plan_with(rate), deployment=made, memory=NO_PLACES, quantization=RULES.quantization(name), speed=speed
    )


NO_PLACES = MemoryEstimate(
    fits=True, context_length=8192, sequences=1, devices=(), host=None, kv_cache=KvCache(), basis={}
)


def test_the_format_that_is_worth_the_most() -> None:
    """Twice the rate is worth what FP8 costs and not what a third party's four bits do; an own format is kept."""
    request = asked("Qwen/Qwen3-8B", "1x H100", concurrency=9)
    vllm = tools("vllm", request)

    def take(*rates: float, names: tuple[str, ...] = ("BF16", "FP8", "AWQ"), of: SearchRequest = request) -> str:
        good = [
            (Attempt(formats.FormatChoice(RULES.quantization(n)), "auto", False, False), at_rate(n, r))
            for n, r in zip(names, rates, strict=False)
        ]
        found = search._take_best(good, vllm, of)
        assert found is not None
        return found[0].chosen.quantization.id

    assert take(100.0, 110.0) == "BF16"
    assert take(100.0, 200.0) == "FP8"
    assert take(100.0, 200.0, 220.0) == "FP8"
    assert take(100.0, 500.0, names=("BF16", "EXL3-3.0bpw")) == "BF16"  # nobody offers the other
    native = asked("deepseek-ai/DeepSeek-V3", "8x H200", concurrency=9)
    assert take(100.0, 120.0, names=("FP8", "AWQ"), of=native) == "FP8"


# --- servers


def arranged(users: int, copies: int, held: int = 100, dp: bool = False, **work: Any) -> Plan:
    request = asked("Qwen/Qwen3-8B", "4x RTX 4090, 64GB RAM", concurrency=users, **work)
    d = make("Qwen/Qwen3-8B", "4x RTX 4090, 64GB RAM", context_length=8192, device_count=1)
    layout = CardLayout(devices=(0,), data=2 if dp else 1, dp_attention=dp)
    sized = SizedUnit(Unit(d, 1, layout), estimate(d, Session(RULES)), held)
    return arrange.finish_arrangement(trial(request), Arrangement(sized, copies, None, True, None))


def admitted(plan: Plan) -> Any:
    return plan.deployment.settings["max-num-seqs"]


def test_requests_that_each_copy_admits() -> None:
    """Equal parts of the users, rounded up; at a rate four times as many, as far as they are held."""
    assert (admitted(arranged(10, 1)), admitted(arranged(10, 2)), admitted(arranged(10, 3))) == (10, 5, 4)
    assert admitted(arranged(10, 2, dp=True)) == 3
    assert admitted(arranged(10, 2, rate=1.0)) == 20
    assert admitted(arranged(10, 2, held=12, rate=1.0)) == 12
    assert admitted(arranged(10, 2, held=3, rate=1.0)) == 5
    plan = arranged(10, 2)
    assert plan.layout.data * plan.servers == 2
    assert plan.layout.devices == (0, 1)
    one = arranged(1, 1)
    assert (one.servers, one.deployment.sequences) == (1, 1)
    many = arranged(1000, 1)
    assert many.holds is not None
    assert many.deployment.sequences == many.holds.full_length


def place(users: int, hardware: str, **work: Any) -> Plan | None:
    request = asked("Qwen/Qwen3-8B", hardware, concurrency=users, **work)
    here = replace(
        trial(request, "llama.cpp"),
        attempt=Attempt(formats.FormatChoice(RULES.quantization("Q4_K_M")), "auto", False, False),
    )
    return arrange.plan_attempt(here)


def test_servers_on_nodes() -> None:
    """As few nodes as hold the users in time; for throughput all of them, never more than users."""
    few = place(1, "4x DGX Spark")
    assert few is not None
    assert (few.servers, few.layout.nodes) == (1, 1)
    every = place(8, "4x DGX Spark", priority="throughput")
    assert every is not None
    assert (every.servers, every.layout.nodes, every.deployment.sequences) == (4, 4, 2)
    two = place(2, "4x DGX Spark", priority="throughput")
    assert two is not None
    assert (two.servers, two.layout.nodes) == (2, 2)


# --- answers, traces


def test_answers_about_a_deployment() -> None:
    request = EstimateRequest(model="Qwen/Qwen3-8B", engine="vllm", hardware="1x H100", quantization="BF16")
    found = answer_request(request, Session(RULES))
    assert found.fits
    assert found.starts
    assert found.holds is not None
    odd = replace(request, settings={"no-such-setting": 1})
    assert any("no-such-setting" in w for w in answer_request(odd, Session(RULES)).warnings)
    assert not any("no-such-setting" in w for w in found.warnings)
    with pytest.raises(BadInput, match="no-such-setting"):
        answer_request(odd, Session(RULES), strict=True)
    assert answer_request(request, Session(RULES), strict=True) == found


def test_the_shortest_requests() -> None:
    found = summarise_requests(make_requests([None] * 3, [1, 1, 1], [1, 1, 1]), "t")
    assert (found.prompt_mean, found.prompt_p95, found.output_mean, found.output_p95) == (1, 1, 1, 1)
    traffic = read_traffic(Workload(context=1), None, RULES)
    assert (traffic.prompt.mean, traffic.prompt.p95, traffic.output.mean) == (1, 1, 0)


def test_the_busiest_moment_of_two_requests() -> None:
    """Both in one moment of 5 s, over 4 s in all: 2 in 5 s are 0.4 a second, less than the mean, so 1."""
    together: list[float | None] = [0.0, 4.0]
    assert summarise_requests(make_requests(together, [1, 1], [1, 1]), "t").burst == 1.0
    # 9 in the first moment, then one after 95 s: 9 / 5 s x 95 s / 10
    times: list[float | None] = [*(float(i) / 3 for i in range(9)), 95.0]
    assert summarise_requests(make_requests(times, [1] * 10, [1] * 10), "t").burst == pytest.approx(9 / 5 * 95 / 10)


def test_long_words_are_cut_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"ContextTokens,GeneratedTokens\n{'x' * 50},1\n")
    with pytest.raises(BadInput, match=f":2: '{'x' * 40}' is not a number"):
        read_trace(path)
    path.write_text(f"ContextTokens,GeneratedTokens,TIMESTAMP\n1,1,{'y' * 50}\n")
    with pytest.raises(BadInput, match=f":2: '{'y' * 40}' is not a time"):
        read_trace(path)
