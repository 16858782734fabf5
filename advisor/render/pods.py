"""What a pod asks of its node, and as whom its process runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.catalog.launch_types import ImageStart, ImageUser
from advisor.engines.versions import version_key
from advisor.render.matrix import PodNeeds

MIB = 2**20


def make_pod_names(
    seen: Mapping[str, Any], inside: ImageStart | None, weights: int | None, host: int | None, needs: PodNeeds
) -> dict[str, Any]:
    """`pod` (its `shared_mib` is the size of /dev/shm) and `user` of a template.

    `weights`, `host`: bytes of all weights and of host memory; None = not known.
    """
    lane = seen["image"]["lane"] if seen["image"] else None
    shares = inside is not None and inside.ipc
    shared = needs.shared_mib if shares else needs.shared_mib_alone
    return {
        "pod": {**make_pod_resources(seen, weights, host, needs, shares), "shared_mib": shared},
        "user": choose_user(inside.user if inside else None, seen["engine"]["version"], lane),
    }


def choose_user(user: ImageUser | None, version: str | None, lane: str | None) -> dict[str, Any] | None:
    """The user without privileges that this image has; None where it runs as root, or nothing else is known."""
    if user is None or (user.lanes and lane not in user.lanes):
        return None
    known = version_key(version or "")
    return user.to_dict() if user.since is None or (known and known >= version_key(user.since)) else None


def make_pod_resources(
    seen: Mapping[str, Any], weights: int | None, host: int | None, needs: PodNeeds, shares_memory: bool
) -> dict[str, int | None]:
    """Requests and limit of a pod: `memory_mib`, `memory_limit_mib` (None = not known), `cores`.

    `weights`, `host`: bytes of all weights and of host memory of the deployment, None = not known. With accelerators
    each rank is a process; `PodNeeds` has their sizes. The limit is generous: it is against a process that runs away.
    """
    count = int(seen["device_count"] or 0) if seen["devices"] else 0
    if not count:
        limit = None if host is None else int(host * needs.limit_factor)
        return {"memory_mib": _mib(host), "memory_limit_mib": _mib(limit), "cores": needs.base_cores}
    processes = needs.base_bytes + needs.bytes_per_device * count
    asked = processes + (host or 0)
    shared = needs.shared_mib * MIB if shares_memory else 0
    limit = None if weights is None else int(asked * needs.limit_factor) + weights + shared
    return {
        "memory_mib": _mib(asked),
        "memory_limit_mib": _mib(limit),
        "cores": needs.base_cores + needs.cores_per_device * count,
    }


def _mib(size: int | None) -> int | None:
    return None if size is None else -(-size // MIB)
