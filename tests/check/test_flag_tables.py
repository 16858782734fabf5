"""The flag tables against the flags that the engines' own parsers were seen to know."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, knowledge, launches, rules_of
from reading import read_yaml

from advisor.checks.resolve import arguments

FOLDER = Path(__file__).resolve().parents[2] / "rules" / "flags"
PROGRAMS = {
    "vllm": "vllm serve m",
    "sglang": "sglang serve --model-path m",
    "llama.cpp": "llama-server -m m.gguf",
    "lmdeploy": "lmdeploy serve api_server m",
    "tensorrt-llm": "trtllm-serve m",
    "tgi": "text-generation-launcher --model-id m",
    "max": "max serve --model m",
    "mlx-lm": "mlx_lm.server --model m",
}


@pytest.mark.parametrize("engine", PROGRAMS)
def test_every_flag_of_the_parser_is_known(engine: str) -> None:
    table = read_yaml((FOLDER / f"{engine}.yaml").read_text())
    flags = [f"--{name}" for name in table["flags"]]
    assert len(flags) > 20
    unknown = []
    for flag in flags:
        (launch,) = launches(f"{PROGRAMS[engine]} {flag} 1\n")
        found = arguments.read_arguments(launch, knowledge())
        if not all(a.known and not a.abbreviated for a in found.given):
            unknown.append(flag)
    assert unknown == []


def test_a_made_up_flag_is_not() -> None:
    for engine, program in PROGRAMS.items():
        (launch,) = launches(f"{program} --no-such-flag-here 1\n")
        assert not all(a.known for a in arguments.read_arguments(launch, knowledge()).given), engine


@pytest.mark.parametrize(
    ("words", "bad"),
    [
        ("-tp 0", True), ("--tensor-parallel-size=-2", True), ("--max-num-seqs 0", True), ("--block-size 0", True),
        ("--max-model-len -2", True), ("--watermark 1", True), ("--max-num-batched-tokens 0.5k", False),
        ("-tp 1", False), ("--max-model-len -1", False), ("--max-model-len auto", False), ("--watermark 0.5", False),
        ("-tp ${TP}", False),
    ],
)  # fmt: skip
def test_numbers_out_of_a_flags_range_are_found(words: str, bad: bool) -> None:
    """Each range is refused by vLLM's own configuration (tests/e2e, slow)."""
    found = check_text(f"vllm serve Qwen/Qwen3-8B {words}\n", fit=False)
    assert ("flag-bad-value" in rules_of(found)) is bad


def test_values_of_quantization_are_formats_of_the_catalogue() -> None:
    known = knowledge().rules.quantizations()
    assert set(knowledge().recognition.quantization_values.values()) <= set(known)


@pytest.mark.parametrize(
    "words",
    [
        "sglang serve --model-path Qwen/Qwen3-8B --context-length 8192 --speculative-algorithm EAGLE3 "
        "--speculative-draft-model-path some-org/private",
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192 "
        """--speculative-config '{"method": "eagle3", "model": "/models/private"}'""",
        "llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -ngl 99 -c 8192 --spec-type draft-dflash "
        "-md /models/private.gguf",
    ],
)
def test_a_draft_of_a_known_method_keeps_no_verdict_open(words: str) -> None:
    (d,) = check_text(f"# advise: on=1x H100 80GB SXM\n{words}\n").verdicts
    assert d.fits is True
    assert d.memory is not None
    assert any("at most" in w for w in d.memory.warnings)
