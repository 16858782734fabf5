"""Targets, structure of the files, known flags, users' own templates, and writing."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from flag_facts import facts
from launching import ENGINES, RULES, launch, rendered
from reading import read_yaml

from advisor import engines
from advisor.checks.read.units import split_exec_words
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, resolve_request
from advisor.render.environment import make_environment
from advisor.render.files import (
    LaunchFile,
    list_targets,
    render_command,
    render_container_command,
    render_files,
    write_files,
)
from advisor.session import Session

FLAGS = Path(__file__).parent.parent / "data" / "flags"
COMMAND_ONLY = ("tensorrt-llm", "lmdeploy", "max", "tgi", "mlx-lm", "mlc-llm", "transformers")
HARDWARE = ("RTX 4090", "2x RTX 3090", "cpu, 64GB RAM", "RX 7900 XTX", "T4", "8x H100 80GB SXM")


def known(engine: str) -> set[str]:
    """Flags of the engine's parser; Ollama has variables instead."""
    if engine != "ollama":
        return set(facts(engine)["kinds"])
    lines = (FLAGS / f"{engine}.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "sglang", "lmdeploy", "max", "tgi", "tensorrt-llm", "mlx-lm"])
def test_decided_flags_are_flags_of_the_engine(engine: str, hardware: str) -> None:
    entry = RULES.engine(engine)
    module, inner = engines.find_engine_module(engine, RULES.engines())
    special: dict[str, dict[str, object]] = {
        "llama.cpp": {"cpu-moe": True, "embeddings": True, "cache-type-k": "q8_0", "cache-type-v": "q8_0"},
        "vllm": {"tensor-parallel-size": 2, "pipeline-parallel-size": 2, "data-parallel-size": 2, "enforce-eager": True,
                 "enable-expert-parallel": True, "language-model-only": True, "kv-cache-dtype": "fp8"},
        "sglang": {"tp-size": 4, "dp-size": 2, "enable-dp-attention": True, "kv-cache-dtype": "fp8_e4m3"},
        "lmdeploy": {"tp": 2}, "tgi": {"num-shard": 2}, "tensorrt-llm": {"tensor_parallel_size": 2},
    }  # fmt: skip
    for settings in ({}, special.get(engine, {})):
        request = EstimateRequest(
            model="Qwen/Qwen3-30B-A3B", engine=engine, hardware=hardware, context_length=4096, settings=settings
        )
        d, _ = resolve_request(request, RULES)
        d = msgspec.structs.replace(d, served_name="x")
        for x in module.launch_settings(d, inner, RULES.quantization(d.quantization)):
            assert f"--{x.name}" in known(entry.id), x.name
            assert x.because


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("engine", [*ENGINES, *COMMAND_ONLY])
def test_rendered_commands_use_known_flags_only(engine: str, hardware: str) -> None:
    d = launch(engine, hardware=hardware)
    script = rendered(d, "command").content
    if engine == "ollama":
        names = re.findall(r"^export ([A-Z_]+)=", script, re.M)
        assert names
        assert set(names) <= known("ollama")
        return
    line = script[script.index("exec ") :].replace("\\\n", " ")
    words = [w for w in shlex.split(line) if w.startswith("-") and not re.fullmatch(r"-[\d.]+", w)]
    assert len(words) >= 2
    assert set(words) <= known(engine), set(words) - known(engine)


def has_image(engine: str, hardware: str) -> bool:
    lanes = {i.lane for i in RULES.engine(engine).images}
    wanted = "rocm" if "RX" in hardware and "RTX" not in hardware else "cpu" if "cpu" in hardware else "cuda"
    return any(lane.startswith(wanted) for lane in lanes) or (wanted == "rocm" and "vulkan" in lanes)


@pytest.mark.parametrize("hardware", ["RTX 4090", "2x RTX 3090", "cpu, 64GB RAM", "RX 7900 XTX"])
@pytest.mark.parametrize("engine", ENGINES)
def test_compose_files_have_the_shape_compose_wants(engine: str, hardware: str) -> None:
    d = launch(engine, hardware=hardware)
    if not has_image(engine, hardware):
        with pytest.raises(BadInput, match="no container image"):
            rendered(d, "compose")
        return
    data = read_yaml(rendered(d, "compose").content)
    assert set(data) <= {"services", "volumes"}
    named = set(data.get("volumes") or {})
    for service in data["services"].values():
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", service["image"])
        assert not service["image"].endswith(":latest")
        assert all(isinstance(w, str) for w in service.get("command", []))
        assert all(isinstance(v, str) for v in service.get("environment", {}).values())
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
        for v in service.get("volumes", []):
            if isinstance(v, str):
                assert v.split(":")[0] in named
            else:
                assert set(v) == {"type", "source", "target", "read_only"}
    first = next(iter(data["services"].values()))
    if "RTX" in hardware:
        (device,) = first["deploy"]["resources"]["reservations"]["devices"]
        assert device == {
            "driver": "nvidia",
            "count": 2 if hardware[1] == "x" and engine in ("llama.cpp", "ollama") else 1,  # the others: one rank
            "capabilities": ["gpu"],
        }
    if "cpu" in hardware:
        assert "deploy" not in first
    if "RX " in hardware:
        assert "/dev/kfd" in first["devices"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["command", "docker", "compose"])
def test_scripts_are_shell_and_listen_on_loopback(engine: str, target: str, tmp_path: Path) -> None:
    assert target in list_targets(engine, RULES)
    file = rendered(launch(engine), target)
    if file.name.endswith(".sh"):
        assert file.executable
        (tmp_path / "x").write_text(file.content)
        subprocess.run(["sh", "-n", str(tmp_path / "x")], check=True)
    assert "127.0.0.1" in file.content


def test_the_pasted_command_is_the_scripts_own() -> None:
    for engine in (
        "llama.cpp",
        "vllm",
        "sglang",
        "lmdeploy",
        "transformers",
        "tensorrt-llm",
        "ktransformers",
        "ramalama",
    ):
        d = launch(engine, served_name="it's $(mine)")
        assert rendered(d, "command").content.split("exec ", 1)[1].strip() == render_command(d, Session(RULES))


def test_the_pasted_container_command_is_the_scripts_own() -> None:
    for engine in ("llama.cpp", "vllm", "sglang"):
        for hardware in ("RTX 4090, linux", "RX 7900 XTX, linux", "cpu, 64GB RAM, linux"):
            d = launch(engine, hardware=hardware, served_name="it's $(mine)")
            try:
                script = rendered(d, "docker").content
            except BadInput:  # no image for these devices
                continue
            assert script.split("exec ", 1)[1].strip() == render_container_command(d, Session(RULES))


def test_a_pasted_container_command_needs_no_templates() -> None:
    asked = "from advisor.cli.main import run_command_line as run; run(['recommend', '--on', 'cpu, 16GB RAM, linux'])"
    code = f"import sys; {asked}; sys.exit('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "docker run" in done.stdout
    assert done.returncode == 0


def test_addresses_of_version_6_are_bracketed() -> None:
    assert "'[::1]:8000:8000'" in rendered(launch("vllm", host="::1"), "docker").content
    assert "--host ::1 " in rendered(launch("vllm", host="::1"), "command").content


def test_what_there_is_no_template_or_image_for() -> None:
    with pytest.raises(BadInput, match="unknown target 'composee'"):
        render_files(launch("vllm"), "composee", Session(RULES))
    with pytest.raises(BadInput, match="no ray file: Ray Serve LLM drives vLLM"):
        render_files(launch("llama.cpp"), "ray", Session(RULES))
    with pytest.raises(BadInput, match="no container image"):
        rendered(launch("vllm", hardware="M3 Max 64GB"), "docker")


def own_template(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "vllm").mkdir()
    (folder / "vllm" / "command.j2").write_text(text)
    monkeypatch.setenv("ADVISOR_TEMPLATES", str(folder))


def test_a_users_template_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_template(tmp_path, monkeypatch, "mine {{ model.repository | sh }}\n")
    assert render_command(launch("vllm"), Session(RULES)) == "mine meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ modle.path }}", "modle"),
        ("{{ model.pth }}", "pth"),
        ("a\n{% if %}", "line 2"),
        ("{{ ''.__class__.__mro__ }}", "__class__"),
        ("{{ model.__class__ }}", "__class__"),
        ("{{ arguments.append(1) }}", "append"),
        ("{{ 1 // 0 }}", "division"),
        ("{{ model + 1 }}", "unsupported"),
        ("{% include 'absent.j2' %}", "absent"),
        ("{% include '../../../../etc/passwd' %}", "passwd"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    ],
)
def test_wrong_templates_are_one_clear_error(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undefined names fail (no silent gaps), and the sandbox lets nothing reach the program."""
    own_template(tmp_path, monkeypatch, text)
    with pytest.raises(BadInput, match=r"template vllm/command\.j2") as e:
        render_command(launch("vllm"), Session(RULES))
    assert words in e.value.message


def test_the_environment_escapes_nothing_by_itself(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{{ x }}|{{ x | sh }}|{{ x | yaml }}|{{ x | compose }}")
    made = make_environment((tmp_path,)).get_template("t.j2").render(x="a $b")
    assert made == 'a $b|\'a $b\'|"a $b"|"a $$b"'


ONE = (LaunchFile(name="run.sh", content="#!/bin/sh\n", executable=True),)


def test_nothing_is_overwritten_unless_forced(tmp_path: Path) -> None:
    (path,) = write_files(ONE, tmp_path / "new" / "folder")
    assert path.stat().st_mode & 0o111
    path.write_text("mine")
    two = (LaunchFile(name="other", content="x"), *ONE)
    with pytest.raises(BadInput, match=r"run\.sh is there already; --force"):
        write_files(two, path.parent)
    assert path.read_text() == "mine"
    assert not (path.parent / "other").exists()
    write_files(two, path.parent, force=True)
    assert path.read_text() == "#!/bin/sh\n"


def test_links_are_replaced_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep")
    for name, points_to in (("a", target), ("b", tmp_path / "absent")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.sh").symlink_to(points_to)
        with pytest.raises(BadInput, match="already"):
            write_files(ONE, folder)
        write_files(ONE, folder, force=True)
        assert not (folder / "run.sh").is_symlink()
    assert target.read_text() == "keep"
    assert not (tmp_path / "absent").exists()


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "d" / "run.sh").mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "d", tmp_path / "a\0b"):
        with pytest.raises(BadInput):
            write_files(ONE, folder, force=True)


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "sglang"])
def test_a_unit_that_others_reach_does_not_start_without_a_key(engine: str) -> None:
    """The unit's own check, run by a shell as systemd would, with the key and without."""
    d, _ = resolve_request(EstimateRequest(model="qwen3:8b", engine=engine, hardware="RTX 4090"), RULES)
    (inside,) = render_files(d, "systemd", Session(RULES))
    assert "ExecStartPre" not in inside.content
    (unit,) = render_files(msgspec.structs.replace(d, host="0.0.0.0"), "systemd", Session(RULES))
    (line,) = [x for x in unit.content.splitlines() if x.startswith("ExecStartPre=")]
    env, sh, flag, script = split_exec_words(line.partition("=")[2], known={})
    assert (env, sh, flag) == ("/usr/bin/env", "sh", "-c")
    variable = re.search(r"set (\w+)", script)
    assert variable is not None
    for value, status in (("", 1), ("a-key", 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", str(script)], env={variable[1]: value}, capture_output=True, check=False
        )
        assert done.returncode == status
