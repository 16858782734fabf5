"""The five documents' own trees, against a table written by hand from the documents (a row a leaf, combinations)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guide_coverage import count_held_nodes
from guide_files import load_guide_file

from advisor.decision.evaluate import evaluate_guide
from advisor.decision.guides import find_tree, find_unreachable, parse_answers
from advisor.decision.types import Guide

ROOT = Path(__file__).parents[2] / "rules"
ENGINE_IDS = {p.stem for p in (ROOT / "engines").glob("*.yaml")}
S0, S1 = "choosing-a-backend", "choosing-the-right-inference-framework"
S2, S3 = "inference-engines", "understanding-llms-and-modern-inference-engines"
S4 = "inference-engine-comparison"
TPUT = {"gpu": "nvidia", "want": "max_throughput"}
GPU = {"needs_cloud_api": False, "has_gpu": True}

# guide, tree, answers -> engines, later, overlay
ENGINES: list[tuple[str, str, dict[str, Any], str, str, str]] = [
    (S0, "decision-guide", TPUT, "vllm sglang", "", ""),
    (S0, "decision-guide", {**TPUT, "requests_share_prompt_or_context": True}, "sglang", "", ""),
    (S0, "decision-guide", {**TPUT, "requests_highly_varied": True}, "vllm", "", ""),
    (S0, "decision-guide", {"apple_silicon": True}, "llama.cpp", "", "llama-swap"),
    (S0, "decision-guide", {"needs_cpu_inference": True}, "llama.cpp", "", "llama-swap"),
    (S0, "decision-guide", {"gpu": "amd"}, "ollama", "", ""),
    (S0, "decision-guide", {"gpu": "amd", "want": "easiest_setup_broad_hardware"}, "ollama", "", ""),
    (S0, "decision-guide", {"want": "easiest_setup_broad_hardware"}, "ollama", "", ""),
    (S0, "decision-guide", {"want": "benchmark_before_commit"}, "ollama", "vllm max", ""),
    (S0, "decision-guide", {"gpu": "nvidia"}, "", "", ""),
    (S0, "decision-guide", {"gpu": "intel", "want": "max_throughput"}, "", "", ""),
    (S0, "hardware", {"hardware": "rtx_4090_24gb", "need": "production"}, "vllm sglang", "", ""),
    (S0, "hardware", {"hardware": "rtx_4090_24gb", "need": "easy_or_mixed"}, "ollama", "", ""),
    (S0, "hardware", {"hardware": "rtx_4090_24gb"}, "", "", ""),
    (S0, "hardware", {"hardware": "h100_80gb"}, "vllm", "", ""),
    (S0, "hardware", {"hardware": "h100_80gb", "need": "newer_architectures"}, "max", "", ""),
    (S0, "hardware", {"hardware": "rx_7900_xtx_24gb"}, "ollama", "", ""),
    (S0, "hardware", {"hardware": "apple_m2_m3", "need": "convenience"}, "ollama", "", ""),
    (S0, "hardware", {"hardware": "apple_m2_m3", "need": "max_performance"}, "llama.cpp", "", ""),
    (S0, "hardware", {"hardware": "cpu_only"}, "llama.cpp", "", ""),
    (S1, "tree", {"high_throughput_batching": True}, "vllm sglang max lmdeploy tensorrt-llm", "", ""),
    (S1, "tree", {"limited_hardware": True}, "llama.cpp mlc-llm ollama", "", ""),
    (S1, "tree", {"desktop": True}, "llama.cpp mlc-llm ollama", "", ""),
    (S1, "tree", {"edge": True}, "llama.cpp mlc-llm ollama", "", ""),
    (S1, "tree", {"edge_or_mobile": True}, "mlc-llm llama.cpp", "", ""),
    (S1, "tree", {"local_experiment_or_single_user": True}, "ollama llama.cpp", "", ""),
    (S1, "tree", {"stage_prototype": True}, "ollama", "", ""),
    (S1, "tree", {"stage_production": True}, "vllm sglang max", "", ""),
    (S1, "tree", {"many_clusters_or_regions": True}, "", "", ""),
    (S1, "tree", {"running_tgi": True}, "", "", ""),
    (S1, "tree", {"stage_prototype": True, "stage_production": True}, "ollama vllm sglang max", "", ""),
    (S2, "tree", {"prototyping_or_single_user": True}, "ollama llama.cpp", "", ""),
    (S2, "tree", {"on_device_mobile_edge": True}, "llama.cpp mlx-lm litert-lm", "", ""),
    (S2, "tree", {"self_hosting_on_cluster": True}, "vllm sglang", "", ""),
    (S2, "tree", {"self_hosting_on_cluster": True, "engineering_bandwidth": True}, "vllm sglang", "", ""),
    (
        S2,
        "tree",
        {"self_hosting_on_cluster": True, "engineering_bandwidth": True, "wants_maximum_throughput": True},
        "tensorrt-llm",
        "",
        "",
    ),
    (S2, "tree", {"api_for_customers": True}, "", "", ""),
    (S2, "tree", {"many_fine_tunes": True}, "", "", ""),
    (S3, "tree", {"less_complex_workflow": True, "users_2_to_3": True}, "llama.cpp", "", ""),
    (S3, "tree", {"less_complex_workflow": True}, "", "", ""),
    (S3, "tree", {"more_concurrency_or_bigger_ecosystem": True}, "vllm", "", ""),
    (S3, "frameworks", {"row": "general_multi_user_multi_tenant"}, "vllm", "", ""),
    (S3, "frameworks", {"row": "consumer_gpu_low_concurrency"}, "llama.cpp", "", ""),
    (S3, "frameworks", {"row": "have_nvidia_gpu"}, "tensorrt-llm", "", ""),
    (S3, "frameworks", {"row": "agentic_pipelines"}, "sglang", "", ""),
    (S3, "frameworks", {"row": "quick_experiments"}, "ollama", "", ""),
    (S4, "flowchart", {"needs_cloud_api": True}, "cloud-api", "", ""),
    (S4, "flowchart", {"needs_cloud_api": True, "has_gpu": False}, "cloud-api", "", ""),
    (S4, "flowchart", {"needs_cloud_api": False, "has_gpu": False}, "llama.cpp", "", ""),
    (S4, "flowchart", {**GPU, "production": True}, "vllm remote-openai", "", ""),
    (S4, "flowchart", {**GPU, "production": False}, "transformers", "", ""),
    (S4, "flowchart", {**GPU, "distributed_serving": True}, "remote-openai sglang", "", ""),
    (S4, "flowchart", {**GPU, "throughput_critical": True}, "vllm sglang", "", ""),
    (S4, "flowchart", GPU, "transformers", "vllm", ""),
    (S4, "flowchart", {}, "transformers", "vllm", ""),
    (
        S4,
        "flowchart",
        {**GPU, "production": True, "distributed_serving": True, "throughput_critical": True},
        "vllm remote-openai sglang",
        "",
        "",
    ),
]
# leaves that answer with words or hardware
WORDS: list[tuple[str, str, dict[str, Any], str]] = [
    (S0, "hardware", {"hardware": "h100_80gb"}, "tensor parallel"),
    (S1, "tree", {"high_throughput_batching": True}, "tuning"),
    (S1, "tree", {"many_clusters_or_regions": True}, "distributed inference platform"),
    (S1, "tree", {"running_tgi": True}, "upgrade"),
    (S2, "tree", {"on_device_mobile_edge": True}, "TFLite"),
    (S2, "tree", {"api_for_customers": True}, "battle-tested"),
    (S2, "tree", {"many_fine_tunes": True}, "LoRA"),
]
HARDWARE: list[tuple[dict[str, Any], str]] = [
    ({"eur_per_month": 1400}, "rent cloud|NVIDIA"),
    ({"eur_per_month": 1500}, ""),  # "less than": 1,500 itself is not covered
    ({"eur_once": 1500}, "Intel|AMD"),
    ({"eur_once": 1501}, "NVIDIA RTX 40"),
    ({"eur_once": 3000}, "NVIDIA RTX 40"),
    ({"eur_once": 9000}, "RTX Pro Blackwell"),
    ({"eur_once": 10000}, "RTX Pro Blackwell"),
    ({"eur_once": 10000.5}, "Grace Blackwell|Hopper"),
    ({"eur_per_month": 1000, "eur_once": 20000}, "rent cloud|NVIDIA"),
    ({}, ""),
]


@pytest.fixture(scope="module")
def guides() -> dict[str, Guide]:
    return {name: load_guide_file(ROOT / "guides" / f"{name}.yaml", ENGINE_IDS) for name in (S0, S1, S2, S3, S4)}


@pytest.mark.parametrize(("guide", "tree", "answers", "engines", "later", "overlay"), ENGINES)
def test_the_documents_answer(
    guides: dict[str, Guide], guide: str, tree: str, answers: dict[str, Any], engines: str, later: str, overlay: str
) -> None:
    it = guides[guide]
    decision = evaluate_guide(it, parse_answers(find_tree(it, tree), answers), tree)
    assert decision.engines == tuple(engines.split())
    assert decision.later == tuple(later.split())
    assert decision.overlay == tuple(overlay.split())
    if not engines and not decision.says:
        assert decision.rules == ()
        assert decision.notes, "a gap in the document is stated"
    assert len(decision.verdicts) == len(decision.rules), "our verdict stands next to every leaf"


@pytest.mark.parametrize(("guide", "tree", "answers", "words"), WORDS)
def test_leaves_that_answer_in_words(
    guides: dict[str, Guide], guide: str, tree: str, answers: dict[str, Any], words: str
) -> None:
    it = guides[guide]
    assert words in " ".join(evaluate_guide(it, parse_answers(find_tree(it, tree), answers), tree).says)


@pytest.mark.parametrize(("answers", "hardware"), HARDWARE)
def test_the_budget_chart_answers_with_hardware(
    guides: dict[str, Guide], answers: dict[str, Any], hardware: str
) -> None:
    decision = evaluate_guide(guides[S3], parse_answers(find_tree(guides[S3], "budget"), answers), "budget")
    assert decision.hardware == tuple(hardware.split("|") if hardware else ())
    assert decision.engines == ()


def test_siblings_without_precedence_are_all_reported_and_said(guides: dict[str, Guide]) -> None:
    answers = {**GPU, "production": True, "throughput_critical": True}
    decision = evaluate_guide(guides[S4], parse_answers(find_tree(guides[S4]), answers))
    assert not decision.ranked
    assert any("no order or precedence" in n for n in decision.notes)
    assert [r.rsplit("/")[-1] for r in decision.rules] == ["gpu-production", "gpu-throughput"]


def test_a_document_that_lists_questions_without_precedence_says_so(guides: dict[str, Guide]) -> None:
    answers = {"apple_silicon": True, "want": "easiest_setup_broad_hardware"}
    decision = evaluate_guide(guides[S0], parse_answers(find_tree(guides[S0]), answers))
    assert decision.engines == ("llama.cpp",)
    assert any("which wins" in n for n in decision.notes)


def test_every_branch_of_every_document_is_covered_by_the_tables(guides: dict[str, Guide]) -> None:
    for name, guide in guides.items():
        for tree in guide.trees:
            rows = [a for g, t, a, *_ in [*ENGINES, *WORDS] if (g, t) == (name, tree.name)]
            rows += [a for a, _ in HARDWARE] if tree.name == "budget" else []
            one = Guide(**{f: getattr(guide, f) for f in guide.__struct_fields__ if f != "trees"}, trees=(tree,))
            counts = count_held_nodes(one, [parse_answers(tree, a) for a in rows])
            assert [rule for rule, n in counts.items() if not n] == []


def test_the_documents_load_without_a_complaint(guides: dict[str, Guide]) -> None:
    for guide in guides.values():
        assert list(find_unreachable(guide)) == []
        assert guide.kind == "source"


def test_quantization_and_settings_of_the_cpu_leaf(guides: dict[str, Guide]) -> None:
    decision = evaluate_guide(guides[S0], {"hardware": "cpu_only"}, "hardware")
    assert decision.quantizations == ("Q4_K_M",)
    assert decision.settings == {"n-gpu-layers": 0}


def test_the_refined_leaf_carries_its_own_verdict(guides: dict[str, Guide]) -> None:
    decision = evaluate_guide(guides[S0], {**TPUT, "requests_highly_varied": True}, "decision-guide")
    assert decision.verdicts[0].claims == ("S0-03",)
    assert decision.verdicts[0].word == "stale"
