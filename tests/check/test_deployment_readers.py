"""Each kind of deployment file is read to the engine, model, version and arguments that it states."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, launches

from advisor.checks.read import units
from advisor.errors import BadFile

SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
CASES = {
    "shell": (f"#!/bin/sh\nset -e\n{SERVE}\n", "vllm", "Qwen/Qwen3-8B"),
    "python -m": ("python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B\n", "vllm", "Qwen/Qwen3-8B"),
    "uvx": ("uvx --from vllm==0.33.0 vllm serve Qwen/Qwen3-8B\n", "vllm", "Qwen/Qwen3-8B"),
    "srun": ("#!/bin/bash\n#SBATCH --gres=gpu:h100:4\nsrun vllm serve Qwen/Qwen3-8B -tp 4\n", "vllm", "Qwen/Qwen3-8B"),
    "mpirun": (
        "mpirun -n 8 --allow-run-as-root trtllm-llmapi-launch trtllm-serve Qwen/Qwen3-8B\n",
        "tensorrt-llm",
        "Qwen/Qwen3-8B",
    ),
    "docker run": (
        "docker run -d --gpus all -p 8000:8000 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "podman": (
        "podman run --rm --device nvidia.com/gpu=all docker.io/lmsysorg/sglang:v0.5.23 "
        "sglang serve --model-path Qwen/Qwen3-8B\n",
        "sglang",
        "Qwen/Qwen3-8B",
    ),
    "bash -c": (f'sudo -E env X=1 bash -lc "cd /x && exec {SERVE}"\n', "vllm", "Qwen/Qwen3-8B"),
    "compose": (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.33.0\n    command: --model Qwen/Qwen3-8B\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "compose block": (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.33.0\n    command: >\n      --model\n      Qwen/Qwen3-8B\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "deployment": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {containers: "
        "[{name: c, image: 'vllm/vllm-openai:v0.33.0', args: ['--model=$(M)'], env: [{name: M, value: Qwen/Qwen3-8B}]}]}}}\n",  # noqa: E501
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "list": (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n  spec: {containers: "  # noqa: E501
        "[{image: 'lmsysorg/sglang:v0.5.23', command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B]}]}\n",  # noqa: E501
        "sglang",
        "Qwen/Qwen3-8B",
    ),
    "config map": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  run.sh: |\n    #!/bin/sh\n    " + SERVE + "\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "llm service": (
        "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: l}\n"
        "spec: {model: {uri: 'hf://Qwen/Qwen3-8B', name: q}}\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "inference service": (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: i}\n"
        "spec: {predictor: {model: {modelFormat: {name: huggingface}, args: ['--model_id=Qwen/Qwen3-8B']}}}\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "kubeai": (
        "apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {name: m}\nspec: {url: 'ollama://qwen3:8b', engine: OLlama, "
        "resourceProfile: 'cpu:2'}\n",
        "ollama",
        "qwen3:8b",
    ),
    "kaito": (
        "apiVersion: kaito.sh/v1beta1\nkind: Workspace\nmetadata: {name: w}\n"
        "resource: {instanceType: Standard_NC24ads_A100_v4}\ninference: {preset: {name: phi-4}}\n",
        "vllm",
        "phi-4",
    ),
    "ray": (
        "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: r}\nspec:\n  serveConfigV2: |\n    applications:\n    - args:\n"  # noqa: E501
        "        llm_configs:\n        - model_loading_config: {model_source: Qwen/Qwen3-8B}\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "production-stack": (
        "servingEngineSpec: {modelSpec: [{name: a, repository: vllm/vllm-openai, tag: v0.33.0, modelURL: Qwen/Qwen3-8B}]}\n",  # noqa: E501
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "modelservice": (
        "modelArtifacts: {uri: 'hf://Qwen/Qwen3-8B', name: Qwen/Qwen3-8B}\n"
        "decode: {create: true, containers: [{name: vllm, image: 'ghcr.io/llm-d/llm-d-cuda:v0.9.0', args: [--enforce-eager]}]}\n",  # noqa: E501
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "systemd": (
        "[Unit]\nDescription=x\n[Service]\nEnvironment=M=Qwen/Qwen3-8B\nExecStart=/usr/bin/vllm serve ${M} \\\n  --port 8000\n",  # noqa: E501
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "dockerfile": (
        'FROM vllm/vllm-openai:v0.33.0\nENV X=1\nCMD ["--model", "Qwen/Qwen3-8B"]\n',
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "vllm config": (
        "model: Qwen/Qwen3-8B\nmax-model-len: 8192\ngpu-memory-utilization: 0.9\n",
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "sglang config": ("model-path: Qwen/Qwen3-8B\ntp-size: 2\nmem-fraction-static: 0.8\n", "sglang", "Qwen/Qwen3-8B"),
    "llama-swap": (
        "macros: {s: 'llama-server --port ${PORT}'}\nmodels:\n  q:\n    cmd: ${s} -hf Qwen/Qwen3-8B-GGUF:Q4_K_M\n",
        "llama.cpp",
        "Qwen/Qwen3-8B-GGUF:Q4_K_M",
    ),
    "modelfile": ("FROM qwen3:8b\nPARAMETER num_ctx 8192\n", "ollama", "qwen3:8b"),
    "infernet": (
        '{"chain": {"enabled": false}, "containers": [{"id": "v", "image": "vllm/vllm-openai:v0.33.0", "gpu": true, '
        '"command": "--model Qwen/Qwen3-8B", "env": {}}]}',
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "skypilot": (
        "resources: {accelerators: 'H100:2'}\nrun: |\n  vllm serve Qwen/Qwen3-8B --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE\n",  # noqa: E501
        "vllm",
        "Qwen/Qwen3-8B",
    ),
    "readme": (f"# Serve\n\n```sh\n{SERVE}\n```\n", "vllm", "Qwen/Qwen3-8B"),
}
NAMES = {"readme": "README.md", "dockerfile": "Dockerfile", "modelfile": "Modelfile", "infernet": "config.json"}


@pytest.mark.parametrize("case", CASES)
def test_engine_and_model(case: str) -> None:
    source, engine, model = CASES[case]
    found = check_text(source, NAMES.get(case, "x"), fit=False).verdicts
    assert [(d.engine, d.model) for d in found] == [(engine, model)]


@pytest.mark.parametrize("case", [c for c in CASES if c not in NAMES])
def test_a_wrong_ending_does_not_matter(case: str) -> None:
    """Files are distinguished by what they hold, not by their names."""
    source, engine, _ = CASES[case]
    assert {x.engine for x in launches(source, "deploy.txt")} == {engine}


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("docker run --gpus all vllm/vllm-openai:v0.10.2 Qwen/Qwen3-8B", "0.10.2"),
        ("docker run --gpus all vllm/vllm-openai:latest Qwen/Qwen3-8B", None),
        ("docker run --gpus all ghcr.io/llm-d/llm-d-cuda:v0.9.0 Qwen/Qwen3-8B", None),
        ("docker run -v m:/m ghcr.io/ggml-org/llama.cpp:server-cuda-b11434 -m /m/a.gguf", "b11434"),
        ("pip install 'vllm==0.8.5'\nvllm serve Qwen/Qwen3-8B", "0.8.5"),
        ("docker run registry:5000/vllm/vllm-openai:v0.9.1@sha256:00 Qwen/Qwen3-8B", "0.9.1"),
    ],
)
def test_version(source: str, version: str | None) -> None:
    assert [x.version for x in launches(source)] == [version]


@pytest.mark.parametrize(
    ("source", "hardware"),
    [
        ("cloud.google.com/gke-accelerator: nvidia-l4", "2x L4"),
        ("nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3", "2x H100 SXM5 80GB"),
        ("node.kubernetes.io/instance-type: p5.48xlarge", "2x H100 80GB SXM"),
        ("disk: ssd", None),
    ],
)
def test_hardware_of_a_pod(source: str, hardware: str | None) -> None:
    pod = (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  nodeSelector:\n    {source}\n  containers:\n"
        "  - {image: 'vllm/vllm-openai:v0.33.0', args: [Qwen/Qwen3-8B], resources: {limits: {nvidia.com/gpu: 2}}}\n"
    )
    assert [d.hardware for d in check_text(pod, fit=False).verdicts] == [hardware]


def test_hardware_of_the_caller_wins_over_comment_and_file() -> None:
    source = "# advise: on=2x H100 80GB SXM\nvllm serve Qwen/Qwen3-8B\n"
    assert check_text(source).verdicts[0].hardware == "2x H100 80GB SXM"
    assert check_text(source, on="1x L4").verdicts[0].hardware == "1x L4"


def test_several_launches_are_several_deployments() -> None:
    source = "vllm serve Qwen/Qwen3-8B &\nllama-server -hf Qwen/Qwen3-8B-GGUF:Q4_K_M\n"
    assert [(x.engine, x.line) for x in launches(source)] == [("vllm", 1), ("llama.cpp", 2)]


def test_clients_are_no_launches() -> None:
    for source in (
        "services:\n  ui:\n    image: ghcr.io/open-webui/open-webui:ollama-client\n    environment: [OLLAMA_BASE_URL=http://o:11434]\n",
        "OLLAMA_API_BASE_URL=http://10.0.0.1:11434\nNODE_ENV=production\n",
        "curl http://localhost:8000/v1/models\npip install vllm\n",
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: 'vllm/vllm-openai:v0.33.0', command: [sleep, infinity]}]}\n",  # noqa: E501
    ):
        assert launches(source) == []


def test_extends_and_env_files_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("services:\n  b:\n    image: vllm/vllm-openai:v0.33.0\n    env_file: m.env\n")
    (tmp_path / "m.env").write_text("HF_HOME=/hf\n")
    (tmp_path / ".env").write_text("MODEL=Qwen/Qwen3-8B\n")
    source = "services:\n  a:\n    extends: {file: base.yaml, service: b}\n    command: [--model, '${MODEL}']\n"
    (x,) = launches(source, "compose.yaml", tmp_path)
    assert (x.engine, [str(w) for w in x.argv]) == ("vllm", ["--model", "Qwen/Qwen3-8B"])


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "out.yaml").write_text("services: {b: {image: 'vllm/vllm-openai:v0.33.0', command: [x]}}\n")
    (inner / "link.yaml").symlink_to(tmp_path / "out.yaml")
    for name in ("../out.yaml", str(tmp_path / "out.yaml"), "link.yaml"):
        source = f"services:\n  a: {{extends: {{file: '{name}', service: b}}}}\n"
        assert launches(source, "compose.yaml", inner) == []


def test_templates_are_named_not_guessed() -> None:
    source = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\nspec:\n  containers:\n"
        "  {{- if .Values.gpu }}\n  - image: vllm/vllm-openai:v0.33.0\n    args: [--model, {{ .Values.model }}]\n  {{- end }}\n"  # noqa: E501
    )
    (d,) = check_text(source, "pod.yaml").verdicts
    assert d.fits is None
    assert any("Values.model" in w for w in d.why)


def test_a_comment_names_the_model_of_a_path() -> None:
    script = "# advise: model=Qwen/Qwen3-8B quant=FP8\nvllm serve /srv/it --max-model-len 8192\n"
    (v,) = check_text(script, "a.sh", on="1x H100 80GB SXM").verdicts
    assert (v.model, v.memory.model, v.quantization, v.fits) == ("/srv/it", "Qwen/Qwen3-8B", "FP8", True)
    assert "as a comment in the file says" in " ".join(v.assumed)
    (v,) = check_text(script.replace("/srv/it", "Qwen/Qwen3-4B"), "a.sh", on="1x H100 80GB SXM").verdicts
    assert v.model == "Qwen/Qwen3-4B"  # the command's own words win


def test_each_launch_has_the_comment_above_it() -> None:
    swap = (
        "models:\n"
        "  # advise: model=Qwen/Qwen3-8B quant=Q4_K_M\n  a:\n    cmd: llama-server -m /a --port ${PORT}\n"
        "  # advise: model=Qwen/Qwen3-4B quant=Q8_0\n  b:\n    cmd: llama-server -m /b --port ${PORT}\n"
    )
    found = check_text(swap, "swap.yaml", on="RTX 3090").verdicts
    assert [(v.memory.model, v.quantization) for v in found] == [
        ("Qwen/Qwen3-8B", "Q4_K_M"),
        ("Qwen/Qwen3-4B", "Q8_0"),
    ]


@pytest.mark.parametrize("comment", ["model=", "model = Qwen/Qwen3-8B and more", "quant=FP8"])
def test_a_comment_that_says_nothing_is_refused(comment: str) -> None:
    with pytest.raises(BadFile, match="write `# advise: model="):
        check_text(f"# advise: {comment}\nvllm serve /srv/it\n", "a.sh")


def test_a_comment_with_an_unknown_model_is_no_verdict() -> None:
    (v,) = check_text("# advise: model=no/such\nvllm serve /srv/it\n", "a.sh", on="RTX 3090").verdicts
    assert v.fits is None
    assert "line 1 names no/such, which is not in the catalogue" in " ".join(v.why)


def test_a_mount_is_one_csv_record() -> None:
    script = 'm="/a, b/c d"\ndocker run --mount "type=bind,\\"source=$m\\",target=/model" vllm/vllm-openai /model\n'
    (x,) = launches(script)
    assert [(m.source, m.target, m.kind) for m in x.setup.mounts] == [("/a, b/c d", "/model", "bind")]


def test_dollars_of_kubernetes() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n"
        "      image: vllm/vllm-openai:v0.33.0\n      env: [{name: LEN, value: '4096'}]\n"
        "      args: [--model, Qwen/Qwen3-8B, --max-model-len, $(LEN), --served-model-name, 'a$$(LEN)$$b']\n"
    )
    (x,) = launches(pod)
    assert [str(w) for w in x.argv[2:]] == ["--max-model-len", "4096", "--served-model-name", "a$(LEN)$b"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r'a "b c" d\x20e', ["a", "b c", "d e"]),
        (r"\xc3\xbc \u00fc \101 \s", ["ü", "ü", "A", " "]),
        ("100%% $$HOME ${X} ${Y}", ["100%", "$HOME", "1 2", "${Y}"]),
        ("$X b$X", ["1", "2", "b$X"]),
        ("'it''s' \"it's\"", ["its", "it's"]),
    ],
)
def test_words_of_systemd(line: str, words: list[str]) -> None:
    """Examples after units.service(5) and units.syntax(7)."""
    assert [str(w) for w in units.split_exec_words(line, known={"X": "1 2"})] == words


SCENARIO = """
scenario:
- name: s
  common:
    model: {{huggingfaceId: Qwen/Qwen3-8B, maxModelLen: 16000{more}}}
    accelerator: {{profile: {profile}}}
  modelservice:
    decode:
      parallelism: {{tensor: 2}}
      vllm:
        customCommand: |
          ${{accelerator.runtimePreamble}}
          vllm serve Qwen/Qwen3-8B --max-model-len $VLLM_MAX_MODEL_LEN --max-num-seqs $VLLM_MAX_NUM_SEQ \\
          --tensor-parallel-size $TP_SIZE ${{accelerator.dtypeArgs}} --port $VLLM_METRICS_PORT
"""


@pytest.mark.parametrize(
    ("more", "profile", "sequences", "fits"),
    [
        ("", "auto", 256, True),  # the benchmark's own defaults
        (", maxNumSeq: 32", "auto", 32, True),
        ("", "intel-xpu", 256, None),  # its fragments are others, and are not known here
    ],
)
def test_a_scenario_of_the_llm_d_benchmark_leaves_things_to_its_defaults(
    more: str, profile: str, sequences: int, fits: bool | None
) -> None:
    made = SCENARIO.format(more=more, profile=profile)
    (launch,) = launches(made, "s.yaml")
    words = [str(w) for w in launch.argv]
    assert words[words.index("--max-num-seqs") + 1] == str(sequences)
    assert words[words.index("--max-model-len") + 1] == "16000"
    assert (words[words.index("--dtype") + 1] if "--dtype" in words else None) == ("bfloat16" if fits else None)
    (judged,) = check_text(made, "s.yaml", on="2x H100 80GB SXM").verdicts
    assert judged.fits is fits
    assert any("llm-d-benchmark's own defaults" in a for a in judged.assumed)
