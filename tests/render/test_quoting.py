"""Whatever a name holds, the program gets exactly it and the shell runs nothing."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile import NAMES, TEXT
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import ENGINES, RULES, calls, launch, rendered
from reading import argv, unit_split, unit_word

from advisor.errors import BadInput
from advisor.render import environment as environment_module
from advisor.render.environment import compose_scalar, quote_comment, quote_shell, yaml_scalar
from advisor.render.files import list_targets


@given(TEXT)
def test_a_yaml_scalar_reads_back(text: str) -> None:
    assert yaml.safe_load(yaml_scalar(text)) == text
    assert yaml.safe_load(f"a:\n  - {yaml_scalar(text)}\n  - b: {yaml_scalar(text)}\n") == {"a": [text, {"b": text}]}


@given(TEXT)
def test_a_compose_scalar_expands_nothing(text: str) -> None:
    read = yaml.safe_load(compose_scalar(text))
    assert "$" not in read.replace("$$", "")
    assert read.replace("$$", "$") == text


@given(TEXT)
def test_a_comment_stays_on_its_line(text: str) -> None:
    shown = quote_comment(text)
    assert len(shown.splitlines()) <= 1
    assert yaml.safe_load(f"# {shown}\na: 1\n") == {"a": 1}


@given(TEXT)
def test_a_shell_word_reads_back(text: str) -> None:
    import shlex

    assert shlex.split(quote_shell(text)) == [text]


# engine -> program, and where in its arguments the model is
PROGRAMS = {
    "llama.cpp": ("llama-server", 2),
    "vllm": ("vllm", 2),
    "sglang": ("sglang", 3),
    "tensorrt-llm": ("trtllm-serve", 1),
    "lmdeploy": ("lmdeploy", 3),
    "max": ("max", 3),
    "tgi": ("text-generation-launcher", 2),
    "mlx-lm": ("mlx_lm.server", 2),
    "mlc-llm": ("mlc_llm", 2),
    "transformers": ("transformers", 2),
}


def after(call: list[str], flag: str) -> str:
    """The value of a flag: behind it, or joined to it where it begins with a dash."""
    joined = next((w for w in call if w.startswith(f"{flag}=")), None)
    return joined.partition("=")[2] if joined is not None else call[call.index(flag) + 1]


@settings(max_examples=25)
@given(NAMES, TEXT)
@pytest.mark.parametrize("engine", list(PROGRAMS))
def test_the_program_gets_exactly_the_path_and_the_name(engine: str, file: str, served: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        d = launch(engine, model_path=file, served_name=served)
        program, at = PROGRAMS[engine]
        (call,) = calls(rendered(d, "command").content, Path(folder), (program,))
        assert not (Path(folder) / "pwned").exists()
        want = f"./{file}" if file.startswith("-") else file
        assert call[0] == program
        assert call[at] == want
        name = {"llama.cpp": "--alias", "vllm": "--served-model-name", "sglang": "--served-model-name"}.get(engine)
        if name:
            assert after(call, name) == served


@settings(max_examples=15)
@given(NAMES.filter(lambda s: s == s.strip() and not {"\n", "\r"} & set(s)))
def test_ollama_gets_exactly_the_path(file: str) -> None:
    """A Modelfile is made in between: one line, FROM and the whole path. Ollama cuts off blanks: they are refused."""
    with tempfile.TemporaryDirectory() as folder:
        script = rendered(launch("ollama", model_path=file), "command").content
        script = script.replace("ollama serve &\n", "sleep 1 >/dev/null 2>&1 &\n")
        script = script.replace("ollama create", 'cat "$MODELFILE" | ollama create')
        said = calls(script, Path(folder), ("curl", "ollama"))
        assert said.pop(0)[-1] == "http://127.0.0.1:11434/"
        assert not (Path(folder) / "pwned").exists()
        create = next(c for c in said if c[1] == "create")
        assert create[-1] == f"FROM {Path(folder).resolve() / file}\n"
        assert said[-1][1:] == ["run", create[2]]


@settings(max_examples=15)
@given(NAMES.filter(lambda s: not s.endswith("\n") and not {'"', "\x01"} & set(s)))  # \x01 stands for a newline below
@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "sglang", "tensorrt-llm", "lmdeploy", "max", "tgi"])
def test_docker_mounts_exactly_the_path(engine: str, file: str) -> None:
    """`--mount` takes comma-separated values, a field with commas in double quotes."""
    with tempfile.TemporaryDirectory() as folder:
        d = launch(engine, model_path=file)
        (call,) = calls(rendered(d, "docker").content, Path(folder), ("docker",))
        assert not (Path(folder) / "pwned").exists()
        mount = next(csv.reader(io.StringIO(after(call, "--mount"), newline="")))
        fields = dict(f.partition("=")[::2] for f in mount)
        whole = Path(folder).resolve() / file
        if engine == "llama.cpp":
            assert fields["source"] == str(whole.parent)
            assert after(call, "-m") == f"/models/{file}"
        else:
            assert fields["source"] == str(whole)
            assert "/model" in call
        assert "readonly" in fields


@settings(max_examples=25)
@given(NAMES, TEXT, TEXT)
@pytest.mark.parametrize("engine", ENGINES)
def test_compose_files_read_back(engine: str, file: str, served: str, value: str) -> None:
    d = launch(engine, model_path=f"/srv/models/{file}", served_name=served, environment={"EXTRA": value})
    if engine == "ollama" and (file != file.strip() or {"\n", "\r"} & set(file)):
        with pytest.raises(BadInput, match="Modelfile"):
            rendered(d, "compose")
        return
    data = yaml.safe_load(rendered(d, "compose").content)
    service = next(iter(data["services"].values()))
    if engine != "llama.cpp":
        assert service["environment"]["EXTRA"].replace("$$", "$") == value
    words = [w.replace("$$", "$") for w in service.get("command", [])]
    if engine == "llama.cpp":
        assert after(words, "-m") == f"/models/{file}"
        assert service["volumes"][0]["source"] == "/srv/models"
        assert after(words, "--alias") == served
    elif engine == "ollama":
        create = data["services"]["create"]
        assert create["command"][0].replace("$$", "$") == file
        assert create["volumes"][0]["source"] == "/srv/models"
    else:
        assert service["volumes"][0]["source"].replace("$$", "$") == f"/srv/models/{file}"
        assert after(words, "--served-model-name") == served


@pytest.mark.parametrize("target", ["command", "docker", "compose"])
def test_names_that_are_no_text_are_refused(target: str) -> None:
    for name in ("a\0b", "a\udc80b"):
        with pytest.raises(BadInput):
            rendered(launch("vllm", model_path=name), target)


def test_names_of_variables_are_checked() -> None:
    for name in ("A B", "A;touch pwned", "1A", "", "A=B", "A\nB"):
        with pytest.raises(BadInput, match="environment"):
            rendered(launch("vllm", environment={name: "x"}), "command")


def test_environment_reaches_the_program(tmp_path: Path) -> None:
    value = "it's $(touch pwned) 😀"
    script = rendered(launch("vllm", environment={"EXTRA": value}), "command").content
    (call,) = calls(script.replace("exec vllm serve", 'exec vllm "$EXTRA" serve'), tmp_path, ("vllm",))
    assert call[1] == value


def other_files(engine: str, target: str, **more: Any) -> list[str] | None:
    """The words in a file; None where the file cannot hold such a name, which is reported."""
    d = launch(engine, **more)
    if target == "llama-swap" and any(x in str(v) for v in more.values() for x in ("${", "\n", "\r")):
        with pytest.raises(BadInput, match="cannot stand in a llama-swap file"):
            rendered(d, target)
        return None
    content = rendered(d, target).content
    image = re.search(r"image(?:_id)?: \"?(?:docker:)?([^\s\"]+)", content)
    return argv(target, content, image[1] if image else None)


@settings(max_examples=12)
@given(NAMES, TEXT)
@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "sglang"])
@pytest.mark.parametrize("target", ["kubernetes", "systemd", "skypilot", "llama-swap"])
def test_every_file_holds_exactly_the_names(target: str, engine: str, file: str, served: str) -> None:
    words = other_files(engine, target, model_path=f"/srv/m/{file}", served_name=served)
    if words is None:
        return
    name = "--alias" if engine == "llama.cpp" else "--served-model-name"
    assert after(words, name) == served
    inside = target in ("kubernetes", "kserve", "skypilot")
    place = f"/models/{file}" if engine == "llama.cpp" else "/model"
    flag = {"llama.cpp": "-m", "sglang": "--model-path", "vllm": "serve"}[engine]
    at = words.index(flag) + 1 if flag in words else 0
    assert words[at] == (place if inside else f"/srv/m/{file}")


@settings(max_examples=15)
@given(TEXT)
def test_groups_of_pods_hold_exactly_the_name(served: str) -> None:
    for engine in ("vllm", "sglang"):
        words = other_files(engine, "lws", hardware="8x H100 80GB SXM, 2 nodes", served_name=served)
        assert words is not None
        assert after(words, "--served-model-name") == served


@settings(max_examples=10)
@given(TEXT)
@pytest.mark.parametrize("nodes", ["", ", 2 nodes"])
def test_a_real_shell_runs_a_rented_machine_with_exactly_the_name(nodes: str, served: str) -> None:
    """The script of SkyPilot's file, as YAML gives it, under sh; what the nodes add stands behind."""
    d = launch("vllm", hardware=f"8x H100 80GB SXM{nodes}", served_name=served,
               settings={"tensor-parallel-size": 8, "pipeline-parallel-size": 2} if nodes else {})  # fmt: skip
    run = yaml.safe_load(rendered(d, "skypilot").content)["run"]
    around = "export API_KEY=k SKYPILOT_NODE_IPS=10.0.0.1 SKYPILOT_NODE_RANK=1 SKYPILOT_NUM_NODES=2\n"
    with tempfile.TemporaryDirectory() as folder:
        (call,) = calls(around + run, Path(folder), ("vllm",))
        assert not (Path(folder) / "pwned").exists()
    assert after(call, "--served-model-name") == served
    if nodes:
        assert call[-7:] == ["--nnodes", "2", "--node-rank", "1", "--master-addr", "10.0.0.1", "--headless"]


