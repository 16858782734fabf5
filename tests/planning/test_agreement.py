"""One deployment has one answer in every command (starts, holds, fits, bytes), and recommendations pass the gate."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

import advisor
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import RankedDeployment
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.engines import settings_entry
from advisor.engines.flags import find_concept
from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.planning.holding import answer_deployment, find_holding
from advisor.planning.traffic import read_traffic
from advisor.session import Session

RULES = catalog()
MACHINES = (
    "1x RTX 3060 12GB, 32GB RAM", "1x RTX 4090, 64GB RAM", "2x RTX 3090, 128GB RAM", "3x RTX 3090, 128GB RAM",
    "8x L40S, 512GB RAM", "1x H100 80GB SXM, 256GB RAM", "8x H100 80GB SXM, 2TB RAM", "8x MI300X, 2TB RAM",
    "M3 Max 64GB", "cpu, 64GB RAM", "1x RTX 4090 + 1x RTX 3060 12GB, 64GB RAM", "1x GB10",
    "1x RTX 4090, 12GiB free, 64GB RAM",
)  # fmt: skip
USES = ("chat", "rag", "agent", "code", "batch", "voice")
KINDS = {"chat": USES, "embedding": ("embeddings",), "reranker": ("embeddings",)}


def questions(seed: int, count: int) -> list[tuple[str, str, Workload]]:
    rng = random.Random(seed)
    rows = [r for r in RULES.model_index() if not r.stub]
    out = []
    for _ in range(count):
        row = rng.choice(rows)
        use = rng.choice(KINDS.get(row.kind, USES))
        load = Workload(use_case=use, concurrency=rng.choice((1, 1, 4, 16, 64, 256)), full_length=rng.random() < 0.1)  # type: ignore[arg-type]
        out.append((rng.choice(MACHINES), row.id, load))
    return out


def answered(hardware: str, model: str, load: Workload) -> list[tuple[RankedDeployment, Workload]]:
    try:
        advice = recommend(RecommendRequest(find_machine(hardware, RULES), load, model), Session(RULES))
    except AdvisorError:
        return []
    return [(x, load) for x in (advice.chosen, *advice.alternatives) if x is not None and x.deployment is not None]


def disagreements(ranked: RankedDeployment, load: Workload) -> list[str]:
    """What the other doors say otherwise of the recommended deployment."""
    deployment, memory = ranked.deployment, ranked.memory
    assert deployment is not None
    assert memory is not None
    out = []
    again = answer_deployment(deployment, Session(RULES))
    if (again.fits, again.devices, again.host, again.disk) != (memory.fits, memory.devices, memory.host, memory.disk):
        out.append("estimate has other bytes")
    # a plan promises the whole length, for as many as ask
    shorter = ranked.starts is None and (memory.longest_served is not None or memory.fits is None)
    if again.starts != ranked.starts and not shorter:
        out.append(f"estimate says starts {again.starts}, recommend {ranked.starts}")
    traffic = read_traffic(load, deployment.model.max_context, RULES)
    holding = find_holding(deployment, memory, traffic, Session(RULES), ranked.plan.servers)
    if ranked.holds is not None and holding.holds is not None:
        same = msgspec.structs.replace(holding.holds, wait_s=ranked.holds.wait_s, asked=ranked.holds.asked)
        if msgspec.structs.replace(same, waiting=ranked.holds.waiting) != ranked.holds:
            out.append(f"holds {holding.holds} and {ranked.holds}")
        if holding.holds.full_length != (again.holds.full_length if again.holds else -1) * ranked.plan.servers:
            out.append("estimate holds another number of full length")
    if ranked.starts and memory.fits is not True and memory.disk is None:
        out.append("it starts, and is sized for more than fits")
    if memory.fits and memory.sequences < 1:
        out.append("it is sized for nobody")
    if ranked.holds is not None and ranked.holds.typical < ranked.holds.full_length:
        out.append("fewer typical requests are held than full ones")
    wanted = min(load.context or 10**9, traffic.context_length)
    if memory.context_length < wanted:
        out.append(f"the context is cut: {memory.context_length} of {wanted}")
    return out


@pytest.mark.parametrize("seed", [0])
def test_commands_agree_about_what_is_recommended(seed: int) -> None:
    looked, wrong = 0, []
    for hardware, model, load in questions(seed, 16):
        for ranked, work in answered(hardware, model, load)[:4]:
            looked += 1
            wrong += [(hardware, model, ranked.engine, work.concurrency, w) for w in disagreements(ranked, work)]
    assert looked >= 26
    assert wrong == []


@pytest.mark.slow
def test_commands_agree_over_many_questions() -> None:
    wrong = []
    for hardware, model, load in questions(100, 200):
        for ranked, work in answered(hardware, model, load):
            wrong += [(hardware, model, ranked.engine, work.concurrency, w) for w in disagreements(ranked, work)]
    assert wrong == []


def full_length_fits(ranked: RankedDeployment, count: int) -> bool | None:
    """What `fits` says of so many requests of full length, by the engine's own arithmetic."""
    assert ranked.deployment is not None
    made = msgspec.structs.replace(ranked.deployment, sequences=count)
    return answer_deployment(made, Session(RULES)).fits


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11])
def test_what_is_held_is_what_fits(seed: int) -> None:
    """So many of full length as `holds` says fit, one more is not sure to: pools and caches that grow, one server."""
    looked = 0
    for hardware, model, load in questions(seed, 30):
        for ranked, _ in answered(hardware, model, load)[:3]:
            deployment, holds = ranked.deployment, ranked.holds
            assert deployment is not None
            fixed = "parallel" in deployment.settings or ranked.engine in (
                "llama.cpp",
                "ollama",
                "exllamav3",
            )  # rings of slots
            if holds is None or not ranked.starts or ranked.copies > 1 or fixed or not holds.full_length:
                continue
            names = find_concept(settings_entry(ranked.engine, RULES.engines()), "sequences").flags
            admitted = next((v for k, v in deployment.settings.items() if k in names), None)
            looked += 1
            assert full_length_fits(ranked, holds.full_length), (hardware, model, ranked.engine, holds)
            states = ranked.memory.kv_cache.state_sequences if ranked.memory is not None else None
            admitted = min((int(x) for x in (admitted, states) if x is not None), default=None)
            if admitted is None or holds.full_length < admitted:
                assert full_length_fits(ranked, holds.full_length + 1) is not True, (
                    hardware, model, ranked.engine, holds,
                )  # fmt: skip
    assert looked >= 10


