"""What labels and resources of a Kubernetes node say about its devices, each held against the others.

Sources: GPU feature discovery and device plugin of NVIDIA, AMD's node labeller, Intel's device plugins, Intel Gaudi's,
GKE, EKS with Karpenter, AKS; their documentation as of 2026-11. Label values are what drivers say, with other marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.fleet.inventory.cards import CardLookup, find_by_words
from advisor.fleet.inventory.foreign import positive
from advisor.fleet.inventory.label_devices import (
    CLOUD_NAMES,
    INSTANCE_GPU,
    Findings,
    NodeLabels,
    add_devices,
    find_by_instance,
    find_by_pci,
    make_unnamed,
)
from advisor.fleet.inventory.labels_amd import read_amd
from advisor.fleet.inventory.labels_nvidia import read_nvidia
from advisor.machines.types import Vendor

# devices of makers that the catalogue knows nothing of: they are there, and nobody can plan with them
OTHER_DEVICES = re.compile(
    r"[\w.-]+/[\w.-]*(?:gpu|npu|tpu|xpu|mlu|dcu|ascend|accelerator|neuron)[\w.-]*|"
    r"nvidia\.com/(?:G[A-Z]\d|AD\d|TU\d|GRID)[\w.-]*",  # cards for virtual machines, by their chips
    re.I,
)


def find_devices(node: NodeLabels, lookup: CardLookup) -> Findings:
    """All devices of a node."""
    found = Findings([], [], [], set())
    for reader in _READERS:
        reader(node, lookup, found)
    for resource, count in node.allocatable.items():
        if count and resource not in found.read and OTHER_DEVICES.fullmatch(resource):
            found.problems.append(f"{count} of {resource[:60]}: devices that this program cannot plan with")
    if not found.groups and not found.problems:
        _find_missing(node, lookup, found)
    return found


def _read_intel(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    found.read.update(r for r in node.allocatable if r.startswith("gpu.intel.com/"))
    resources = [r for r in ("gpu.intel.com/i915", "gpu.intel.com/xe") if r in node.allocatable]
    if not resources:
        return
    chips = {}
    for key, value in node.labels.items():
        m = re.fullmatch(r"gpu\.intel\.com/device-id\.[0-9a-f]{4}-([0-9a-f]{4})\.count", key)
        if m:
            chips[m[1]] = positive(value)
    product = node.labels.get("gpu.intel.com/product", "")
    if len(chips) > 1:
        found.problems.append(f"cards of several kinds under {resources[0]}: {', '.join(sorted(chips))[:80]}")
        return
    kind = find_by_words(lookup, product, "intel") if product else make_unnamed("intel")
    chip, count = next(iter(chips.items()), (None, None))
    if kind.accelerator is None and chip is not None:
        kind = find_by_pci(lookup, f"8086:{chip}", product or f"Intel {chip}", "intel")
    for resource in resources:
        add_devices(found, node, resource, kind, count, "the plugin hands each card out several times (shared-dev-num)")


def _reader_of(resource: str, vendor: Vendor, words: str, label: str = "") -> Callable[..., None]:
    """A reader of a resource whose devices a label or the machine type names."""

    def read(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
        if resource not in node.allocatable:
            return
        said = node.labels.get(label, "")
        if said:
            kind = find_by_words(lookup, CLOUD_NAMES.get(said, said), vendor)
        else:
            kind = find_by_instance(node, lookup) or find_by_words(lookup, words, vendor)
        add_devices(found, node, resource, kind, None)

    return read


def _read_neuron_cores(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    """The same chips by their cores; they count where the chips themselves cannot be asked for."""
    for resource in ("aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"):
        found.read.add(resource)
        count = node.allocatable.get(resource, 0)
        if count and "aws.amazon.com/neuron" not in node.allocatable:
            found.problems.append(f"{count} of {resource}: cores or older names of chips, which are not counted here")


def _find_missing(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    """Cards that labels describe and no resource does: a driver or a device plugin is missing."""
    labels = node.labels
    named = next((labels[k] for k in _NAMING if labels.get(k)), None)
    if named is None and next((k for k in _PRESENT if labels.get(k) == "true"), None) is not None:
        named = "a GPU"
    if named is None:
        kind = find_by_instance(node, lookup)
        named = kind.name if kind is not None else None
    if named is not None:
        found.problems.append(
            f"its labels name {named[:60]}, and none can be allocated: no driver, no device plugin, or dynamic "
            "resource allocation"
        )


_NAMING = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "amd.com/gpu.device-id", "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator", "cloud.google.com/gke-tpu-accelerator", *(f"{p}name" for p in INSTANCE_GPU),
    "k8s.amazonaws.com/accelerator",
)  # fmt: skip
_PRESENT = (
    "nvidia.com/gpu.present",
    *(f"feature.node.kubernetes.io/pci-{c}10de.present" for c in ("", "0302_", "0300_")),
)
_READERS: tuple[Callable[[NodeLabels, CardLookup, Findings], None], ...] = (
    read_nvidia,
    read_amd,
    _read_intel,
    _reader_of("habana.ai/gaudi", "habana", "Gaudi"),
    _reader_of("google.com/tpu", "google", "TPU", "cloud.google.com/gke-tpu-accelerator"),
    _reader_of("aws.amazon.com/neuron", "aws", "Neuron"),
    _read_neuron_cores,
)
