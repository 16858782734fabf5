"""Names as people and their logs write them, by kinds: each stands for many siblings."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.option_words import find_choice
from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.resolve import resolve_model
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError, BadInput, UnknownName

RULES = catalog([shipped_root()])


@pytest.mark.parametrize(
    ("text", "card", "n"),
    [
        # the graphics of a processor, in every order of its words
        ("Ryzen7 8700G", "radeon-780m", 1),
        ("HP EliteBook with Ryzen 9 AI 375", "radeon-890m", 1),
        ("AI 9 HX 370", "radeon-890m", 1),
        ("Core Ultra 258V, no discrete GPU", "arc-140v", 1),
        ("Ryzen 5 6600H iGPU", "radeon-660m", 1),
        ("Intel(R) Arc(TM) 140T GPU (64GB) (iGPU)", "arc-140t", 1),
        ("NucBox K8", "radeon-780m", 1),
        # the number in a computer's name is no count
        ("Razer Blade 16 RTX 5090 laptop", "rtx-5090-laptop", 1),
        ("Thinkbook 16p G6, RTX 5060 Laptop", "rtx-5060-laptop", 1),
        ("RTX 5090M", "rtx-5090-laptop", 1),
        ("nvidia 3080 max q laptop 16GB", "rtx-3080-laptop", 1),
        # counts
        ("Tesla V100 16GB dual NVLink", "v100-16gb", 2),
        ("双卡RTX 5090", "rtx-5090", 2),
        ("四卡 3090", "rtx-3090", 4),
        ("x3 7900 XTX", "rx-7900-xtx", 3),
        ("8卡 910B", "ascend-910b", 8),
        # brackets, bars, properties
        ("RX 7900 XTX on Windows (and wsl)", "rx-7900-xtx", 1),
        ("2x RTX 3090, no NVLink, 290W cap, KVM/Proxmox passthrough", "rtx-3090", 2),
        ("NVIDIA GeForce RTX 5090 | 32607 MiB", "rtx-5090", 1),
        ("Intel Core i7-14650HX / RTX 5060 Laptop GPU", "rtx-5060-laptop", 1),
        ("3090TI FE 24GB VRAM and 96GB RAM on an AMD 9950X CPU", "rtx-3090-ti", 1),
        ("2x RTX 3090 PCIe Gen4 x8/x8", "rtx-3090", 2),
        # two names of one chip; a letter that means another card; a plural; prose behind a name
        ("Ryzen AI Max+ 395 (Strix Halo) with Radeon 8060S (gfx1151)", "ryzen-ai-max-395", 1),
        ("RTX 4080S", "rtx-4080-super", 1),
        ("two 4080s", "rtx-4080", 2),
        ("RTX 4070 Ti S", "rtx-4070-ti-super", 1),
        ("two T4s, which is what a free session gives you", "t4", 2),
        ("MacBook Pro M3 Max, 16C CPU / 40C GPU, 128 GB unified", "apple-m3-max", 1),
    ],
)
def test_cards(text: str, card: str, n: int) -> None:
    devices = parse_hardware(text, RULES).devices
    assert len(devices) == n
    assert all(d.accelerator is not None and d.accelerator.startswith(card.removesuffix("-16gb")) for d in devices)


@pytest.mark.parametrize(("said", "model"), [("12700k", "i7-12700k"), ("12600k", "i5-12600k"), ("14900k", "i9-14900k")])
def test_processors(said: str, model: str) -> None:
    assert parse_hardware(f"{said}, no GPU, 32GB RAM", RULES).cpu.model == f"Core {model}"


def test_nodes_of_a_cluster() -> None:
    assert parse_hardware("8-node cluster of Sparks", RULES).nodes == 8


@pytest.mark.parametrize(
    "text", ["ThinkPad X1 Carbon Gen 12", "Dell XPS 15", "HP ZBook Firefly, 32GB", "Alienware 15 DA15265"]
)
def test_a_series_is_asked_for_its_chip(text: str) -> None:
    with pytest.raises(BadInput, match="name its card or processor"):
        parse_hardware(text, RULES)


def test_an_unknown_card_in_a_known_computer_is_not_left_out() -> None:
    with pytest.raises(UnknownName):
        parse_hardware("Razer Blade 16 RTX 5095", RULES)
    with pytest.raises(BadInput, match="names a card"):
        parse_hardware("RTX 4090, no discrete GPU", RULES)


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("huihui-ai/Huihui-Qwen3.8-27B-abliterated-GGUF", "Qwen/Qwen3.8-27B"),
        ("qwen3.8:27b-mtp-q4_K_M", "Qwen/Qwen3.8-27B"),
        ("Qwen3_6-35B-A3B-Uncensored-HauhauCS-Aggressive-IQ2_M", "Qwen/Qwen3.6-35B-A3B"),
        ("Tencent Hy3-preview 295B-A21B", "tencent/Hy3-preview"),
        ("AIKAR-1-mini (Gemma 4 E2B finetuned)", "google/gemma-4-E2B-it"),
        ("Qwen3-Coder-Next-int4-ov", "Qwen/Qwen3-Coder-Next"),
        ("Kimi-K2-Instruct:1t:Q4_K_XL", "moonshotai/Kimi-K2-Instruct"),
        ("GLM-5.3-Flash DevQuasar Q2_K Medium GGUF", "zai-org/GLM-5.3-Flash"),
        ("Anubis-70B-v1.1", "meta-llama/Llama-3.3-70B-Instruct"),
        ("dolphin-mixtral:latest", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
    ],
)
def test_models(name: str, id: str) -> None:
    found = resolve_model(name, RULES)
    assert id in (
        found.model.id,
        (found.note or "").rpartition(" is taken as ")[2].partition(",")[0].partition(" in ")[0],
    )


@pytest.mark.parametrize(
    "name",
    [
        "EAGLE3-Qwen3-8B",
        "Qwen3-8B-Reranker",
        "LLaVA-Qwen2-7B-ov",
        "Bunny-Llama-3-8B-V",
        "whatever-7b",
        "ZAYA2-8B",
        "gemma3:28b",
    ],
)
def test_what_has_other_layers_is_not_the_base(name: str) -> None:
    with pytest.raises(AdvisorError):
        resolve_model(name, RULES)


def test_a_build_by_its_name_is_answered_and_said() -> None:
    entry, said = RULES.find_served_engine("somebodys-vllm")
    assert entry.id == "vllm"
    assert said is not None
    assert "by its name alone" in said
    for name in ("vllmx", "not an engine"):
        with pytest.raises(UnknownName):
            RULES.find_served_engine(name)


@given(st.text(max_size=80))
def test_any_text_is_a_machine_or_one_error(text: str) -> None:
    with suppress(AdvisorError):
        parse_hardware(text, RULES)


@pytest.mark.parametrize(
    ("said", "use"),
    [("AI PR reviews", "code"), ("Chat with your documents: ask PDFs", "rag"), ("running Claude Code here", "agent")],
)
def test_a_use_in_a_phrase(said: str, use: str) -> None:
    choices = ("chat", "rag", "agent", "code", "batch")
    assert find_choice(said, choices) == use
    assert find_choice("knitting patterns", choices) == "knitting patterns"


@pytest.mark.parametrize(
    ("said", "engine"),
    [("latest LMStudio", "lm-studio"), ("ROCm llama.cpp 2.22.1", "llama.cpp"), ("vLLM 0.33", "vllm")],
)
def test_an_engine_with_its_release(said: str, engine: str) -> None:
    assert RULES.find_served_engine(said)[0].id == engine
