"""Facts of files of other kinds, of cards and without any, and fields of facts; on both sides of what decides."""

from __future__ import annotations

from typing import Any

import pytest
from checking import knowledge, launches
from test_fact_bounds import POD, VLLM, find_fact

from advisor.checks.facts.launch_facts import ABSENT, FACTS, LaunchFacts, LaunchFields
from advisor.checks.resolve.judge import LaunchCheckOptions, check_launch
from advisor.session import Session

LLAMA = "docker run --gpus all {} ghcr.io/ggml-org/llama.cpp:server-cuda {}"
Q = "Qwen/Qwen3-8B"
FOUR = """--speculative-config '{"num_speculative_tokens": 4}'"""


def test_fields_of_facts() -> None:
    """Registered facts have theirs; flags and variables get one when they are asked for."""
    fields = LaunchFields(knowledge(), ("vllm",))
    assert fields.get("arg.max-num-seqs").type == "float"
    assert fields["arg.enforce-eager"].type == "bool"
    assert fields["arg.nothing-of-this-name"].type == "str"
    assert fields["given.port"].type == fields["has.A"].type == "bool"
    assert fields["env.A"].type == "str"
    assert fields.get("other.x") is None
    assert fields.get("word", 5) == 5
    assert fields["tp"] is FACTS["tp"].field
    with pytest.raises(KeyError):
        fields["other.x"]
    asked = LaunchCheckOptions("RTX 4090, 64GB RAM", "--on", True, None, speed=False)
    (launch,) = launches(f"vllm serve {Q}", "x.sh")
    checked = check_launch(launch, knowledge(), asked, {}, Session(knowledge().rules))
    facts = LaunchFacts(checked, knowledge(), [checked], "")
    assert set(facts) == set(FACTS)
    assert len(facts) == len(FACTS)
    with pytest.raises(KeyError):
        facts["other.x"]
    assert repr(ABSENT) == "absent"


DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: d}}
spec:
  {}
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
      {}
      containers:
      - name: v
        image: vllm/vllm-openai:v0.33.0
        args: [--model, Qwen/Qwen3-8B]
        resources: {{limits: {{nvidia.com/gpu: '1'}}}}
