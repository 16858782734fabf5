"""Devices of NVIDIA: the device plugin's resources next to the labels of GPU feature discovery."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.fleet.inventory.cards import CardLookup, find_by_driver_name
from advisor.fleet.inventory.foreign import positive
from advisor.fleet.inventory.label_devices import INSTANCE_GPU, Findings, NodeLabels, add_devices, find_by_cloud

MOST_MIB = 2**24


def read_nvidia(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    labels = node.labels
    said = labels.get("nvidia.com/gpu.product", "")
    product, mig = _split_product(said)
    sliced = False
    for resource in [r for r in node.allocatable if r.startswith("nvidia.com/mig-")]:
        profile = resource.removeprefix("nvidia.com/mig-").removesuffix(".shared")
        found.read.add(resource)
        if not node.allocatable[resource]:
            continue
        sliced = True
        prefix = f"nvidia.com/mig-{profile}"
        base, _ = _split_product(labels.get(f"{prefix}.product", said))
        if _is_shared(node, prefix, resource, found):
            continue
        kind = find_by_driver_name(
            lookup, base or "NVIDIA", "nvidia", _mib(labels, f"{prefix}.memory"), profile.replace(".me", "+me")
        )
        add_devices(found, node, resource, kind, None)
    for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared"):
        count = node.allocatable.get(resource)
        found.read.add(resource)
        if count is None or (sliced and not count) or (count and _is_shared(node, "nvidia.com/gpu", resource, found)):
            continue
        memory = _mib(labels, "nvidia.com/gpu.memory")
        if product:
            kind = find_by_driver_name(lookup, product, "nvidia", memory, mig)
        else:
            kind = find_by_cloud(node, lookup, "nvidia")
        labelled = None if mig or sliced else _labelled(node)
        if count or not product or not mig:
            add_devices(found, node, resource, kind, labelled)


def _split_product(product: str) -> tuple[str, str | None]:
    """`A100-SXM4-80GB-MIG-3g.40gb-SHARED` as the card and the MIG profile."""
    bare = product.removesuffix("-SHARED")
    m = re.fullmatch(r"(.*?)-MIG-(\d+g\.\d+gb(?:[.+]me)?)", bare)
    return (m[1], m[2].replace(".me", "+me")) if m else (bare, None)


def _is_shared(node: NodeLabels, prefix: str, resource: str, found: Findings) -> bool:
    """Whether what can be asked for are shares of a device; if so, that is a problem."""
    labels, count = node.labels, node.allocatable[resource]
    replicas = node.label_count(f"{prefix}.replicas") or 1
    clients = node.label_count("cloud.google.com/gke-max-shared-clients-per-gpu") or 1
    marked = labels.get(f"{prefix}.product", "").endswith("-SHARED") or resource.endswith(".shared")
    if replicas <= 1 and clients <= 1 and not marked:
        return False
    how = labels.get(f"{prefix}.sharing-strategy") or labels.get("cloud.google.com/gke-gpu-sharing-strategy")
    named = {"mps": "MPS", "time-slicing": "time slicing", "time-sharing": "time slicing"}.get(how or "", "sharing")
    found.problems.append(f"{count} shares of its cards by {named} ({resource}): a share has no memory of its own")
    return True


def _labelled(node: NodeLabels) -> int | None:
    """How many cards labels describe: the driver's count first, then those of clouds."""
    keys = ("nvidia.com/gpu.count", *(f"{p}count" for p in INSTANCE_GPU), "cloud.google.com/gke-accelerator-count")
    return next((n for k in keys if (n := node.label_count(k)) is not None), None)


def _mib(labels: Mapping[str, str], key: str) -> int | None:
    size = positive(labels.get(key))
    return size if size is not None and size <= MOST_MIB else None
