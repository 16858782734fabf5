"""Every rule fires on its failing snippet and not on its passing one; safe fixes make the failing one pass."""

from __future__ import annotations

import re

import pytest
from checking import check_text, every_rule, rules_of

from advisor.checks.rules.edits import apply_edits
from advisor.checks.rules.load import RuleEntry
from advisor.errors import BadInput, UnknownName

ENTRIES = [r.entry for r in every_rule().all.values()]
FIXABLE = [e for e in ENTRIES if e.edit]


def ids(e: RuleEntry) -> str:
    return e.id


def test_there_are_many() -> None:
    assert len(ENTRIES) >= 150
    assert len([e for e in ENTRIES if e.default]) >= 150


@pytest.mark.parametrize("e", ENTRIES, ids=ids)
def test_failing_snippet(e: RuleEntry) -> None:
    assert e.bad is not None
    found = check_text(e.bad)
    hits = [f for f in found.findings if f.rule == e.id]
    assert hits
    for f in hits:
        assert f.fix.strip()
        assert 1 <= f.line <= len(e.bad.splitlines())
        for text in (f.message, f.fix):
            assert not re.search(r"\{[a-z]+[\w.-]*\}", text.replace("{method:mtp}", "")), text
            assert "unknown" not in text or "unknown" in e.message, text


@pytest.mark.parametrize("e", ENTRIES, ids=ids)
def test_passing_snippet(e: RuleEntry) -> None:
    assert e.good is not None
    found = check_text(e.good)
    assert e.id not in rules_of(found)
    assert found.verdicts  # silence of a text that nothing reads would prove nothing


@pytest.mark.parametrize("e", FIXABLE, ids=ids)
def test_safe_fix(e: RuleEntry) -> None:
    """What --fix does to the failing snippet makes it pass, and keeps all that has no part in it."""
    assert e.bad is not None
    found = check_text(e.bad)
    edits = [x for f in found.findings if f.rule == e.id for x in f.edits]
    assert edits
    after = apply_edits(e.bad, edits)
    assert e.id not in rules_of(check_text(after))
    touched = {x.line for x in edits}
    kept = [line for n, line in enumerate(e.bad.splitlines(), 1) if n not in touched]
    assert [line for line in after.splitlines() if line in kept] == kept


@pytest.mark.parametrize("e", [e for e in ENTRIES if e.versions], ids=ids)
def test_versions_bound_rules(e: RuleEntry) -> None:
    """Outside of its versions a rule is silent on the very same text."""
    assert e.bad is not None
    assert e.versions is not None
    builds = (e.versions.before or "").startswith("b")
    outside = "0.0.1" if e.versions.at_least else "b99999" if builds else "99.0"
    text = re.sub(r"(vllm/vllm-openai:v|lmsysorg/sglang:v|inference:|lmdeploy==)[\d.]+", rf"\g<1>{outside}", e.bad)
    text = re.sub(r"(?<=server-cuda-)b\d+", outside, text)
    assert e.id not in rules_of(check_text(text, engine_version=outside))


def test_one_flag_three_versions() -> None:
    """--disable-log-requests left in 0.17.1 and came back in 0.33.0."""
    text = "services: {{v: {{image: 'vllm/vllm-openai:v{}', command: [Qwen/Qwen3-8B, --disable-log-requests], gpus: all}}}}"  # noqa: E501
    fires = {
        v: "disable-log-requests" in rules_of(check_text(text.format(v)))
        for v in ("0.10.0", "0.17.1", "0.32.0", "0.33.0")
    }
    assert fires == {"0.10.0": False, "0.17.1": True, "0.32.0": True, "0.33.0": False}


def test_docker_options_are_not_the_engines() -> None:
    text = "docker run --device /dev/kfd --gpus all --ipc host vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B\n"
    assert "device-flag-old" not in rules_of(check_text(text))
    inside = text.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-8B --device cuda")
    assert "device-flag-old" in rules_of(check_text(inside))


