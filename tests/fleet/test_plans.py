"""Plans: replicas stand on devices that are there and fit, kept plans stay, what is not served says why."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from fleets import NODES, RULES, ask, draw
from programs import program

from advisor.catalog.resolve import resolve_model
from advisor.checks.one_file import CheckOptions
from advisor.checks.run import check_files
from advisor.cli.main import run_command_line
from advisor.errors import AdvisorError
from advisor.estimation import find_machine
from advisor.fleet.check import check_fleet
from advisor.fleet.demand import read_demand
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import read_inventory
from advisor.fleet.plan import FleetRequest, read_running
from advisor.fleet.plan_types import FleetPlan, Replica
from advisor.fleet.render import TARGETS, read_plan_file, render_fleet
from advisor.session import Session

SCHEMAS = Path(__file__).parent.parent.parent / "advisor" / "schemas"
H100 = {"name": "big", "count": 2, "hardware": "8x H100 80GB SXM, 2TB RAM, linux", "price_per_hour": 20}
L40S = {"name": "small", "count": 2, "hardware": "2x L40S, 512GB RAM, linux", "price_per_hour": 1.7}
QWEN = {"model": "Qwen/Qwen3-32B", "rate": 2, "prompt_tokens": 1000, "output_tokens": 300, "ttft_s": 5, "tpot_s": 0.1}


def count_devices(plan: FleetPlan) -> dict[str, int]:
    used: Counter[str] = Counter()
    for replica in plan.replicas:
        for node in replica.nodes:
            used[node] += replica.devices // len(replica.nodes)
    return used


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 3))])
def test_plans_hold_together(seed: int, tmp_path: Path) -> None:
    """Devices are there, none twice; loads sum up to the demand; the cost is that of the nodes in use."""
    nodes, models = draw(seed)
    plan = ask(tmp_path, nodes, models)
    jsonschema.validate(json.loads(json.dumps(plan.to_dict())), json.loads((SCHEMAS / "fleet-plan.json").read_text()))
    there = {f"{n['name']}-{k + 1}": NODES[n["hardware"]] for n in nodes for k in range(n["count"])}
    assert all(used <= there[node][0] for node, used in count_devices(plan).items())
    places = [(n, i) for r in plan.replicas for n in r.nodes for i in r.device_indices]
    assert len(places) == len(set(places))
    ports = [(n, r.port) for r in plan.replicas for n in r.nodes]
    assert len(ports) == len(set(ports))
    unserved = {u.name for u in plan.unserved}
    for model in models:
        load = sum(r.load for r in plan.replicas if r.name == model["model"])
        assert load == pytest.approx(0 if model["model"] in unserved else model["rate"], rel=1e-4)
    assert all(r.load <= r.capacity * 1.0001 for r in plan.replicas)
    if not unserved:
        paid = sum(there[n][1] for n in {n for r in plan.replicas for n in r.nodes})
        assert plan.cost_per_hour.likely == pytest.approx(paid)
        assert plan.cost_per_hour.safe is None or plan.cost_per_hour.safe >= plan.cost_per_hour.likely - 1e-6


def check_command(replica: Replica, folder: Path) -> Any:
    file = folder / "run.sh"
    file.write_text(f"#!/bin/sh\n{replica.command}\n")
    report = check_files([str(file)], CheckOptions(on=replica.hardware, named=frozenset([str(file)])), Session(RULES))
    assert report.deployments, replica.command
    return report.deployments[0]


def test_every_replica_fits_by_check(tmp_path: Path) -> None:
    plan = ask(tmp_path, *draw(1))
    assert plan.replicas
    for replica in plan.replicas:
        assert check_command(replica, tmp_path).fits is True, replica.command


def test_commands_in_json_are_those_of_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines and all: what a scheduler reads can be started."""
    plan = ask(tmp_path, [H100], [QWEN])
    words = ["fleet", "plan", str(tmp_path / "fleet.yaml"), "--models", str(tmp_path / "demand.yaml"), "--json"]
    assert run_command_line(words) == 0
    told = [r["command"] for r in json.loads(capsys.readouterr().out)["replicas"]]
    assert told == [r.command for r in plan.replicas]
    assert all("\\\n" in command for command in told)


