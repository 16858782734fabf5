"""Sixty faults that people make, one at a time in files that were well: `check` names each."""

from __future__ import annotations

import re
from functools import cache

import pytest
from launching import RULES, launch, rendered

from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, FileResult, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook

CARDS = "2x H100 80GB SXM"
KNOWLEDGE = Knowledge(RULES)
BOOK = Rulebook(KNOWLEDGE)


@cache
def good(engine: str, target: str) -> tuple[str, str]:
    """(file name, text) of a rendered file."""
    model = "Qwen/Qwen3-32B" if engine in ("vllm", "sglang", "tgi") else "qwen3:8b"
    ranks = {"vllm": "tensor-parallel-size", "sglang": "tp-size", "tgi": "num-shard"}
    settings = {ranks[engine]: 2} if engine in ranks else {}
    made = rendered(launch(engine, hardware=CARDS, model=model, settings=settings), target)
    return made.name, made.content


@cache
def checked(name: str, text: str) -> FileResult:
    options = CheckOptions(on=CARDS)
    return check_source(text, name, None, make_checker(BOOK, options))


def named(name: str, text: str) -> set[str]:
    """Rules that name something, and verdicts that are not "fits"."""
    found = checked(name, text)
    return {f.rule for f in found.findings} | {
        "does not fit" if v.fits is False else "cannot tell" for v in found.verdicts if v.fits is not True
    }


