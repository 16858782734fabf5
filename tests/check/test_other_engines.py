"""No rule silences another: a word that the engine's parser never had is named once, whichever special rules exist."""

from __future__ import annotations

import pytest
from checking import check_text, knowledge

from advisor.deployment import OFFLOADED
from advisor.engines.flag_tables import FlagTable

STARTS = {
    "vllm": "# advise: version=0.33.0\nvllm serve Qwen/Qwen3-8B {}\n",
    "sglang": "# advise: version=0.5.23\npython3 -m sglang.launch_server --model-path Qwen/Qwen3-8B {}\n",
    "llama.cpp": "# advise: version=b11434\nllama-server -m /m/a.gguf {}\n",
    "lmdeploy": "# advise: version=0.18.0\nlmdeploy serve api_server Qwen/Qwen3-8B {}\n",
}


def table_of(engine: str) -> FlagTable:
    lookup = knowledge().flags(engine)
    assert lookup is not None
    return lookup.table


def list_foreign(engine: str) -> list[str]:
    """Flags of other engines, those that left included, of which this one has no spelling, prefix or past."""
    mine = table_of(engine)
    spelt = {a.lstrip("-") for e in mine.flags.values() for a in e.a} | set(mine.flags)
    known = spelt | mine.left() | set(mine.gone_before_reading) | {x for f in spelt for x in (f"no-{f}",)}
    known |= {f.replace("enable-", "disable-", 1) for f in spelt}
    others = {f for e in STARTS if e != engine for f in (*table_of(e).flags, *table_of(e).left())}
    own = knowledge().recognition.other_parsers.flags
    return sorted(
        f for f in others if f not in known and f"--{f}" not in own and not any(k.startswith(f) for k in known)
    )


@pytest.mark.parametrize(
    "engine", ["lmdeploy", *(pytest.param(e, marks=pytest.mark.slow) for e in STARTS if e != "lmdeploy")]
)
def test_every_flag_of_another_engine_is_named_once(engine: str) -> None:
    foreign = list_foreign(engine)
    assert len(foreign) > 100
    named = [
        f.message.split()[0]
        for f in check_text(STARTS[engine].format(" ".join(f"--{f}" for f in foreign)), name="serve.sh").findings
        if f.rule in ("flag-unknown", "flag-abbreviated")
    ]
    assert sorted(named) == [f"--{f}" for f in foreign]


def test_underscores_before_a_parser_that_compares_names_as_written() -> None:
    """argparse of SGLang refuses --mem_fraction_static; vLLM's own parser takes it for --mem-fraction-static."""
    found = check_text(STARTS["sglang"].format("--mem_fraction_static 0.8"), name="serve.sh").findings
    assert [f.severity for f in found if f.rule == "flag-unknown"] == ["error"]
    found = check_text(STARTS["vllm"].format("--gpu_memory_utilization 0.8"), name="serve.sh").findings
    assert not [f for f in found if f.rule == "flag-unknown"]


def test_launches_that_differ_in_the_image_alone_are_two() -> None:
    run = "docker run --gpus all --ipc=host vllm/vllm-openai:v0.{}.0 --model Qwen/Qwen3-8B\n"
    assert len(check_text(run.format(30) + run.format(33), name="serve.sh").verdicts) == 2


@pytest.mark.parametrize(
    ("resource", "ranks", "rules"),
    [
        ("nvidia.com/gpu", 2, {"world-size-exceeds-gpus", "k8s-shm-missing"}),
        ("aws.amazon.com/neuron", 2, set[str]()),  # a device has two cores or more, and no NCCL
        ("google.com/tpu", 8, set[str]()),
        ("nvidia.com/mig-3g.40gb", 2, {"world-size-exceeds-gpus", "k8s-shm-missing", "mig-tp"}),
    ],
)
def test_rules_ask_what_kind_of_device_it_is(resource: str, ranks: int, rules: set[str]) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{name: v, image: 'vllm/vllm-openai:v0.33.0',"
        f" args: [Qwen/Qwen3-8B, --tensor-parallel-size, '{ranks}'], resources: {{limits: {{{resource}: 1}}}}}}]}}\n"
    )
    asked = {"world-size-exceeds-gpus", "k8s-shm-missing", "mig-tp"}
    assert {f.rule for f in check_text(pod).findings} & asked == rules


def test_a_server_without_a_table_of_its_own_wants_no_values() -> None:
    """kt-kernel hands SGLang its flags (ktransformers issue 1692): which of them are switches is not known here."""
    line = "python -m sglang.launch_server --model deepseek-ai/DeepSeek-V3 --kt-method AMXINT4 --trust-remote-code\n"
    assert knowledge().flags("ktransformers") is None
    assert not {f.rule for f in check_text(line, name="serve.sh").findings if f.severity == "error"}


def test_the_format_of_a_file_in_the_hubs_cache_is_in_its_name() -> None:
    """vllm issue 28691: the folder names the repository, the file its format."""
    path = "/models/models--Qwen--Qwen3-8B-GGUF/snapshots/f54435e6/Qwen3-8B-{}.gguf"
    for kind in ("Q4_K_M", "Q8_0"):
        line = f"# advise: on=1x RTX 5090\nvllm serve {path.format(kind)} --max-model-len 8192\n"
        (verdict,) = check_text(line, name="serve.sh").verdicts
        assert verdict.quantization == kind


@pytest.mark.parametrize(
    ("comment", "engine", "release"),
    [
        ("# ollama 0.17.4", "ollama", "0.17.4"),
        ("# Ollama: 0.17.4 (Windows)", "ollama", "0.17.4"),
        ("# tested with ollama v0.17.4", "ollama", "0.17.4"),
        ("# ollama >= 0.17", "ollama", None),  # what it needs, not what runs
        ("# ollama 0.17 crashes with this model", "ollama", None),
        ("# llama.cpp b9849, Vulkan build", "ollama", None),
        ("# llama.cpp b9849, Vulkan build", "llama.cpp", "b9849"),
    ],
)
def test_a_comment_that_names_a_release_alone_states_it(comment: str, engine: str, release: str | None) -> None:
    """How scripts say what has no line of a package manager; the last above the launch counts."""
    line = {"ollama": "ollama run qwen3:8b", "llama.cpp": "llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192"}[engine]
    (verdict,) = check_text(f"{comment}\n{line}\n", name="serve.sh").verdicts
    assert (verdict.engine_version if verdict.version_from == "a comment in the file" else None) == release


def test_a_length_under_a_wrappers_own_flag_is_that_of_the_engine_inside() -> None:
    line = "# advise: on=2x RTX 3090\nlms load google/gemma-4-31b --context-length {}\n"
    short, long = (check_text(line.format(n), name="serve.sh").verdicts[0].memory for n in (8192, 80000))
    assert short is not None
    assert long is not None
    assert short.context_length < long.context_length
    assert abs(long.context_length - 80000) < 256


def test_layers_off_the_card_are_said_where_it_fits() -> None:
    line = "# advise: on=RTX 3060 12GB, 64GB RAM\nllama-server -m Qwen3-14B-Q4_K_M.gguf -c 4096 -ngl {}\n"
    for layers, said in ((20, True), (99, False)):
        (verdict,) = check_text(line.format(layers), name="serve.sh").verdicts
        assert verdict.memory is not None
        assert any("only 20 of 41 layers" in w and OFFLOADED in w for w in verdict.memory.warnings) is said