def errors_of(command: str, hardware: str, folder: Any) -> list[str]:
    path = folder / "serve.sh"
    path.write_text(command + "\n")
    report = advisor.check(path, on=hardware, rules=RULES)
    return [f["rule"] for f in json.loads(json.dumps(report.to_dict()))["findings"] if f["severity"] == "error"]


def test_recommended_commands_pass_the_gate(tmp_path: Any) -> None:
    wrong = []
    for hardware, model, load in questions(7, 10):
        for ranked, _ in answered(hardware, model, load)[:1]:
            if ranked.command and "${" not in ranked.command:
                found = errors_of(ranked.command, hardware, tmp_path)
                wrong += [(hardware, model, load.concurrency, ranked.engine, found)] if found else []
    assert wrong == []


@pytest.mark.slow
def test_recommended_commands_pass_the_gate_over_a_grid(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an answer only the choice is looked at: other plans of its engine are not looked for."""
    monkeypatch.setattr("advisor.advice.recommend.answer.add_named_plans", lambda advice, *_: advice)
    looked, wrong = 0, []
    for hardware, model, load in questions(8, 160):
        for ranked, _ in answered(hardware, model, load)[:1]:
            if ranked.command and "${" not in ranked.command:
                looked += 1
                found = errors_of(ranked.command, hardware, tmp_path)
                wrong += [(hardware, model, load.concurrency, ranked.engine, found)] if found else []
    assert looked >= 100
    assert wrong == []


ASKED = {
    None: (None, "q4", "fp8"),
    "vllm": (None, "FP8", "AWQ"),
    "llama.cpp": (None, "Q4_K_M"),
    "sglang": (None, "AWQ"),
}


def statuses(rng: random.Random, folder: Any) -> tuple[Any, ...] | None:
    """Exit statuses of one question as `explain` and `recommend` give them, and as `check` does for the command;
    None where the question cannot be asked."""
    model = rng.choice([r.id for r in RULES.model_index() if not r.stub and r.kind == "chat"])
    engine = rng.choice(list(ASKED))
    weights, hardware = rng.choice(ASKED[engine]), rng.choice(MACHINES)
    length = rng.choice((4096, 8192, 32768))
    try:
        explained = advisor.explain(model, weights, machine=hardware, engine=engine, context_length=length, rules=RULES)
        named = {"engine": explained.engine, "quantization": explained.quantization}
        advice = advisor.recommend(hardware, model=model, context_length=length, rules=RULES, **named)
    except AdvisorError:
        return None
    status = explained.exit_status
    chosen = advice.chosen
    if chosen is None:
        return (model, hardware, engine, weights, length), status, 1, None
    command = chosen.command or ""
    checked = None
    from_disk = chosen.memory is not None and chosen.memory.disk is not None  # it starts; the gate says it does not fit
    if chosen.starts and command and "${" not in command and not from_disk:
        (folder / "serve.sh").write_text(command + "\n")
        checked = advisor.check(folder / "serve.sh", on=hardware, rules=RULES).status()
    return (model, hardware, engine, weights, length), status, chosen.exit_status, checked


def differ(seed: int, count: int, folder: Any) -> tuple[int, list[tuple[Any, ...]]]:
    rng = random.Random(seed)
    found = [x for x in (statuses(rng, folder) for _ in range(count)) if x is not None]
    # what is too close to call with the engine's own share of memory that is shared with the host (explain) is refused
    # with the share that the planner leaves to the host
    close = [x for x in found if x[1:3] == (2, 1) and "GB10" in x[0][1]]
    return len(found), [x for x in found if x not in close and (x[1] != x[2] or x[3] not in (None, x[2]))]


@pytest.mark.slow
def test_explain_recommend_and_check_have_one_exit_status(tmp_path: Any) -> None:
    looked, wrong = differ(3, 12, tmp_path)
    assert looked >= 8
    assert wrong == []


@pytest.mark.slow
def test_exit_statuses_agree_over_many_questions(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an answer only the choice is looked at: other plans of its engine are not looked for."""
    monkeypatch.setattr("advisor.advice.recommend.answer.add_named_plans", lambda advice, *_: advice)
    looked, wrong = differ(4, 200, tmp_path)
    assert looked >= 180
    assert wrong == []
