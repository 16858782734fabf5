"""Nomad jobs, LLMKube's InferenceServices, job arrays of Slurm, images that compose builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, launches, rules_of
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.read.hcl import parse_hcl
from advisor.checks.read.scripts import list_array_tasks
from advisor.errors import BadFile

JOB = """\
variable "tag" {
  default = "v0.33.0"
}

job "llm" {
  group "g" {
    count = 2
    network {
      port "http" { static = 8000 }
    }
    task "vllm" {
      driver = "docker" # what runs it
      config {
        image = "vllm/vllm-openai:${var.tag}"
        args = [
          "--model", "Qwen/Qwen3-8B", // the model
          "--max-model-len", 8192,
          "--swap-space=4", "--port", "${NOMAD_PORT_http}"
        ]
        volumes  = ["/cache:/root/.cache/huggingface"]
        shm_size = 17179869184
      }
      env { HF_TOKEN = "${HF}" }
      resources {
        memory = 65536
        device "nvidia/gpu" {
          count = 2
          constraint {
            attribute = "${device.attr.model}"
            value     = "NVIDIA H100 80GB HBM3"
          }
        }
      }
    }
    task "program" {
      driver = "raw_exec"
      template {
        destination = "local/run.sh"
        data        = <<-EOF
          #!/bin/bash
          exec vllm serve Qwen/Qwen3-14B --max-num-seqs 8
        EOF
      }
      config { command = "local/run.sh" }
    }
  }
}
"""


def test_nomad() -> None:
    image, program = launches(JOB, "llm.nomad.hcl")
    assert (image.kind, image.name, image.version) == ("nomad", "g.vllm", "0.33.0")
    assert [(str(w), w.line) for w in image.argv[:5]] == [
        ("--model", 16), ("Qwen/Qwen3-8B", 16), ("--max-model-len", 17), ("8192", 17), ("--swap-space=4", 18),
    ]  # fmt: skip
    assert image.argv[-1].unknown == ("NOMAD_PORT_http",)
    setup = image.setup
    assert (setup.gpu_count, setup.shm_bytes, setup.memory_limit, setup.replicas) == (2, 2**34, 2**36, 2)
    assert setup.hardware is not None
    assert "H100" in setup.hardware
    assert setup.ports == ((None, 8000, 8000),)
    assert [str(w) for w in program.argv] == ["Qwen/Qwen3-14B", "--max-num-seqs", "8"]
    found = {f.rule: f for f in check_text(JOB, "llm.nomad").findings}
    assert (found["swap-space-removed"].line, found["swap-space-removed"].severity) == (18, "error")
    assert "hf-cache-not-persistent" not in found
    assert launches(JOB, "x.nomad", tag="v0.10.0")[0].version == "0.10.0"


@pytest.mark.parametrize(
    ("text", "line"),
    [('job "a" {\n  x = "open\n}', 2), ('job "a" {\n', 1), ('job "a" {\n  = 3\n}', 1), ("x = <<EOF\nnever\n", 2),
     ('job "a" {\n  b c\n}', 2), ("a { " * 60, 1), ("x = " + "[" * 90, 1)],
)  # fmt: skip
def test_broken_hcl_is_named_by_its_line(text: str, line: int) -> None:
    with pytest.raises(BadFile) as caught:
        parse_hcl(text, "x.hcl")
    assert f"x.hcl:{line}: " in caught.value.message


@given(st.text('ab{}[]=",:()#/\\\n$<E-1 ', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_hcl(text, "x.hcl")
    except BadFile:
        return


PLAIN = st.text("abcXYZ -_./:1", max_size=12)
VALUE = st.recursive(PLAIN, lambda v: st.lists(v, max_size=3), max_leaves=6)


def written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else "[" + ", ".join(map(written, value)) + "]"  # type: ignore[call-overload]


@given(st.dictionaries(st.sampled_from(["a", "b_c", "d-e"]), VALUE))
def test_hcl_round_trip(values: dict[str, object]) -> None:
    text = 'block "l" {\n' + "".join(f"  {k} = {written(v)}\n" for k, v in values.items()) + "}\n"
    (block,) = parse_hcl(text, "x").find("block")
    assert {k: v if isinstance(v, list) else str(v) for k, v in block.attributes.items()} == values


LLMKUBE = """\
apiVersion: inference.llmkube.dev/v1alpha1
kind: Model
metadata: {name: q}
spec:
  source: https://huggingface.co/Qwen/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q8_0.gguf