LEN = (r'(--max-model-len["\s-]+)8192', r"\g<1>999999")
NO_GPU = (r"(?s)    deploy:.*?capabilities: \[gpu\]\n", "")
FLASH_OFF = r'\1OLLAMA_FLASH_ATTENTION: "0"\n\1OLLAMA_KV_CACHE_TYPE: "q8_0"\n\g<0>'
# (engine, launch file, what to change, into what, rules that may name it)
FAULTS = [
    ("vllm", "compose", "--max-model-len", "--max-model-lenn", "flag-unknown"),
    ("vllm", "compose", r'( +)- "--max-model-len"', r'\1- "--swap-space"\n\1- "4"\n\g<0>', "swap-space-removed"),
    ("vllm", "compose", r'( +)- "--max-model-len"', r'\1- "--kv-cache-dtype"\n\1- "fp9"\n\g<0>', "kv-dtype-unknown"),
    ("vllm", "compose", r'(size"\n +- )"2"', r'\1"3"', "tp-heads-indivisible world-size-exceeds-gpus"),
    ("vllm", "compose", "count: 2", "count: 1", "world-size-exceeds-gpus"),
    ("vllm", "compose", r'(utilization"\n +- )"[\d.]+"', r'\1"1.4"', "gpu-util-out-of-range"),
    ("vllm", "compose", *LEN, "max-len-above-model"),
    ("vllm", "compose", "8000:8000", "8000:9000", "port-publish-mismatch"),
    ("vllm", "compose", r"HF_TOKEN: .*", 'HF_TOKEN: "hf_abcdefghij0123456789ABCD"', "secret-inline"),
    ("vllm", "compose", r" +ipc: host\n", "", "shm-missing-tp"),
    ("vllm", "compose", r":v0\.33\.0", ":latest", "image-unpinned"),
    ("vllm", "compose", r"      - models:.*\n", "", "hf-cache-not-persistent"),
    ("vllm", "compose", '"0.0.0.0"', '"127.0.0.1"', "loopback-in-container"),
    ("vllm", "compose", "Qwen/Qwen3-32B", "bartowski/Qwen_Qwen3-32B-GGUF", "gguf-in-vllm"),
    ("vllm", "compose", r'( +)- "--max-model-len"', r'\1- "--quantization"\n\1- "awq"\n\g<0>', "quant-on-unquantized"),
    ("vllm", "compose", *NO_GPU, "gpu-not-granted"),
    ("vllm", "compose", "Qwen/Qwen3-32B", "Qwen/Qwen3-23B", "model-id-typo cannot tell"),
    ("vllm", "kubernetes", r' +nvidia.com/gpu: "2"\n', "", "k8s-gpu-limit-missing"),
    ("vllm", "kubernetes", r'(gpu: )"2"', r'\1"1"', "world-size-exceeds-gpus"),
    ("vllm", "kubernetes", "/health,", "/healthy,", "k8s-probe-path"),
    ("vllm", "kubernetes", r"failureThreshold: \d{3}", "failureThreshold: 3", "k8s-probe-too-short"),
    ("vllm", "kubernetes", r" +- name: shm\n +mountPath: /dev/shm\n", "", "k8s-shm-missing"),
    ("vllm", "kubernetes", "type: Recreate.*", "type: RollingUpdate", "k8s-rolling-update-gpu"),
    ("vllm", "kubernetes", r"(limits:[^\n]*\n +memory: )\d+Mi", r"\g<1>4Gi", "k8s-memory-limit-small"),
    ("vllm", "kubernetes", r"progressDeadlineSeconds: \d+", "progressDeadlineSeconds: 60", "k8s-progress-deadline"),
    ("vllm", "kubernetes", r'"--max-model-len"\n +- "8192"', '"--max-model-len 8192"', "flag-unknown"),
    ("vllm", "kubernetes", *LEN, "max-len-above-model"),
    ("vllm", "kubernetes", "sizeLimit: 16Gi", "sizeLimit: 900Gi", "k8s-shm-counts-in-memory"),
    ("vllm", "docker", r" +--gpus all \\\n", "", "gpu-not-granted"),
    ("vllm", "docker", r"(v0\.33\.0 \\\n +)", r"\1vllm serve ", "entrypoint-doubled"),
    ("vllm", "docker", "--max-model-len", '--speculative-config {"method":"mtp"} --max-model-len', "json-arg-quoting"),
    ("vllm", "docker", "--max-model-len", "--use-v2-block-manager --max-model-len", "scheduler-flags-old"),
    ("vllm", "docker", "--max-model-len", "--tool-call-parser hermes --max-model-len", "tool-parser-without-auto"),
    ("vllm", "systemd", "--max-model-len", "--max-modellen", "flag-unknown"),
    ("vllm", "systemd", *LEN, "max-len-above-model"),
    ("vllm", "slurm", r"gpus-per-node=2", "gpus-per-node=1", "world-size-exceeds-gpus"),
    ("vllm", "slurm", "--max-model-len", "--enable-reasoning --max-model-len", "reasoning-flags-old"),
    ("vllm", "kserve", r'(gpu: )"2"', r'\1"1"', "world-size-exceeds-gpus"),
    ("vllm", "kserve", "--max-model-len", "--maxmodellen", "flag-unknown"),
    ("vllm", "skypilot", "H100.*:2", "H100:1", "world-size-exceeds-gpus"),
    ("sglang", "docker", r"(static )[\d.]+", r"\g<1>1.3", "mem-fraction-out-of-range"),
    ("sglang", "docker", r"(tp-size )2", r"\g<1>5", "tp-heads-indivisible world-size-exceeds-gpus"),
    ("sglang", "docker", "--context-length", "--cuda-graph-bs 1 2 --context-length", "sglang-flags-old"),
    ("sglang", "docker", "--tp-size 2", "--reasoning-parser qwen9 --tp-size 2", "flag-bad-value"),
    ("sglang", "docker", r"(context-length )\d+", r"\g<1>999999", "max-len-above-model"),
    ("sglang", "kubernetes", r' +nvidia.com/gpu: "2"\n', "", "k8s-gpu-limit-missing"),
    ("sglang", "kubernetes", r"\{path: /\w+,", "{path: /ready,", "k8s-probe-path"),
    ("sglang", "compose", "30000:30000", "30000:8000", "port-publish-mismatch"),
    ("llama.cpp", "docker", r"(n-gpu-layers |-ngl )\w+", r"\g<1>0", "llama-ngl-zero-on-gpu"),
    ("llama.cpp", "docker", r"--ctx-size \d+", "--ctx-size 999999", "llama-slot-above-train does not fit"),
    ("llama.cpp", "docker", "--ctx-size", "--no-such-flag 1 --ctx-size", "flag-unknown"),
    ("llama.cpp", "docker", "--flash-attn on", "--flash-attn off --cache-type-v q4_0", "llama-kv-quant-needs-fa"),
    ("llama.cpp", "compose", *NO_GPU, "gpu-not-granted ollama-llamacpp-cpu-fallback"),
    ("llama.cpp", "compose", "8080:8080", "8080:9090", "port-publish-mismatch"),
    ("llama.cpp", "systemd", "--ctx-size", "--ctx-sise", "flag-unknown"),
    ("ollama", "compose", r"( +)OLLAMA_CONT", FLASH_OFF, "ollama-kv-quant-needs-fa"),
    ("ollama", "compose", "OLLAMA_NUM_PARALLEL", "OLLAMA_NUM_PARALEL", "ollama-env-unknown"),
    ("ollama", "compose", r"127\.0\.0\.1:11434", "0.0.0.0:11434", "exposed-ollama"),
    ("ollama", "compose", *NO_GPU, "gpu-not-granted ollama-llamacpp-cpu-fallback"),
    ("ollama", "kubernetes", r"\{path: /api/version,", "{path: /health,", "k8s-probe-path"),
    ("ollama", "kubernetes", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_CONTEXT_LENGHT", "ollama-env-unknown"),
    ("tgi", "compose", r'(max-total-tokens"\n +- )"\d+"', r'\1"100"', "tgi-token-budget"),
    ("tgi", "compose", *NO_GPU, "gpu-not-granted"),
]  # fmt: skip


def test_the_files_are_well() -> None:
    files = {(engine, target) for engine, target, *_ in FAULTS}
    assert len(files) >= 15
    for engine, target in files:
        name, text = good(engine, target)
        assert not [f for f in checked(name, text).findings if f.severity == "error"], (engine, target)


def test_faults_are_found() -> None:
    missed = []
    for engine, target, old, new, rules in FAULTS:
        name, text = good(engine, target)
        bad = re.sub(old, new, text)
        assert bad != text, (engine, target, old, "changes nothing")
        more = named(name, bad) - named(name, text)
        if not any(rule in rules for rule in more):
            missed.append((engine, target, old, rules, sorted(more)))
    print(*missed, sep="\n")
    assert len(FAULTS) >= 60
    assert len(missed) <= 0.1 * len(FAULTS), missed


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ollama", "tgi"])
def test_what_is_well_stays_well_with_other_words(engine: str) -> None:
    """Comments and blank lines change nothing."""
    name, text = good(engine, "compose")
    assert named(name, f"# a remark\n\n{text}\n# the end\n") == named(name, text)
