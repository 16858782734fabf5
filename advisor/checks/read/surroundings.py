"""What else of a manifest matters to its pods: services that select them, claims, names that are taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.located_text import (
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    line_of,
    value_at,
)


class PodSurroundings:
    """Services, claims and names of one file that matter to its pods."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.services = [o for o in objects if o.get("kind") == "Service"]
        self.ingress = any(o.get("kind") in ("Ingress", "Route", "VirtualService") for o in objects)
        self.service_names = {
            str(value_at(o, "metadata", "name")): line_of(value_at(o, "metadata", "name")) for o in self.services
        }
        self.claims = {
            str(value_at(o, "metadata", "name")): parse_container_size(
                as_string(value_at(o, "spec", "resources", "requests", "storage"))
            )
            for o in objects
            if o.get("kind") == "PersistentVolumeClaim"
        }

    def exposed(self, labels: Mapping[str, Any]) -> str | None:
        """How pods with these labels are reachable from beyond the cluster; None when they are not."""
        for s in self.services:
            wanted = as_mapping(value_at(s, "spec", "selector"))
            kind = str(value_at(s, "spec", "type") or "ClusterIP")
            if kind in ("NodePort", "LoadBalancer") and wanted and all(labels.get(k) == v for k, v in wanted.items()):
                notes = " ".join(f"{k}={v}" for k, v in as_mapping(value_at(s, "metadata", "annotations")).items())
                if re.search(r"internal", notes, re.I):
                    continue
                return f"a Service of type {kind}"
        return "an Ingress" if self.ingress else None

    def port(self, labels: Mapping[str, Any]) -> tuple[int, int] | None:
        """(target port, line) of the Service that selects these pods, where it is a number."""
        for s in self.services:
            wanted = as_mapping(value_at(s, "spec", "selector"))
            if wanted and all(labels.get(k) == v for k, v in wanted.items()):
                for p in as_sequence(value_at(s, "spec", "ports")):
                    target = as_whole_number(value_at(p, "targetPort")) or (
                        as_whole_number(value_at(p, "port")) if value_at(p, "targetPort") is None else None
                    )
                    if target:
                        return target, line_of(p)
        return None
