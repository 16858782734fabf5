"""Compose files and scripts as projects have them: services that exclude each other, files in other folders, slips."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check_text, launches, rules_of

SERVICE = """\
  {}:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-{}B --gpu-memory-utilization 0.6 --max-model-len 4096{}
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ['0'], capabilities: [gpu]}}]}}}}}}
    {}
"""


def two_services(first: str, second: str, words: str = "", third: str = "") -> set[str]:
    text = "services:\n" + SERVICE.format("a", 4, words, first) + SERVICE.format("b", 8, words, second)
    text += SERVICE.format("c", 1.7, "", third) if third else ""
    return rules_of(check_text(text, "compose.yaml"))


@pytest.mark.parametrize(
    ("first", "second", "words", "together"),
    [
        ("ports: ['8000:8000']", "ports: ['8001:8000']", "", True),
        ("ports: ['8000:8000']", "ports: ['8000:8000']", "", False),
        ("ports: ['8000:8000']", "ports: ['127.0.0.1:${P:-8000}:80']", "", False),
        ("ports: ['8000']", "ports: ['8000']", "", True),  # the host gives each a port of its own
        ("container_name: a", "container_name: b", "", True),
        ("container_name: a", "container_name: a", "", False),
        ("network_mode: host", "network_mode: host", " --port 8000", False),
        ("network_mode: bridge", "network_mode: bridge", " --port 8000", True),
    ],
)
def test_services_that_exclude_each_other_share_no_card(first: str, second: str, words: str, together: bool) -> None:
    """Docker binds a port of the host once; compose-go refuses a container name that stands twice."""
    found = two_services(first, second, words)
    assert ("shared-gpu-overcommit" in found) is together
    assert ("compose-alternatives" in found) is not together


def test_alternatives_by_profile_are_meant(tmp_path: Path) -> None:
    both = "profiles: [{}]\n    ports: ['8000:8000']"
    found = two_services(both.format("a"), both.format("b"))
    assert not found & {"shared-gpu-overcommit", "compose-alternatives"}


def test_a_base_in_another_folder_is_built_there(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for folder in ("common/docker", "app"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "common/docker/Dockerfile").write_text("ARG V=v0.6.2\nFROM vllm/vllm-openai:${V}\n")
    (tmp_path / "common/m.env").write_text("HF_HOME=/hf\n")
    (tmp_path / "common/base.yaml").write_text("services: {b: {build: docker, env_file: m.env}}\n")
    text = "services: {{a: {{extends: {{file: {}common/base.yaml, service: b}}, command: --model Qwen/Qwen3-8B}}}}\n"
    for folder, before in (("app", "../"), (".", "")):
        (x,) = launches(text.format(before), str(tmp_path / folder / "compose.yaml"), tmp_path / folder)
        assert (x.engine, x.version, x.env.get("HF_HOME")) == ("vllm", "0.6.2", "/hf")
    above = "services: {a: {build: {context: ..}, image: me/mine, command: vllm serve Qwen/Qwen3-8B}}\n"
    (tmp_path / "Dockerfile").write_text("FROM vllm/vllm-openai:v0.6.3\nENTRYPOINT []\n")
    (x,) = launches(above, str(tmp_path / "app/compose.yaml"), tmp_path / "app")
    assert x.version == "0.6.3"
    (tmp_path / "other/.git").mkdir(parents=True)  # what is above lies in another tree
    (x,) = launches(above, str(tmp_path / "other/compose.yaml"), tmp_path / "other")
    assert x.version is None


@pytest.mark.parametrize(
    ("entries", "files", "expected"),
    [
        ("['A: 1']", "[]", {"compose-env-no-assignment"}),
        ("[A=1, B]", "[]", set[str]()),  # B is taken from the caller
        ("{A: 1}", "[there.env]", set[str]()),
        ("{A: 1}", "[gone.env]", {"compose-env-file-missing"}),
        ("{A: 1}", "[{path: gone.env, required: false}]", set[str]()),
        ("{A: 1}", "['${E}.env']", set[str]()),
    ],
)
def test_variables_that_are_not_set(tmp_path: Path, entries: str, files: str, expected: set[str]) -> None:
    (tmp_path / "there.env").write_text("X=1\n")
    text = f"services: {{v: {{image: 'vllm/vllm-openai:v0.33.0', environment: {entries}, env_file: {files}}}}}\n"
    found = rules_of(check_text(text, str(tmp_path / "compose.yaml"), tmp_path))
    assert {x for x in found if x.startswith("compose-env")} == expected


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("vllm serve Qwen/Qwen3-8B \\\n  --port 8000\n", False),
        ("vllm serve Qwen/Qwen3-8B\n  --port 8000\n", True),
        ("vllm serve Qwen/Qwen3-8B \\ \n  --port 8000\n", True),
        ("vllm serve Qwen/Qwen3-8B \\\n  # a note \\\n  --port 8000\n", True),
        ("docker run --gpus all --ipc host  # why \\\n  -p 80:8000 vllm/vllm-openai:v0.33.0 --model a/b\n", True),
        ("docker run --gpus all vllm/vllm-openai:v0.33.0 \\\n  --model a/b\nexit 0\n", False),
        ("bash -c 'vllm serve Qwen/Qwen3-8B\n  --port 8000'\n", True),
    ],
)
def test_words_behind_the_end_of_a_command(text: str, cut: bool) -> None:
    """POSIX.1-2017, Shell Command Language, 2.2.1: only a backslash right before the line's end continues it."""
    found = check_text("#!/bin/sh\n" + text, "run.sh")
    assert ("command-cut-off" in rules_of(found)) is cut
    assert len(found.verdicts) == 1


