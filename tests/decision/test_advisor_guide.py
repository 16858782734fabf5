"""The merged guide: one row of facts for every leaf, written by hand, with the answer it must give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from effort import calls
from guide_coverage import count_held_nodes
from guide_files import load_guide_file
from hypothesis import given
from hypothesis import strategies as st

from advisor.decision.evaluate import evaluate_guide, evaluate_tree, find_engine_hints, walk_nodes
from advisor.decision.guides import _block, find_unreachable
from advisor.decision.types import FIELDS, Decision, Field

ROOT = Path(__file__).parents[2] / "rules"
ENGINE_IDS = {p.stem for p in (ROOT / "engines").glob("*.yaml")}
GUIDE = load_guide_file(ROOT / "guides" / "advisor.yaml", ENGINE_IDS)

ONE = {"workload.concurrency": 1, "nodes": 1, "os": "linux", "workload.endpoint": False, "workload.use_case": "chat"}
TEAM = {**ONE, "workload.concurrency": 8}
CPU = {"gpu.vendor": "none", "gpu.generation": "cpu"}
MAC = {"gpu.vendor": "apple", "gpu.generation": "apple", "os": "macos"}
RADEON = {"gpu.vendor": "amd", "gpu.generation": "rdna3", "gpu.gfx": "gfx1100", "gpu.vllm_gfx": True}


def nvidia(capability: float, generation: str, card: str = "some-card") -> dict[str, Any]:
    return {
        "gpu.vendor": "nvidia",
        "gpu.compute_capability": capability,
        "gpu.generation": generation,
        "gpu.accelerator": card,
        "gpu.mixed": False,
        "model.exceeds_vram_at_4bit": False,
    }


ADA = nvidia(8.9, "ada", "rtx-4090")
H100 = nvidia(9.0, "hopper", "h100-sxm")
TOO_LARGE = {**ADA, "model.exceeds_vram_at_4bit": True}

LEAVES: list[tuple[str, dict[str, Any], str]] = [
    ("endpoint", {**ONE, **ADA, "workload.endpoint": True}, "remote-openai"),
    ("cloud", {**ONE, **CPU, "workload.cloud": "preferred"}, "cloud-api"),
    ("android", {**ONE, **CPU, "os": "android", "workload.form_factor": "phone"}, "litert-lm llama.cpp mlc-llm"),
    ("ios", {**ONE, **CPU, "os": "ios", "workload.form_factor": "phone"}, "litert-lm mlc-llm llama.cpp"),
    ("browser", {**ONE, **CPU, "os": "browser", "workload.form_factor": "browser"}, "mlc-llm litert-lm"),
    ("browser", {**ONE, **ADA, "os": "windows", "workload.form_factor": "browser"}, "mlc-llm litert-lm"),
    ("microboard", {**ONE, **CPU, "workload.form_factor": "microboard"}, "llama.cpp litert-lm"),
    ("small-device-other", {**ONE, **CPU, "workload.form_factor": "phone", "os": None}, "llama.cpp litert-lm"),
    ("develop", {**ONE, **ADA, "workload.use_case": "develop"}, "transformers"),
    ("develop", {**ONE, **ADA, "workload.stage": "develop"}, "transformers"),
    ("develop", {**ONE, **ADA, "model.only_transformers": True}, "transformers"),
    ("cpu-amx-many", {**TEAM, **CPU, "cpu.amx": True}, "sglang vllm openvino-model-server"),
    ("cpu-avx512-many", {**TEAM, **CPU, "cpu.amx": False, "cpu.avx512": True}, "vllm openvino-model-server"),
    ("ryzen-ai", {**ONE, **CPU, "npu": "ryzen_ai"}, "lemonade llama.cpp"),
    ("intel-npu", {**ONE, **CPU, "npu": "intel"}, "openvino-model-server llama.cpp"),
    ("cpu-easy", {**ONE, **CPU, "workload.priority": "ease"}, "ollama llama.cpp"),
    ("cpu", {**ONE, **CPU}, "llama.cpp ollama"),
    ("cpu", {**TEAM, **CPU, "os": "windows", "cpu.avx512": True}, "llama.cpp ollama"),
    ("apple-cluster", {**ONE, **MAC, "nodes": 3}, "mlx-lm llama.cpp vllm-metal"),
    ("apple-many", {**TEAM, **MAC}, "vllm-metal vllm-mlx"),
    ("apple-mlx", {**ONE, **MAC, "workload.checkpoint_format": "mlx"}, "mlx-lm vllm-metal ollama"),
    ("apple-easy", {**ONE, **MAC, "workload.priority": "ease"}, "ollama llama.cpp"),
    ("apple-one-user", {**ONE, **MAC}, "llama.cpp mlx-lm ollama"),
    ("nvidia-before-volta", {**TEAM, **nvidia(6.1, "pascal")}, "llama.cpp ollama"),
    ("nvidia-windows", {**TEAM, **ADA, "os": "windows"}, "llama.cpp ollama exllamav3"),
    (
        "nvidia-moe-many",
        {**TEAM, **TOO_LARGE, "model.moe": True, "model.ram_enough": True, "cpu.amx": True},
        "ktransformers llama.cpp",
    ),
    (
        "nvidia-moe",
        {**TEAM, **TOO_LARGE, "model.moe": True, "model.ram_enough": True, "cpu.amx": False, "cpu.avx512": False},
        "llama.cpp ollama",
    ),
    ("nvidia-offload", {**ONE, **TOO_LARGE, "model.moe": False}, "llama.cpp ollama"),
    ("nvidia-cluster-few", {**ONE, **H100, "nodes": 2}, "vllm sglang llama.cpp"),
    ("nvidia-exl3", {**ONE, **ADA, "workload.checkpoint_format": "exl3"}, "exllamav3 llama.cpp"),
    ("nvidia-easy", {**ONE, **ADA, "workload.priority": "ease"}, "ollama llama.cpp"),
    ("nvidia-gguf-or-mixed", {**ONE, **ADA, "workload.checkpoint_format": "gguf"}, "llama.cpp ollama"),
    ("nvidia-gguf-or-mixed", {**ONE, **ADA, "gpu.mixed": True}, "llama.cpp ollama"),
    ("nvidia-one-user", {**ONE, **ADA}, "vllm llama.cpp"),
    ("nvidia-one-user", {**ONE, **ADA, "workload.concurrency": 4}, "vllm llama.cpp"),  # four is not yet many
    ("nvidia-volta", {**TEAM, **nvidia(7.0, "volta")}, "lmdeploy llama.cpp"),
    ("nvidia-turing", {**TEAM, **nvidia(7.5, "turing")}, "vllm lmdeploy llama.cpp"),
    ("nvidia-tuned", {**TEAM, **H100, "workload.willing_to_tune": True}, "tensorrt-llm vllm sglang"),
    ("nvidia-many", {**TEAM, **ADA, "workload.willing_to_tune": True}, "vllm sglang lmdeploy max"),  # not a named card
    ("nvidia-nodes", {**TEAM, **H100, "nodes": 2}, "vllm sglang"),
    (
        "nvidia-prefix-or-structured",
        {**TEAM, **H100, "workload.shared_prefix": 0.75, "driver.cuda": "13.0"},
        "sglang vllm lmdeploy max",
    ),
    (
        "nvidia-prefix-or-structured",
        {**TEAM, **H100, "workload.structured_output": True, "driver.cuda": "13.1"},
        "sglang vllm lmdeploy max",
    ),
    (
        "nvidia-many",
        {**TEAM, **H100, "workload.shared_prefix": 0.75, "driver.cuda": "12.9"},
        "vllm sglang lmdeploy max",
    ),
    ("nvidia-many", {**TEAM, **nvidia(12.0, "blackwell_rtx"), "workload.concurrency": 5}, "vllm sglang lmdeploy max"),
    ("nvidia-unknown-card", {**TEAM, **H100, "gpu.compute_capability": None}, "vllm llama.cpp"),
    ("amd-instinct-many", {**TEAM, **RADEON, "gpu.generation": "cdna3", "gpu.gfx": "gfx942"}, "vllm sglang"),
    ("amd-many", {**TEAM, **RADEON}, "vllm llama.cpp"),
    ("amd-instinct", {**ONE, **RADEON, "gpu.generation": "cdna3", "gpu.gfx": "gfx942"}, "vllm sglang llama.cpp"),
    ("amd-windows", {**TEAM, **RADEON, "os": "windows"}, "ollama llama.cpp lemonade"),
    ("amd-apu", {**ONE, **RADEON, "gpu.ollama_gfx": True, "gpu.unified": True}, "llama.cpp ollama"),
    ("amd-listed", {**ONE, **RADEON, "gpu.ollama_gfx": True}, "llama.cpp ollama"),
    ("amd-other", {**ONE, **RADEON, "gpu.ollama_gfx": False}, "llama.cpp ollama"),
    (
        "intel-b-many",
        {**TEAM, "gpu.vendor": "intel", "gpu.generation": "xe2"},
        "vllm sglang openvino-model-server",
    ),
    ("intel-many", {**TEAM, "gpu.vendor": "intel", "gpu.generation": "xe"}, "openvino-model-server vllm"),
    (
        "intel-few",
        {**ONE, "gpu.vendor": "intel", "gpu.generation": "xe2"},
        "llama.cpp openvino-model-server ollama",
    ),
    ("gaudi", {**TEAM, "gpu.vendor": "habana"}, "vllm"),
    ("tpu", {**TEAM, "gpu.vendor": "google"}, "vllm sglang"),
    ("other-makers", {**TEAM, "gpu.vendor": "other"}, "vllm sglang llama.cpp"),
    ("anything-else", {**ONE, "gpu.vendor": "mixed"}, "llama.cpp ollama"),
    ("anything-else", {}, "llama.cpp ollama"),
]


def facts(known: dict[str, Any]) -> dict[str, Any]:
    assert set(known) <= set(FIELDS)
    return {**dict.fromkeys(FIELDS), **known}


@pytest.mark.parametrize(("leaf", "known", "engines"), LEAVES)
def test_every_leaf_gives_its_answer(leaf: str, known: dict[str, Any], engines: str) -> None:
    decision = evaluate_guide(GUIDE, facts(known))
    assert decision.rules == (f"advisor/engine/{leaf}",)
    listed = engines.split()  # an engine may be added to a leaf: those of the row keep their order
    assert [e for e in decision.engines if e in listed] == listed
    assert set(decision.engines) - set(listed) <= ENGINE_IDS


def test_the_table_reaches_every_leaf_of_the_engine_tree() -> None:
    counts = count_held_nodes(GUIDE, [facts(known) for _, known, _ in LEAVES])
    never = [rule for rule, n in counts.items() if rule.startswith("advisor/engine/") and not n]
    assert never == []


def test_facts_made_from_the_tree_reach_every_node() -> None:
    for tree in GUIDE.trees:
        reached = set()
        for node, example in _block(tree.nodes, tree.order, (), (), tree.questions or FIELDS):
            if example is None:
                continue
            rule = f"{GUIDE.name}/{tree.name}/{node.id}"
            steps = {s.rule: s.held for s in evaluate_tree(GUIDE, tree, example).trace}
            assert steps[rule] is True, f"{rule} with {example}"
            reached.add(rule.rsplit("/")[-1])
        assert reached == {n.id for n in walk_nodes(tree.nodes)}


def test_nothing_in_the_guide_is_unreachable() -> None:
    assert list(find_unreachable(GUIDE)) == []


def test_a_leaf_taken_has_a_reason_and_a_source_that_exists() -> None:
    for tree in GUIDE.trees:
        for node in walk_nodes(tree.nodes):
            if not node.nodes:
                assert node.because, node.id
                assert node.source, node.id
                assert set(node.source) <= set(GUIDE.sources), node.id


# overlays, requirements, what is ranked last, quantizations and notes: (facts, what must come out)
ADDED: list[tuple[dict[str, Any], str, Any]] = [
    ({**ONE, **ADA, "workload.models": 2}, "overlay", ("llama-server-router", "llama-swap", "ollama-keep-alive")),
    ({**TEAM, **ADA, "workload.models": 2}, "overlay", ("vllm-sleep-mode", "llama-swap")),
    ({**TEAM, **H100, "nodes": 12, "orchestrator": "kubernetes"}, "overlay", ("llm-d", "dynamo", "ray-serve")),
    ({**TEAM, **H100, "nodes": 2}, "overlay", ("dynamo", "ray-serve", "llm-d")),
    ({**ONE, **ADA, "workload.models": 1}, "overlay", ()),
    ({**ONE, **ADA, "workload.lora_adapters": 3}, "requires", ("lora_multi",)),
    ({**ONE, **ADA, "workload.lora_adapters": 1}, "requires", ()),
    ({**ONE, **ADA, "workload.api": "anthropic"}, "requires", ("anthropic_api",)),
    ({**TEAM, **H100, "nodes": 2, "model.moe": True}, "requires", ("multi_node", "ep")),
    ({**TEAM, **H100, "nodes": 2, "model.moe": True, "model.fits_node": True}, "requires", ()),
    ({**ONE, **ADA, "workload.structured_output": True}, "requires", ("structured_output",)),
    ({**ONE, **ADA, "model.kind": "embedding"}, "requires", ("embeddings",)),
    ({**ONE, **ADA, "workload.vision": True}, "requires", ("multimodal",)),
    ({**ONE, **ADA, "workload.tool_calling": True}, "requires", ("tool_calling",)),
]


@pytest.mark.parametrize(("known", "what", "expected"), ADDED)
def test_what_is_added_to_the_engine(known: dict[str, Any], what: str, expected: object) -> None:
    assert getattr(evaluate_guide(GUIDE, facts(known)), what) == expected


HELD_BACK: list[tuple[dict[str, Any], str, str | None]] = [
    ({**TEAM, **ADA}, "ollama", "concurrency"),
    ({**TEAM, **ADA}, "llama.cpp", "concurrency"),
    ({**ONE, **ADA}, "ollama", None),
    ({**ONE, **MAC, "workload.stage": "production"}, "mlx-lm", "not_for_production"),
    ({**ONE, **MAC}, "mlx-lm", None),
    ({**ONE, **ADA, "workload.use_case": "batch"}, "transformers", "not_for_production"),
    ({**ONE, **H100, "workload.willing_to_tune": False}, "tensorrt-llm", "not_asked_for"),
    ({**ONE, **H100, "workload.willing_to_tune": True}, "tensorrt-llm", None),
    ({**ONE, **ADA, "workload.willing_to_tune": True}, "tensorrt-llm", "not_asked_for"),  # not a named card
]


@pytest.mark.parametrize(("known", "engine", "code"), HELD_BACK)
def test_what_may_not_come_first(known: dict[str, Any], engine: str, code: str | None) -> None:
    reasons = evaluate_guide(GUIDE, facts(known)).held_back.get(engine, ())
    assert [r.code for r in reasons] == ([code] if code else [])
    assert all(r.text and r.source for r in reasons)


QUANTIZATIONS: list[tuple[dict[str, Any], str, str, str]] = [
    ({**nvidia(8.6, "ampere")}, "vllm", "AWQ", ""),
    ({**ADA}, "vllm", "FP8", ""),
    ({**H100}, "sglang", "FP8", ""),
    ({**nvidia(10.0, "blackwell_dc")}, "vllm", "NVFP4", "INT8"),
    ({**nvidia(12.0, "blackwell_rtx")}, "vllm", "NVFP4", "INT8"),
    ({**nvidia(7.5, "turing")}, "vllm", "AWQ", "BF16"),
    ({**nvidia(7.0, "volta")}, "lmdeploy", "AWQ", "BF16 NVFP4"),
    ({**RADEON, "gpu.generation": "cdna3"}, "vllm", "FP8", ""),
    ({**RADEON, "gpu.generation": "cdna2"}, "vllm", "BF16", "FP8"),
    ({**H100, "model.native_quantization": "mxfp4"}, "vllm", "MXFP4", ""),
    ({**H100}, "llama.cpp", "Q4_K_M", ""),
    ({**MAC}, "mlx-lm", "MLX-4bit", ""),
    ({**ADA}, "exllamav3", "EXL3-4.0bpw", ""),
    ({**CPU}, "mlc-llm", "q4f16_1", ""),
    ({**CPU}, "vllm", "AWQ", ""),
]


@pytest.mark.parametrize(("known", "engine", "first", "avoid"), QUANTIZATIONS)
def test_quantization_preference(known: dict[str, Any], engine: str, first: str, avoid: str) -> None:
    hints = find_engine_hints(GUIDE, facts({**ONE, **known}), engine)
    assert hints.quantizations[0] == first
    assert hints.avoid == tuple(avoid.split())


NOTES: list[tuple[dict[str, Any], str, str]] = [
    ({**ONE, **nvidia(6.1, "pascal")}, "llama.cpp", "CUDA 12"),
    ({**ONE, **nvidia(7.0, "volta")}, "ollama", "CUDA 12"),
    ({**TEAM, **ADA}, "ollama", "OLLAMA_NUM_PARALLEL"),
    ({**TEAM, **ADA, "workload.checkpoint_format": "gguf"}, "vllm", "plugin"),
    ({**ONE, **ADA, "workload.stage": "prototype"}, "ollama", "safetensors"),
    ({**TEAM, **ADA, "workload.migrate_from": "ollama"}, "vllm", "not reused"),
    ({**TEAM, **ADA, "workload.migrate_from": "tgi"}, "vllm", "archived"),
    ({**ONE, **H100, "gpu.mig": True}, "vllm", "MIG"),
    ({**ONE, **CPU, "gpu.driver_missing": True}, "llama.cpp", "driver"),
    ({**ONE, **ADA, "workload.checkpoint_format": "exl2"}, "exllamav3", "EXL3"),
    ({**ONE, **CPU}, "litert-lm", "convert"),
    ({**ONE, **CPU}, "mlc-llm", "compiled"),
    ({**ONE, **ADA}, "max", "licence"),
    ({**ONE, **RADEON, "gpu.unified": True}, "llama.cpp", "ttm.pages_limit"),
    ({**ONE, **H100, "gpu.unified": True}, "vllm", "meminfo"),
    ({**ONE, **CPU}, "remote-openai", "client"),
    ({**TEAM, **nvidia(8.6, "ampere")}, "vllm", "weight-only"),
]


@pytest.mark.parametrize(("known", "engine", "word"), NOTES)
def test_notes_for_an_engine(known: dict[str, Any], engine: str, word: str) -> None:
    assert word in " | ".join(find_engine_hints(GUIDE, facts(known), engine).notes)


def test_a_note_stays_away_where_it_does_not_apply() -> None:
    notes = " ".join(find_engine_hints(GUIDE, facts({**ONE, **ADA}), "vllm").notes)
    assert "CUDA 12" not in notes
    assert "OLLAMA" not in notes


def any_value(field: Field) -> st.SearchStrategy[Any]:
    known: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "int": st.integers(-1, 10_000),
        "float": st.one_of(st.floats(-1, 13, allow_nan=False), st.sampled_from([7.0, 7.5, 8.0, 8.9, 0.5])),
        "str": st.sampled_from(["gguf", "exl3", "mlx", "kubernetes", "h100-sxm", "ollama", "anthropic", "x"]),
        "version": st.sampled_from(["12.4", "13.0", "15", "580.95.05"]),
        "enum": st.sampled_from(field.values or ("x",)),
    }
    return st.none() | known[field.type]


ANY_FACTS = st.fixed_dictionaries({name: any_value(field) for name, field in FIELDS.items()})


@given(ANY_FACTS)
def test_any_facts_give_an_answer_and_always_the_same(known: dict[str, Any]) -> None:
    decision = evaluate_guide(GUIDE, known)
    assert decision.engines
    assert len(decision.rules) == 1
    assert decision == evaluate_guide(GUIDE, dict(reversed(known.items())))


@given(ANY_FACTS)
def test_the_trace_is_complete(known: dict[str, Any]) -> None:
    decision = evaluate_guide(GUIDE, known)
    _assert_complete(decision, known)


def _assert_complete(decision: Decision, known: dict[str, Any]) -> None:
    """Walk the engine tree by the trace alone: every node before the one taken was looked at and did not hold."""
    steps = {s.rule: s for s in decision.trace}
    assert len(steps) == len(decision.trace), "no node is looked at twice"
    tree = GUIDE.trees[0]
    nodes, taken = tree.nodes, None
    while nodes:
        for node in nodes:
            step = steps.pop(f"advisor/engine/{node.id}")
            assert all(c.seen == known[c.field] for c in step.conditions)
            if step.held is None:
                assert step.unknown
                assert all(known[f] is None for f in step.unknown)
                assert step.because == f"unknown: {', '.join(step.unknown)}"
            if step.held:
                taken, nodes = node, node.nodes
                break
        else:
            raise AssertionError("a block without an answer")
    assert taken is not None
    assert decision.rules == (f"advisor/engine/{taken.id}",)
    assert not [r for r in steps if r.startswith("advisor/engine/")], "nothing else was looked at"


def test_an_unknown_fact_is_named_in_the_trace() -> None:
    step = next(s for s in evaluate_guide(GUIDE, facts(ONE)).trace if s.rule.endswith("/no-accelerator"))
    assert step.held is None
    assert step.because == "unknown: gpu.vendor"
    assert step.conditions[0].seen is None


def test_an_answer_that_is_remembered_is_that_of_a_fresh_guide() -> None:
    for _, known, _ in (*LEAVES[::12], *LEAVES[::-12]):
        asked = facts(known)
        fresh = load_guide_file(ROOT / "guides" / "advisor.yaml", ENGINE_IDS)
        for tree in GUIDE.trees:
            again = next(t for t in fresh.trees if t.name == tree.name)
            assert evaluate_tree(GUIDE, tree, asked, "held") == evaluate_tree(fresh, again, asked, "held")


def test_a_fact_that_no_condition_reads_asks_for_no_new_answer() -> None:
    asked = facts({**TEAM, **H100})
    evaluate_guide(GUIDE, asked)
    unread = {**asked, "model.name": "another"}
    assert (
        calls(lambda: evaluate_guide(GUIDE, unread)) < calls(lambda: evaluate_guide(GUIDE, {**asked, "nodes": 7})) / 2
    )
