"""Inventories of clusters that are asked now: kubectl, scontrol, Ray."""

from __future__ import annotations

import sys
from typing import Any

from advisor.catalog import Catalog
from advisor.errors import AdvisorError, BadInput
from advisor.fleet.inventory import kubernetes, ray, slurm_text
from advisor.fleet.inventory.cards import make_lookup
from advisor.fleet.inventory.kubernetes import PodList
from advisor.fleet.inventory.probing import ProbeAnswer, probe_slurm, use_probes
from advisor.fleet.inventory.programs import ask_program
from advisor.fleet.types import Inventory

RAY_SECONDS = 90.0
NODES = ("kubectl", "get", "nodes", "-o", "json", "--request-timeout=60s")
PODS = ("kubectl", "get", "pods", "--all-namespaces", "-o", "json", "--request-timeout=60s",
        "--field-selector=status.phase!=Succeeded,status.phase!=Failed")  # fmt: skip
SCONTROL = ("scontrol", "show", "node", "-o", "-d")


def ask_kubernetes(rules: Catalog) -> Inventory:
    """The nodes that kubectl sees, with what pods have taken where they may be read. Raises BadInput, BadFile."""
    nodes = ask_program(NODES)
    try:
        pods: PodList | None = PodList(ask_program(PODS), "kubectl get pods")
        failed: tuple[str, ...] = ()
    except AdvisorError as e:  # who may see nodes need not see pods
        pods, failed = None, (f"pods could not be read: {e.line()}",)
    made = kubernetes.read_kubernetes(nodes, "kubectl get nodes", make_lookup(rules), pods)
    return Inventory(kind=made.kind, nodes=made.nodes, notes=(*made.notes, *failed))


def ask_slurm(rules: Catalog, probe: bool = False) -> Inventory:
    """The nodes that scontrol describes; with `probe`, what a job on each of them finds. Raises BadInput, BadFile."""
    made = slurm_text.read_scontrol(ask_program(SCONTROL), "scontrol show node", make_lookup(rules))
    return use_probes(made, probe_slurm(made.nodes, rules), rules) if probe else made


def ask_ray(address: str, rules: Catalog, probe: bool = False) -> Inventory:
    """The nodes of a Ray cluster; with `probe`, what a task on each of them finds. Raises BadInput, BadFile."""
    words = [sys.executable, "-m", "advisor.fleet.inventory.ray_client", address, *(["--probe"] if probe else [])]
    try:
        data = ask_program(words, RAY_SECONDS * (3 if probe else 1), more={"RAY_DEDUP_LOGS": "0"})
    except BadInput as e:
        raise BadInput(f"Ray at {address[:80]}: {e.message.partition(' failed: ')[2] or e.message}") from None
    made = ray.read_ray(data, "ray.nodes()", make_lookup(rules))
    if not probe:
        return made
    found: dict[str, ProbeAnswer] = {name: _answer(said) for name, said in ray.read_probes(data, "ray.nodes()").items()}
    return use_probes(made, found, rules)


def _answer(said: dict[str, Any]) -> ProbeAnswer:
    from advisor.fleet.inventory.probing import read_answer

    if isinstance(said.get("machine"), str):
        return read_answer(said["machine"].encode())
    return str(said.get("error") or "no answer")[:300]