---
apiVersion: inference.llmkube.dev/v1alpha1
kind: InferenceService
metadata: {name: p}
spec:
  modelRef: q
  runtime: RUNTIME
  image: ghcr.io/ggml-org/llama.cpp:server-cuda-b11434
  contextSize: 8192
  resources: {gpu: 1}
  extraArgs: [--no-mmap, --alias, q]
"""


def test_llmkube() -> None:
    (launch,) = launches(LLMKUBE.replace("RUNTIME", "llamacpp"), "x.yaml")
    assert (launch.engine, launch.model, launch.setup.gpu_count) == (
        "llama.cpp",
        "Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q8_0.gguf",
        1,
    )
    assert launch.settings["ctx-size"] == "8192"
    assert launches(LLMKUBE.replace("  runtime: RUNTIME\n", ""), "x.yaml")[0].engine == "llama.cpp"
    assert launches(LLMKUBE.replace("RUNTIME", "generic"), "x.yaml") == []
    assert rules_of(check_text(LLMKUBE.replace("RUNTIME", "llamacpp"), "x.yaml")) >= {"llama-flag-removed"}


ARRAY = """\
#!/bin/bash
#SBATCH --array=0-2%1
#SBATCH --gres=gpu:h100:1
MODELS=(Qwen/Qwen3-8B Qwen/Qwen3-14B Qwen/Qwen3-32B)
case $SLURM_ARRAY_TASK_ID in 2) LENGTH=8192;; *) LENGTH=16384;; esac
vllm serve "${MODELS[$SLURM_ARRAY_TASK_ID]}" --max-model-len $LENGTH
"""


def test_every_task_of_an_array_is_a_launch() -> None:
    found = launches(ARRAY, "x.sbatch")
    assert [(x.argv[0].rpartition("-")[2], str(x.argv[-1])) for x in found] == [
        ("8B", "16384"), ("14B", "16384"), ("32B", "8192"),
    ]  # fmt: skip
    assert len({x.resource for x in found}) == 3
    assert len(launches(ARRAY.replace("${MODELS[$SLURM_ARRAY_TASK_ID]}", "a/b").replace("2)", "9)"), "x.sbatch")) == 1


@pytest.mark.parametrize(
    ("said", "tasks"),
    [("--array=0-3", (0, 1, 2, 3)), ("-a 1,5,7", (1, 5, 7)), ("--array=0-9:4%2", (0, 4, 8)), ("--array 2", (2,)),
     ("--array=0-99999", tuple(range(33))), ("--time=1:00", ())],
)  # fmt: skip
def test_array_tasks(said: str, tasks: tuple[int, ...]) -> None:
    assert list_array_tasks(f"#!/bin/bash\n#SBATCH {said}\n") == tasks


DOCKERFILE = """\
ARG TAG=v0.33.0
FROM busybox AS tools
CMD ["true"]
FROM vllm/vllm-openai:${TAG} AS serve
ENV HF_HOME=/data
COPY --chown=1:1 run.sh /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/run.sh"]
CMD ["--swap-space", "4"]
"""
COMPOSE = """\
services:
  llm:
    build: BUILD
    gpus: all
"""


@pytest.mark.parametrize(
    ("build", "version"),
    [(".", "0.33.0"), ("{context: ., target: serve, args: {TAG: v0.10.0}}", "0.10.0"), ("./", "0.33.0"),
     ("{context: ., dockerfile: Dockerfile}", "0.33.0")],
)  # fmt: skip
def test_compose_starts_what_its_dockerfile_says(tmp_path: Path, build: str, version: str) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "run.sh").write_text('#!/bin/sh\nexec vllm serve Qwen/Qwen3-8B "$@"\n')
    (launch,) = launches(COMPOSE.replace("BUILD", build), "compose.yaml", tmp_path)
    assert (launch.engine, launch.version) == ("vllm", version)
    assert [str(w) for w in launch.argv] == ["Qwen/Qwen3-8B", "--swap-space", "4"]
    assert {w.line for w in launch.argv} == {3}
    assert launch.setup.gpu_all
    assert launch.env["HF_HOME"] == "/data"


def test_a_command_of_the_service_takes_the_place_of_the_dockerfiles(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM vllm/vllm-openai:v0.33.0\nENTRYPOINT ["vllm", "serve"]\nCMD ["a/b"]\n')
    (launch,) = launches(COMPOSE.replace("BUILD", ".") + "    command: [c/d]\n", "compose.yaml", tmp_path)
    assert [str(w) for w in launch.argv] == ["c/d"]
