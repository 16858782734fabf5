"""Thresholds of facts that no other test holds: a value on either side, and what stays open."""

from __future__ import annotations

import pytest
from checking import check_text, rules_of
from test_fact_bounds import POD, VLLM, find_fact

from advisor.checks.rules.flag_matches import is_near

CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: c}}
spec: {{resources: {{requests: {{storage: {}}}}}}}
---
"""
MOUNT = "    volumeMounts: [{name: m, mountPath: /data}]\n  volumes: [{name: m, persistentVolumeClaim: {claimName: c}}]"
MODEL = "args: [--model, Qwen/Qwen3-8B]"
SWAP = "healthCheckTimeout: {}\nmodels:\n  a: {{cmd: 'vllm serve {}'}}\n"


# 15.256 GiB of weights times 1.1 are 17,184.8 MiB
@pytest.mark.parametrize(
    ("storage", "model", "small"),
    [("17184Mi", "Qwen/Qwen3-8B", True), ("17186Mi", "Qwen/Qwen3-8B", False), ("1Gi", "a/b", None)],
)
def test_a_volume_holds_a_model_and_a_tenth(storage: str, model: str, small: bool | None) -> None:
    text = CLAIM.format(storage) + POD.format(MOUNT).replace("Qwen/Qwen3-8B", model)
    assert find_fact(text, "pod.disk_small", file="pod.yaml") is small


@pytest.mark.parametrize(("limit", "exceeds"), [("12Gi", False), ("11Gi", True), ("", False)])
def test_memory_backed_mounts_leave_four_gib(limit: str, exceeds: bool) -> None:
    memory = "emptyDir: {medium: Memory, sizeLimit: 8Gi}"
    more = f"    volumeMounts: [{{name: m, mountPath: /dev/shm}}]\n  volumes: [{{name: m, {memory}}}]"
    limits = f"{{nvidia.com/gpu: '1', memory: {limit}}}" if limit else "{nvidia.com/gpu: '1'}"
    text = POD.format(more).replace("{nvidia.com/gpu: '1'}", limits)
    assert find_fact(text, "memory.shm_exceeds_limit", file="pod.yaml") is exceeds


# 16.38 GB at 0.5 GB/s and a minute to get ready: 92.8 s; a compose health check waits start_period + interval * retries
@pytest.mark.parametrize(
    ("model", "retries", "short"),
    [("Qwen/Qwen3-8B", 93, False), ("Qwen/Qwen3-8B", 92, True), ("a/b", 92, None)],
)
def test_a_health_check_waits_for_the_weights(model: str, retries: int, short: bool | None) -> None:
    check = f"{{test: 'curl http://localhost:8000/health', interval: 1s, retries: {retries}}}"
    text = (
        f"services: {{v: {{image: 'vllm/vllm-openai:v0.33.0', command: [{model}], gpus: all, healthcheck: {check}}}}}"
    )
    assert find_fact(text, "healthcheck.too_short", file="compose.yaml") is short


# llama-swap waits for the weights alone: 32.8 s
@pytest.mark.parametrize(
    ("seconds", "model", "short"),
    [(33, "Qwen/Qwen3-8B", False), (32, "Qwen/Qwen3-8B", True), (32, "a/b", None)],
)
def test_a_swap_waits_for_the_weights(seconds: int, model: str, short: bool | None) -> None:
    assert find_fact(SWAP.format(seconds, model), "swap.timeout_short", file="swap.yaml") is short


@pytest.mark.parametrize(("model", "native"), [("Qwen/Qwen3-8B", True), ("zai-org/GLM-4.5-Air", False), ("a/b", None)])
def test_families_that_are_native(model: str, native: bool | None) -> None:
    assert find_fact(f"vllm serve {model}", "model.native_family") is native


@pytest.mark.parametrize(("replicas", "gpus", "tp", "mismatch"), [(2, 4, 8, False), (2, 4, 4, True), (2, 8, 8, True)])
def test_pods_times_gpus_are_the_ranks(replicas: int, gpus: int, tp: int, mismatch: bool) -> None:
    text = f"""apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: l}}
