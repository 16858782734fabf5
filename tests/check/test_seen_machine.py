"""The machine that a launch sees: what hides devices of it, and which launches take the same ones.

What each word means is from the makers' own documentation: NVIDIA's container toolkit (NVIDIA_VISIBLE_DEVICES is read
by the runtime, `--gpus N` hands over the first N: moby daemon/nvidia_linux.go), the CUDA programming guide
(CUDA_VISIBLE_DEVICES counts within those), ROCm (ROCR_ before HIP_), llama.cpp's `--device`, `--split-mode`,
`--main-gpu`, and compose-go (which file is merged).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, rules_of

from advisor.catalog import catalog
from advisor.estimation import EstimateRequest, resolve_request

MODEL = "-hf unsloth/Llama-3.3-70B-Instruct-GGUF:Q4_K_M -c 8192 -np 1 -ngl 99"  # 40 GiB: two cards of 24, not one
IMAGE = "ghcr.io/ggml-org/llama.cpp:server-cuda"
TWO = "2x RTX 3090, 64GB RAM, linux"


def devices_of(source: str, on: str = TWO, name: str = "x.sh") -> int:
    """Devices that the launch is judged on; 0 for the processor alone."""
    (found,) = check_text(source, name, on=on).verdicts
    assert found.memory is not None
    return len(found.memory.devices)


@pytest.mark.parametrize(
    ("launch", "on", "seen"),
    [
        (f"llama-server {MODEL}", TWO, 2),
        (f"CUDA_VISIBLE_DEVICES=1 llama-server {MODEL}", TWO, 1),
        (f"export CUDA_VISIBLE_DEVICES=0\nllama-server {MODEL}", TWO, 1),
        (f"CUDA_VISIBLE_DEVICES=-1 llama-server {MODEL}", TWO, 0),
        (f"CUDA_VISIBLE_DEVICES= llama-server {MODEL}", TWO, 0),
        (f"NVIDIA_VISIBLE_DEVICES=0 llama-server {MODEL}", TWO, 2),  # no container runtime reads it
        (f"HIP_VISIBLE_DEVICES=0 llama-server {MODEL}", "2x RX 7900 XTX, 64GB RAM, linux", 1),
        (f"ROCR_VISIBLE_DEVICES=1 llama-server {MODEL}", "2x RX 7900 XTX, 64GB RAM, linux", 1),
        (f"CUDA_VISIBLE_DEVICES=0 llama-server {MODEL}", "2x Arc B580, 64GB RAM, linux", 2),
        (f"ZE_AFFINITY_MASK=1 llama-server {MODEL}", "2x Arc B580, 64GB RAM, linux", 1),
        (f"ONEAPI_DEVICE_SELECTOR=level_zero:1 llama-server {MODEL}", "2x Arc B580, 64GB RAM, linux", 1),
        (f"ONEAPI_DEVICE_SELECTOR=level_zero:gpu llama-server {MODEL}", "2x Arc B580, 64GB RAM, linux", 2),
        (f"docker run --gpus all {IMAGE} {MODEL}", TWO, 2),
        (f"docker run --gpus 1 {IMAGE} {MODEL}", TWO, 1),
        (f"docker run --gpus device=0 {IMAGE} {MODEL}", TWO, 1),
        (f"docker run --gpus '\"device=0,1\"' {IMAGE} {MODEL}", TWO, 2),
        (f"podman run --device nvidia.com/gpu=0 {IMAGE} {MODEL}", TWO, 1),
        (f"docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=1 {IMAGE} {MODEL}", TWO, 1),
        (f"docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=1 {IMAGE} {MODEL}", TWO, 2),  # the option sets it anew
        (f"docker run --gpus all -e CUDA_VISIBLE_DEVICES=1 {IMAGE} {MODEL}", TWO, 1),
        (f"docker run ghcr.io/ggml-org/llama.cpp:server {MODEL}", TWO, 0),  # built for processors
        (f"llama-server {MODEL} -dev none", TWO, 0),
        (f"llama-server {MODEL} -dev CUDA1", TWO, 1),
        (f"llama-server {MODEL} -dev CUDA0,CUDA1", TWO, 2),
        (f"llama-server {MODEL} -sm none", TWO, 1),
        (f"llama-server {MODEL} -sm none -mg 1", TWO, 1),
        (f"llama-server {MODEL} -sm layer -mg 1", TWO, 2),
        (f"LLAMA_ARG_DEVICE=CUDA0 llama-server {MODEL}", TWO, 1),
        (f"LLAMA_ARG_SPLIT_MODE=none llama-server {MODEL}", TWO, 1),
    ],
)
def test_what_a_launch_sees(launch: str, on: str, seen: int) -> None:
    assert devices_of(launch + "\n", on) == seen


@pytest.mark.parametrize(
    ("launch", "word"),
    [
        (f"CUDA_VISIBLE_DEVICES=$CARD llama-server {MODEL}", "CARD is not set here"),
        (f"CUDA_VISIBLE_DEVICES=GPU-4f1e llama-server {MODEL}", "GPU-4f1e"),
        (f"CUDA_VISIBLE_DEVICES=6,7 llama-server {MODEL}", "CUDA_VISIBLE_DEVICES=6,7"),
        (f"CUDA_VISIBLE_DEVICES=1,6 llama-server {MODEL}", "CUDA_VISIBLE_DEVICES=1,6"),
        (f"docker run --gpus device=$CARD {IMAGE} {MODEL}", "CARD"),
        (f"llama-server {MODEL} -dev CUDA9", "device=CUDA9"),
        (f"llama-server {MODEL} -dev $DEV", "DEV is not set here"),
    ],
)
def test_what_cannot_be_told_hides_nothing_and_is_named(launch: str, word: str) -> None:
    (found,) = check_text(launch + "\n", "x.sh", on=TWO).verdicts
    assert found.memory is not None
    assert len(found.memory.devices) == 2
    assert any(word in line for line in found.assumed)


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: v
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    args: [-hf, "unsloth/Llama-3.3-70B-Instruct-GGUF:Q4_K_M", -c, "8192", -ngl, "99"]
    resources: {limits: {RESOURCE: 1}}
"""


