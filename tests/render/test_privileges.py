"""Rendered files start nothing that anybody may use, and take no privileges that they have no use for.

The rules of Pod Security are those of kubernetes.io/docs/concepts/security/pod-security-standards ("restricted").
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import RULES, launch, rendered
from reading import read_all_yaml, read_yaml

from advisor import check
from advisor.errors import BadInput
from advisor.render.copies import render_copies, render_nodes_script, render_side_by_side
from advisor.render.files import list_targets, render_files
from advisor.render.matrix import find_engine_start, load_targets
from advisor.session import Session

CLUSTER = ("kubernetes", "lws", "kserve", "ray", "dynamo")
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def engines_with(target: str) -> list[str]:
    return [e.id for e in RULES.engines().values() if e.kind != "client" and target in list_targets(e.id, RULES)]


def find_pods(body: Any) -> Iterator[dict[str, Any]]:
    """Every mapping that holds containers."""
    if isinstance(body, dict):
        if isinstance(body.get("containers"), list):
            yield body
        for value in body.values():
            yield from find_pods(value)
    elif isinstance(body, list):
        for value in body:
            yield from find_pods(value)


def what_is_not_restricted(pod: dict[str, Any]) -> set[str]:
    """Fields of a pod that the standard "restricted" refuses."""
    found = {k for k in ("hostNetwork", "hostPID", "hostIPC") if pod.get(k)}
    found |= {k for v in pod.get("volumes", []) for k in set(v) - {"name"} if k not in VOLUMES}
    own = pod.get("securityContext", {})
    for container in pod["containers"]:
        its = container.get("securityContext", {})
        both = {**own, **its}
        if its.get("privileged"):
            found.add("privileged")
        if its.get("allowPrivilegeEscalation") is not False:
            found.add("allowPrivilegeEscalation")
        capabilities = its.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            found.add("capabilities")
        if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            found.add("seccompProfile")
        if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
            found.add("runAsNonRoot")
        if any("hostPort" in p for p in container.get("ports", [])):
            found.add("hostPort")
    return found


def test_the_standard_refuses_what_it_should() -> None:
    pod = {"hostPID": True, "containers": [{}], "volumes": [{"name": "a", "hostPath": {}}]}
    assert what_is_not_restricted(pod) == {
        "hostPID", "hostPath", "allowPrivilegeEscalation", "capabilities", "seccompProfile", "runAsNonRoot",
    }  # fmt: skip


@pytest.mark.parametrize("target", CLUSTER)
def test_pods_are_restricted_but_for_images_that_run_as_root(target: str) -> None:
    n = 0
    for engine in engines_with(target):
        for more in ({}, {"model_path": "/srv/models/a.gguf"}):
            for hardware in ("8x H100 80GB SXM, 2 nodes", "RTX 4090", "RX 7900 XTX", "cpu, 64GB RAM"):
                try:
                    text = rendered(launch(engine, hardware=hardware, **more), target).content
                except BadInput:
                    continue
                for pod in find_pods(read_all_yaml(text)):
                    n += 1
                    left = what_is_not_restricted(pod)
                    assert left <= {"runAsNonRoot"}, (engine, hardware)
                    root = "no user but root is known" in text
                    assert bool(left) is root, "a pod that runs as root says so"
                    assert pod.get("automountServiceAccountToken") is False or target == "dynamo"
                    user = pod["securityContext"].get("runAsUser")
                    mounts = [m["mountPath"] for c in pod["containers"] for m in c.get("volumeMounts", [])]
                    assert user is None or not any(m.startswith("/root") for m in mounts), "root's home is not its"
    assert n >= 4


def test_images_with_a_user_are_restricted() -> None:
    for engine in ("vllm", "ollama"):
        (pod,) = find_pods(read_all_yaml(rendered(launch(engine, hardware="RTX 4090"), "kubernetes").content))
        assert what_is_not_restricted(pod) == set()
    old = rendered(launch("vllm", hardware="RTX 4090", engine_version="0.20.0"), "kubernetes").content
    assert "runAsUser" not in old, "the user came with 0.26.0"
    amd = rendered(launch("vllm", hardware="MI300X"), "kubernetes").content
    assert "runAsUser" not in amd, "the user is known of the CUDA image"


def test_limits_leave_room_for_what_is_asked() -> None:
    for engine in engines_with("kubernetes"):
        for hardware in ("RTX 4090", "8x H100 80GB SXM", "cpu, 64GB RAM"):
            try:
                text = rendered(launch(engine, hardware=hardware), "kubernetes").content
            except BadInput:
                continue
            (pod,) = find_pods(read_all_yaml(text))
            (container,) = pod["containers"]
            asked, limits = container["resources"]["requests"], container["resources"]["limits"]
            mib = {k: int(v["memory"].removesuffix("Mi")) for k, v in (("asked", asked), ("limit", limits))}
            shared = [v["emptyDir"]["sizeLimit"] for v in pod["volumes"] if v.get("emptyDir", {}).get("medium")]
            room = 16 * 1024 if shared == ["16Gi"] else 64
            assert mib["limit"] >= mib["asked"] + room, (engine, hardware)


def policies(text: str) -> list[dict[str, Any]]:
    return [d["spec"] for d in read_all_yaml(text) if d["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize(("engine", "target", "keyed"), [
    ("vllm", "kubernetes", True), ("sglang", "lws", True), ("ollama", "kubernetes", False),
    ("tensorrt-llm", "kubernetes", False), ("vllm", "ray", False), ("dynamo", "dynamo", False),
])  # fmt: skip
def test_who_may_connect(engine: str, target: str, keyed: bool) -> None:
    """A key, and then pods of the namespace; without one only pods that carry the label."""
    text = rendered(launch(engine, hardware="8x H100 80GB SXM, 2 nodes"), target).content
    (policy,) = policies(text)
    assert policy["policyTypes"] == ["Ingress"]
    first = policy["ingress"][0]["from"][0]["podSelector"]
    assert (first == {}) is keyed
    if keyed:
        assert re.search(r"secretKeyRef:\n +name: \S+\n +key: API_KEY\n(?! +optional)", text), "the pod needs the key"
    else:
        assert list(first["matchLabels"].values()) == ["true"]
    labels = policy["podSelector"]["matchLabels"]
    templates = re.findall(r"(?m)^ +labels:\n((?: +app.*\n)+)", text)
    assert any(f"{k}: {v}" in t for t in templates for k, v in labels.items()), "it is for the pods of the file"


def test_the_pods_of_llm_d_want_the_key() -> None:
    """The chart's gateway asks nobody for one, so vLLM does."""
    values = read_yaml(rendered(launch("vllm", hardware="H100 80GB SXM"), "llm-d").content)
    (container,) = values["decode"]["containers"]
    (key,) = [e for e in container["env"] if e["name"] == "VLLM_API_KEY"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": values["modelArtifacts"]["authSecretName"], "key": "API_KEY"}
    assert container["extraConfig"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_no_release_candidate_is_recommended() -> None:
    for entry in RULES.engines().values():
        assert entry.version is None or not re.search(
            r"(?i)rc|alpha|beta|dev|nightly|[ab]\d", entry.version.lstrip("b")
        )
    for place in load_targets(RULES).places.values():
        assert not re.search(r"(?i)rc\d|alpha|beta|dev|nightly|latest", f"{place.version} {place.image}")


SCRIPTS = ("command", "docker", "slurm")


@pytest.mark.parametrize("target", SCRIPTS)
def test_no_script_starts_a_server_that_anybody_may_use(target: str, tmp_path: Path) -> None:
    """Run under sh with programs that note their start: nothing starts unless a key, or the user's word, is there."""
    programs = tmp_path / "bin"
    programs.mkdir()
    n = 0
    for engine in engines_with(target):
        start = find_engine_start(engine, RULES)
        told = start.address or any("{host}" in w or "{address}" in w for w in start.listen)
        if target == "command" and not told:
            continue  # it is given no address: this machine alone, or a file of its own that makes keys (TabbyAPI)
        d = launch(engine, hardware="2x RTX 4090", host="0.0.0.0")
        try:
            (file,) = render_files(d, target, Session(RULES))
        except BadInput:
            continue
        program = start.program[0] if start.program else engine
        for name in {program, "docker", "srun", "curl", "ollama"}:
            (programs / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/started\n")
            (programs / name).chmod(0o755)
        said = re.search(r"\$\{(API_KEY|ALLOW_NO_KEY):", file.content)
        assert said is not None, engine
        others = {name: "x" for name in re.findall(r"\$\{(\w+):\?", file.content) if name != said[1]}
        script = tmp_path / "x.sh"
        script.write_text(file.content)
        environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path), **others}
        done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode != 0, engine
        assert said[1] in done.stderr, engine
        assert not (tmp_path / "started").exists(), engine
        n += 1
    assert n >= 3


@pytest.mark.parametrize(
    ("engines", "wanted"),
    [(("vllm", "vllm"), "API_KEY"), (("sglang", "llama.cpp"), "API_KEY"), (("vllm", "ollama"), "ALLOW_NO_KEY")],
)
def test_scripts_of_several_servers_ask_for_keys_too(engines: tuple[str, str], wanted: str, tmp_path: Path) -> None:
    """Equal copies, models side by side, one server over two nodes: run without a key, nothing is started."""
    open_ = [launch(e, hardware="2x RTX 4090", host="0.0.0.0", port=8000 + i) for i, e in enumerate(engines)]
    made = [render_side_by_side(open_, "command", Session(RULES))[0]]
    if engines[0] == engines[1]:
        made += render_copies(open_, [[0], [1]], "command", Session(RULES), 8000)
        made.append(render_nodes_script(open_[0], 2, Session(RULES)))
    for name in ("vllm", "sglang", "llama-server", "ollama", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/started\n")
        (tmp_path / name).chmod(0o755)
    for file in made:
        (tmp_path / "x.sh").write_text(file.content)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NODE_RANK": "0", "HEAD": "a"}
        environment |= {} if wanted == "API_KEY" else {"API_KEY": "x"}
        done = subprocess.run(
            ["sh", str(tmp_path / "x.sh")], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert wanted in done.stderr
        assert not (tmp_path / "started").exists()
    inside = [launch(e, hardware="2x RTX 4090", port=8000 + i) for i, e in enumerate(engines)]
    assert "_KEY" not in render_side_by_side(inside, "command", Session(RULES))[0].content


def test_no_compose_project_or_unit_starts_for_others_without_a_key() -> None:
    n = 0
    for engine in engines_with("compose"):
        try:
            text = rendered(launch(engine, hardware="RTX 4090", host="0.0.0.0"), "compose").content
        except BadInput:
            continue
        values = [w for s in read_yaml(text)["services"].values() for w in (*s.get("environment", {}).values(),
                                                                           *s.get("command", []))]  # fmt: skip
        assert any(re.search(r"\$\{(API_KEY|ALLOW_NO_KEY):\?[^}]+\}", str(v)) for v in values), engine
        n += 1
    for engine in engines_with("systemd"):
        unit = rendered(launch(engine, hardware="RTX 4090", host="0.0.0.0"), "systemd").content
        assert re.search(r"(?m)^ExecStartPre=.*(API_KEY|ALLOW_NO_KEY)", unit), engine
        n += 1
    assert n >= 8


def test_a_rendered_file_that_lost_its_key_is_an_error(tmp_path: Path) -> None:
    text = rendered(launch("vllm", hardware="RTX 4090", host="0.0.0.0"), "compose").content
    file = tmp_path / "compose.yaml"

    def severities(content: str, strict: bool = False) -> list[str]:
        file.write_text(content)
        found = check(file, fit=False, strict=strict).findings
        return [f.severity for f in found if f.rule == "exposed-no-auth"]

    assert severities(text) == []
    bare = re.sub(r"(?m)^ +VLLM_API_KEY.*\n", "", text)
    assert severities(bare) == ["error"]
    foreign = bare.replace("# Written by `advise render`.\n", "")
    assert severities(foreign) == ["warning"]
    assert severities(foreign, strict=True) == ["error"]
