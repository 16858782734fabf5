"""Inventories of tests/data/fleet, made of their cases, and fleets as rows that expectations are written in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from advisor.fleet.types import Fleet, Pool

DATA = Path(__file__).parents[1] / "data" / "fleet"
RECORDED = DATA / "recorded"


def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of a file."""
    found: list[dict[str, Any]] = yaml.load((DATA / f"{kind}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    assert len({c["name"] for c in found}) == len(found)
    return found


def make_node(i: int, said: dict[str, Any]) -> dict[str, Any]:
    """A node as Kubernetes' API has it."""
    capacity = {"cpu": "96", "memory": "1056000000Ki", **said.get("resources", {})}
    metadata: dict[str, Any] = {"name": said.get("name", f"node-{i}"), "labels": said.get("labels", {})}
    if "annotations" in said:
        metadata["annotations"] = said["annotations"]
    if said.get("deleted"):
        metadata["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": said.get("ready", "True")}]
    status = {
        "capacity": capacity,
        "allocatable": {**capacity, **said.get("allocatable", {})},
        "conditions": conditions,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": said.get("spec", {}), "status": status}


def make_pod(said: dict[str, Any]) -> dict[str, Any]:
    """A pod as Kubernetes' API has it; requests of devices stand among the limits."""
    spec: dict[str, Any] = {"containers": [{"resources": {"limits": c}} for c in said["containers"]]}
    spec["initContainers"] = [{"resources": {"limits": c}} for c in said.get("init", [])]
    if said["node"]:
        spec["nodeName"] = said["node"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod"},
        "spec": spec,
        "status": {"phase": said["phase"]},
    }


def content(kind: str, case: dict[str, Any]) -> bytes:
    """A case as the file that a program would write."""
    if kind == "kubernetes":
        items = [make_node(i, n) for i, n in enumerate(case["nodes"])]
        items += [make_pod(p) for p in case.get("pods", [])]
        items += [{"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": s} for s in case.get("slices", [])]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    if kind == "slurm":
        return case["text"].encode() if "text" in case else json.dumps(case["json"]).encode()
    if kind == "ray":
        return json.dumps(case["nodes"]).encode()
    return yaml.safe_dump(case["file"]).encode()


def shown(pool: Pool) -> dict[str, Any]:
    """A pool in the words of expectations."""
    devices = pool.machine.devices
    assert len(devices) == pool.devices
    seen = [d for d in devices if d.visible and not d.driver_missing]
    assert len(seen) == (1 if devices and devices[0].mig_profile else len(devices))  # a process sees one slice only
    assert len({(d.accelerator, d.total_bytes, d.mig_profile) for d in devices}) <= 1
    first = devices[0] if devices else None
    gib = first.total_bytes / 2**30 if first is not None and first.total_bytes is not None else None
    ram = pool.machine.memory.usable_bytes
    return {
        "accelerator": first.accelerator if first is not None else None,
        "devices": pool.devices,
        "gib": gib,
        "free": pool.devices_free,
        "mig": first.mig_profile if first is not None else None,
        "resource": pool.resource,
        "nodes": len(pool.node_names),
        "price": pool.price_per_hour,
        "ram_gib": None if ram is None else ram / 2**30,
        "free_indices": None if pool.free_indices is None else list(pool.free_indices),
    }


def agree(expected: dict[str, Any], pool: Pool) -> bool:
    """Whether a pool is as expected, in what the expectation names."""
    seen = shown(pool)
    for key, value in expected.items():
        if isinstance(value, float) and seen[key] is not None:
            if abs(seen[key] - value) > 0.06:
                return False
        elif seen[key] != value:
            return False
    return True


def names_of(fleet: Fleet) -> list[str]:
    """Every node: of pools (each group once), and set aside."""
    groups = {p.group: p.node_names for p in fleet.pools}
    return [n for names in groups.values() for n in names] + [s.node for s in fleet.set_aside]


def search(pattern: str, texts: list[str]) -> bool:
    """Whether one of the texts has the pattern."""
    return any(re.search(pattern, t) for t in texts)