@pytest.mark.parametrize(
    ("resource", "on", "seen"),
    [
        ("nvidia.com/gpu", TWO, 1),
        ("amd.com/gpu", "2x RX 7900 XTX, 64GB RAM", 1),
        ("nvidia.com/gpu.shared", TWO, 2),
        ("nvidia.com/gpu", "1x RTX 3090, 1x RTX 5090, 64GB RAM", 2),  # which of them is the scheduler's choice
    ],
)
def test_what_a_pod_is_handed(resource: str, on: str, seen: int) -> None:
    assert devices_of(POD.replace("RESOURCE", resource), on, "pod.yaml") == seen


def test_the_messages_count_what_is_seen() -> None:
    source = "CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8192\n"
    found = check_text(source, "x.sh", on=TWO)
    (finding,) = (f for f in found.findings if f.rule == "world-size-exceeds-gpus")
    assert "2 GPUs, and 1 are there" in finding.message
    (verdict,) = found.verdicts
    assert any("1 are there" in w for w in verdict.why)


def test_hardware_that_the_file_names_is_what_it_hands_over() -> None:
    labelled = POD.replace("RESOURCE", "nvidia.com/gpu").replace(
        "limits: {nvidia.com/gpu: 1}", "limits: {nvidia.com/gpu: 2}"
    )
    labelled = labelled.replace("spec:\n", "spec:\n  nodeSelector: {nvidia.com/gpu.product: NVIDIA-GeForce-RTX-3090}\n")
    (found,) = check_text(labelled, "pod.yaml").verdicts
    assert found.hardware is not None
    assert found.hardware.startswith("2x")
    assert found.memory is not None
    assert len(found.memory.devices) == 2


@pytest.mark.parametrize(
    ("settings", "seen"), [({"device": "CUDA0"}, 1), ({"split-mode": "none"}, 1), ({"device": "none"}, 0)]
)
def test_an_estimate_takes_the_same_settings(settings: dict[str, str], seen: int) -> None:
    request = EstimateRequest(model="llama3.1:8b", engine="llama.cpp", hardware=TWO, settings={**settings})
    deployment, notes = resolve_request(request, catalog())
    assert deployment.machine is not None
    assert len(deployment.machine.usable_devices) == seen
    assert any("of 2 devices are taken" in n for n in notes)


SERVICE = """\
  NAME:
    image: vllm/vllm-openai:v0.33.0
    ipc: host
    command: [--model, Qwen/Qwen3-8B, --max-model-len, '8192', --gpu-memory-utilization, 'SHARE']
    MORE
    deploy: {DEPLOY resources: {reservations: {devices: [{driver: nvidia, DEVICES, capabilities: [gpu]}]}}}
"""
SHARED = "shared-gpu-overcommit"


