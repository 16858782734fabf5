"""Devices that labels of a Kubernetes node describe: what the readers of all makers share."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError
from advisor.fleet.inventory.cards import CardKind, CardLookup, find_by_words
from advisor.fleet.inventory.foreign import positive
from advisor.machines.device_visibility import MIG_NOTE
from advisor.machines.types import Vendor
from advisor.near import simplify_name
from advisor.record import Value

# cloud names that are no names of cards (GKE's documentation of accelerators and TPU machine types)
CLOUD_NAMES = {
    "nvidia-tesla-a100": "A100 SXM 40GB",
    "nvidia-h100-mega-80gb": "H100 SXM 80GB",
    "nvidia-rtx-pro-6000": "RTX PRO 6000 Blackwell Server",
    "tpu-v5-lite-podslice": "TPU v5e",
    "tpu-v5-lite-device": "TPU v5e",
    "tpu-v5p-slice": "TPU v5p",
    "tpu-v6e-slice": "TPU v6e",
}
INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
CLOUD_LABELS = ("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator")
INSTANCE_GPU = ("karpenter.k8s.aws/instance-gpu-", "eks.amazonaws.com/instance-gpu-")  # name, memory (MiB), count


class DeviceGroup(Value, frozen=True):
    """Equal devices of a node under the name that pods ask for them by."""

    resource: str
    kind: CardKind
    number: int


class Findings(Value, frozen=True):
    """What was found: groups that can be used, what cannot be used and why, what is odd, resources that were read."""

    groups: list[DeviceGroup]
    problems: list[str]
    notes: list[str]
    read: set[str]


class NodeLabels(Value, frozen=True):
    """Labels of a node, and its whole resources: capacity as they are, allocatable as pods may have them."""

    labels: Mapping[str, str]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]

    def label_count(self, key: str) -> int | None:
        """A label that is a number; None where it is absent, 0 or none."""
        return positive(self.labels.get(key))


def add_devices(
    found: Findings, node: NodeLabels, resource: str, kind: CardKind, labelled: int | None, several: str = ""
) -> None:
    """Take the devices of a resource, unless more of them can be asked for than there are cards."""
    count = node.allocatable.get(resource, 0)
    found.read.add(resource)
    there = max(x for x in (labelled, node.capacity.get(resource), count) if x is not None)
    if count == 0:
        if there:
            found.problems.append(
                f"{there}x {kind.name}, none of which can be allocated ({resource} is 0): not healthy"
            )
        return
    if labelled is not None and count > labelled:
        why = several or "cards of several kinds, or shares of them"
        found.problems.append(f"its labels name {labelled}x {kind.name}, and {resource} counts {count}: {why}")
        return
    if count < there:
        found.notes.append(f"{there}x {kind.name} by its labels, and {count} can be allocated")
    found.notes.extend((*kind.notes, MIG_NOTE) if kind.mig else kind.notes)
    found.groups.append(DeviceGroup(resource, kind, count))


def find_by_cloud(node: NodeLabels, lookup: CardLookup, vendor: Vendor) -> CardKind:
    """The card as the cloud's labels name it: Karpenter's, GKE's, EKS's, else the machine type."""
    labels = node.labels
    for prefix in INSTANCE_GPU:
        name, size = labels.get(f"{prefix}name"), node.label_count(f"{prefix}memory")
        if name and labels.get(f"{prefix}manufacturer", vendor) == vendor:
            kind = find_by_words(lookup, f"{name} {round(size / 1024)}GB" if size else name, vendor)
            return kind if kind.accelerator is not None else find_by_words(lookup, name, vendor)
    for key in CLOUD_LABELS:
        if labels.get(key):
            return find_by_words(lookup, CLOUD_NAMES.get(labels[key], labels[key]), vendor)
    return find_by_instance(node, lookup) or make_unnamed(vendor)


def make_unnamed(vendor: Vendor) -> CardKind:
    maker = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "google": "TPU", "aws": "Neuron"}.get(vendor, "")
    return CardKind(f"{maker} device".strip(), vendor, notes=(f"no label says which {maker} devices these are",))


def find_by_instance(node: NodeLabels, lookup: CardLookup) -> CardKind | None:
    """The one kind of card of a cloud's machine type."""
    kind = next((v for k in INSTANCE_TYPES if (v := node.labels.get(k))), None)
    if kind is None or simplify_name(kind) not in lookup.rules.named_machines():
        return None
    key = ("instance", kind)
    if key not in lookup.found:
        try:
            devices = parse_hardware(kind, lookup.rules).devices
        except AdvisorError:
            devices = ()
        names = {d.accelerator for d in devices}
        if len(names) != 1:
            return None
        first = devices[0]
        lookup.found[key] = CardKind(
            first.name, first.vendor, first.accelerator, first.total_bytes, first.total_basis, first.mig_profile
        )
    return lookup.found[key]


def list_by_pci(lookup: CardLookup, chip: str) -> tuple[str, ...]:
    """Ids of the cards that have a PCI id."""
    return tuple(a.id for a in lookup.rules.accelerators().values() if chip in a.pci_ids)


def find_by_pci(lookup: CardLookup, chip: str, name: str, vendor: Vendor) -> CardKind:
    """The card of a PCI id, where only one has it."""
    known = [a for a in lookup.rules.accelerators().values() if chip in a.pci_ids]
    if len(known) == 1:
        return find_by_words(lookup, known[0].id, vendor)
    said = f"may be {', '.join(a.name for a in known[:4])}" if known else "not in the catalogue of accelerators"
    return CardKind(name, vendor, notes=(f"{name}: {said}",))
