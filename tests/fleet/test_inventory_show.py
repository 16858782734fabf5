"""`advise fleet show` as users run it: text within 80 columns, JSON by its schema, what is refused, clusters asked."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from inventories import RECORDED, cases, content, make_node

import advisor
from advisor.cli.main import root
from advisor.errors import AdvisorError

SCHEMA = json.loads((Path(advisor.__file__).parent / "schemas" / "fleet-show.json").read_text())
NODES = RECORDED / "k8s-nodes-constructed.json"


def show(*words: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(root, ["fleet", "show", *words], input=stdin, standalone_mode=False)
    if isinstance(result.exception, AdvisorError):
        raise result.exception
    assert result.exception is None, result.exception
    return result


def answer(*words: str, stdin: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(show(*words, "--json", stdin=stdin).stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(body)
    return body


@pytest.mark.parametrize(("ram", "pools"), [(990, 1), (989, 2)])
def test_nodes_whose_memory_is_within_a_percent_are_equal(ram: int, pools: int) -> None:
    nodes = [{"name": "a", "hardware": "1x L4, 1000GB RAM"}, {"name": "b", "hardware": f"1x L4, {ram}GB RAM"}]
    assert len(answer("-", stdin=json.dumps({"nodes": nodes}))["pools"]) == pools


@pytest.mark.parametrize("file", sorted(RECORDED.iterdir()), ids=lambda p: p.name)
def test_json_is_what_the_schema_says(file: Path) -> None:
    body = answer(str(file))
    assert body["schema_version"] == 1
    for pool in body["pools"]:
        assert pool["nodes"] == len(pool["node_names"])
        assert pool["needs_probe"] == (pool["devices"] > 0 and pool["device_memory_bytes"] is None)
        assert 0 not in (pool["device_memory_bytes"], pool["host_memory_bytes"])  # unknown is never 0


def test_a_wrong_answer_would_be_noticed() -> None:
    body = answer(str(NODES))
    del body["set_aside"][0]["reason"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, SCHEMA)


KINDS = [(k, c) for k in ("kubernetes", "slurm", "ray", "own") for c in cases(k) if "error" not in c]


def test_text_fits_80_columns_and_names_what_json_does(tmp_path: Path) -> None:
    file = tmp_path / "inventory"
    for kind, case in KINDS:
        file.write_bytes(content(kind, case))
        text = show(str(file)).stdout
        assert max(map(len, text.splitlines())) <= 80, text
        body = answer(str(file))
        joined = " ".join(text.split())
        for pool in body["pools"]:
            assert pool["id"] in text or pool["id"][:16] in text
            assert all(" ".join(n.split())[:60] in joined for n in pool["notes"])
        for one in body["set_aside"]:
            assert one["node"] in text
            assert " ".join(one["reason"].split()[:3]) in joined


def test_many_nodes_and_long_names_fit_too(tmp_path: Path) -> None:
    long = "n" * 240
    nodes = [make_node(i, {"name": f"{long}{i}", "spec": {"unschedulable": i % 2 == 0}}) for i in range(50)]
    body = content("kubernetes", {"nodes": []})
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({**json.loads(body), "items": nodes}))
    text = show(str(file)).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "and 22 more" in text


def test_pools_of_equal_hardware_are_told_apart_by_their_labels(tmp_path: Path) -> None:
    nodes = [
        {"name": z, "labels": {"topology.kubernetes.io/zone": z, "nvidia.com/gpu.product": "NVIDIA-L4"},
         "resources": {"nvidia.com/gpu": "1"}}
        for z in ("a", "b")
    ]  # fmt: skip
    file = tmp_path / "nodes.json"
    file.write_bytes(content("kubernetes", {"nodes": nodes}))
    text = show(str(file)).stdout
    assert "l4-1x-2: topology.kubernetes.io/zone=b" in text


def test_standard_input_and_pods(tmp_path: Path) -> None:
    case = next(c for c in cases("kubernetes") if c["name"].startswith("pods hold cards"))
    body = json.loads(content("kubernetes", case))
    nodes = json.dumps({"kind": "List", "items": [i for i in body["items"] if i["kind"] == "Node"]})
    pods = tmp_path / "pods.json"
    pods.write_text(json.dumps({"kind": "PodList", "items": [i for i in body["items"] if i["kind"] == "Pod"]}))
    assert [p["devices_free"] for p in answer("-", stdin=nodes)["pools"]] == [None]
    assert [p["devices_free"] for p in answer("-", "--pods", str(pods), stdin=nodes)["pools"]] == [1, 4]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "SOURCE"),
        (("a.json", "--slurm"), "one of"),
        (("--slurm", "--kubernetes"), "one of"),
        (("--slurm", "--pods", "p.json"), "--pods"),
        (("--ray", " "), "--ray is empty"),
        ((str(RECORDED / "slurm-22.05-jobs.txt"), "--probe"), "--probe"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(AdvisorError, match=said):
        show(*words)


def test_help_has_examples_that_are_commands_of_ours() -> None:
    text = show("--help").stdout
    assert text.count("advise fleet show") >= 8
    assert "Nothing is changed on a cluster" in " ".join(text.split())


def test_programs_that_are_absent_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for option, name in (("--slurm", "scontrol"), ("--kubernetes", "kubectl")):
        with pytest.raises(AdvisorError, match=f"{name} is not on this machine") as e:
            show(option)
        assert "\n" not in e.value.line()


def test_ray_that_is_absent_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module of its name that cannot be imported stands before any real one."""
    (tmp_path / "ray.py").write_text("raise ImportError('none')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(advisor.__file__).parents[1])]))
    with pytest.raises(AdvisorError, match="the package ray is not installed") as e:
        show("--ray", "127.0.0.1:1")
    assert "127.0.0.1:1" in e.value.line()


def make_program(folder: Path, name: str, body: str) -> None:
    """A program of Python on PATH."""
    file = folder / name
    file.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_program_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_program(tmp_path, "scontrol", "sys.exit('slurm_load_node error: Unable to contact slurm controller')")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(AdvisorError, match=r"scontrol show node -o failed: .*Unable to contact"):
        show("--slurm")


def test_pods_that_may_not_be_read_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = f"print(open({str(NODES)!r}).read()) if 'nodes' in sys.argv else sys.exit('Error (Forbidden): pods')"
    make_program(tmp_path, "kubectl", body)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fleet = answer("--kubernetes")
    assert {p["devices_free"] for p in fleet["pools"]} == {None}
    assert any("Forbidden" in n for n in fleet["notes"])


def test_jobs_for_kubernetes_ask_for_all_devices_and_are_only_printed() -> None:
    result = show(str(NODES), "--probe")
    jobs = list(yaml.safe_load_all(result.stdout))
    assert len(jobs) == 15  # of 17 nodes, those that are not set aside
    assert "nothing was applied" in result.stderr
    by_node = {j["metadata"]["annotations"]["node"]: j for j in jobs}
    assert len({j["metadata"]["name"] for j in jobs}) == len(jobs)
    pod = by_node["h100-3"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "7"}
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["h100-3"]}]}]
    assert pod["containers"][0]["command"] == ["advise", "probe", "--json"]


def test_jobs_hold_by_the_published_schemas() -> None:
    import kubernetes_validate

    for job in yaml.safe_load_all(show(str(NODES), "--probe").stdout):
        kubernetes_validate.validate(job, "1.31", strict=True)