@pytest.mark.slow
def test_what_is_not_served_says_why_and_what_would_help(tmp_path: Path) -> None:
    small = {"name": "n", "hardware": "1x L4, 64GB RAM, linux", "price_per_hour": 0.6}
    big = {"model": "deepseek-ai/DeepSeek-V3", "rate": 5, "prompt_tokens": 1000, "output_tokens": 300}
    many = {**QWEN, "model": "llama3.1:8b", "rate": 40}
    late = {**QWEN, "model": "Qwen/Qwen3-8B", "tpot_s": 0.0001}
    plan = ask(tmp_path, [small], [big, many, late])
    assert plan.exit_status == 1
    found = {u.model: u for u in plan.unserved}
    assert found[big["model"]].code == "does_not_fit"
    assert "8x" in str(found[big["model"]].what_would_help)
    assert found["llama3.1:8b"].code == "no_room"
    assert "more nodes like l4" in str(found["llama3.1:8b"].what_would_help)
    assert found["Qwen/Qwen3-8B"].code == "too_slow"
    assert "between tokens" in found["Qwen/Qwen3-8B"].why
    number = int(str(found["llama3.1:8b"].what_would_help).split()[0])
    enough = ask(tmp_path, [{**small, "count": 1 + number}], [many])
    assert not enough.unserved, "what would help helps"


@pytest.mark.slow
def test_a_plan_that_runs_is_kept(tmp_path: Path) -> None:
    """The same demand changes nothing; more of it adds replicas and moves none; a model that is not asked for stops."""
    models = [QWEN, {**QWEN, "model": "llama3.1:8b"}]
    first = ask(tmp_path, [H100, L40S], models)
    (tmp_path / "plan.json").write_text(json.dumps(first.to_dict()))
    running = read_running(str(tmp_path / "plan.json"))
    same = ask(tmp_path, [H100, L40S], models, running=running)
    assert same.changes is not None
    assert (same.changes.kept, same.changes.started, same.changes.stopped) == (len(first.replicas), 0, ())
    assert same.cost_per_hour == first.cost_per_hour
    more = ask(tmp_path, [H100, L40S], [{**QWEN, "rate": 8}, models[1]], running=running)
    assert more.changes is not None
    assert more.changes.kept == len(first.replicas)
    assert more.changes.started > 0
    assert {(r.nodes, r.device_indices) for r in first.replicas} <= {(r.nodes, r.device_indices) for r in more.replicas}
    places = [(n, i) for r in more.replicas for n in r.nodes for i in r.device_indices]
    assert len(places) == len(set(places))
    fewer = ask(tmp_path, [H100, L40S], models[:1], running=running)
    assert fewer.changes is not None
    assert any("Llama-3.1-8B" in s for s in fewer.changes.stopped)


