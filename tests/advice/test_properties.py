"""What must hold for any machine, model and workload."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.session import Session

RULES = catalog()
CARDS = [
    "RTX 3060 12GB", "RTX 4090", "RTX 5090", "Tesla P40", "Tesla V100 16GB", "Tesla T4", "A100 80GB SXM",
    "H100 80GB SXM",
    "RX 7900 XTX", "MI300X", "Arc B580", "GTX 1050 Ti",
]  # fmt: skip
MODELS = [
    "8B",
    "70B",
    "qwen3:30b-a3b",
    "gemma3:12b",
    "gpt-oss:20b",
    "deepseek-v3",
    "qwen3:0.6b",
    "falcon-h1:7b",
    "bge-m3",
]
hardware = st.one_of(
    st.builds(lambda n, c, r: f"{n}x {c}{r}", st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from(CARDS),
              st.sampled_from(["", ", 32GB RAM", ", 256GB RAM, linux", ", 64GB RAM, windows"])),
    st.sampled_from(["cpu, 8GB RAM", "cpu, 64GB RAM, linux, 16 cores, avx512f, amx_int8", "M3 Max 64GB", "M1 8GB",
                     "cpu"]),
)  # fmt: skip
loads = st.builds(
    Workload,
    use_case=st.sampled_from(["chat", "rag", "code", "batch", "voice", "develop"]),
    concurrency=st.sampled_from([1, 2, 5, 16, 100]),
    context=st.sampled_from([None, 2048, 8192, 65536]),
    priority=st.sampled_from([None, "ease", "throughput", "latency"]),
    structured_output=st.booleans(),
)
questions = st.tuples(hardware, st.sampled_from(MODELS), loads)


def ask(hw: str, model: str, load: Workload, **more: object):
    return recommend(RecommendRequest(find_machine(hw, RULES), load, model, **more), Session(RULES))


@pytest.mark.slow
@settings(max_examples=120)
@given(questions)
def test_advice_is_sound(q: tuple[str, str, Workload]) -> None:
    advice = ask(*q)
    offered = [x for x in [advice.chosen, *advice.alternatives] if x]
    named = [i for name, i in advice.named.items() if i is not None and name != "simplest"]  # of the chosen engine
    names = [x.engine for x in offered if not any(x is advice.alternatives[i] for i in named)]
    assert len(set(names)) == len(names)
    assert not set(names) & {r.engine for r in advice.rejected}
    for x in offered:
        assert x.memory is not None
        assert x.memory.fits is not False or x.memory.disk is not None, (
            x.engine
        )  # never what our own estimate says does not fit
        assert RULES.engine(x.engine).health.status != "archived"
        floor = RULES.engine(x.engine).floors.get("default")
        for d in advice.machine.usable_devices:
            if floor and floor.nvidia_compute_capability and d.compute_capability and d.vendor == "nvidia":
                assert float(d.compute_capability) >= float(floor.nvidia_compute_capability), x.engine
    for r in advice.rejected:
        assert r.reasons, r.engine
        assert all(reason.code and reason.text for reason in r.reasons)
    if advice.chosen is None:
        assert advice.remedies or not advice.rejected
    assert advice.trace


@settings(max_examples=12)
@given(questions)
def test_advice_is_deterministic(q: tuple[str, str, Workload]) -> None:
    assert msgspec.json.encode(ask(*q).to_dict()) == msgspec.json.encode(ask(*q).to_dict())


@settings(max_examples=25)
@given(st.sampled_from(MODELS), loads, st.sampled_from([8, 12, 16, 24, 32, 48, 64, 96, 128, 256]))
def test_more_memory_never_turns_a_fit_into_none(model: str, load: Workload, ram: int) -> None:
    small = ask(f"cpu, {ram}GB RAM, linux", model, load).chosen
    large = ask(f"cpu, {2 * ram}GB RAM, linux", model, load).chosen
    if small is not None and small.memory is not None and small.memory.fits:
        assert large is not None
        assert large.memory is not None
        assert large.memory.fits


@pytest.mark.parametrize("model", MODELS)
def test_what_is_given_is_kept(model: str) -> None:
    load = Workload(context=4096, concurrency=2, full_length=True)
    advice = ask("1x A100 80GB SXM, 512GB RAM, linux", model, load)
    for x in [advice.chosen, *advice.alternatives]:
        if x and x.memory and x.holds and not x.holds.waiting:
            assert (x.memory.context_length, x.memory.sequences) == (4096, 2), x.engine


def test_unknown_names_raise() -> None:
    with pytest.raises(AdvisorError):
        ask("RTX 4900", "8B", Workload())
    with pytest.raises(AdvisorError):
        ask("RTX 4090", "9Bee", Workload())


@pytest.mark.slow
def test_a_model_is_chosen_for_every_use_everywhere() -> None:
    for turn, use in enumerate(("chat", "code", "embeddings", "edge", "voice", "batch", "rag", "agent", "develop")):
        for place, hw in enumerate(
            (
                "1x RTX 4090, 64GB RAM",
                "cpu, 8GB RAM",
                "M1 8GB",
                "8x H100 80GB SXM, 1TB RAM",
                "1x GTX 1050 Ti, 16GB RAM",
            )
        ):
            if (turn + place) % 2:
                continue
            advice = recommend(RecommendRequest(find_machine(hw, RULES), Workload(use_case=use)), Session(RULES))
            assert advice.chosen is not None, (use, hw)
            assert advice.chosen.memory is not None
            assert advice.chosen.memory.fits, (use, hw, advice.chosen.model)