"""


@pytest.mark.parametrize(
    ("spec", "pod", "name", "value"),
    [
        # 16.38 GB at 0.5 GB/s and a minute: 92.8 s
        ("progressDeadlineSeconds: 92", "", "rollout.deadline_short", True),
        ("progressDeadlineSeconds: 93", "", "rollout.deadline_short", False),
        ("replicas: 1", "", "rollout.deadline_short", False),
        ("replicas: 1", "", "rollout.surges", True),
        ("strategy: {type: Recreate}", "", "rollout.surges", False),
        ("replicas: 1", "", "pod.untolerated", True),
        ("replicas: 1", "tolerations: [{key: nvidia.com/gpu, operator: Exists}]", "pod.untolerated", False),
        ("replicas: 1", "nodeSelector: {gpu: 'yes'}", "pod.untolerated", False),
        ("replicas: 1", "", "setup.standard_pod", True),
        ("replicas: 1", "", "setup.cluster", True),
        ("replicas: 1", "hostNetwork: true", "setup.host_network", True),
        ("replicas: 1", "hostPID: true", "setup.host_pid", True),
        ("replicas: 1", "", "setup.host_pid", False),
        ("replicas: 1", "", "hub.token", False),
        ("replicas: 1", "", "pod.host_path", False),
    ],
)
def test_facts_of_rollouts(spec: str, pod: str, name: str, value: Any) -> None:
    assert find_fact(DEPLOYMENT.format(spec, pod), name, file="d.yaml") == value


@pytest.mark.parametrize(
    ("more", "name", "value"),
    [
        # 93 s are enough to load; to download at 0.2 GB/s are 82 s more
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 93}", "probe.ends_download", True),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 174}", "probe.ends_download", True),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 175}", "probe.ends_download", False),
        ("    startupProbe: {periodSeconds: 1, failureThreshold: 92}", "probe.ends_download", False),
        ("", "probe.ends_download", False),
        ("", "download.seconds", 82),
        (
            "    livenessProbe: {initialDelaySeconds: 5, periodSeconds: 7, failureThreshold: 4}",
            "probe.budget_seconds",
            33.0,
        ),
        ("    livenessProbe: {}", "probe.budget_seconds", 30.0),
        ("    livenessProbe: {httpGet: {path: /x, port: 8000}}", "probe.path", "/x"),
        ("", "probe.health", "/health"),
        ("", "port.own", 8000),
        ("", "port.mismatch", False),
        ("", "memory.limit_gib", None),
    ],
)
def test_facts_of_probes(more: str, name: str, value: Any) -> None:
    assert find_fact(POD.format(more), name, file="pod.yaml") == value


UNIT = "[Unit]\n{}\n[Service]\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B\n{}\n"


@pytest.mark.parametrize(
    ("unit", "service", "name", "value"),
    [
        ("After=network-online.target", "Restart=always", "unit.no_network_order", False),
        ("", "Restart=always", "unit.no_network_order", True),
        ("After=network-online.target", "", "unit.no_network_order", True),
        ("", "PrivateDevices=yes", "unit.no_device_access", True),
        ("", "PrivateDevices=no", "unit.no_device_access", False),
        ("", "", "unit.no_device_access", False),
        ("", "MemoryMax=16G", "memory.limit_gib", 16.0),
    ],
)
def test_facts_of_units(unit: str, service: str, name: str, value: Any) -> None:
    assert find_fact(UNIT.format(unit, service), name, file="v.service") == value


@pytest.mark.parametrize(
    ("words", "on", "name", "value"),
    [
        ("-tp 8", "8x H100 PCIe", "tp.across_slow_link", None),  # bridges are rare, and may be there
        ("-tp 4", "8x H100 PCIe", "tp.across_slow_link", False),
        ("-tp 8", "8x H100 80GB SXM", "tp.across_slow_link", False),
        ("-tp $N", "8x H100 PCIe", "tp.across_slow_link", None),
        ("--quantization fp8", "V100", "quant.floor_missed", True),
        ("--quantization fp8", "RTX 2080 Ti", "quant.floor_missed", False),
        ("--quantization experts_int8", "RTX 2080 Ti", "quant.floor_missed", True),
        ("--quantization fp8", "H100", "quant.floor_missed", False),
        ("--quantization fp8", "RX 7900 XTX", "quant.floor_missed", False),
        ("", "RTX 2080 Ti", "quant.floor_missed", False),
        ("--quantization nothing-known", "RTX 2080 Ti", "quant.floor_missed", False),
        ("", "RX 7900 XTX", "gpu.sm", None),
        ("", "RTX 2080 Ti", "gpu.sm", "7.5"),
    ],
)
def test_facts_of_cards(words: str, on: str, name: str, value: Any) -> None:
    assert (
        find_fact(f"vllm serve {Q} {words}", name, on) is value
        or find_fact(f"vllm serve {Q} {words}", name, on) == value
    )


def test_without_hardware_nothing_is_known_of_it() -> None:
    for name in ("gpu.vendor", "gpu.count", "gpu.compute_capability", "host.memory_gib", "fit.above_free", "gpu.sm"):
        assert find_fact(f"vllm serve {Q}", name, None) is None
    assert find_fact(f"vllm serve {Q} -tp 8", "tp.across_slow_link", None) is None
    assert find_fact(f"vllm serve {Q} -tp 8", "ranks.above_devices", None) is None


SHARED = """services:
  a:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-0.6B {}
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ['0'], capabilities: [gpu]}}]}}}}}}
  b:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-0.6B {}
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ['{}'], capabilities: [gpu]}}]}}}}}}
"""


@pytest.mark.parametrize(
    ("one", "other", "card", "above"),
    [
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.5", 0, False),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.51", 0, True),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.51", 1, False),
        ("", "--gpu-memory-utilization .2", 0, True),
        ("", "--gpu-memory-utilization .05", 0, False),
        ("--gpu-memory-utilization 1.0", "", 1, False),
    ],
)
def test_shares_of_one_card(one: str, other: str, card: int, above: bool) -> None:
    assert find_fact(SHARED.format(one, other, card), "gpu.shared_overcommit", file="compose.yaml") is above


@pytest.mark.parametrize(
    ("text", "name", "on", "value"),
    [
        # without hardware the size is that of parameters and format: 8,190,735,360 at 16 bit
        (f"vllm serve {Q}", "model.gib", None, 8190735360 * 2 / 2**30),
        ("vllm serve a/b", "model.gib", None, None),
        (f"vllm serve {Q}", "load.seconds", None, 8190735360 * 2 / 0.5e9 + 60),
        # 1.24e9 weights of 16 bit are 2.3 GiB: from 2 GiB on a limit below 8 GiB is small
        (VLLM.format("-m 7g", "--model meta-llama/Llama-3.2-1B-Instruct"), "memory.limit_small", None, True),
        (VLLM.format("-m 7g", "--model Qwen/Qwen3-0.6B"), "memory.limit_small", None, False),
        (VLLM.format("-m 7g", "--model a/b"), "memory.limit_small", None, True),
        # a volume that is called like a cache is no fault where the model is a path
        (VLLM.format("-v hf:/data", "--model /data/x"), "cache.wrong_path", None, False),
        (f"vllm serve {Q} --swap-space 4", "memory.host_need_gib", None, 12.0),
        ("vllm serve Qwen/Qwen3-32B --cpu-offload-gb 10 -tp 2", "memory.host_need_gib", None, 46.0),
        ("vllm serve a/b", "engine.reserves", None, True),
        ("ollama serve", "engine.reserves", None, False),
        ("vllm serve a/b", "engine.name", None, "vllm"),
        ("vllm serve a/b", "program", None, "vllm serve"),
        # what a file of hardware in words leaves open, and the loopback of an engine that listens everywhere
        ("vllm serve a/b", "setup.loopback", None, False),
        ("docker run --gpus all vllm/vllm-openai:v0.33.0 --model $M", "model.path_not_mounted", None, None),
        (f"vllm serve {Q} --kv-cache-dtype fp8", "kv.type", None, "fp8"),
        (f"vllm serve {Q}", "offload.exceeds_host", None, False),
        (f"vllm serve {Q} --cpu-offload-gb 10", "offload.exceeds_host", None, None),
    ],
)
def test_facts_without_hardware(text: str, name: str, on: str | None, value: Any) -> None:
    found = find_fact(text, name, on)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)


CUSTOM = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: s}
spec:
  predictor:
    containers:
    - name: v
      image: vllm/vllm-openai:v0.33.0
      args: [--model, meta-llama/Llama-3.1-8B-Instruct]
      resources: {limits: {nvidia.com/gpu: '1'}}
"""