@settings(max_examples=10)
@given(TEXT)
def test_a_real_shell_runs_a_batch_job_with_exactly_the_name(served: str) -> None:
    d = launch("vllm", hardware="8x H100 80GB SXM", served_name=served)
    with tempfile.TemporaryDirectory() as folder:
        (call,) = calls(rendered(d, "slurm").content, Path(folder), ("srun",))
        assert not (Path(folder) / "pwned").exists()
    assert call[:3] == ["srun", "vllm", "serve"]
    assert after(call, "--served-model-name") == served


@settings(max_examples=15)
@given(NAMES.filter(lambda s: not s.endswith("\n")))
def test_tabbyapi_reads_exactly_the_model(file: str) -> None:
    """The script writes a configuration and names it; it is read back as TabbyAPI does, as YAML."""
    with tempfile.TemporaryDirectory() as folder:
        script = rendered(launch("exllamav3", model_path=f"/srv/m/{file}"), "command").content
        script = script.replace("exec python", 'cat "$CONFIG" | python')
        (call,) = calls(script, Path(folder), ("python",))
        assert not (Path(folder) / "pwned").exists()
        config = yaml.safe_load(call[-1])
        Path(call[-2]).unlink()
    assert config["model"]["model_dir"] == "/srv/m"
    assert config["model"]["model_name"] == file


