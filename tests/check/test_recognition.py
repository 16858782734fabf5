"""What of a folder is a deployment: the rest never changes the exit status, whatever its syntax."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from checking import check_text, launches, rules_of

from advisor.checks.findings import CheckReport
from advisor.checks.one_file import CheckOptions
from advisor.checks.run import check_paths

ALONE = CheckOptions(fit=False, select=("flag-unknown",))
WELL = "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --host 127.0.0.1\n"
OTHERS = {
    "tsconfig.json": '{\n  // as TypeScript reads it\n  "extends": "./base.json", /* a model */ "strict": true,\n}\n',
    "ComposeRow.kt": 'fun row() { val models = mapOf("a" to "ollama") }\n',
    "compose.ts": 'const image = "vllm/vllm-openai"; export { image };\n',
    "terragrunt.hcl": 'inputs = { image = "vllm/vllm-openai", ports = { for i, m in local.models : m => i } }\n',
    "main.yaml": "model: {%- if x %}\n  a: [1,\n",
}
BROKEN = {
    "compose.yaml": "services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    ports: [8000\n",
    "pod.json": '{"spec": {"containers": [{\n"image": "lmsysorg/sglang:v0.5.19",\n',
}


def check_folder(folder: Path, files: dict[str, str]) -> CheckReport:
    for name, body in {"serve.sh": WELL, **files}.items():
        (folder / name).write_text(body)
    return check_paths([folder], ALONE)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_deployment_changes_nothing(name: str, tmp_path: Path) -> None:
    report = check_folder(tmp_path, {name: OTHERS[name]})
    assert (report.status(), len(report.deployments), report.problems) == (0, 1, ())
    assert report.passed_over == report.files - 1 - (name == "terragrunt.hcl")  # which can be read


@pytest.mark.parametrize("name", BROKEN)
def test_a_deployment_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    report = check_folder(tmp_path, {name: BROKEN[name]})
    assert (report.status(), [Path(p.file).name for p in report.problems]) == (2, [name])


def test_an_anchor_may_be_set_again(tmp_path: Path) -> None:
    """An alias means the latest node of its anchor (YAML 1.2.2, 3.2.2.2); libyaml refuses the second."""
    body = (
        "x: &a {image: 'nginx:1'}\nservices:\n  one: *a\n"
        "  v: &a {image: 'vllm/vllm-openai:v0.33.0', command: --no-such-flag}\n  w: *a\n"
    )
    with pytest.raises(yaml.YAMLError):
        yaml.load(body, Loader=yaml.CSafeLoader)
    (tmp_path / "compose.yaml").write_text(body)
    report = check_paths([tmp_path / "compose.yaml"], ALONE)
    assert [(f.rule, f.line) for f in report.findings] == [("flag-unknown", 4)]
    assert {d.name for d in report.deployments} == {"v", "w"}


MAKEFILE = """\
MODEL ?= Qwen/Qwen3-8B
ARGS = --port 8000 \\
\t--max-model-len $(LENGTH)  # short
LENGTH := 8192
SIZE = 1
SIZE = 2
.PHONY: serve
serve: ## Runs $(MODEL)
\t@echo "vllm serve nothing"
\tvllm serve $(MODEL) $(ARGS) \\
\t  --max-num-seqs $(SIZE)
stop:
\t-pkill -f vllm
box:
\tdocker run --gpus all -v $$HOME/m:/models ghcr.io/ggml-org/llama.cpp:server-cuda -m /models/a.gguf
"""


@pytest.mark.parametrize("name", ["Makefile", "deploy/GNUmakefile", "rules.mk"])
def test_recipes_of_a_makefile(name: str) -> None:
    """GNU make's manual, 4.5 (splitting lines), 5.1 (recipes), 6.1 (references)."""
    first, second = launches(MAKEFILE, name)
    assert [str(w) for w in first.argv] == [
        "Qwen/Qwen3-8B", "--port", "8000", "--max-model-len", "8192", "--max-num-seqs", "${SIZE}",
    ]  # fmt: skip
    assert (first.line, first.argv[-1].unknown) == (10, ("SIZE",))
    assert second.engine == "llama.cpp"


