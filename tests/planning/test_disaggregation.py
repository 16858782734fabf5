"""Servers that read prompts and servers that write answers: times by hand and by simulation, choice, commands."""

from __future__ import annotations

import heapq
import random
import shlex
from pathlib import Path

import msgspec
import pytest
from commands import advise

import advisor
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import RankedDeployment
from advisor.catalog import catalog
from advisor.deployment import Interval, SpeedEstimate, Workload
from advisor.estimation import find_machine
from advisor.planning.disaggregation import StageTimes, list_plan_servers, solve_closed
from advisor.planning.traffic import TokenSpread, Traffic, squared_variation
from advisor.render.copies import make_router_words
from advisor.session import Session

RULES = catalog()
HARDWARE = "8x H100 80GB SXM, 1TB RAM, linux"
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
ASKED = (
    "--on", HARDWARE, "--model", MODEL, "--engine", "vllm", "--concurrency", "48",
    "--prompt-tokens", "4000", "--output-tokens", "250", "--ttft", "8", "--tpot", "0.025",
)  # fmt: skip


def traffic(users: int, prompt: TokenSpread, output: int) -> Traffic:
    written = TokenSpread(mean=output, p95=output)
    return Traffic(use_case="chat", context_length=8192, prompt=prompt, output=written, users=users)


def answer(engine: str, **targets: float) -> RankedDeployment:
    load = Workload(use_case="chat", concurrency=48, prompt_tokens=4000, output_tokens=250, **targets)  # type: ignore[arg-type]
    found = recommend(
        RecommendRequest(find_machine(HARDWARE, RULES), load, MODEL, engine=engine), Session(RULES)
    ).chosen
    assert found is not None
    return found


@pytest.fixture(scope="module")
def split() -> RankedDeployment:
    return answer("vllm", ttft_s=8.0, tpot_s=0.025)


def simulate(users: int, servers: int, prompts: list[float], rest: float) -> tuple[float, float]:
    """(answers a second, mean wait) of users who ask again at once: a server reads one prompt after the other."""
    rng, free, ready = random.Random(5), [0.0] * servers, [0.001 * i for i in range(users)]
    heapq.heapify(free)
    heapq.heapify(ready)
    waits, now = [], 0.0
    for _ in range(20_000):
        now = heapq.heappop(ready)
        begun = max(now, heapq.heappop(free))
        done = begun + rng.choice(prompts)
        heapq.heappush(free, done)
        heapq.heappush(ready, done + rest)
        waits.append(begun - now)
    return len(waits) / now, sum(waits) / len(waits)


@pytest.mark.parametrize(("users", "servers"), [(4, 1), (16, 2), (48, 4), (64, 2)])
def test_the_closed_line_answers_as_many_as_a_simulation(users: int, servers: int) -> None:
    """Prompts of equal and of unlike lengths; the formula is for open arrivals, so it waits longer than users who are
    limited in number do, and is off by 15 % at most."""
    for prompts in ([0.5], [0.2, 0.2, 0.2, 0.2, 1.7]):
        mean = sum(prompts) / len(prompts)
        varied = sum((x - mean) ** 2 for x in prompts) / len(prompts) / mean**2
        tokens = TokenSpread(mean=1000, p95=round(1000 * (1 + 1.645 * varied**0.5)))
        assert squared_variation(tokens) == pytest.approx(varied, abs=0.01)
        found = solve_closed(traffic(users, tokens, 101), servers, StageTimes(mean, 0.25, 0.05))
        rate, wait = found.rate, found.wait
        simulated, waited = simulate(users, servers, prompts, 0.25 + 101 * 0.05)
        assert rate == pytest.approx(simulated, rel=0.15)
        assert rate * (wait + mean + 0.25 + 101 * 0.05) == pytest.approx(users, rel=1e-3)  # Little's law
        assert wait > 0.5 * waited


def test_one_user_never_waits() -> None:
    rate = solve_closed(traffic(1, TokenSpread(mean=1000, p95=1000), 11), 8, StageTimes(0.5, 0.1, 0.04)).rate
    assert rate == pytest.approx(1 / (0.5 + 0.1 + 11 * 0.04), rel=0.01)


@pytest.mark.parametrize(("output", "seconds"), [(0, 100.0), (1, 100.0), (2, 110.0)])
def test_one_slow_user_with_an_answer_of_a_token(output: int, seconds: float) -> None:
    """90 s for the prompt, 10 for each token; an answer has one at least."""
    found = solve_closed(traffic(1, TokenSpread(mean=1000, p95=1000), output), 8, StageTimes(90.0, 0.0, 10.0))
    assert found.rate == pytest.approx(1 / seconds, rel=0.01)
    assert 0 <= found.wait < 1


def test_no_more_is_read_than_the_servers_can() -> None:
    rate = solve_closed(traffic(10_000, TokenSpread(mean=1000, p95=1000), 11), 3, StageTimes(0.5, 0.0, 0.01)).rate
    assert rate == pytest.approx(3 / 0.5, rel=0.01)
    assert rate < 3 / 0.5


