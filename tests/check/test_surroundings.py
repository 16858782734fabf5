"""What decides a start and stands next to the launch: pins, claims of pods, controllers, neighbours on a card."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, rules_of

SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --swap-space 4\n"  # a flag of old releases
POD = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  template:
    spec:
      containers:
      - {{name: v, image: 'vllm/vllm-openai:v0.33.0', args: [Qwen/Qwen3-8B],
         resources: {{limits: {{nvidia.com/gpu: 1}}}}, volumeMounts: [{{name: c, mountPath: /root}}]}}
      volumes: [{{name: c, persistentVolumeClaim: {{claimName: shared}}}}]
---"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: shared}}
spec: {{accessModes: [{modes}], resources: {{requests: {{storage: 60Gi}}}}}}
"""
ISVC = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: c}
spec: {predictor: {model: {modelFormat: {name: huggingface}, args: [--model_name=chat, --model_id=Qwen/Qwen3-8B,
  --backend=vllm, --max-model-len=8192], resources: {limits: {nvidia.com/gpu: 1}}}}}
"""
LLM_SERVICE = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {{name: q}}
spec:
  model: {{uri: hf://Qwen/Qwen3-32B, name: Qwen/Qwen3-32B}}
  parallelism: {{tensor: 1, pipeline: 2}}
  template: {{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: 2}}}}}}]}}
  {more}
"""


@pytest.mark.parametrize(
    ("requirements", "source", "version"),
    [
        ("vllm==0.9.2\n", SERVE, "0.9.2"),
        ("torch==2.6\nVLLM[flashinfer]==0.9.2 ; python_version > '3.9'\n", SERVE, "0.9.2"),
        ("# vllm==0.9.2\nvllm>=0.9.2\n", SERVE, "0.33.0"),
        ("vllm==0.9.2\n", f"pip install vllm==0.10.2\n{SERVE}", "0.10.2"),
        (
            "vllm==0.9.2\n",
            "docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B --max-model-len 8192",
            "0.33.0",
        ),
    ],
)
def test_requirements_next_to_a_script_pin(requirements: str, source: str, version: str, tmp_path: Path) -> None:
    """They say what a script starts, and nothing about what an image holds."""
    (tmp_path / "requirements.txt").write_text(requirements)
    (found,) = check_text(source, "start.sh", tmp_path).verdicts
    assert found.engine_version == version


@pytest.mark.parametrize(
    ("pods", "modes", "fires"),
    [
        ([("Deployment", "a", 2)], "ReadWriteOnce", True),
        ([("Deployment", "a", 1), ("StatefulSet", "b", 1)], "ReadWriteOnce", True),
        ([("Deployment", "a", 1)], "ReadWriteOnce", False),
        ([("Deployment", "a", 0), ("Deployment", "b", 1)], "ReadWriteOnce", False),
        ([("Deployment", "a", 1), ("Job", "b", 1)], "ReadWriteOnce", False),  # it ends
        ([("Deployment", "a", 2)], "ReadWriteMany", False),
        ([("Deployment", "a", 2)], "ReadWriteOnce, ReadWriteMany", False),
    ],
)
def test_claims_that_one_node_may_mount(pods: list[tuple[str, str, int]], modes: str, fires: bool) -> None:
    source = "".join(POD.format(kind=k, name=n, replicas=r) for k, n, r in pods) + CLAIM.format(modes=modes)
    assert ("claim-contended" in rules_of(check_text(source, "x.yaml"))) is fires


def test_flags_of_kserve_s_own_server() -> None:
    """They are not vLLM's, and name the model all the same."""
    result = check_text(ISVC, "x.yaml", on="1x A100 80GB")
    assert result.verdicts[0].model == "Qwen/Qwen3-8B"
    assert not {"flag-unknown", "kserve-no-gpu"} & rules_of(result)


def test_stages_that_a_controller_drops() -> None:
    """One node: KServe hands tensor ranks on and no stages, so that the model is whole on one card."""
    alone = check_text(LLM_SERVICE.format(more=""), "x.yaml", on="2x L40S")
    assert "kserve-stages-dropped" in rules_of(alone)
    assert alone.verdicts[0].fits is False
    worker = "worker: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}"
    several = check_text(LLM_SERVICE.format(more=worker), "x.yaml", on="2x L40S")
    assert "kserve-stages-dropped" not in rules_of(several)