def test_what_a_resource_of_an_operator_leaves_open() -> None:
    """The operator may hand over a token, mounts and arguments."""
    for name, value in (("hub.token", None), ("setup.standard_pod", False), ("setup.all_mounts", False)):
        assert find_fact(CUSTOM, name, file="s.yaml") is value, name


SGLANG = f"python -m sglang.launch_server --model-path {Q} --tp 8 --enable-dp-attention"


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (f"{SGLANG} --dp 0", "tp.attention_replicas", None),
        (f"{SGLANG} --dp x", "tp.attention_replicas", None),
        (f"{SGLANG} --dp 2", "tp.attention_replicas", 2),
        (f"{SGLANG} --dp 3", "tp.heads_uneven", None),  # 8 ranks are no three parts
        (f"{SGLANG} --dp 8", "tp.heads_uneven", False),
        ("vllm serve a/b", "model.too_old", False),  # nothing is known of a first version
        ("vllm serve --port 1", "model.too_old", None),
        ("vllm serve a/b", "model.min_version", None),
    ],
)
def test_facts_that_stay_open(text: str, name: str, value: Any) -> None:
    assert find_fact(text, name) == value


def test_versions_that_are_older_than_a_model_needs() -> None:
    """Each model of the list, on a version before and on the one that it names."""
    listed = knowledge().rules.document("checks/minimum_versions.yaml")["versions"]
    model, least = next((m, v) for m, v in listed.items() if "/" in m and str(v).count(".") == 2)
    major, minor, patch = (int(x) for x in str(least).split("."))
    for version, old in (
        (f"{major}.{minor}.{patch}", False),
        (f"{major}.{minor - 1}.9", True),
        (f"{major}.{minor + 1}.0", False),
    ):
        text = f"docker run --gpus all vllm/vllm-openai:v{version} --model {model}"
        assert find_fact(text, "model.min_version") == str(least)
        assert find_fact(text, "model.too_old") is old, version
    assert find_fact(f"vllm serve {model}", "model.too_old") is None