def service(name: str, share: float, devices: str = "count: all", more: str = "tty: false", deploy: str = "") -> str:
    words = {"NAME": name, "SHARE": str(share), "DEVICES": devices, "MORE": more, "DEPLOY": deploy}
    text = SERVICE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize(
    ("services", "shared"),
    [
        ([service("a", 0.9), service("b", 0.9)], True),
        ([service("a", 0.5), service("b", 0.4)], False),
        ([service("a", 0.9, "count: 1"), service("b", 0.9, "count: 1")], True),  # both get the first
        ([service("a", 0.9, "device_ids: ['0']"), service("b", 0.9, "device_ids: ['1']")], False),
        ([service("a", 0.9, "device_ids: ['1']"), service("b", 0.9, "device_ids: ['1']")], True),
        ([service("a", 0.9), service("b", 0.9, more="profiles: [other]")], False),
        ([service("a", 0.9), service("b", 0.9, more="environment: {CUDA_VISIBLE_DEVICES: '1'}")], False),
        ([service("a", 0.9), service("b", 0.9, more="environment: {CUDA_VISIBLE_DEVICES: '$CARD'}")], False),
        ([service("a", 0.9, deploy="replicas: 2,")], True),
        ([service("a", 0.9, more="scale: 2")], True),
        ([service("a", 0.3, deploy="replicas: 2,")], False),
        ([service("a", 0.9, deploy="replicas: 2, placement: {max_replicas_per_node: 1},")], False),
        ([service("a", 0.9), service("b", 0.9, deploy="replicas: 0,")], False),
        ([service("a", 0.9), service("b", 0.9).replace("'0.9'", "'${SHARE:-0.9}'")], False),
        ([service("a", 0.9, "device_ids: ['0']"), service("b", 0.9, "device_ids: ['${CARD:-0}']")], False),
    ],
)
@pytest.mark.parametrize("on", [TWO, None])
def test_services_that_cannot_both_start(services: list[str], shared: bool, on: str | None) -> None:
    found = check_text("services:\n" + "".join(services), "compose.yaml", on=on)
    masked = any("CUDA_VISIBLE_DEVICES" in s for s in services)
    assert (SHARED in rules_of(found)) is (shared and not (masked and on is None))


@pytest.mark.parametrize(
    ("groups", "shared"),
    [("", False), ("groups: {g: {swap: false, members: [a, b]}}\n", True), ("groups: {g: {members: [a, b]}}\n", False)],
)
def test_models_that_llama_swap_keeps_loaded(groups: str, shared: bool) -> None:
    run = "docker run --gpus device=0 -p ${PORT}:8000 vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-8B"
    models = "".join(f"  {name}: {{proxy: 'http://x:${{PORT}}', cmd: '{run}'}}\n" for name in "ab")
    assert (SHARED in rules_of(check_text(f"models:\n{models}{groups}", "config.yaml"))) is shared


def test_the_override_file_is_merged(tmp_path: Path) -> None:
    base = "services:\n" + service("a", 0.5)
    (tmp_path / "compose.yaml").write_text(base)
    (tmp_path / "compose.override.yaml").write_text(
        "services:\n  a: {command: [--model, Qwen/Qwen3-8B, --max-model-len, '4096'], scale: 3}\n"
    )
    (found,) = check_text(base, str(tmp_path / "compose.yaml"), tmp_path, on=TWO).verdicts
    assert found.memory is not None
    assert (found.memory.context_length, found.replicas) == (4096, 3)
    assert any("compose.override.yaml" in line for line in found.assumed)
    (other,) = check_text(base, str(tmp_path / "other.yaml"), tmp_path, on=TWO).verdicts  # docker compose -f
    assert other.memory is not None
    assert (other.memory.context_length, other.replicas) == (8192, None)


@pytest.mark.parametrize(
    ("model", "on", "fits", "says"),
    [  # weights of 61 GiB: more than an A100 of 40 GB has; of 14 GiB: more than a V100 of 16 GB gives away
        ("Qwen/Qwen2.5-32B-Instruct", "A100", False, "with A100 SXM4 80GB it fits"),
        ("Qwen/Qwen2.5-32B-Instruct", "A100 80GB", True, ""),
        ("Qwen/Qwen2.5-7B-Instruct", "A100", True, ""),
        ("Qwen/Qwen2.5-72B-Instruct", "A100", False, ""),
    ],
)
def test_the_smaller_of_several_sizes_is_assumed(model: str, on: str, fits: bool, says: str) -> None:
    (found,) = check_text(f"vllm serve {model} --max-model-len 8192", "x.sh", on=on).verdicts
    assert found.fits is fits
    assert ("is assumed, the smaller" in " ".join(found.why)) is bool(says)
    assert says in " ".join(found.why)
