"""Several equal servers: the script starts all of them, the compose project has a router, and both pass the gate."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from commands import advise

import advisor
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.estimation import find_machine
from advisor.planning.layouts import list_servers, share_devices
from advisor.render.copies import make_router_config, refuse_single_node, render_copies, render_nodes_script
from advisor.session import Session

RULES = catalog()
MACHINE = "8x L40S, 512GB RAM"


def made(target: str):
    load = Workload(concurrency=256)
    request = RecommendRequest(find_machine(MACHINE, RULES), load, "llama3.1:8b", engine="lmdeploy")
    chosen = recommend(request, Session(RULES)).chosen
    assert chosen is not None
    assert chosen.plan.servers == chosen.copies >= 2
    servers = list_servers(chosen.deployment, chosen.layout, chosen.plan.servers, 23333)
    return chosen, render_copies(
        servers, share_devices(chosen.layout, chosen.plan.servers), target, Session(RULES), 23333
    )[0]


def test_a_compose_project_has_a_service_a_server_and_a_router(tmp_path: Path) -> None:
    chosen, file = made("compose")
    body = yaml.safe_load(file.content)
    servers = [n for n in body["services"] if n != "router"]
    assert len(servers) == chosen.plan.servers
    pinned = [
        s["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for n, s in body["services"].items()
        if n in servers
    ]
    assert pinned == [[str(i)] for i in range(chosen.plan.servers)]
    for name in servers:
        assert f"server {name}:" in body["configs"]["router"]["content"]
    (tmp_path / file.name).write_text(file.content)
    report = advisor.check(tmp_path / file.name, on=MACHINE)
    assert [f.rule for f in report.findings if f.severity == "error"] == []
    assert len(report.deployments) == chosen.plan.servers


def test_a_script_starts_every_server_on_its_own_cards_and_port(tmp_path: Path) -> None:
    chosen, file = made("command")
    for i in range(chosen.plan.servers):
        assert f"CUDA_VISIBLE_DEVICES={i} lmdeploy" in file.content
        assert f"--server-port {23333 + i}" in file.content
    assert file.content.rstrip().endswith("wait")
    (tmp_path / "run.sh").write_text(file.content)
    assert len(advisor.check(tmp_path / "run.sh", on=MACHINE).deployments) == chosen.plan.servers


def test_kubernetes_has_a_pod_for_each_server_of_the_plan(tmp_path: Path) -> None:
    """One file serves what `recommend` promises: all copies behind its Service, on a claim that all may mount."""
    words = ("--on", "4x L40S, 512GB RAM, linux, 2 nodes", "--model", "Qwen/Qwen3-32B", "--concurrency", "40")
    chosen = json.loads(advise("recommend", *words, "--json").stdout)["chosen"]
    assert chosen["copies"] == 2
    made = advise("render", "--target", "kubernetes", "--output", str(tmp_path), *words)
    assert "router" not in made.stderr
    objects = {d["kind"]: d for d in yaml.safe_load_all((tmp_path / "kubernetes.yaml").read_text())}
    assert objects["Deployment"]["spec"]["replicas"] == 2
    assert objects["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert objects["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_other_targets_say_what_there_is() -> None:
    with pytest.raises(BadInput, match="compose"):
        made("systemd")


TWO_NODES = "8x H100 80GB SXM, 2 nodes, nvlink+infiniband, 2TB RAM"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_node_has_its_command(engine: str, tmp_path: Path) -> None:
    request = RecommendRequest(
        find_machine(TWO_NODES, RULES), Workload(concurrency=16), "deepseek-ai/DeepSeek-V3.2", engine=engine
    )
    chosen = recommend(request, Session(RULES)).chosen
    assert chosen is not None
    assert chosen.layout is not None
    assert chosen.layout.nodes == 2
    for rank in (0, 1):
        assert f"--nnodes 2 --node-rank {rank}" in str(chosen.command)
    script = render_nodes_script(chosen.deployment, 2, Session(RULES))
    path = tmp_path / script.name
    path.write_text(script.content)
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0
    report = advisor.check(path, on=TWO_NODES)
    assert [f.rule for f in report.findings if f.severity == "error"] == []
    assert [d.fits for d in report.deployments] == [True, True]
    refuse_single_node(chosen.deployment, 2, "slurm", RULES)
    with pytest.raises(BadInput, match="lws"):
        refuse_single_node(chosen.deployment, 2, "kubernetes", RULES)


@pytest.mark.parametrize("name", ["a b", "x;}", "", "UPPER", "$(x)"])
def test_names_of_the_router_are_host_names(name: str) -> None:
    with pytest.raises(BadInput):
        make_router_config([name], 8000)