def test_a_folded_text_that_nobody_knows_is_no_script() -> None:
    assert "command-cut-off" not in rules_of(
        check_text("x:\n  start: |\n    vllm serve Qwen/Qwen3-8B\n      --port 80\n")
    )


def test_compose_run_starts_what_stands_behind_the_service() -> None:
    text = (
        "docker compose -f a.yaml --profile x run -T --rm --service-ports -e A=1 v vllm serve Qwen/Qwen3-8B --nope 1\n"
    )
    (x,) = launches(text, "a.sh")
    assert [str(w) for w in x.argv] == ["Qwen/Qwen3-8B", "--nope", "1"]
    assert launches("docker-compose run --rm v --model Qwen/Qwen3-8B\n", "a.sh") == []  # the service is elsewhere


@pytest.mark.parametrize(
    ("image", "wrong"),
    [("vllm/vllm-openai:v0.33.0", True), ("lmsysorg/sglang:v0.5.19", False), ("runpod/worker-vllm:1", False)],
)
def test_a_model_in_a_variable_that_the_engine_does_not_read(image: str, wrong: bool) -> None:
    text = f"services: {{v: {{image: '{image}', environment: {{HF_MODEL_ID: Qwen/Qwen3-8B}}, gpus: all}}}}\n"
    found = check_text(text, "compose.yaml")
    assert ("env-as-flags" in rules_of(found)) is wrong
    assert all(d.model is None for d in found.verdicts) or not wrong


def test_a_shell_that_ends_as_a_script_starts_what_nobody_sees() -> None:
    text = (
        "services: {v: {image: 'lmsysorg/sglang:v0.5.19', command: [bash, -c, 'curl -s u > s.sh && exec bash s.sh']}}\n"
    )
    (x,) = launches(text, "compose.yaml")
    assert (x.engine, x.unresolved) == ("sglang", ("what `s.sh` starts",))
    assert launches(text.replace("exec bash s.sh", "echo done"), "compose.yaml") == []


def test_a_list_of_a_dockerfile_that_is_no_json_goes_to_a_shell() -> None:
    """llama.cpp 14019: the server was handed /bin/sh."""
    image = "FROM ghcr.io/ggml-org/llama.cpp:server-cuda-b5583\nCMD [{}]\n"
    for words, wrong in (
        ('"-hf", "a/b-GGUF" "--port", "80"', True),
        ('"-hf", "a/b-GGUF",', True),
        ('"-hf", "a/b"', False),
    ):
        found = check_text(image.format(words), "Dockerfile")
        assert ("dockerfile-no-json" in rules_of(found)) is wrong
        assert len(found.verdicts) == 1


