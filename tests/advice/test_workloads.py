"""Workload overlays, order and growth of `recommend`: settings by condition, points by criterion, limits that hold."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import advisor
from advisor.advice.guides import trace_named_guide
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest, ask_guide, load_main_guide
from advisor.advice.types import Advice
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.decision.conditions import GuideFault
from advisor.decision.evaluate import evaluate_guide, find_additions, list_thresholds
from advisor.decision.guides import load_guide
from advisor.decision.types import FIELDS, fill_value, find_fields
from advisor.deployment import Workload
from advisor.errors import BadFile
from advisor.estimation import estimate
from advisor.session import Session

RULES = catalog([shipped_root()])


def ask(hardware: str, model: str, engine: str | None = None, models: tuple[str, ...] = (), **load: Any) -> Advice:
    q = RecommendRequest(
        advisor.machine(hardware),
        msgspec.convert(load, Workload),
        model,
        engine=engine,
        models=1 + len(models),
        others=models,
    )
    return recommend(q, Session(RULES))


@pytest.mark.parametrize(
    ("engine", "load", "wanted", "never"),
    [
        ("vllm", {"lora_adapters": 8, "lora_rank": 24, "concurrency": 3},
         {"enable-lora": True, "max-loras": 3, "max-lora-rank": 32}, ()),
        ("vllm", {"use_case": "voice", "concurrency": 8}, {"max-num-batched-tokens": 1024}, ()),
        ("vllm", {"use_case": "batch", "concurrency": 64}, {"max-num-batched-tokens": 16384}, ()),
        ("vllm", {"extra": {"speculative": "true"}, "lora_adapters": 2},
         {"enable-lora": True}, ("speculative-config",)),
        ("llama.cpp", {"lora_adapters": 2, "extra": {"lora_format": "gguf"}},
         {"lora": "adapter-1.gguf,adapter-2.gguf"}, ()),
        ("llama.cpp", {"extra": {"lock_memory": "true"}}, {"load-mode": "mlock"}, ("mlock",)),
        ("lmdeploy", {"lora_adapters": 2}, {"backend": "pytorch"}, ()),
        ("transformers", {"concurrency": 4}, {"continuous-batching": True}, ()),
    ],
)  # fmt: skip
def test_settings_of_a_workload(
    engine: str, load: dict[str, Any], wanted: dict[str, Any], never: tuple[str, ...]
) -> None:
    chosen = ask("H100 80GB SXM, 256GB RAM, linux", "llama3.1:8b", engine, **load).chosen
    assert chosen is not None
    assert {k: chosen.settings.get(k) for k in wanted} == wanted
    assert all(chosen.launch.because[k] for k in wanted)
    assert not set(never) & set(chosen.settings)
    assert chosen.command is not None
    for name, value in wanted.items():
        assert name in chosen.command
        assert value is True or str(value) in chosen.command


def test_adapters_take_memory_in_the_estimate() -> None:
    bare, loaded = (ask("H100 80GB SXM", "llama3.1:8b", "vllm", lora_adapters=n, concurrency=8).chosen for n in (0, 4))
    assert bare is not None and bare.memory is not None  # noqa: PT018
    assert loaded is not None and loaded.memory is not None  # noqa: PT018
    assert (loaded.memory.devices[0].weights_bytes or 0) > (bare.memory.devices[0].weights_bytes or 0) > 0


def test_prediction_block_of_the_model_itself() -> None:
    load = {"concurrency": 2, "extra": {"speculative": "true"}}
    chosen = ask("H100 80GB SXM", "Qwen/Qwen3.6-27B", "vllm", **load).chosen
    assert chosen is not None
    assert json.loads(str(chosen.settings["speculative-config"]))["method"] == "mtp"
    without = ask("H100 80GB SXM", "llama3.1:8b", "vllm", **load).chosen
    assert without is not None
    assert "speculative-config" not in without.settings
    assert any("draft" in n for n in without.notes)


def test_resident_models_leave_less_of_the_card() -> None:
    load = {"concurrency": 2, "context": 4096, "extra": {"swap": "resident"}}
    alone = ask("RTX A6000", "llama3.1:8b", "vllm", concurrency=2, context=4096).chosen
    beside = ask("RTX A6000", "llama3.1:8b", "vllm", ("qwen3:14b",), **load)
    assert alone is not None
    assert beside.chosen is not None
    assert beside.chosen.settings["gpu-memory-utilization"] < alone.settings["gpu-memory-utilization"]  # type: ignore[operator]
    assert any("stay loaded" in w for w in beside.warnings)


def test_worth_orders_the_answer_and_the_sum_is_shown() -> None:
    a = ask("RTX 4090, 64GB RAM, linux", "llama3.1:8b", concurrency=8)
    assert a.chosen is not None
    others = [x for i, x in enumerate(a.alternatives) if i not in (a.named.get("fastest"), a.named.get("widest"))]
    listed = a.trace and [x for x in (a.chosen, *others) if x.utility.get("place", 0) > -0.3]
    sums = [sum(x.utility.values()) for x in listed or ()]
    assert sums == sorted(sums, reverse=True)
    assert {"format", "wait"} <= set(a.chosen.utility) | {"format"}


def test_growth_limits_are_the_estimators() -> None:
    a = ask("RTX 4090, 64GB RAM, linux", "llama3.1:8b", concurrency=2, context=8192)
    assert a.chosen is not None
    d = a.chosen.deployment
    assert d is not None
    users = int(next(g for g in a.growth if "tokens at once" in g).split("beyond ")[1].split()[0])
    assert estimate(msgspec.structs.replace(d, sequences=users), Session(RULES)).fits is True
    assert estimate(msgspec.structs.replace(d, sequences=users + 1), Session(RULES)).fits is not True


def test_growth_names_the_engine_that_comes_next() -> None:
    a = ask("RTX 4090, 64GB RAM, linux", "llama3.1:8b", concurrency=1, priority="ease")
    assert "from 5 users at once the guide recommends vllm or sglang" in a.growth


def test_growth_does_not_announce_what_is_so_already() -> None:
    """The guide holds llama.cpp back for eight at once; asked for by name, no number is named from which it is."""
    a = ask("RTX 4090, 64GB RAM, linux", "llama3.1:8b", concurrency=8, engine="llama.cpp")
    assert a.chosen is not None
    assert a.chosen.engine == "llama.cpp"
    assert not any("the guide" in g for g in a.growth)


def test_the_guide_is_asked_again_only_where_a_condition_turns() -> None:
    """Skipping counts of users that no condition tells apart changes no answer."""
    guide = load_main_guide(RULES)
    turns = list_thresholds(guide, "workload.concurrency")
    q = RecommendRequest(advisor.machine("RTX 4090, 64GB RAM"), Workload(), "llama3.1:8b")
    seen = ask_guide(q, RULES.find_model("llama3.1:8b"), guide, RULES).facts
    answers = {n: evaluate_guide(guide, {**seen, "workload.concurrency": n}) for n in range(1, 400)}
    for n in range(2, 400):
        if not any(n - 1 <= t <= n for t in turns):
            assert (answers[n].engines, answers[n].held_back) == (answers[n - 1].engines, answers[n - 1].held_back)
    assert len({a.engines for a in answers.values()}) > 1


def test_braces_in_texts_are_fields_that_exist() -> None:
    assert find_fields("{model.heads} of {gpu.count}") == ("model.heads", "gpu.count")
    assert fill_value("{model.heads}", {"model.heads": 64}) == 64
    assert fill_value("a {model.heads} b", {"model.heads": 64}) == "a 64 b"
    assert fill_value("a {model.heads} b", {"model.heads": None}) is None
    raw = {
        "name": "x", "title": "x", "kind": "advice", "as_of": "2026", "sources": {"s": {"title": "t"}},
        "trees": [{"name": "t", "role": "settings", "order": "none", "nodes": [
            {"id": "n", "if": {"field": "gpu.count", "above": 1}, "settings": {"x": "{model.headz}"},
             "because": "b", "source": "s"}]}],
    }  # fmt: skip
    with pytest.raises((BadFile, GuideFault), match="headz"):
        load_guide(raw, "x")


def test_a_setting_whose_field_is_unknown_is_left_out() -> None:
    from advisor.advice.recommend_request import load_main_guide

    known = {**dict.fromkeys(FIELDS), "workload.lora_adapters": 2}
    assert "max-lora-rank" not in find_additions(load_main_guide(RULES), known, "vllm").settings


def test_the_guide_as_a_tree_with_the_path_marked() -> None:
    guide, tree, held = trace_named_guide(
        "advisor", None, {}, advisor.machine("Tesla V100 16GB, linux"), Workload(concurrency=9), RULES
    )
    assert held["nvidia-volta"] is True
    assert held["nvidia-before-volta"] is False
    assert "nvidia-server" not in held  # after the first that holds nothing is looked at
    assert (guide.name, tree.name) == ("advisor", "engine")
    words = ["explain", "--guide", "choosing-a-backend", "--answer", "gpu=amd"]
    shown = CliRunner().invoke(root, words, standalone_mode=False)
    assert "[x] amd: gpu is amd → ollama" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
