"""Clusters that run: Slurm with pretended nodes, kubectl against a recorded API, Ray with pretended devices."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from inventories import DATA, RECORDED, cases, content
from programs import ELSEWHERE, program
from slurm_lab import SlurmLab

pytestmark = [pytest.mark.slow, pytest.mark.programs]
TOP = Path(__file__).resolve().parents[2]
SECONDS = 600


def show(*words: str, env: dict[str, str], python: str = sys.executable) -> dict[str, Any]:
    """`advise fleet show --json` in a process of its own."""
    command = [python, "-m", "advisor", "fleet", "show", *words, "--json"]
    done = subprocess.run(command, env=env, cwd=TOP, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def by_node(body: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """node -> its pools."""
    out: dict[str, list[dict[str, Any]]] = {}
    for pool in body["pools"]:
        for name in pool["node_names"]:
            out.setdefault(name, []).append(pool)
    return out


# --- Slurm
def test_nodes_of_slurm(lab: SlurmLab) -> None:
    seen = by_node(show("--slurm", env=lab.environment))
    told = {n: [(p["accelerator"], p["devices"], p["devices_free"]) for p in pools] for n, pools in seen.items()}
    assert told == {
        "cpu01": [(None, 0, 0)],
        "gpu01": [(None, 8, 8)],
        "gpu02": [("a100-80gb-sxm", 4, 4)],
        "gpu03": [("l40s", 2, 2), ("rtx-a6000", 2, 2)],
    }
    assert seen["gpu01"][0]["needs_probe"]
    assert seen["gpu01"][0]["host_memory_bytes"] == 1031000 * 2**20


def test_a_job_takes_cards_and_a_drained_node_is_set_aside(lab: SlurmLab) -> None:
    words = [
        program("sbatch"),
        "--gres=gpu:h100:4",
        "-w",
        "gpu01",
        "--mem=1000",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 900",
    ]
    lab.run(*words)
    lab.wait_for("gpu01", "MIXED")
    lab.run(program("scontrol"), "update", "nodename=gpu03", "state=drain", "reason=NVLink errors")
    try:
        body = show("--slurm", env=lab.environment)
        assert [(p["devices"], p["devices_free"]) for p in by_node(body)["gpu01"]] == [(8, 4)]
        assert body["set_aside"] == [{"node": "gpu03", "reason": "state IDLE+DRAIN: NVLink errors"}]
        # sinfo's JSON says the same
        sinfo = lab.run(program("sinfo"), "--json")
        file = lab.folder / "sinfo.json"
        file.write_text(sinfo)
        other = show(str(file), env=lab.environment)
        assert [(p["id"], p["devices_free"]) for p in other["pools"]] == [
            (p["id"], p["devices_free"]) for p in body["pools"]
        ]
    finally:
        lab.run(program("scontrol"), "update", "nodename=gpu03", "state=resume")
        lab.end_jobs()
        for node in ("gpu01", "gpu03"):
            lab.wait_for(node, "IDLE")


def test_a_probe_by_srun_finds_what_slurm_does_not_know(lab: SlurmLab) -> None:
    program("srun")
    seen = by_node(show("--slurm", "--probe", env=lab.environment))
    assert [(p["accelerator"], p["devices"]) for p in seen["gpu01"]] == [("h100-nvl", 8)]
    assert seen["gpu01"][0]["device_memory_bytes"] == 95830 * 2**20
    assert [(p["accelerator"], p["devices"]) for p in seen["gpu03"]] == [("l40s", 2), ("rtx-a6000", 2)]
    assert not any(p["needs_probe"] for pools in seen.values() for p in pools)
    # what the jobs were given: one card of each kind
    asked = {p.name: p.read_text() for p in Path(os.environ["ASKED"]).iterdir()}
    assert asked == {"gpu01": "1", "gpu02": "1", "gpu03": "2", "cpu01": "0"}


def test_a_node_that_is_full_is_kept_as_slurm_tells_of_it(lab: SlurmLab) -> None:
    words = [program("sbatch"), "--exclusive", "--mem=0", "-w", "gpu02", "-o", "/dev/null", "--gres=gpu:a100:4"]
    lab.run(*words, "--wrap", "sleep 900")
    lab.wait_for("gpu02", "ALLOCATED")
    try:
        (pool,) = by_node(show("--slurm", "--probe", env=lab.environment))["gpu02"]
        assert (pool["devices"], pool["devices_free"]) == (4, 0)
        assert any("could not be probed" in n for n in pool["notes"])
    finally:
        lab.end_jobs()
        lab.wait_for("gpu02", "IDLE")


# --- Kubernetes
class RecordedApi(BaseHTTPRequestHandler):
    """Answers GET with what a cluster once stated; anything else is refused, and remembered."""

    answers: dict[str, bytes] = {}
    others: list[str] = []

    def do_GET(self) -> None:
        body = self.answers.get(self.path.partition("?")[0])
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body or b'{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}')

    def do_POST(self) -> None:
        self.others.append(f"{self.command} {self.path}")
        self.send_response(405)
        self.end_headers()

    do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        return


def resources(*names: str) -> bytes:
    """A list of resources of an API group, as discovery answers."""
    kinds = {"nodes": ("Node", False), "pods": ("Pod", True)}
    made = [
        {"name": n, "singularName": n[:-1], "namespaced": kinds[n][1], "kind": kinds[n][0], "verbs": ["get", "list"]}
        for n in names
    ]
    return json.dumps({"kind": "APIResourceList", "groupVersion": "v1", "resources": made}).encode()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a kubectl that asks a recorded API on this machine."""
    if shutil.which("kubectl") is None:
        pytest.skip(ELSEWHERE + "kubectl")
    case = next(c for c in cases("kubernetes") if c["name"].startswith("pods hold cards"))
    items = json.loads(content("kubernetes", case))["items"]
    nodes = json.loads((RECORDED / "k8s-nodes-constructed.json").read_text())["items"]
    nodes += [i for i in items if i["kind"] == "Node"]
    lists = {
        "nodes": {"kind": "NodeList", "apiVersion": "v1", "items": nodes},
        "pods": {"kind": "PodList", "apiVersion": "v1", "items": [i for i in items if i["kind"] == "Pod"]},
    }
    RecordedApi.answers = {
        "/api": b'{"kind": "APIVersions", "versions": ["v1"]}',
        "/apis": b'{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}',
        "/api/v1": resources("nodes", "pods"),
        **{f"/api/v1/{k}": json.dumps(v).encode() for k, v in lists.items()},
    }
    RecordedApi.others = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), RecordedApi)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(configuration))
    plain = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    yield {**plain, "KUBECONFIG": str(tmp_path / "config")}
    server.shutdown()
    thread.join()
    server.server_close()
    assert RecordedApi.others == []  # nothing was written to the cluster