def test_spread_stands_on_several_nodes(tmp_path: Path) -> None:
    plan = ask(tmp_path, [L40S], [{**QWEN, "model": "llama3.1:8b", "rate": 0.1, "spread": 2}])
    assert len({n for r in plan.replicas for n in r.nodes}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_safe_plans_keep_their_targets(seed: int, tmp_path: Path) -> None:
    """Speeds drawn over their intervals, one factor for each model and card; and once all at the slow end."""
    plan = ask(tmp_path, *draw(seed), confidence="safe")
    rng, kept, draws = random.Random(seed), 0, 200
    targets = {m["model"]: m["tpot_s"] for m in draw(seed)[1]}
    for trial in range(draws):
        where: dict[tuple[str, str], float] = {}
        good = True
        for r in plan.replicas:
            assert r.speed is not None
            assert r.speed.tpot_s is not None
            at = where.setdefault((r.model, r.pool), 1.0 if trial == 0 else rng.random())
            slow = math.exp(
                math.log(r.speed.tpot_s.low) + at * (math.log(r.speed.tpot_s.high) - math.log(r.speed.tpot_s.low))
            )
            good &= slow <= targets[r.name] * 1.001
        kept += good
        assert good or trial > 0
    assert kept >= 0.95 * draws


def test_losing_a_node(tmp_path: Path) -> None:
    """One node too many survives the loss of one, by a plan for what is left; the only node does not."""
    (tmp_path / "demand.yaml").write_text(json.dumps({"models": [{**QWEN, "rate": 0.5}]}))
    demand = read_demand(tmp_path / "demand.yaml", RULES)
    for count, survived in ((2, True), (1, False)):
        (tmp_path / "fleet.yaml").write_text(json.dumps({"nodes": [{**H100, "count": count}]}))
        fleet = make_fleet(read_inventory(str(tmp_path / "fleet.yaml"), RULES))
        answer = check_fleet(FleetRequest(fleet, demand), 1, (), Session(RULES))
        schema = json.loads((SCHEMAS / "fleet-check.json").read_text())
        jsonschema.validate(json.loads(json.dumps(answer.to_dict())), schema)
        assert answer.to_dict()["survives"] is survived
        assert answer.exit_status == (0 if survived else 1)


def test_compose_files_of_nodes_pass_the_gate(tmp_path: Path) -> None:
    """Two servers of one node have cards of their own, and no variable that names cards outside of the container."""
    from advisor.checks.one_file import CheckOptions

    models = [{**QWEN, "model": "llama3.1:8b", "rate": 1}, {**QWEN, "model": "openai/gpt-oss-20b", "rate": 1}]
    plan = ask(tmp_path, [{**L40S, "count": 1}], models)
    assert len(plan.replicas) == 2
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    (made,) = render_fleet(read_plan_file(str(tmp_path / "plan.json")), "compose", Session(RULES))
    (tmp_path / "compose.yaml").write_text(made.content)
    file = str(tmp_path / "compose.yaml")
    report = check_files([file], CheckOptions(on=str(L40S["hardware"]), named=frozenset([file])), Session(RULES))
    assert len(report.deployments) == 2
    assert not [f for f in report.findings if f.severity == "error"], made.content
    assert all(d.fits for d in report.deployments)


@pytest.mark.slow
def test_rendered_files_are_what_was_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of every target; those for Kubernetes hold as many replicas as the plan, and one fewer is noticed."""
    plan = ask(tmp_path, [H100, L40S], [{**QWEN, "rate": 12, "spread": 2}, {**QWEN, "model": "llama3.1:8b"}])
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    planned = read_plan_file(str(tmp_path / "plan.json"))
    for target in set(TARGETS) - {"lws"}:
        files = render_fleet(planned, target, Session(RULES))
        assert len({f.name for f in files}) == len(files) > 0, target
    out = tmp_path / "deploy"
    assert run_command_line(
        ["fleet", "render", str(tmp_path / "plan.json"), "--target", "kubernetes", "--output", str(out)]
    ) == 0  # fmt: skip
    asked = ["fleet", "check", str(tmp_path / "fleet.yaml"), "--models", str(tmp_path / "demand.yaml"), "--json"]
    assert run_command_line([*asked, "--deployed", str(out)]) == 0
    files = sorted(f for f in out.iterdir() if f.name != "kustomization.yaml")
    names = [line for f in files for line in f.read_text().splitlines() if line.startswith("  name: ")]
    assert len(files) == 1 or len(set(names)) > 1
    files[0].unlink()
    capsys.readouterr()
    assert run_command_line([*asked, "--deployed", str(out)]) == 1
    assert json.loads(capsys.readouterr().out)["differences"]


@pytest.mark.parametrize("target", ["kubernetes", "keda", "kserve", "ray"])
def test_files_for_clusters_have_the_replicas_of_the_plan(target: str, tmp_path: Path) -> None:
    """As the gate counts them; and on nodes of the pool."""
    plan = ask(tmp_path, [{**H100, "count": 4}], [{**QWEN, "rate": 40}])
    assert len(plan.replicas) > 1
    body = plan.to_dict()
    body["pools"][0]["labels"] = {"gpu": "h100"}
    (tmp_path / "plan.json").write_text(json.dumps(body))
    files = render_fleet(read_plan_file(str(tmp_path / "plan.json")), target, Session(RULES))
    for file in (f for f in files if f.name != "kustomization.yaml"):
        (tmp_path / file.name).write_text(file.content)
        report = check_files([str(tmp_path / file.name)], CheckOptions(named=frozenset([file.name])), Session(RULES))
        assert [d.replicas for d in report.deployments] == [len(plan.replicas)]
        assert "nodeSelector:" in file.content


def test_pods_ask_for_devices_as_their_nodes_have_them(tmp_path: Path) -> None:
    """A slice by its own resource; a card of a driver of claims by a claim, which goes with the pod."""
    plan = ask(tmp_path, [{**H100, "count": 1}], [QWEN]).to_dict()
    names = {"mig": "nvidia.com/mig-3g.40gb", "claim": "deviceclass.resource.kubernetes.io/gpu.nvidia.com"}
    for kind, resource in names.items():
        plan["pools"][0]["resource"] = resource
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        planned = read_plan_file(str(tmp_path / "plan.json"))
        for target in ("kubernetes", "lws", "kserve"):
            file = render_fleet(planned, target, Session(RULES))[0].content
            assert ("nvidia.com/mig-3g.40gb: '1'" in file) is (kind == "mig"), target
            assert "nvidia.com/gpu: '1'" not in file
            if kind == "claim":
                bodies = list(yaml.safe_load_all(file))
                (template,) = (b for b in bodies if b["kind"] == "ResourceClaimTemplate")
                (request,) = template["spec"]["spec"]["devices"]["requests"]
                assert request["exactly"]["deviceClassName"] == "gpu.nvidia.com"
                assert request["exactly"]["count"] == plan["replicas"][0]["devices"]
                assert f"resourceClaimTemplateName: {template['metadata']['name']}" in file
        if kind == "claim":
            with pytest.raises(AdvisorError, match="by claims"):
                render_fleet(planned, "ray", Session(RULES))


def test_files_of_several_nodes_start_together(tmp_path: Path) -> None:
    """Each pod has a volume of its own, one at a time is replaced, and the gateway asks Services that are there."""
    plan = ask(
        tmp_path, [{**H100, "count": 2}, {**L40S, "count": 3}], [{**QWEN, "model": "Qwen/Qwen3-8B", "spread": 4}]
    )
    body = plan.to_dict()
    for pool in body["pools"]:
        pool |= {"tolerations": ["dedicated=llm:NoSchedule", "nvidia.com/gpu:NoSchedule"], "resource": "nvidia.com/gpu"}
    (tmp_path / "plan.json").write_text(json.dumps(body))
    planned = read_plan_file(str(tmp_path / "plan.json"))
    *files, order = render_fleet(planned, "kubernetes", Session(RULES))
    assert yaml.safe_load(order.content)["resources"] == [f.name for f in files]
    services, several = {}, 0
    for file in files:
        found = {d["kind"]: d for d in yaml.safe_load_all(file.content)}
        services[found["Service"]["metadata"]["name"]] = found["Service"]["spec"]["ports"][0]["port"]
        pod = found["Deployment"]["spec"]["template"]["spec"]
        assert [t["key"] for t in pod["tolerations"]] == ["nvidia.com/gpu", "dedicated"]
        if found["Deployment"]["spec"]["replicas"] > 1:
            several += 1
            assert "PersistentVolumeClaim" not in found
            assert pod["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]["accessModes"] == ["ReadWriteOnce"]
            assert found["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
            labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
            assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert several
    for fronts, addresses in (
        (None, {f"http://{n}:{p}/v1" for n, p in services.items()}),
        ("nodes", {f"http://{r.nodes[0]}:{r.port}/v1" for r in plan.replicas}),
    ):
        (gateway,) = render_fleet(planned, "litellm", Session(RULES), fronts)
        rows = [m["litellm_params"] for m in yaml.safe_load(gateway.content)["model_list"]]
        assert {r["api_base"] for r in rows} == addresses
        assert sum(r["weight"] for r in rows) == pytest.approx(100 * sum(r.capacity for r in plan.replicas), rel=0.01)
    with pytest.raises(AdvisorError, match="--fronts"):
        render_fleet(planned, "litellm", Session(RULES), "ray")


def test_jobs_of_one_node_have_ports_of_their_own(tmp_path: Path) -> None:
    """Several servers on a node: the shell that runs a task's script gives each the port that the gateway asks."""
    plan = ask(tmp_path, [{**L40S, "count": 1}], [{**QWEN, "model": "llama3.1:8b", "rate": 14}])
    assert len(plan.replicas) == 2
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    planned = read_plan_file(str(tmp_path / "plan.json"))
    (job,) = render_fleet(planned, "slurm", Session(RULES))
    asked = []
    (tmp_path / "srun").write_text('#!/bin/sh\nprintf "%s\\n" "$*"\n')
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "job.sh").write_text(job.content)
    for task in ("0", "1"):
        path = f"{tmp_path}:{os.environ['PATH']}"
        environment = {"PATH": path, "SLURM_ARRAY_TASK_ID": task, "API_KEY": "k", "SLURM_CPUS_ON_NODE": "8"}
        done = subprocess.run([program("bash"), str(tmp_path / "job.sh")], env=environment, capture_output=True,
                              text=True, check=True)  # fmt: skip
        asked.append(re.search(r"--host 0\.0\.0\.0 --port (\d+)", done.stdout))
    assert [int(m[1]) for m in asked if m] == [r.port for r in plan.replicas]
    (gateway,) = render_fleet(planned, "litellm", Session(RULES))
    assert all(f":{r.port}/v1" in gateway.content for r in plan.replicas)
    memory = [int(n) for n in re.findall(r"--mem=(\d+)M", job.content)]
    assert len(memory) == 1
    assert 0 < memory[0] * 2 < 512 * 1024


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([{"model": "llama3.1:8b"}], "either `rate`"),
        ([{"model": "llama3.1:8b", "rate": 1, "tpott_s": 1}], "tpot_s"),
        ([{"model": "llama3.1:8b", "rate": -1}], "rate"),
        ([{"model": "llama3.1:8b", "rate": 1, "engines": ["vlm"]}], "vllm"),
        ([{"model": "llama3.1:8b", "rate": 1}] * 2, "is listed twice"),
        ([], "0 models"),
    ],
)
def test_a_wrong_demand_is_one_clear_line(models: list[Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(json.dumps({"models": models}))
    with pytest.raises(AdvisorError) as error:
        read_demand(tmp_path / "d.yaml", RULES)
    assert said in error.value.line()
    assert "\n" not in error.value.line()


def test_a_format_below_four_bits_is_taken_where_it_is_named_only(tmp_path: Path) -> None:
    one = {"name": "n", "hardware": "1x L4, 64GB RAM, linux", "price_per_hour": 0.6}
    wanted = {"model": "Qwen/Qwen3-32B", "users": 1, "engines": ["llama.cpp"]}
    assert all("3" not in r.quantization and "2" not in r.quantization for r in ask(tmp_path, [one], [wanted]).replicas)
    named = ask(tmp_path, [one], [{**wanted, "quantizations": ["Q3_K_M"]}])
    assert [r.quantization for r in named.replicas] == ["Q3_K_M"]
    assert resolve_model("Qwen/Qwen3-32B", RULES).model.id == named.replicas[0].model
    assert find_machine(str(one["hardware"]), RULES).text == named.replicas[0].hardware


def test_a_format_that_nobody_publishes_is_no_plan(tmp_path: Path) -> None:
    """No EXL3 of this model is known: on one L4 nothing else is left, so that it is not served there."""
    small = {"name": "tiny", "count": 2, "hardware": "1x L4, 64GB RAM, linux", "price_per_hour": 0.6}
    gemma = {**QWEN, "model": "google/gemma-3-27b-it", "rate": 0.5, "prompt_tokens": 300, "output_tokens": 100}
    plan = ask(tmp_path, [small], [gemma])
    assert plan.replicas == ()
    assert [u.name for u in plan.unserved] == ["google/gemma-3-27b-it"]


def test_slices_are_served_one_by_one_and_unknown_use_is_no_verdict(tmp_path: Path) -> None:
    """A node of MIG slices holds a replica on each; without pods nobody knows what is free, so nothing is given."""
    recorded = Path(__file__).parent.parent / "data" / "fleet" / "recorded"
    nodes = recorded / "k8s-nodes-constructed.json"
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": []}))
    (tmp_path / "demand.yaml").write_text(json.dumps({"models": [{**QWEN, "model": "llama3.1:8b", "rate": 1}]}))
    asked = ["fleet", "plan", str(nodes), "--models", str(tmp_path / "demand.yaml"), "--json"]
    assert run_command_line(asked) == 2
    assert run_command_line([*asked, "--pods", str(tmp_path / "pods.json")]) == 0
    whole = make_fleet(read_inventory(str(nodes), RULES, str(tmp_path / "pods.json")))
    sliced = [p for p in whole.pools if p.machine.usable_devices and p.machine.usable_devices[0].mig_profile]
    assert sliced
    only = FleetRequest(
        type(whole)(kind=whole.kind, pools=tuple(sliced), set_aside=()), read_demand(tmp_path / "demand.yaml", RULES)
    )
    from advisor.fleet.plan import plan_fleet

    plan = plan_fleet(only, Session(RULES))
    assert plan.replicas
    assert all(r.devices == 1 and "VISIBLE" not in r.command for r in plan.replicas)
    assert len({(r.nodes, r.device_indices) for r in plan.replicas}) == len(plan.replicas)