def test_it_is_taken_where_equal_copies_miss_a_target(split: RankedDeployment) -> None:
    assert split.plan.prefill is not None
    assert split.layout is not None
    assert split.targets is not None
    assert split.targets.met is True
    assert 0 < split.layout.prefill < split.plan.servers
    assert split.copies == split.plan.servers - split.layout.prefill
    assert split.speed is not None
    assert split.speed.tpot_s is not None
    assert split.speed.tpot_s.value <= 0.025
    assert any("no measurement" in n for n in split.notes)


@pytest.mark.parametrize("targets", [{}, {"ttft_s": 5.0, "tpot_s": 0.05}, {"ttft_s": 0.01, "tpot_s": 0.025}])
def test_it_is_not_taken_where_nothing_asks_for_it_or_it_misses_too(targets: dict[str, float]) -> None:
    assert answer("vllm", **targets).plan.prefill is None


def test_an_engine_without_it_has_equal_copies() -> None:
    assert RULES.engine("lmdeploy").disaggregation is None
    assert answer("lmdeploy", ttft_s=8.0, tpot_s=0.025).plan.prefill is None


def test_tokens_come_faster_than_next_to_prompts(split: RankedDeployment) -> None:
    """The same server with the same requests, but with their prompts, is slower between tokens."""
    assert split.deployment is not None
    assert split.speed is not None
    assert split.speed.tpot_s is not None
    both = advisor.estimate({
        "model": MODEL, "engine": "vllm", "engine_version": split.engine_version, "quantization": split.quantization,
        "hardware": "2x H100 80GB SXM, 1TB RAM, linux", "settings": {"tensor-parallel-size": 2, "max-num-seqs": 48},
        "workload": {"concurrency": 48, "prompt_tokens": 4000, "output_tokens": 250},
    })  # fmt: skip
    assert both.speed is not None
    assert both.speed.tpot_s is not None
    assert split.speed.tpot_s.value < both.speed.tpot_s.value


def test_servers_have_cards_ports_and_handshakes_of_their_own(split: RankedDeployment) -> None:
    servers = list_plan_servers(split.plan, RULES.engine("vllm"))
    assert split.layout is not None
    assert len(servers) == split.plan.servers
    cards = [c for s in servers for c in s.environment["CUDA_VISIBLE_DEVICES"].split(",")]
    assert sorted(cards) == [str(i) for i in split.layout.devices]
    assert (
        len({s.port for s in servers})
        == len({s.environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] for s in servers})
        == len(servers)
    )
    words = make_router_words(servers, split.layout.prefill, "127.0.0.1", 8000, RULES)
    assert words.count("--prefill") == split.layout.prefill
    assert words.count("--decode") == split.plan.servers - split.layout.prefill
    assert {f"http://127.0.0.1:{s.port}" for s in servers} <= set(words)


def test_roles_of_sglang_stand_in_the_settings(split: RankedDeployment) -> None:
    assert split.deployment is not None
    assert split.plan.prefill is not None
    reader, writer = (msgspec.structs.replace(x, engine="sglang") for x in (split.plan.prefill, split.deployment))
    plan = msgspec.structs.replace(split.plan, prefill=reader, deployment=writer)
    servers = list_plan_servers(plan, RULES.engine("sglang"))
    assert split.layout is not None
    reading = servers[: split.layout.prefill]
    assert {s.settings["disaggregation-mode"] for s in reading} == {"prefill"}
    assert {s.settings["disaggregation-mode"] for s in servers[split.layout.prefill :]} == {"decode"}
    announced = [s.settings["disaggregation-bootstrap-port"] for s in reading]
    assert len(set(announced)) == len(reading)
    words = make_router_words(servers, len(reading), "127.0.0.1", 30000, RULES)
    at = words.index("--prefill")
    assert words[at + 1 : at + 3] == [f"http://127.0.0.1:{reading[0].port}", str(announced[0])]


def test_the_script_is_read_back_and_passes_the_gate(split: RankedDeployment, tmp_path: Path) -> None:
    made = advise("render", "--target", "command", "--output", str(tmp_path), *ASKED)
    assert made.returncode == 0, made.stderr
    script = (tmp_path / "run.sh").read_text()
    router = shlex.split(script.strip().splitlines()[-1])
    assert router[0] == "vllm-router"
    assert router[router.index("--port") + 1] == "8000"
    found = advisor.check(tmp_path / "run.sh", on=HARDWARE)
    assert len(found.deployments) == split.plan.servers
    assert all(d.fits for d in found.deployments)
    assert [f for f in found.findings if f.severity == "error"] == []
    refused = advise("render", "--target", "compose", "--output", str(tmp_path / "c"), *ASKED)
    assert refused.returncode == 2
    assert "--target command" in refused.stderr


def test_the_answer_says_who_reads_and_who_writes() -> None:
    text = " ".join(advise("recommend", *ASKED).stdout.split())
    assert "2 servers read prompts, 1 writes" in text
    assert "unused cards" not in text


def test_bounds_hold_the_value(split: RankedDeployment) -> None:
    speed: SpeedEstimate | None = split.speed
    assert speed is not None
    for interval in (speed.ttft_s, speed.tpot_s, speed.output_tps, speed.prefill_tps):
        assert isinstance(interval, Interval)
        assert interval.low <= interval.value <= interval.high