def test_a_shell_takes_options_behind_its_c() -> None:
    """vllm 32755: the image's entry point got `bash -c -i` as arguments."""
    text = (
        "services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: 'bash -c -i \"vllm serve openai/gpt-oss-20b\"'}}\n"
    )
    assert "entrypoint-doubled" in rules_of(check_text(text, "compose.yaml"))


def test_a_program_and_its_words_stand_in_a_file_that_is_read_in(tmp_path: Path) -> None:
    (tmp_path / "s.env").write_text("LLAMA_SERVER=/opt/own/bin/llama-server\nMODEL=/m/Qwen3-8B-Q4_K_M.gguf\n")
    script = (
        '#!/bin/bash\nENV_FILE="$(dirname "$0")/s.env"\nsource "$ENV_FILE"\nexec "$LLAMA_SERVER" -m "$MODEL" -c 4096\n'
    )
    (tmp_path / "start.sh").write_text(script)
    unit = "[Service]\nExecStart=/srv/start.sh\n"
    for text, name in ((script, "start.sh"), (unit, "a.service")):
        (x,) = launches(text, str(tmp_path / name), tmp_path)
        assert [str(w) for w in x.argv] == ["-m", "/m/Qwen3-8B-Q4_K_M.gguf", "-c", "4096"]
    (x,) = launches('"${LLAMA_SERVER_BIN}" -m a.gguf\n"$OTHER_TOOL" -m b.gguf\n', "a.sh")  # its name says which it is
    assert x.engine == "llama.cpp"


def test_a_quoted_text_over_several_lines_keeps_its_dollars_and_line_ends() -> None:
    body = "    command: >\n      sh -c '\n        for i in $$(seq 1 9); do\n          sleep 1;\n        done;\n\n"
    body += "        exec ollama serve\n      '\n"
    found = check_text("services:\n  o:\n    image: ollama/ollama:0.11.0\n    entrypoint: []\n" + body, "compose.yaml")
    assert found.problem is None
    assert [d.engine for d in found.verdicts] == ["ollama"]


WORDS = "Qwen/Qwen3.5-35B-A3B --max-model-len 8192\n"  # worker-vllm 279: the architecture came in 0.17.0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("docker run --gpus all vllm/vllm-openai:v{} --model " + WORDS, "engine-refuses"),
        ("docker run --gpus all --entrypoint vllm vllm/vllm-openai:v{} serve " + WORDS, "engine-refuses"),
        ("docker run --gpus all vllm/vllm-openai:v{} --trust-remote-code --model " + WORDS, "engine-may-refuse"),
        ("pip install vllm=={}\nvllm serve " + WORDS, "engine-may-refuse"),
        (
            "docker run --gpus all --entrypoint bash vllm/vllm-openai:v{} -c 'pip install -U transformers; vllm serve "
            + WORDS.strip() + "'\n", "engine-may-refuse",
        ),
    ],
)  # fmt: skip
def test_a_model_newer_than_a_release_is_refused_by_its_image_and_doubted_elsewhere(text: str, rule: str) -> None:
    """An image holds the Transformers of its day; what is installed by hand may be newer."""
    both = {"engine-refuses", "engine-may-refuse"}
    assert rules_of(check_text(text.format("0.16.0"), "a.sh")) & both == {rule}
    assert not rules_of(check_text(text.format("0.33.0"), "a.sh")) & both


def test_what_a_script_writes_is_no_script() -> None:
    text = "#!/bin/sh\nsudo tee /etc/o.plist >/dev/null <<EOF\n<?xml version='1.0'?>\n<a>(ollama</a>\nEOF\n"
    found = check_text(text, "install.sh")
    assert (found.problem, found.verdicts) == (None, ())