def test_missing_facts_are_skipped_not_passed() -> None:
    found = check_text("vllm serve Qwen/Qwen3-8B --dtype bfloat16\n")
    assert "bf16-below-sm80" not in rules_of(found)
    skipped = {s.rule: s.missing for s in found.skipped}
    assert "gpu.vendor" in skipped["bf16-below-sm80"] or "gpu.compute_capability" in skipped["bf16-below-sm80"]
    with_card = check_text("# advise: on=1x H100 80GB SXM\nvllm serve Qwen/Qwen3-8B --dtype bfloat16\n")
    assert "bf16-below-sm80" not in {s.rule for s in with_card.skipped}


def test_api_key_rule_is_silent_inside_the_cluster() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: v}}\n"
        "spec: {containers: [{name: v, image: 'vllm/vllm-openai:v0.33.0', args: [Qwen/Qwen3-8B], "
        "resources: {limits: {nvidia.com/gpu: 1}}}]}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: %s, selector: {app: v}, ports: [{port: 8000}]}\n"  # noqa: E501
    )
    assert "exposed-no-auth" not in rules_of(check_text(pod % "ClusterIP"))
    assert "exposed-no-auth" in rules_of(check_text(pod % "LoadBalancer"))


def test_version_that_nobody_states_makes_errors_warnings() -> None:
    """In an image of unknown version a removed flag may still be there."""
    text = "services: {v: {image: '%s', command: [vllm, serve, Qwen/Qwen3-8B, --swap-space, '4'], gpus: all}}"
    levels = {
        image: next(f.severity for f in check_text(text % image).findings if f.rule == "swap-space-removed")
        for image in (
            "vllm/vllm-openai:v0.33.0",
            "vllm/vllm-openai:latest",
            "vllm/vllm-openai:nightly",
            "example.com/v:7",
        )
    }
    assert levels == {
        "vllm/vllm-openai:v0.33.0": "error",
        "vllm/vllm-openai:latest": "error",
        "vllm/vllm-openai:nightly": "warning",
        "example.com/v:7": "warning",
    }


@pytest.mark.parametrize(
    ("launch", "severity"),
    [
        ("llama-server -m /m/a.gguf -ctk tq3_turbo", "warning"),  # forks add types, and users build forks
        ("docker run ghcr.io/ggml-org/llama.cpp:server-b11434 -m /m/a.gguf -ctk tq3_turbo", "error"),
        ("vllm serve a/b --kv-cache-dtype fp16", "error"),
    ],
)
def test_what_no_release_ever_had_is_certain_of_an_engine_that_users_do_not_build(launch: str, severity: str) -> None:
    found = check_text(launch + "\n", name="serve.sh").findings
    assert {f.severity for f in found if f.rule == "kv-dtype-unknown"} == {severity}


@pytest.mark.parametrize("health", [True, False])
def test_a_service_that_is_awaited_has_a_health_check(health: bool) -> None:
    check = ", healthcheck: {test: [CMD, curl, -f, 'http://localhost:11434']}" if health else ""
    awaits = "ui: {image: ui, depends_on: {o: {condition: service_healthy}}}"
    found = rules_of(check_text(f"services: {{o: {{image: 'ollama/ollama:0.33.0'{check}}}, {awaits}}}\n"))
    assert found & {"healthcheck-awaited-missing", "healthcheck-tool-missing"} == {
        "healthcheck-tool-missing" if health else "healthcheck-awaited-missing"
    }


def test_a_comment_of_a_dockerfile_continues_nothing() -> None:
    text = '# docker run -d \\\n#   an/image \\\nFROM vllm/vllm-openai:v0.33.0\nCMD ["--model", "a/b", "--bogus"]\n'
    assert "flag-unknown" in rules_of(check_text(text, name="Dockerfile"))


def test_select_and_ignore() -> None:
    from checking import knowledge

    from advisor.checks.rules.evaluate import Rulebook

    assert len(Rulebook(knowledge(), ("security",)).rules) < len(Rulebook(knowledge()).rules)
    assert not Rulebook(knowledge(), ("flag-removed",), ("start",)).rules
    with pytest.raises(UnknownName) as e:
        Rulebook(knowledge(), ("flag-remved",))
    assert "flag-removed" in e.value.near


