"""Files as the programs that read them see them: schemas, validators and parsers that others wrote."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from launching import RULES, launch, rendered
from programs import program
from reading import documents, read_all_yaml, read_yaml

from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.render.files import list_targets, render_files
from advisor.session import Session

HARDWARE = ("RTX 4090", "cpu, 64GB RAM", "RX 7900 XTX", "8x H100 80GB SXM, 2 nodes", "Arc B580", "M3 Max 64GB")
HOSTILE = 'it\'s "$(x)" `y` %n ${Z} \\ #: - &*!|>{}[]\tü😀 \u2028\n- a: b'


LEAST = {"command": 100}  # scripts of a target; of the others 20


def samples(target: str) -> Iterator[tuple[str, str]]:
    """(what, content) of a target: every engine on unlike machines, from a hub, from disk, open to others, hostile."""
    for entry in RULES.engines().values():
        if entry.kind == "client" or target not in list_targets(entry.id, RULES):
            continue
        for n, hardware in enumerate(HARDWARE):
            kinds: tuple[dict[str, Any], ...] = (
                {},
                {"model_path": "/srv/a b/model.gguf", "host": "0.0.0.0"},
                {"served_name": HOSTILE, "environment": {"EXTRA": HOSTILE}, "model_path": f"/srv/{HOSTILE}/m"},
            )
            for more in kinds if n < 2 else kinds[:2]:
                d = launch(entry.id, hardware=hardware, **more)
                file = one(d, target)
                if file is not None:
                    yield f"{entry.id} on {hardware} {list(more)}", file


def one(d: Deployment, target: str) -> str | None:
    try:
        (file,) = render_files(d, target, Session(RULES))
    except BadInput as e:
        if re.search("no container image|rents accelerators|image is for NVIDIA|cannot stand", e.message):
            return None
        raise
    return file.content


def schema(name: str) -> Any:
    """A schema that the package check-jsonschema ships."""
    import check_jsonschema

    folder = Path(check_jsonschema.__file__).parent / "builtin_schemas"
    return json.loads((folder / "vendor" / f"{name}.json").read_text())


def test_compose_files_hold_by_the_compose_specification() -> None:
    import jsonschema

    spec = schema("compose-spec")
    validator = jsonschema.validators.validator_for(spec)(spec)
    n = 0
    for what, content in samples("compose"):
        validator.validate(read_yaml(content))
        n += 1
        assert ":latest" not in content, what
    assert n > 40
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"services": {"a": {"image": "x", "volumess": []}}})


def validate_kubernetes(document: Any, version: str = "1.33") -> None:
    import kubernetes_validate
    from kubernetes_validate import utils

    if not hasattr(utils.schema_contents, "cache_info"):  # each call reads two files of some megabytes
        utils.schema_contents = cache(utils.schema_contents)
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_kubernetes_files_hold_by_the_published_schemas() -> None:
    import kubernetes_validate

    n = 0
    for _, content in samples("kubernetes"):
        for document in read_all_yaml(content):
            validate_kubernetes(document)
        n += 1
        found = documents(content)
        deployment, service = found["Deployment"], found["Service"]
        assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        probe = container["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 180
        mounts = {m["name"] for m in container["volumeMounts"]}
        assert mounts == {v["name"] for v in deployment["spec"]["template"]["spec"]["volumes"]}
        secrets = [e for e in container["env"] if e["name"] in ("HF_TOKEN", "VLLM_API_KEY", "LLAMA_API_KEY", "API_KEY")]
        assert all(set(e["valueFrom"]) == {"secretKeyRef"} for e in secrets)
    assert n > 40
    with pytest.raises(kubernetes_validate.utils.ValidationError):
        validate_kubernetes({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"portz": []}})


def test_probes_wait_longer_for_larger_weights() -> None:
    waits = []
    for model in ("Qwen/Qwen3-0.6B", "llama3.1:8b", "meta-llama/Llama-3.3-70B-Instruct"):
        d = launch("vllm", hardware="8x H100 80GB SXM", model=model)
        (container,) = documents(rendered(d, "kubernetes").content)["Deployment"]["spec"]["template"]["spec"][
            "containers"
        ]
        waits.append(container["startupProbe"]["failureThreshold"] * 10)
    assert waits == sorted(waits)
    assert waits[2] > 141e9 / 50e6  # at least the download of 141 GB at 50 MB/s


@pytest.mark.slow
@pytest.mark.parametrize("target", ["command", "docker", "install", "benchmark", "slurm"])
def test_shell_scripts_hold_by_shellcheck(target: str) -> None:
    """A case for each kind of script: all of them in one took minutes on a busy machine."""
    scripts = [content for what, content in samples(target) if "EXTRA" not in what or len(content) % 3 == 0]
    unique = list(dict.fromkeys(scripts))
    assert len(unique) > LEAST.get(target, 20)
    checker = program("shellcheck")
    for start in range(0, len(unique), 40):
        _shellcheck(checker, unique[start : start + 40])


def _shellcheck(checker: str, scripts: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        names = []
        for i, content in enumerate(scripts):
            (Path(folder) / f"{i}.sh").write_text(content, encoding="utf-8")
            names.append(f"{i}.sh")
        # SC2016: `$` in single quotes is meant to stay; SC1112, SC1111: unicode quotes in names
        done = subprocess.run(
            [checker, "--severity=warning", "--exclude=SC2016,SC1111,SC1112,SC1018,SC1017", *names],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[:3000]


def test_units_hold_by_systemd(tmp_path: Path) -> None:
    analyze = program("systemd-analyze")
    paths = []
    for i, (_, content) in enumerate(samples("systemd")):
        path = tmp_path / f"u{i}.service"
        path.write_text(content, encoding="utf-8")
        paths.append(str(path))
    assert len(paths) > 60
    done = subprocess.run([analyze, "verify", "--man=no", *paths], capture_output=True, text=True, check=False)
    said = [x for x in done.stderr.splitlines() if re.search(r"u\d+\.service", x)]
    assert not said, said[:5]
    bad = tmp_path / "bad.service"
    bad.write_text("[Service]\nExecStart=/usr/bin/env true\nNoSuchKey=1\n")
    done = subprocess.run([analyze, "verify", "--man=no", str(bad)], capture_output=True, text=True, check=False)
    assert "NoSuchKey" in done.stderr, "systemd-analyze refuses nothing here"


@pytest.mark.slow
def test_python_and_json_files_are_python_and_json() -> None:
    for target in ("openai-client", "oumi"):
        for _, content in samples(target):
            ast.parse(content)
    for _, content in samples("infernet"):
        assert set(json.loads(content)) == {"backend", "vllm_host", "vllm_model"}
    for _, content in samples("litellm"):
        (entry,) = read_yaml(content)["model_list"]
        assert entry["litellm_params"]["api_base"].startswith("http://")


# field paths of custom resources and configuration files, and their types; where they were read stands in the file
FIELDS = read_yaml((Path(__file__).parent.parent / "data" / "resource_fields.yaml").read_text())
KINDS = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "number": (int, float)}


@pytest.mark.slow
@pytest.mark.parametrize("target", list(FIELDS))
def test_fields_of_custom_resources_are_known(target: str) -> None:
    known = FIELDS[target]
    n = 0
    for what, content in samples(target):
        for document in read_all_yaml(content):
            if document.get("kind", known.get("kind")) != known.get("kind"):
                validate_kubernetes(document)
                continue
            if "kind" in known:
                assert document["apiVersion"] == known["apiVersion"]
            for path, value in leaves(document, known["fields"]):
                assert path in known["fields"], f"{what}: {path} is not a field of {known.get('kind', target)}"
                kind = known["fields"][path]
                if kind == "pod":
                    check_pod(value)
                else:
                    assert isinstance(value, KINDS[kind]), f"{what}: {path} is no {kind}"
        n += 1
    assert n >= 4, "no sample"


def leaves(value: Any, fields: dict[str, str], path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) down to the first path that the facts have; names of entries in a map read as `*`."""
    if path in fields or not isinstance(value, (dict, list)):
        yield path, value
        return
    if isinstance(value, list):
        for x in value:
            yield from leaves(x, fields, f"{path}[]")
        return
    for key, x in value.items():
        free = (
            f"{path}.*" if any(f == f"{path}.*" or f.startswith((f"{path}.*.", f"{path}.*[")) for f in fields) else None
        )
        yield from leaves(x, fields, free or (f"{path}.{key}" if path else str(key)))


@pytest.mark.filterwarnings("ignore")
def check_pod(spec: dict[str, Any]) -> None:
    """A pod's specification inside another resource, by the schema of Pod."""
    validate_kubernetes({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