@pytest.mark.parametrize(
    "line",
    ["if ! command -v llama-server &> /dev/null; then echo no; fi",
     "sudo cp build/llama-server /usr/local/bin/llama-server",
     "sudo systemctl enable --now llama-server", "sudo chmod +x /opt/llama-server",
     "llama-server --version 2>&1 | head -1",
     "P=$(which llama-server)", "sudo pkill llama-server"],
)  # fmt: skip
def test_what_handles_a_program_starts_none(line: str) -> None:
    assert launches(f"#!/bin/bash\n{line}\n", "x.sh") == []
    assert len(launches(f"#!/bin/bash\n{line}\nsudo -u ai llama-server -m a.gguf\n", "x.sh")) == 1


def test_a_program_that_is_looked_up_is_started() -> None:
    (launch,) = launches('#!/bin/bash\nB="$(command -v llama-server)"\n"$B" -m a.gguf\n', "x.sh")
    assert launch.engine == "llama.cpp"


def test_a_sentence_is_no_launch() -> None:
    text = "annotations: {summary: llama-server inference backend is unavailable}\n"
    assert launches(text, "x.yaml") == []


@pytest.mark.parametrize(
    ("service", "kept"),
    [("image: ollama/ollama:0.13.0\n    command: [sh, -c, ollama serve & wait]", True),
     ("image: ollama/ollama:0.13.0\n    entrypoint: [sh, -c, ollama serve & wait]", False),
     ("image: ollama/ollama:0.13.0\n    entrypoint: ''\n    command: [sh, -c, ollama serve & wait]", False),
     ("image: ollama/ollama:0.13.0\n    command: serve", False),
     ("image: ghcr.io/ggml-org/llama.cpp:server-cuda-b11434\n    command: llama-server -m /a.gguf", True),
     ("image: ghcr.io/ggml-org/llama.cpp:server-cuda-b11434\n    command: -m /a.gguf", False),
     ("image: ghcr.io/ggml-org/llama.cpp:full-cuda-b11434\n    command: llama-server -m /a.gguf", False)],
)  # fmt: skip
def test_an_image_that_keeps_its_entry_point(service: str, kept: bool) -> None:
    """ENTRYPOINT of the images' Dockerfiles: /bin/ollama, /app/llama-server; of `full` it is a script of tools."""
    found = rules_of(check_text(f"services:\n  s:\n    {service}\n", "compose.yaml"))
    assert ("entrypoint-kept" in found) is kept


ROLE = """\
- name: Deploy
  kubernetes.core.k8s: {state: present, template: serve.yaml.j2}
- name: Something else
  ansible.builtin.template: {src: absent.j2, dest: /etc/x}
"""
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: v
    image: {{ vllm_image | quote }}
    args: [--model, Qwen/Qwen3-8B, --max-model-len, "{{ length }}"]
"""


def test_templates_of_a_role_stand_where_their_task_does(tmp_path: Path) -> None:
    for folder in (".git", "roles/v/tasks", "roles/v/templates"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "roles/v/templates/serve.yaml.j2").write_text(MANIFEST)
    tasks = tmp_path / "roles/v/tasks"
    (launch,) = launches(ROLE, str(tasks / "main.yml"), tasks)
    assert (launch.engine, launch.line, str(launch.argv[1])) == ("vllm", 2, "Qwen/Qwen3-8B")
    (alone,) = launches(MANIFEST, "serve.yaml.j2")
    assert (alone.line, str(alone.argv[3])) == (8, "${length}")


def test_a_comment_may_hand_gpus_to_all_pods() -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
    pod += "  - {name: v, image: 'vllm/vllm-openai:v0.33.0', args: [a/b]}\n"
    assert "k8s-gpu-limit-missing" in rules_of(check_text(pod, "p.yaml"))
    said = "# No nvidia.com/gpu here: the default runtime of the node gives every pod its GPUs\n"
    assert "k8s-gpu-limit-missing" not in rules_of(check_text(said + pod, "p.yaml"))