@pytest.mark.parametrize(
    ("devices", "named"),
    [
        ("gpus: all", True),
        ("gpus: [{device_ids: ['1']}]", False),
        ("gpus: [{count: 1}]", True),
        ("restart: always", False),
    ],
)
def test_neighbours_on_a_card(devices: str, named: bool) -> None:
    source = (
        "services:\n  llm: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B], gpus: [{count: 1}]}\n"
        f"  embed: {{image: 'ghcr.io/huggingface/text-embeddings-inference:1.8', {devices}}}\n"
    )
    messages = [f.message for f in check_text(source, "compose.yaml").findings if f.rule == "gpu-neighbours"]
    assert bool(messages) is named
    assert all("embed (ghcr.io/huggingface/text-embeddings-inference:1.8)" in m for m in messages)


def test_an_exporter_is_no_neighbour() -> None:
    source = (
        "services:\n  llm: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B], gpus: all}\n"
        "  dcgm: {image: 'nvcr.io/nvidia/k8s/dcgm-exporter:4.2', gpus: all}\n"
    )
    assert "gpu-neighbours" not in rules_of(check_text(source, "compose.yaml"))


def test_a_value_in_quotes_at_its_end_opens_no_block() -> None:
    """parser.go of Ollama: only what begins with three quotes goes on until three more."""
    (found,) = check_text('FROM ./x"""\nPARAMETER num_ctx 4096\n', "Modelfile").verdicts
    assert found.request.get("num_ctx") == "4096"
    (other,) = check_text('FROM x\nTEMPLATE """a\nPARAMETER num_ctx 1\n"""\n', "Modelfile").verdicts
    assert "num_ctx" not in other.request


def test_services_of_included_files_are_merged(tmp_path: Path) -> None:
    """Compose merges a service with the one of the same name in a file that is included."""
    (tmp_path / "common.yml").write_text("services: {v: {gpus: all, environment: {HF_HOME: /x}}}\n")
    text = "services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B]}}\n"
    assert "gpu-not-granted" in rules_of(check_text(text, "compose.yml", tmp_path))
    for include in ("[common.yml]", "[{path: common.yml}]", "[{path: [common.yml]}]"):
        found = check_text(f"include: {include}\n{text}", "compose.yml", tmp_path)
        assert "gpu-not-granted" not in rules_of(found)
    assert "gpu-not-granted" in rules_of(check_text(f"include: [gone.yml]\n{text}", "compose.yml", tmp_path))


@pytest.mark.parametrize(
    ("source", "name", "silent"),
    [
        ("command: |\n  vllm serve Qwen/Qwen3-8B --port {port} -tp {ranks}\n", "recipe.yaml", "flag-bad-value"),
        ("python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --enforce-eager true\n", "a.sh",
         "flag-takes-no-value"),
        ("llama-server.exe -m a.gguf ^\r\n  -c 8192 ^\r\n  --port 8080\r\n", "a.bat", "command-cut-off"),
        ("vllm serve Qwen/Qwen3-VL-Embedding-2B\n", "a.sh", "model-id-typo"),
    ],
)  # fmt: skip
def test_no_false_alarm(source: str, name: str, silent: str) -> None:
    """Places of str.format, a positional that api_server swallows, carets of batch files, a name with a word more."""
    assert silent not in rules_of(check_text(source, name))


def test_alarms_next_to_them() -> None:
    assert "flag-takes-no-value" in rules_of(check_text("vllm serve Qwen/Qwen3-8B --enforce-eager true\n", "a.sh"))
    assert "model-id-typo" in rules_of(check_text("vllm serve Qwen/Qwen3-30B-A3B-Instrct-2507\n", "a.sh"))


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("vllm serve Qwen/Qwen3-8B auto\n", True),
        ("vllm serve --model Qwen/Qwen3-8B auto --port 80\n", True),
        ("vllm serve Qwen/Qwen3-8B --dtype auto\n", False),
        ("vllm serve Qwen/Qwen3-8B $EXTRA\n", False),
        ("python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B auto\n", False),
    ],
)
def test_a_word_that_belongs_to_nothing(source: str, left: bool) -> None:
    assert ("argument-left-over" in rules_of(check_text(source, "a.sh"))) is left


def test_the_version_in_somebody_s_tag() -> None:
    text = "docker run --gpus all gpustack/runner:cuda12.8-vllm0.13.0 vllm serve Qwen/Qwen3-8B --task generate\n"
    result = check_text(text, "a.sh")
    assert result.verdicts[0].engine_version == "0.13.0"