@settings(max_examples=40)
@given(TEXT)
def test_values_in_units_read_back(text: str) -> None:
    """Against the rules of systemd.syntax(7), written down apart from the filter."""
    assert unit_word(environment_module.unit_word(text)) == text
    (word,) = unit_split(environment_module.unit_word(text))
    assert unit_word(word) == text
    assert "\n" not in environment_module.unit_value(text)


@settings(max_examples=40)
@given(TEXT)
def test_kubernetes_expands_nothing(text: str) -> None:
    read = yaml.safe_load(environment_module.kube_scalar(text))
    assert "$" not in read.replace("$$", "")
    assert read.replace("$$", "$") == text


@given(TEXT, TEXT)
def test_python_clients_hold_exactly_the_address(url: str, name: str) -> None:
    import ast

    assert ast.literal_eval(environment_module.python_literal(url)) == url
    assert json.loads(environment_module.json_literal(name)) == name


@functools.cache
def plain_words(engine: str, target: str) -> list[str] | None:
    return other_files(engine, target, model_path="/srv/m/plain", served_name="plain")


@pytest.mark.slow
@settings(max_examples=600)
@given(NAMES, TEXT, st.sampled_from(["kubernetes", "systemd", "skypilot", "kserve", "compose"]))
def test_thousands_of_hostile_deployments(file: str, served: str, target: str) -> None:
    """Seven engines each: the words are those of the shell command wherever they stand."""
    for engine in ("vllm", "sglang", "llama.cpp", "lmdeploy", "max", "tgi", "tensorrt-llm"):
        if target not in list_targets(engine, RULES):
            continue
        words = other_files(engine, target, model_path=f"/srv/m/{file}", served_name=served)
        plain = plain_words(engine, target)
        assert words is not None
        assert plain is not None
        # a value with a dash is joined to its flag for argparse
        words = [part for w in words for part in (w.split("=", 1) if re.match(r"--[\w-]+=-", w) else [w])]
        assert len(words) == len(plain)
        differ = {w for w, p in zip(words, plain, strict=True) if w != p}
        assert differ <= {served, file, f"/srv/m/{file}", f"/models/{file}"}