@pytest.mark.usefixtures("own_cache")
def test_a_wrong_rule_file_is_one_clear_line(tmp_path: object) -> None:
    from pathlib import Path

    from advisor.catalog import catalog, rule_roots
    from advisor.checks.knowledge import Knowledge
    from advisor.checks.rules.load import list_rules

    root = Path(str(tmp_path))
    (root / "checks" / "rules").mkdir(parents=True)
    (root / "checks" / "rules" / "mine.yaml").write_text(
        "rules:\n- {id: mine, severity: error, phase: start, when: {field: modle.moe, is: true}, message: m, fix: f, source: s}\n"  # noqa: E501
    )
    rules = catalog([*rule_roots(), root])
    with pytest.raises(BadInput, match=r"mine\.yaml: mine: when\.field: unknown field 'modle\.moe'.*model\.moe"):
        list_rules(Knowledge(rules))


def test_a_checkpoint_of_modelopt_names_its_method_itself() -> None:
    """vLLM takes the method of such a copy whatever `--quantization` says (modelopt.py, override_quantization_method);
    0.26.0 starts one with `--quantization fp4`."""
    copy = "vllm serve nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4 --quantization fp4\n"
    assert "quant-unknown" not in rules_of(check_text(copy, engine_version="0.26.0"))
    assert "quant-unknown" in rules_of(check_text("vllm serve Qwen/Qwen3-8B --quantization fp4\n"))


CONNECTOR = 'vllm serve a/b --kv-transfer-config \'{{"kv_connector": "{}"}}\''
SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{} " + CONNECTOR
MATCHED = [
    ("llama-server -m a.gguf -sm tensor -ctk q8_0", "llama-split-tensor-kv", True),
    ("llama-server -m a.gguf -sm tensor -ctv iq4_nl", "llama-split-tensor-kv", True),
    ("llama-server -m a.gguf -sm tensor -ctv bf16", "llama-split-tensor-kv", False),
    ("llama-server -m a.gguf -fa off -ctv q4_0", "llama-kv-quant-needs-fa", True),
    ("llama-server -m a.gguf -fa off -ctv f16", "llama-kv-quant-needs-fa", False),
    ("llama-server -m a.gguf -fa off -ctv $T", "llama-kv-quant-needs-fa", False),
    ("OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=False ollama serve", "ollama-kv-quant-needs-fa", True),
    ("OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=1 ollama serve", "ollama-kv-quant-needs-fa", False),
    ("OLLAMA_KV_CACHE_TYPE=f16 OLLAMA_FLASH_ATTENTION=0 ollama serve", "ollama-kv-quant-needs-fa", False),
    ("sglang serve --model-path a/b --served-model-name a:b", "sglang-model-name-colon", True),
    ("sglang serve --model-path a/b --served-model-name ab", "sglang-model-name-colon", False),
    ("pip install vllm==0.10.0\nCUDA_VISIBLE_DEVICES=GPU-abc vllm serve a/b", "mig-uuid", True),
    ("pip install vllm==0.10.0\nCUDA_VISIBLE_DEVICES=0 vllm serve a/b", "mig-uuid", False),
    ("text-generation-launcher --model-id a/b --sharded true --num-shard 1", "tgi-sharded-one", True),
    ("text-generation-launcher --model-id a/b --sharded true --num-shard 2", "tgi-sharded-one", False),
    ("text-generation-launcher --model-id a/b --sharded true", "tgi-sharded-one", False),
    (SEGMENTS.format("True", "Nixl"), "kv-connector-expandable-segments", True),
    (SEGMENTS.format("False", "Nixl"), "kv-connector-expandable-segments", False),
    (SEGMENTS.format("True", "Own"), "kv-connector-expandable-segments", False),
    ("vllm serve a/b --allowed-origins '[\"*\"]'", "cors-wildcard", True),
    ("vllm serve a/b --allowed-origins '[\"https://a.b\"]'", "cors-wildcard", False),
    ("OLLAMA_ORIGINS='*' ollama serve", "cors-wildcard", True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rule", "holds"), MATCHED)
def test_conditions_that_look_for_words(text: str, rule: str, holds: bool) -> None:
    assert (rule in rules_of(check_text(text + "\n", "a.sh"))) is holds
