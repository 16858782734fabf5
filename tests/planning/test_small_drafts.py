"""Drafts for models without a prediction block: which pair, what it costs in memory, when it is taken."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import advisor
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import RankedDeployment
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.estimation import find_machine
from advisor.planning.candidates import find_small_draft
from advisor.session import Session

RULES = catalog()


@pytest.mark.parametrize(
    ("model", "engine", "draft"),
    [
        ("Qwen/Qwen3-32B", "vllm", "Qwen/Qwen3-0.6B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "vllm", "meta-llama/Llama-3.2-1B-Instruct"),
        ("Qwen/Qwen2.5-72B-Instruct", "vllm", None),  # 152,064 tokens, its small ones 151,936
        ("Qwen/Qwen2.5-72B-Instruct", "llama.cpp", "Qwen/Qwen2.5-0.5B-Instruct"),  # takes 128 tokens more or less
        ("Qwen/Qwen3-30B-A3B", "vllm", None),  # nothing is a tenth of what a token goes through
        ("Qwen/Qwen3-4B", "vllm", None),
        ("deepseek-ai/DeepSeek-V3", "vllm", None),  # has a block of its own
        ("BAAI/bge-m3", "vllm", None),
    ],
)
def test_pairs(model: str, engine: str, draft: str | None) -> None:
    found = find_small_draft(RULES.find_model(model), RULES.engine(engine), RULES)
    assert (found.model if found else None) == draft


def test_every_pair_of_the_catalogue_keeps_the_rule() -> None:
    looked = 0
    for row in RULES.model_index():
        if row.stub:
            continue
        large = RULES.find_model(row.id)
        found = find_small_draft(large, RULES.engine("vllm"), RULES)
        if found is not None:
            looked += 1
            small = RULES.find_model(found.model)
            assert small.layout is not None
            assert large.layout is not None
            assert small.layout.vocab_size == large.layout.vocab_size
            assert 10 * small.params_total <= (large.params_active or large.params_total)
            assert small.id.split("/")[0] == large.id.split("/")[0]
    assert looked > 20


def answer(model: str, hardware: str, engine: str, **load: object) -> RankedDeployment:
    asked = RecommendRequest(find_machine(hardware, RULES), Workload(**load), model, engine=engine)  # type: ignore[arg-type]
    chosen = recommend(asked, Session(RULES)).chosen
    assert chosen is not None
    assert chosen.deployment is not None
    return chosen


def test_it_is_taken_for_latency_and_counted() -> None:
    plain = answer("Llama-3.3-70B", "4x H100 80GB SXM, 512GB RAM, linux", "vllm")
    fast = answer("Llama-3.3-70B", "4x H100 80GB SXM, 512GB RAM, linux", "vllm", priority="latency")
    assert plain.deployment is not None
    assert plain.deployment.draft is None
    config = json.loads(str(fast.settings["speculative-config"]))
    assert (config["method"], config["model"]) == ("draft_model", "meta-llama/Llama-3.2-1B-Instruct")
    assert fast.memory is not None
    again = advisor.estimate({
        "model": "Llama-3.3-70B", "engine": "vllm", "engine_version": fast.engine_version,
        "quantization": fast.quantization, "hardware": "4x H100 80GB SXM, 512GB RAM, linux",
        "context_length": 8192, "settings": fast.settings,
    })  # fmt: skip
    assert again.devices == fast.memory.devices  # the name in the command says the same as the plan
    bare = {k: v for k, v in fast.settings.items() if k != "speculative-config"}
    without = advisor.estimate({
        "model": "Llama-3.3-70B", "engine": "vllm", "engine_version": fast.engine_version,
        "quantization": fast.quantization, "hardware": "4x H100 80GB SXM, 512GB RAM, linux",
        "context_length": 8192, "settings": bare,
    })  # fmt: skip
    more = (again.devices[0].weights_bytes or 0) - (without.devices[0].weights_bytes or 0)
    assert 0.2 * 2**30 < more < 1.0 * 2**30  # 1.2 G parameters in 16 bit, over four cards
    assert fast.speed is not None
    assert plain.speed is not None
    assert fast.speed.tpot_s is not None
    assert fast.speed.tpot_s.high / fast.speed.tpot_s.low > 2  # what is accepted depends on the text


def test_many_users_have_no_draft() -> None:
    many = answer("Llama-3.3-70B", "4x H100 80GB SXM, 512GB RAM, linux", "vllm", priority="latency", concurrency=64)
    assert "speculative-config" not in many.settings


def test_the_commands_of_other_engines_pass_the_gate(tmp_path: Path) -> None:
    for engine, flag in (("llama.cpp", "--spec-draft-hf"), ("sglang", "--speculative-draft-model-path")):
        found = answer("qwen3:32b", "2x RTX 4090, 128GB RAM, linux", engine, priority="latency",
                       extra={"speculative": "true"})  # fmt: skip
        assert found.command is not None
        words = shlex.split(found.command)
        assert flag in words
        assert "Qwen3-0.6B" in words[words.index(flag) + 1]
        (tmp_path / f"{engine}.sh").write_text(found.command + "\n")
        checked = advisor.check(tmp_path / f"{engine}.sh", on="2x RTX 4090, 128GB RAM, linux")
        assert [f.message for f in checked.findings if f.severity == "error"] == []
        assert [d.fits for d in checked.deployments] == [True]
