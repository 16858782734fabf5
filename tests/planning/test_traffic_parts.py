"""What requests look like and how long they wait, against figures worked out by hand and published tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Holds, Interval, Workload
from advisor.errors import BadInput
from advisor.estimation import find_machine
from advisor.machines.types import Machine
from advisor.planning.resident import share_machine
from advisor.planning.trace import TraceRequest, read_requests, read_trace, summarise_requests
from advisor.planning.traffic import TokenSpread, Traffic, erlang_c, estimate_wait, expect_users, read_traffic
from advisor.session import Session

RULES = catalog([shipped_root()])


# chat: 1,200 + 250 tokens in the mean, 95th percentile three times that, 8,192 at most (rules/workloads.yaml)
@pytest.mark.parametrize(
    ("given", "trained", "context", "prompt", "output"),
    [
        ({}, None, 8192, (1200, 3600), (250, 750)),
        ({}, 4096, 4096, (1200, 3600), (250, 750)),
        ({}, 2048, 2048, (1200, 1798), (250, 750)),
        ({}, 131072, 8192, (1200, 3600), (250, 750)),
        ({"context": 1000}, None, 1000, (750, 750), (250, 250)),
        ({"context": 400}, None, 400, (200, 200), (200, 200)),
        ({"context": 32768}, 8192, 32768, (1200, 3600), (250, 750)),
        # 3 x 2,732 + 750 = 8,946: the next multiple of 1,024 is 9,216
        ({"prompt_tokens": 2732}, None, 9216, (2732, 8196), (250, 750)),
        ({"prompt_tokens": 2732}, 9000, 9000, (2732, 8196), (250, 750)),
        ({"prompt_tokens": 2000}, None, 8192, (2000, 6000), (250, 750)),
        # 3 x 2,480.67 + 750: 8,192 exactly stays 8,192, one token more is a step more
        ({"prompt_tokens": 100, "prompt_p95": 7442}, None, 8192, (100, 7442), (250, 750)),
        ({"prompt_tokens": 100, "prompt_p95": 7443}, None, 9216, (100, 7443), (250, 750)),
        # 50,000 + 750 in steps of 1,024; a percentile alone bounds the mean
        ({"prompt_p95": 50000}, None, 51200, (1200, 50000), (250, 750)),
        ({"prompt_p95": 50000}, 8192, 8192, (1200, 7942), (250, 750)),
        ({"prompt_p95": 500}, None, 8192, (500, 500), (250, 750)),
        ({"output_tokens": 5000}, None, 19456, (1200, 3600), (5000, 15000)),
        ({"output_tokens": 100, "output_p95": 90}, None, 8192, (1200, 3600), (100, 100)),
    ],
)
def test_lengths_of_a_workload(
    given: dict[str, int], trained: int | None, context: int, prompt: tuple[int, int], output: tuple[int, int]
) -> None:
    found = read_traffic(Workload(use_case="chat", **given), trained, RULES)  # type: ignore[arg-type]
    assert found.context_length == context
    assert (found.prompt.mean, found.prompt.p95) == prompt
    assert (found.output.mean, found.output.p95) == output
    assert found.typical_tokens == prompt[0] + output[0]


def make_traffic(prompt: tuple[int, int], output: tuple[int, int], **more: object) -> Traffic:
    (a, b), (c, d) = prompt, output
    fields = {"use_case": "chat", "context_length": 8192, "users": 1} | more
    return Traffic(prompt=TokenSpread(mean=a, p95=b), output=TokenSpread(mean=c, p95=d), **fields)  # type: ignore[arg-type]


def test_tokens_of_several_requests() -> None:
    """4 requests of 1,100 tokens with a standard deviation of 1,000: 1,645 above the mean is the 95th percentile, and
    together they are 4,400 and 2.326 times 2,000."""
    assert make_traffic((1000, 2645), (100, 100)).safe_tokens(4) == 4400 + 4652
    assert make_traffic((1000, 1000), (100, 100)).safe_tokens(4) == 4400
    # deviations of both parts: 3,000 and 4,000 make 5,000
    assert make_traffic((1000, 5935), (1000, 7580)).safe_tokens(1) == 2000 + 11630


def test_shared_tokens() -> None:
    assert make_traffic((1000, 1000), (100, 100), shared_prefix=0.25).shared_tokens == 250
    assert make_traffic((1000, 1000), (100, 100)).shared_tokens == 0


@pytest.mark.parametrize(
    ("given", "users"),
    [
        ({"concurrency": 7}, 7),
        ({"rate": 2.0, "tpot_s": 0.05, "output_tokens": 100}, 10),
        ({"rate": 2.0, "tpot_s": 0.05, "output_tokens": 101}, 11),
        ({"rate": 2.0, "tpot_s": 0.05, "output_tokens": 100, "burst": 2.0}, 20),
        ({"rate": 2.0, "target_tps": 20.0, "output_tokens": 100}, 10),
        ({"rate": 2.0, "tpot_s": 0.05, "output_tokens": 100, "concurrency": 50}, 50),
        ({"rate": 2.0, "output_tokens": 100}, 13),  # half of the slowest of 0.125 s between tokens
        ({"rate": 2.0}, 32),  # 250 tokens of a chat
    ],
)
def test_users_that_a_rate_comes_to(given: dict[str, float], users: int) -> None:
    assert expect_users(Workload(use_case="chat", **given), RULES) == users  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("servers", "load", "share"),
    [(1, 0.5, 0.5), (1, 0.9, 0.9), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (5, 4.0, 0.5541), (10, 8.0, 0.4092)],
)
def test_erlang_c_as_in_tables(servers: int, load: float, share: float) -> None:
    """C(1, a) = a, C(2, 1) = 1/3, C(3, 2) = 4/9; the others as printed tables of the formula have them."""
    assert erlang_c(servers, load) == pytest.approx(share, abs=1e-4)


def make_holds(asked: int, typical: int, full: int, waiting: int) -> Holds:
    return Holds(
        asked=asked, typical=typical, full_length=full, waiting=waiting, wait_s=None, shared_prefix=0.0, ladder=()
    )


def test_waiting_of_users_who_ask_again() -> None:
    took = Interval(value=10.0, low=5.0, high=20.0)
    nobody = make_traffic((100, 100), (100, 100))
    found = estimate_wait(make_holds(12, 4, 2, 8), nobody, took)
    assert found is not None
    assert (found.low, found.value, found.high) == (10.0, 20.0, 40.0)  # 8 wait for 4
    assert estimate_wait(make_holds(4, 4, 2, 0), nobody, took) is None
    assert estimate_wait(make_holds(4, 0, 0, 4), nobody, took) is None  # nobody is served
    one = estimate_wait(make_holds(3, 1, 1, 2), nobody, took)
    assert one is not None
    assert one.value == 20.0
    assert estimate_wait(make_holds(12, 4, 2, 8), nobody, None) is None


def test_waiting_at_a_rate() -> None:
    """One server, equal lengths: M/D/1, rho / (2 mu (1 - rho)). Deviations as large as the mean: M/M/1, twice that."""
    took = Interval(value=1.0, low=0.5, high=3.0)
    equal = make_traffic((100, 100), (100, 100), rate=0.5)
    found = estimate_wait(make_holds(1, 1, 1, 0), equal, took)
    assert found is not None
    assert found.value == pytest.approx(0.5 / (2 * 0.5))
    assert found.low == pytest.approx(0.5 * 0.25 / (2 * 0.75))
    assert found.high is None  # 0.5 x 3 s is more than one server can do
    unequal = make_traffic((100, 100), (1000, 2645), rate=0.5)
    twice = estimate_wait(make_holds(1, 1, 1, 0), unequal, took)
    assert twice is not None
    assert twice.value == pytest.approx(1.0)
    no_output = make_traffic((1000, 2645), (0, 0), rate=0.5)
    prompts = estimate_wait(make_holds(1, 1, 1, 0), no_output, took)
    assert prompts is not None
    assert prompts.value == pytest.approx(1.0)
    # several servers, and those of full length where all requests may be so long
    whole = make_traffic((100, 100), (100, 100), rate=1.0, full_length=True)
    of_two = estimate_wait(make_holds(1, 4, 2, 0), whole, Interval(value=1.0, low=1.0, high=1.0))
    assert of_two is not None
    assert of_two.value == pytest.approx((1 / 3) / (2 - 1) / 2)
    assert estimate_wait(make_holds(1, 1, 1, 0), make_traffic((1, 1), (1, 1), rate=1.0), took) is None
    assert estimate_wait(make_holds(1, 0, 0, 0), equal, took) is None


def count_free(machine: Machine) -> list[int]:
    return [d.free_bytes if d.free_bytes is not None else -1 for d in machine.devices]


def test_a_machine_is_shared_by_need() -> None:
    card = find_machine("1x RTX 3090, 64GB RAM", RULES)
    total = card.devices[0].total_bytes
    assert total is not None
    one, three = share_machine(card, (1, 3))
    assert count_free(one) == [int(0.97 * 1 / 4 * total)]
    assert count_free(three) == [int(0.97 * 3 / 4 * total)]
    host = find_machine("cpu, 64GB RAM", RULES)
    half, other = share_machine(host, (5, 5))
    room = host.memory.available_bytes or host.memory.usable_bytes
    assert room is not None
    assert half.memory.available_bytes == other.memory.available_bytes == int(0.97 / 2 * room)
    unknown = find_machine("cpu", RULES)
    assert share_machine(unknown, (1, 1)) == [unknown, unknown]
    assert count_free(share_machine(card, (0, 0))[0]) == [0]


@pytest.mark.parametrize(
    ("needs", "cards"),
    [
        ((10, 10), [{0: 0.97}, {1: 0.97}]),  # a card for each
        ((20, 4), [{0: 0.97}, {1: 0.97}]),
        ((10, 10, 5), [{0: 0.97 * 2 / 3}, {1: 0.97}, {0: 0.97 / 3}]),
        ((30, 4), [{0: 0.97 * 15 / 19, 1: 0.97 * 15 / 19}, {0: 0.97 * 4 / 19}]),  # over both, and next to one half
        ((40, 40), [{0: 0.485, 1: 0.485}, {0: 0.485, 1: 0.485}]),  # more than there is: by need, over all
    ],
)
def test_models_side_by_side_get_cards_with_room(needs: tuple[int, ...], cards: list[dict[int, float]]) -> None:
    machine = find_machine("2x RTX 3090, 64GB RAM", RULES)
    total = machine.devices[0].total_bytes or 0
    parts = share_machine(machine, [n * 2**30 for n in needs])
    for part, wanted in zip(parts, cards, strict=True):
        shown = {d.index: (d.free_bytes or 0) / total for d in part.usable_devices}
        assert shown == pytest.approx(wanted, rel=0.01)
    for i in range(2):
        assert sum(d.free_bytes or 0 for p in parts for d in p.usable_devices if d.index == i) <= 0.97 * total + 1


def test_models_with_cards_of_their_own_are_shown_them_only() -> None:
    asked = RecommendRequest(
        find_machine("2x RTX 3090, 64GB RAM, linux", RULES),
        Workload(extra={"swap": "resident"}),
        "qwen3:8b",
        others=("llama3.1:8b",),
    )
    chosen = recommend(asked, Session(RULES)).chosen
    assert chosen is not None
    both = [x.deployment for x in (chosen, *chosen.also) if x.deployment is not None]
    assert {x.environment.get("CUDA_VISIBLE_DEVICES") for x in both} == {"0", "1"}
    assert all(x.command and x.command.startswith("CUDA_VISIBLE_DEVICES=") for x in (chosen, *chosen.also))


def make_requests(times: list[float | None], prompts: list[int], outputs: list[int]) -> list[TraceRequest]:
    return [TraceRequest(t, p, o) for t, p, o in zip(times, prompts, outputs, strict=True)]


def test_means_and_percentiles_of_a_trace() -> None:
    """Of 1 to 20 the mean is 10.5, rounded to even, and the value that 95 % stay below is the 20th."""
    found = summarise_requests(make_requests([None] * 20, list(range(1, 21)), list(range(20, 0, -1))), "t")
    assert (found.requests, found.prompt_mean, found.prompt_p95, found.output_p95) == (20, 10, 20, 20)
    assert (found.rate, found.burst, found.shared_prefix) == (None, 1.0, None)
    more = summarise_requests(make_requests([None] * 40, list(range(40)), [0] * 40), "t")
    assert (more.prompt_p95, more.output_mean, more.output_p95) == (38, 1, 1)
    alone = summarise_requests(make_requests([3.0], [7], [9]), "t")
    assert (alone.prompt_mean, alone.prompt_p95, alone.output_mean, alone.rate, alone.burst) == (7, 7, 9, None, 1.0)
    with pytest.raises(BadInput, match="no request"):
        summarise_requests([], "t")


def test_rate_and_burst_of_a_trace() -> None:
    """11 requests over 100 s are 0.1 a second; all ten gaps are equal, so no moment is busier than 2 in 5 s."""
    even = summarise_requests(make_requests([10.0 * i for i in range(11)], [1] * 11, [1] * 11), "t")
    assert even.rate == pytest.approx(0.1)
    assert even.burst == pytest.approx(1 / 5.0 * 100 / 11)
    # 90 of 100 requests in the first 5 s, the others over 95 s more
    times: list[float | None] = [0.05 * i for i in range(90)] + [10.0 * i for i in range(1, 11)]
    busy = summarise_requests(make_requests(times, [1] * 100, [1] * 100), "t")
    assert busy.rate == pytest.approx(99 / 100)
    assert busy.burst == pytest.approx(90 / 5.0 * 100 / 100)
    assert summarise_requests(make_requests([1.0, None], [1, 1], [1, 1]), "t").rate is None


def test_a_common_beginning() -> None:
    """A block counts as common where at least half of the requests have it at its place."""
    blocks = [(1, 2, 3), (1, 2, 4), (1, 5), (9,)]
    found = summarise_requests([TraceRequest(None, 4096, 1, b) for b in blocks], "t")
    assert found.shared_prefix == pytest.approx(2 * 512 / 4096)
    none = summarise_requests([TraceRequest(None, 4096, 1, b) for b in ((1,), (2,), (3,))], "t")
    assert none.shared_prefix == 0.0
    whole = summarise_requests([TraceRequest(None, 512, 1, (1,))] * 2, "t")
    assert whole.shared_prefix == 0.99


def test_lines_of_traces(tmp_path: Path) -> None:
    azure = tmp_path / "a.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,10,2\n2023-11-16 18:17:05,20,0\n"
    )
    first, second = read_requests(azure)
    assert (first.prompt, first.output, second.prompt, second.output) == (10, 2, 20, 0)
    assert first.at is not None
    assert second.at is not None
    assert second.at - first.at == pytest.approx(1.02004)
    plain = tmp_path / "p.csv"
    plain.write_text(" contexttokens ,GENERATEDTOKENS,timestamp\n1,2,0.5\n3,4,2.5\n")
    assert [r.at for r in read_requests(plain)] == [0.5, 2.5]
    mooncake = tmp_path / "m.jsonl"
    row = {"timestamp": 2500, "input_length": 5, "output_length": 6, "hash_ids": [1, 2]}
    mooncake.write_text(json.dumps(row) + "\n\n" + json.dumps({"input_length": 1, "output_length": 1}) + "\n")
    assert read_requests(mooncake) == [TraceRequest(2.5, 5, 6, (1, 2)), TraceRequest(None, 1, 1, ())]
    assert read_trace(mooncake).requests == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "x,y\n1,2\n", "ContextTokens"),
        ("a.csv", "ContextTokens,GeneratedTokens\n1,-1\n", ":2: '-1' is not a number of tokens"),
        ("a.csv", f"ContextTokens,GeneratedTokens\n{10**8 + 1},1\n", "not a number of tokens"),
        ("a.csv", "ContextTokens,GeneratedTokens,TIMESTAMP\n1,1,noon\n", ":2: 'noon' is not a time"),
        ("a.csv", "ContextTokens,GeneratedTokens,TIMESTAMP\n1,1,inf\n", "is not a time"),
        ("a.jsonl", '{"input_length": 1}\n', ":1: a request wants"),
        ("a.jsonl", '{"input_length": 1, "output_length": 1}\n{\n', ":2: "),
        ("a.jsonl", '{"input_length": 1, "output_length": 1, "hash_ids": "x"}\n', "list of numbers"),
        ("a.jsonl", '{"input_length": 1, "output_length": 1, "timestamp": "x"}\n', "milliseconds"),
        ("a.csv", "ContextTokens,GeneratedTokens\n", "no request"),
    ],
)
def test_what_is_no_trace(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=says):
        read_trace(tmp_path / name)


def test_the_most_tokens_of_a_request(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"ContextTokens,GeneratedTokens\n{10**8},0\n")
    assert read_requests(tmp_path / "a.csv") == [TraceRequest(None, 10**8, 0)]


def test_an_agents_request_goes_on_from_its_session() -> None:
    """1,204 of 153,700 tokens are new (TraceLab); a prompt that is stated is read whole."""
    usual, whole, short = (
        read_traffic(Workload(use_case="agent", **x), None, RULES)  # type: ignore[arg-type]
        for x in ({}, {"prompt_tokens": 12000}, {"output_tokens": 100})
    )
    assert usual.prompt.mean < 0.15 * usual.typical_tokens
    assert (whole.depth, whole.prompt.mean) == (0, 12000)
    assert usual.typical_tokens == whole.typical_tokens
    assert usual.safe_tokens(8) == pytest.approx(whole.safe_tokens(8), rel=0.1)
    assert short.depth == usual.depth
