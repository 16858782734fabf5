"""What a trial learns, holds and plans, and what a deployment holds: worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
from test_layouts import make
from test_search_by_hand import RULES, asked, attempt, memory, row, tools

from advisor.deployment import (
    Deployment,
    Interval,
    MemoryEstimate,
    SpeedEstimate,
    Workload,
)
from advisor.estimation import estimate, find_machine
from advisor.planning.candidates import (
    Bounds,
    PlannedCopy,
    Trial,
    count_held,
    make_plan,
    note_failure,
)
from advisor.planning.holding import Holding, find_holding, with_one_request
from advisor.planning.holding import make_traffic as traffic_of
from advisor.planning.traffic import read_traffic
from advisor.planning.types import CardLayout, SearchRequest, TriedFormat
from advisor.session import Session

# --- trials


def trial(request: SearchRequest, engine: str = "vllm", offload: bool = False) -> Trial:
    return Trial(tools(engine, request), request, attempt("BF16", offload=offload), Bounds(), [])


def test_what_is_learned_of_a_failure() -> None:
    request = asked("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM")
    d = make("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM")
    rows = (row(high_bytes=5, budget_bytes=1, low_bytes=5), row(high_bytes=7, budget_bytes=1, low_bytes=7))

    def noted(found: MemoryEstimate, of: Deployment = d, offload: bool = False) -> tuple[TriedFormat, bool]:
        here = trial(request, "llama.cpp" if offload else "vllm", offload)
        note_failure(here, of, found)
        return here.tried[0], here.bounds.floor[offload] < 1e9

    known, learned = noted(memory(*rows, short=("x",)))
    assert (known.fits, known.quantization, known.needs_bytes, learned) == (False, "BF16", 12, True)
    assert noted(memory(*rows))[1] is False  # short of nothing that is known
    assert noted(memory(row(), *rows, short=("x",)))[0].needs_bytes is None
    assert noted(memory(short=("x",), host=row(high_bytes=9)))[0].needs_bytes == 9
    assert noted(memory(short=("x",)))[0].needs_bytes is None
    assert noted(memory(*rows, short=("x",)), offload=True)[0].needs_bytes is None
    part = msgspec.structs.replace(d, machine=find_machine("1x RTX 4090, 64GB RAM", RULES))
    assert noted(memory(*rows, short=("x",)), part)[1] is False
    assert noted(memory(*rows, short=("x",)), msgspec.structs.replace(d, machine=None))[1] is True


def test_what_a_copy_holds() -> None:
    """Typical requests, whose common beginning is kept once; of full length where all may be so long."""
    d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=1)
    found = estimate(d, Session(RULES))
    counts = {}
    for name, work in (("usual", {}), ("shared", {"shared_prefix": 0.9}), ("full", {"full_length": True})):
        counts[name] = count_held(trial(asked("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", **work)), d, found)
    assert counts["full"] < counts["usual"] < counts["shared"]
    longer = 8192 / 1450  # whole requests: the last one may be almost there
    assert 0.75 * counts["usual"] / longer - 1 <= counts["full"] <= 1.25 * counts["usual"] / longer


def test_a_plan_of_several_copies() -> None:
    request = asked("Qwen/Qwen3-8B", "2x RTX 4090, 64GB RAM", concurrency=400)
    d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=4)
    d = msgspec.structs.replace(d, machine=request.machine, device_count=1)
    found = estimate(d, Session(RULES))
    one = Interval(value=100.0, low=50.0, high=200.0)
    speed = SpeedEstimate(output_tps=one, tpot_s=one, ttft_s=one, prefill_tps=one)
    single = make_plan(trial(request), PlannedCopy(d, found, CardLayout(), speed, True))
    double = make_plan(trial(request), PlannedCopy(d, found, CardLayout(), speed, None, 2, 2))
    assert single.speed is not None
    assert double.speed is not None
    assert (single.speed.output_tps, single.servers, single.on_time) == (one, 1, True)
    assert double.speed.output_tps == Interval(value=200.0, low=100.0, high=400.0)
    assert (double.servers, double.on_time, double.offload) == (2, None, False)
    assert single.holds is not None
    assert double.holds is not None
    assert double.holds.typical == 2 * single.holds.typical
    assert single.holds.waiting == 400 - single.holds.typical
    assert single.holds.wait_s is not None


# --- holding


def held_by(d: Deployment, found: MemoryEstimate, **work: Any) -> Any:
    traffic = read_traffic(Workload(**({"use_case": "chat"} | work)), None, RULES)
    return find_holding(d, found, traffic, Session(RULES))


def test_the_ladder_of_lengths() -> None:
    """The context and its halves, four at most, none below 512 tokens."""

    def ladder(context: int) -> list[int]:
        d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=context, sequences=1)
        found = held_by(d, estimate(d, Session(RULES)))
        assert found.starts is True
        held = [x.held for x in found.holds.ladder]
        assert held == sorted(held)
        assert found.holds.full_length == held[0]
        return [x.context_length for x in found.holds.ladder]

    assert ladder(8192) == [8192, 4096, 2048, 1024]
    assert ladder(2048) == [2048, 1024, 512]
    assert ladder(1023) == [1023]
    assert ladder(1024) == [1024, 512]


def test_who_waits() -> None:
    d = make("Qwen/Qwen3-8B", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=1)
    found = estimate(d, Session(RULES))
    few = held_by(d, found, concurrency=2).holds
    assert (few.asked, few.waiting, few.wait_s, few.shared_prefix) == (2, 0, None, 0.0)
    many = held_by(d, found, concurrency=1000).holds
    assert many.waiting == 1000 - many.typical
    full = held_by(d, found, concurrency=1000, full_length=True).holds
    assert full.waiting == 1000 - full.full_length
    # what requests have in common is kept once: of a prompt of 1,200 tokens a quarter
    common = held_by(d, found, concurrency=1000, shared_prefix=0.25).holds
    assert common.shared_prefix == 0.25
    assert common.typical > many.typical
    twice = find_holding(d, found, read_traffic(Workload(concurrency=1000), None, RULES), Session(RULES), 2).holds
    assert twice is not None
    assert (twice.typical, twice.full_length) == (2 * many.typical, 2 * many.full_length)
    assert [x.held for x in twice.ladder] == [2 * x.held for x in many.ladder]
    slots = make("llama3.1:8b", "1x RTX 4090, 64GB RAM", "llama.cpp", "Q4_K_M", context_length=8192, sequences=3)
    assert held_by(slots, estimate(slots, Session(RULES)), shared_prefix=0.5).holds.shared_prefix == 0.0


def test_what_does_not_start_holds_nothing() -> None:
    d = make("meta-llama/Llama-3.1-70B-Instruct", "1x RTX 4090, 64GB RAM", context_length=8192, sequences=4)
    found = held_by(d, estimate(d, Session(RULES)))
    assert (found.starts, found.holds) == (False, None)


def test_one_request_of_a_deployment_that_holds_fewer_than_asked() -> None:
    """Slots are counted down until they fit: 24 GiB hold some of 64, 1 GiB each, next to 4.6 GiB of weights."""
    entry = RULES.engine("llama.cpp")
    d = make("llama3.1:8b", "1x RTX 4090", "llama.cpp", "Q4_K_M", context_length=8192, sequences=64,
             settings={"n-gpu-layers": "all"})  # fmt: skip
    found = estimate(d, Session(RULES))
    assert found.fits is False
    one = with_one_request(d, found, entry, Session(RULES))
    assert one is not None
    assert one[0].sequences == 1
    assert one[1].fits
    held = find_holding(d, found, traffic_of(d, found, RULES), Session(RULES)).holds
    assert held is not None
    assert {x.held for x in held.ladder} == {held.full_length}
    n = held.full_length
    assert 10 < n < 24
    assert estimate(msgspec.structs.replace(d, sequences=n), Session(RULES)).fits
    assert not estimate(msgspec.structs.replace(d, sequences=n + 1), Session(RULES)).fits
    # what fits, one request, and slots that the launch itself sets are taken as they are
    fitting = msgspec.structs.replace(d, sequences=2)
    assert with_one_request(fitting, estimate(fitting, Session(RULES)), entry, Session(RULES)) == (
        fitting,
        estimate(fitting, Session(RULES)),
    )
    fixed = msgspec.structs.replace(d, settings={**d.settings, "parallel": 64})
    assert with_one_request(fixed, found, entry, Session(RULES)) == (fixed, found)
    single = msgspec.structs.replace(d, sequences=1)
    assert with_one_request(single, found, entry, Session(RULES)) == (single, found)
    bad = msgspec.structs.replace(d, settings={"n-gpu-layers": "no number"})
    assert with_one_request(bad, found, entry, Session(RULES)) is None
    held = find_holding(bad, found, traffic_of(d, found, RULES), Session(RULES))
    assert msgspec.structs.replace(held, start=None) == Holding(None, None)


def test_the_traffic_of_a_deployment_by_itself() -> None:
    d = make("llama3.1:8b", "1x RTX 4090", "llama.cpp", "Q4_K_M", context_length=4096, sequences=5)
    found = estimate(d, Session(RULES))
    usual = traffic_of(d, found, RULES)
    assert (usual.use_case, usual.users, usual.context_length, usual.prompt.mean) == ("chat", 5, 4096, 1200)
    given = traffic_of(d, found, RULES, 100, 20)
    assert (given.prompt.mean, given.output.mean) == (100, 20)
    embedding = make("BAAI/bge-m3", "1x RTX 4090", "llama.cpp", "F16", context_length=4096)
    assert traffic_of(embedding, found, RULES).use_case == "embeddings"