def test_nodes_and_pods_of_kubectl(cluster: dict[str, str]) -> None:
    body = show("--kubernetes", env=cluster)
    assert body["source"] == "kubernetes"
    assert not any("pods" in n for n in body["notes"]), body["notes"]
    seen = by_node(body)
    assert len(seen) + len(body["set_aside"]) == 19
    assert [(p["devices"], p["devices_free"]) for p in seen["a"]] == [(4, 1)]
    assert [(p["devices"], p["devices_free"]) for p in seen["h100-3"]] == [(7, 7)]


def test_jobs_to_probe_with_are_taken_by_kubectl(cluster: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor", "fleet", "show", "--kubernetes", "--probe"]
    done = subprocess.run(command, env=cluster, cwd=TOP, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    manifest = tmp_path / "probe.yaml"
    manifest.write_text(done.stdout)
    words = ["kubectl", "create", "--dry-run=client", "--validate=false", "-o", "name", "-f", str(manifest)]
    RecordedApi.answers["/apis"] = json.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
        {"name": "batch", "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
         "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"}}]}).encode()  # fmt: skip
    RecordedApi.answers["/apis/batch/v1"] = json.dumps({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "batch/v1",
        "resources": [{"name": "jobs", "singularName": "job", "namespaced": True, "kind": "Job", "verbs": ["create"]}],
    }).encode()  # fmt: skip
    taken = subprocess.run(words, env=cluster, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert taken.returncode == 0, taken.stderr
    assert len(taken.stdout.split()) == 17


# --- Ray
RAYLETS = """
import os, sys
from ray.cluster_utils import Cluster

made = Cluster()
made.add_node(num_cpus=1, num_gpus=8, resources={"accelerator_type:H100": 1}, object_store_memory=2**27)
made.add_node(num_cpus=1, num_gpus=2, resources={"accelerator_type:L40S": 1}, object_store_memory=2**27)
print(made.address, flush=True)
sys.stdin.read()
made.shutdown()
"""


def test_nodes_of_ray_and_what_a_task_finds_on_them(ray_python: str, tmp_path: Path) -> None:
    stand_in = tmp_path / "bin"
    stand_in.mkdir()
    (tmp_path / "asked").mkdir()
    advise = stand_in / "advise"
    advise.write_text(f"#!{ray_python}\n" + (DATA / "probe_stand_in.py").read_text())
    advise.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{stand_in}{os.pathsep}{os.environ['PATH']}",
        "ASKED": str(tmp_path / "asked"),
        "PYTHONPATH": str(TOP),
    }
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(
            [ray_python, "-c", RAYLETS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, text=True, start_new_session=True,
        ) as raylets,
    ):  # fmt: skip
        assert raylets.stdout is not None
        assert raylets.stdin is not None
        said = (re.fullmatch(r"[\d.]+:\d+", line.strip()) for line in raylets.stdout)
        found = next((m for m in said if m), None)
        assert found, (tmp_path / "errors").read_text()[-2000:]
        try:
            look_at_ray(found[0], environment, ray_python)
        finally:
            raylets.stdin.close()
            raylets.wait(SECONDS)
    assert len(list((tmp_path / "asked").iterdir())) >= 1


def look_at_ray(address: str, environment: dict[str, str], python: str) -> None:
    """What is shown of the two raylets, before and after tasks have looked."""
    for _ in range(100):
        body = show("--ray", address, env=environment, python=python)
        if sum(p["nodes"] for p in body["pools"]) == 2:
            break
        time.sleep(1)
    told = sorted((p["devices"], p["accelerator"], p["devices_free"], p["needs_probe"]) for p in body["pools"])
    assert told == [(2, "l40s", 2, False), (8, None, 8, True)]
    body = show("--ray", address, "--probe", env=environment, python=python)
    pools = {p["devices"]: p for p in body["pools"]}
    assert pools[8]["accelerator"] == "h100-nvl", body
    assert not pools[8]["needs_probe"]
    assert pools[8]["device_memory_bytes"] == 95830 * 2**20
    assert pools[2]["accelerator"] == "l40s"