spec:
  leaderWorkerTemplate:
    size: {replicas}
    workerTemplate:
      spec:
        containers:
        - name: v
          image: vllm/vllm-openai:v0.33.0
          args: [--model, Qwen/Qwen3-32B, -tp, '{tp}']
          resources: {{limits: {{nvidia.com/gpu: '{gpus}'}}}}
"""
    assert find_fact(text, "pod.nodes_mismatch", file="lws.yaml") is mismatch


@pytest.mark.parametrize(
    ("on", "ranks", "slow"),
    [
        ("8x RTX 4090, 64GB RAM", "4", False),
        ("8x RTX 4090, 64GB RAM", "5", None),  # how the cards are connected is not known
        ("8x H100 80GB SXM", "8", False),
        ("8x H100 80GB SXM", "$N", None),
    ],
)
def test_ranks_over_cards_without_links(on: str, ranks: str, slow: bool | None) -> None:
    assert find_fact(f"vllm serve Qwen/Qwen3-32B -tp {ranks}", "tp.across_slow_link", on) is slow


LONG = "abcdefghijklmnopqrstuvwxyz0123"


# difflib's ratio: twice the letters in common over all letters; above 0.88 is a slip
@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("max-model-len", "max-model-ln", True),  # 24 of 25
        ("abcdefghi", "abcdefgxi", True),  # 16 of 18, 0.889
        ("abcdefgh", "abcdefgx", False),  # 14 of 16, 0.875
        (LONG, f"{LONG}456", True),
        (LONG, f"{LONG}4567", False),  # more than three letters longer
    ],
)
def test_slips_of_the_keyboard(one: str, other: str, near: bool) -> None:
    assert is_near(one, other) is near


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("--api-key abcdefg", False),
        ("--api-key abcdefg8", True),
        ("--api-key changeme-please-99", False),
        (f"--api-key hf_{'x' * 26}", False),  # a place for a key
        (f"--api-key nvapi-{'*' * 24}", False),
        ("--api-key hf_xxxxaBcDeFgHiJkLmNoPqRsT", True),
    ],
)
def test_keys_from_eight_letters_on(flag: str, found: bool) -> None:
    assert ("secret-inline" in rules_of(check_text(VLLM.format("", f"--model a/b {flag}\n")))) is found


def test_a_card_without_a_count_is_as_many_as_are_asked_for() -> None:
    text = "vllm serve Qwen/Qwen3-32B -tp 4 --max-model-len 8192\n"
    for on, refused in (("H100", False), ("MI250", False), ("1x H100", True), ("2 x A100", True), ("DGX Spark", True)):
        assert ("world-size-exceeds-gpus" in rules_of(check_text(text, "a.sh", on=on))) is refused, on


def test_an_object_store_needs_no_load_format() -> None:
    """vllm 0.33.0 config/vllm.py: `auto` becomes runai_streamer."""
    for words, refused in (("", False), (" --load-format auto", False), (" --load-format safetensors", True)):
        found = rules_of(check_text(f"vllm serve s3://bucket/model{words}\n", "a.sh"))
        assert ("object-store-load-format" in found) is refused


def test_drafts_fill_the_batch_with_adapters_alone() -> None:
    """vllm 0.33.0 engine/arg_utils.py asks for it where there is a LoRAConfig; config/speculative.py adds no rows."""
    drafts = '-sc \'{"method":"ngram","num_speculative_tokens":4}\''
    text = f"vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --max-num-batched-tokens 319 {drafts}"
    assert "spec-eats-batch" not in rules_of(check_text(text + "\n", "a.sh"))
    assert "spec-eats-batch" in rules_of(check_text(text + " --enable-lora\n", "a.sh"))


def test_a_patched_engine_may_take_any_flag() -> None:
    text = "#!/bin/bash\n{}vllm serve Qwen/Qwen3-8B --own-flag 3\n"
    for before, severity in (("", "error"), ("python3 apply_patches.py\n", "warning"), ("# apply_patch.py\n", "error")):
        found = check_text(text.format(before), "a.sh").findings
        assert [f.severity for f in found if f.rule == "flag-unknown"] == [severity]
