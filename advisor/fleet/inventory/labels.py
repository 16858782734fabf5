"""What labels and resources of a Kubernetes node say about its devices, each held against the others.

The devices of a node are the least that any source can prove: what can be allocated, labels of drivers and clouds, the
machine type, registers of sharing schedulers, ResourceSlices. More to allocate than cards are shares of them.

Which labels, resources and names there are is in rules/node-labels.yaml. Label values are what drivers say, with other
marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.fleet.inventory.cards import (
    CardKind,
    CardLookup,
    find_by_driver_name,
    find_by_size,
    find_by_words,
    find_machine_cards,
)
from advisor.fleet.inventory.foreign import positive
from advisor.fleet.inventory.register import CLASS, Claimable, RegisteredCard, describe_claims
from advisor.machines.device_visibility import MIG_NOTE
from advisor.machines.types import Vendor
from advisor.meanings import HardwareWords
from advisor.record import Names, Value

MOST_OTHERS = 1024  # devices of one resource: a larger number counts something else
MOST_MIB = 2**24
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"


class NodeWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """rules/node-labels.yaml, which says what each means."""

    source: str
    as_of: str
    machine_types: Names
    card_names: Names
    cloud_names: Names
    cloud_counts: Names
    instance_cards: Names
    present: Names
    cards: dict[str, HardwareWords]
    drivers: dict[str, Vendor]
    resources: dict[Vendor, str]
    others: Names
    device_taints: Names
    capacity_types: Names
    selecting: Names
    columns: dict[str, str]
    csv_columns: dict[str, Names]
    slurm_columns: dict[str, str]
    slurm_record: dict[str, str]
    slurm_working: Names
    slurm_asleep: Names
    ray: dict[str, tuple[Vendor, str]]
    probe_job: dict[str, Any]
    probe_steps: str


def read_node_words(rules: Catalog) -> NodeWords:
    """What labels and resources of nodes are called."""
    return decode_document(rules, "node-labels.yaml", NodeWords)


class DeviceGroup(Value, frozen=True):
    """Equal devices of a node under the name that pods ask for them by."""

    resource: str
    kind: CardKind
    number: int
    whole: int  # that the machine has, also those that are lost


class Findings(Value, frozen=True):
    """What was found: groups that can be used, what cannot be used and why, what is odd, resources that were read."""

    groups: list[DeviceGroup]
    problems: list[str]
    notes: list[str]
    read: set[str]


class NodeLabels(Value, frozen=True):
    """Labels of a node, and its whole resources: capacity as they are, allocatable as pods may have them; cards that a
    sharing scheduler registered, and those of its ResourceSlices by name."""

    labels: Mapping[str, str]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    registered: tuple[RegisteredCard, ...] = ()
    claimable: Claimable = {}
    stated: bool = True  # whether the source says what resources there are

    def label_count(self, key: str) -> int | None:
        """A label that is a number; None where it is absent, 0 or none."""
        return positive(self.labels.get(key))


def find_devices(node: NodeLabels, lookup: CardLookup) -> Findings:
    """All devices of a node."""
    found = Findings([], [], [], set())
    for reader in _READERS:
        reader(node, lookup, found)
    others = re.compile("|".join(read_node_words(lookup.rules).others), re.I)
    for resource, count in node.allocatable.items():
        known = resource in found.read or others.fullmatch(resource)
        # devices of makers that the catalogue knows nothing of are there, and nobody can plan with them
        if not known and 0 < count <= MOST_OTHERS:
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
        add_devices(
            found, node, lookup, resource, kind, count, "the plugin hands each card out several times (shared-dev-num)"
        )


def _reader_of(resource: str, vendor: Vendor, words: str, label: str = "") -> Callable[..., None]:
    """A reader of a resource whose devices a label or the machine type names."""

    def read(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
        if resource not in node.allocatable:
            return
        card_label = node.labels.get(label, "")
        if card_label:
            kind = find_by_words(lookup, read_node_words(lookup.rules).cards.get(card_label, card_label), vendor)
        else:
            kind = (find_by_instance(node, lookup) or (find_by_words(lookup, words, vendor), 0))[0]
        add_devices(found, node, lookup, resource, kind, None)

    return read


def _read_neuron_cores(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    """The same chips by their cores; they count where the chips themselves cannot be asked for."""
    for resource in ("aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"):
        found.read.add(resource)
        count = node.allocatable.get(resource, 0)
        if count and "aws.amazon.com/neuron" not in node.allocatable:
            found.problems.append(f"{count} of {resource}: cores or older names of chips, which are not counted here")


def _read_claims(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    """Cards that pods get by claims of their driver's device class, where no plugin counts them: equal whole ones."""
    if not node.claimable or found.groups or found.problems:
        return
    whole = {device: n for device, n in node.claimable.items() if not device.part}
    if len(whole) != 1 or not next(iter(whole)).driver.startswith("gpu."):
        found.problems.append(describe_claims(node.claimable))
        return
    device, count = next(iter(whole.items()))
    resource, vendor = CLASS + device.driver, read_node_words(lookup.rules).drivers.get(device.driver, "unknown")
    kind = _find_least(lookup, device.name, vendor, device.memory_mib)
    alone = replace(node, allocatable={resource: count}, capacity={}, claimable=whole)
    add_devices(found, alone, lookup, resource, kind, None)
    found.notes.append(f"its cards are had by claims of the device class {device.driver}")
    if len(whole) < len(node.claimable):
        found.notes.append(f"not used: {describe_claims({d: n for d, n in node.claimable.items() if d.part})}")


def _find_least(lookup: CardLookup, name: str, vendor: Vendor, mib: int | None) -> CardKind:
    """The card of a driver's name with the least memory that is proven: a register may round or promise more, so of a
    card that is not in the catalogue it is not known."""
    kinds = [find_by_driver_name(lookup, name, vendor, size) for size in (mib, None)]
    known = [k for k in kinds if k.accelerator is not None and k.total_bytes is not None]
    return min(known, key=lambda k: k.total_bytes or 0, default=kinds[1])


def _find_missing(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    """Cards that labels describe and no resource does: a driver or a device plugin is missing."""
    labels, words = node.labels, read_node_words(lookup.rules)
    named = next((labels[k] for k in words.card_names if labels.get(k)), None)
    if named is None and any(labels.get(k) == "true" for k in words.present):
        named = "a GPU"
    if named is None:
        cards = find_by_instance(node, lookup)
        named = cards[0].name if cards is not None else None
    if named is not None:
        number, size = _labelled(node, lookup), _mib(labels, "nvidia.com/gpu.memory")
        shown = f"{f'{number}x ' if number else ''}{named[:60]}{f' of {size / 1024:.3g} GiB' if size else ''}"
        why = "none can be allocated: no driver, no device plugin, or dynamic resource allocation"
        why = why if node.stated else "how many can be allocated is not in the list (status)"
        found.problems.append(f"its labels name {shown}, and {why}")


def read_amd(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    for resource in [r for r in node.allocatable if r.startswith("amd.com/")]:
        count = node.allocatable[resource]
        found.read.add(resource)
        if resource != "amd.com/gpu":
            if count:
                found.problems.append(f"{count} of {resource[:60]}: partitions of its cards, which have no entry")
            continue
        mode = node.labels.get("amd.com/gpu.mode", "")
        if count and mode.endswith("passthrough"):
            found.problems.append(f"{count}x {resource} are handed to virtual machines ({mode[:40]})")
            continue
        partition = next((v for k, v in node.labels.items() if k.endswith("compute-memory-partition")), "spx")
        if count and not partition.lower().startswith("spx"):
            found.problems.append(f"{count} partitions of its cards ({partition[:20]}), which have no entry")
            continue
        chips = _amd_values(node.labels, "device-id")
        ids = {list_by_pci(lookup, f"1002:{chip}") or (chip,) for chip in chips}
        if len(ids) > 1:
            found.problems.append(f"cards of several kinds under {resource}: {', '.join(sorted(chips))[:80]}")
            continue
        counts = [n for n in chips.values() if n is not None]
        kind = _amd_kind(node, lookup, next(iter(chips), None))
        add_devices(found, node, lookup, resource, kind, sum(counts) if len(counts) == len(chips) > 0 else None)


def _amd_values(labels: Mapping[str, str], what: str) -> dict[str, int | None]:
    """value -> count of `amd.com/gpu.WHAT: value`, `amd.com/gpu.WHAT.value: count` and the older `beta.` forms."""
    out: dict[str, int | None] = {}
    for key, value in labels.items():
        m = re.fullmatch(rf"(?:beta\.)?amd\.com/gpu\.{what}(?:\.([\w.-]+))?", key)
        if m is None:
            continue
        name = (m[1] or value).lower()
        out[name] = (positive(value) if m[1] else None) or out.get(name)
    return out


def _amd_kind(node: NodeLabels, lookup: CardLookup, chip: str | None) -> CardKind:
    product = node.labels.get("amd.com/gpu.product-name", "")
    size = next(iter(_amd_values(node.labels, "vram")), "")
    gib = positive(re.sub(r"gi?b?$", "", size.lower()))
    kind = find_by_words(lookup, product, "amd") if product else None
    if kind is not None and kind.accelerator is None:
        kind = find_by_size(lookup, product, "amd", gib) or kind
    if (kind is None or kind.accelerator is None) and chip is not None:
        kind = find_by_pci(lookup, f"1002:{chip}", product or f"AMD {chip}", "amd")
    kind = kind or find_by_cloud(node, lookup, "amd")
    of_chip = list_by_pci(lookup, f"1002:{chip}")
    if kind.accelerator is not None and of_chip and kind.accelerator not in of_chip:
        note = f"{product}: its device id {chip} is that of {', '.join(of_chip)}: neither is believed"
        return CardKind(product, "amd", notes=(note,))
    entry = lookup.rules.accelerators().get(kind.accelerator or "")
    if gib is None or entry is None or entry.memory_bytes is None:
        return kind
    nominal = entry.memory_bytes // entry.devices_per_card / 2**30
    if abs(gib - nominal) <= 0.05 * nominal:
        return kind
    note = f"{kind.name}: its label says {gib} GB, and the card has {nominal:g}: neither is believed"
    return CardKind(product or kind.name, "amd", notes=(note,))


def read_nvidia(node: NodeLabels, lookup: CardLookup, found: Findings) -> None:
    labels = node.labels
    product_label = labels.get("nvidia.com/gpu.product", "")
    product, mig = _split_product(product_label)
    mig = mig or labels.get(GKE_PARTITION) or None
    sliced, sevenths = False, 0
    for resource in [r for r in node.allocatable if r.startswith("nvidia.com/mig-")]:
        profile = resource.removeprefix("nvidia.com/mig-").removesuffix(".shared")
        found.read.add(resource)
        if not node.allocatable[resource]:
            continue
        sliced = True
        sevenths += (positive(profile.partition("g")[0]) or 1) * node.allocatable[resource]
        prefix = f"nvidia.com/mig-{profile}"
        base, _ = _split_product(labels.get(f"{prefix}.product", product_label))
        if _is_shared(node, lookup, prefix, resource, found):
            continue
        base = base or find_by_cloud(node, lookup, "nvidia").name
        kind = find_by_driver_name(
            lookup, base, "nvidia", _mib(labels, f"{prefix}.memory"), profile.replace(".me", "+me")
        )
        add_devices(found, node, lookup, resource, kind, None)
    for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared"):
        count = node.allocatable.get(resource)
        found.read.add(resource)
        if (
            count is None
            or (sliced and not count)
            or (count and _is_shared(node, lookup, "nvidia.com/gpu", resource, found))
        ):
            continue
        if _is_registered_wrong(node, resource, found):
            continue
        node = _take_whole(node, resource, lookup, found)
        count = node.allocatable[resource]
        memory = _mib(labels, "nvidia.com/gpu.memory")
        if product:
            kind = find_by_driver_name(lookup, product, "nvidia", memory, mig)
        elif node.registered:
            kind = _find_least(lookup, node.registered[0].name, "nvidia", node.registered[0].memory_mib)
        else:
            kind = find_by_cloud(node, lookup, "nvidia", mig)
        labelled, typed = None if mig else _labelled(node, lookup), find_by_instance(node, lookup)
        if sliced and typed is not None and typed[0].accelerator == kind.accelerator:
            labelled = min(labelled or typed[1], typed[1])
        if sliced and labelled is not None:
            _add_next_to_slices(found, resource, kind, count, labelled - -(-sevenths // 7))
        elif count or not ((product and mig) or _is_handed_out_in_shares(node)):
            add_devices(found, node, lookup, resource, kind, labelled)


def _add_next_to_slices(found: Findings, resource: str, kind: CardKind, count: int, left: int) -> None:
    """Whole cards of a node with slices: no more than the slices, seven of one `g` to a card, leave."""
    number = min(count, max(0, left))
    if number < count:
        found.notes.append(
            f"{count} of {resource} next to slices that leave {number}: a card that is cut up counts once"
        )
    if number:
        found.notes.extend(kind.notes)
        found.groups.append(DeviceGroup(resource, kind, number, number))


def _is_handed_out_in_shares(node: NodeLabels) -> bool:
    return node.allocatable.get("nvidia.com/gpu.shared", 0) > 0


def _split_product(product: str) -> tuple[str, str | None]:
    """`A100-SXM4-80GB-MIG-3g.40gb-SHARED` as the card and the MIG profile."""
    bare = product.removesuffix("-SHARED")
    m = re.fullmatch(r"(.*?)-MIG-(\d+g\.\d+gb(?:[.+]me)?)", bare)
    return (m[1], m[2].replace(".me", "+me")) if m else (bare, None)


def _is_shared(node: NodeLabels, lookup: CardLookup, prefix: str, resource: str, found: Findings) -> bool:
    """Whether what can be asked for are shares of a device; if so, that is a problem."""
    labels, count = node.labels, node.allocatable[resource]
    replicas = node.label_count(f"{prefix}.replicas") or 1
    clients = node.label_count("cloud.google.com/gke-max-shared-clients-per-gpu") or 1
    marked = labels.get(f"{prefix}.product", "").endswith("-SHARED") or resource.endswith(".shared")
    how = labels.get(f"{prefix}.sharing-strategy") or labels.get(GKE_SHARING)
    if replicas <= 1 and clients <= 1 and not marked and how in (None, "none"):
        return False
    named = {"mps": "MPS", "time-slicing": "time slicing", "time-sharing": "time slicing"}.get(how or "", "sharing")
    cards, typed = _labelled(node, lookup), find_by_instance(node, lookup)
    if cards is None and typed is not None:
        cards = typed[1]
    product = _split_product(labels.get("nvidia.com/gpu.product", ""))[0] or find_by_cloud(node, lookup, "nvidia").name
    shown = f"{cards}x {product[:60]}" if cards else "its cards"
    found.problems.append(f"{count} shares of {shown} by {named} ({resource}): a share has no memory of its own")
    return True


def _is_registered_wrong(node: NodeLabels, resource: str, found: Findings) -> bool:
    """Whether a sharing scheduler has no card to give, or unlike cards under one name: that is a problem."""
    names, count = sorted({c.name for c in node.registered}), node.allocatable[resource]
    if len(names) > 1:
        found.problems.append(f"cards of several kinds ({', '.join(names)[:80]}) under {resource}")
    elif names and not count:
        cards = f"{len(node.registered)}x {names[0]} registered with HAMi"
        found.problems.append(f"{cards}, none of which can be allocated ({resource} is 0)")
    return len(names) > 1 or bool(names and not count)


def _take_whole(node: NodeLabels, resource: str, lookup: CardLookup, found: Findings) -> NodeLabels:
    """The node with its cards in place of HAMi's shares of them: a pod that asks for no memory has a card for itself
    (Project-HAMi, `defaultMem: 0`). HAMi is there where it registered cards, or by the label of its nodes."""
    typed, count = find_by_instance(node, lookup), node.allocatable[resource]
    proofs = (len(node.registered), _labelled(node, lookup), typed[1] if typed is not None else None)
    cards = min((n for n in proofs if n), default=count)
    if count <= cards or not (node.registered or node.labels.get("gpu") == "on"):
        return node
    found.notes.append(f"{resource} counts {count} shares (HAMi): a pod that asks for no gpumem has a whole card")
    return replace(node, allocatable={**node.allocatable, resource: cards}, capacity={**node.capacity, resource: cards})


def _labelled(node: NodeLabels, lookup: CardLookup) -> int | None:
    """How many cards labels describe: the driver's count first, then those of clouds."""
    words = read_node_words(lookup.rules)
    keys = ("nvidia.com/gpu.count", *(f"{p}count" for p in words.instance_cards), *words.cloud_counts)
    return next((n for k in keys if (n := node.label_count(k)) is not None), None)


def _mib(labels: Mapping[str, str], key: str) -> int | None:
    size = positive(labels.get(key))
    return size if size is not None and size <= MOST_MIB else None


def add_devices(
    found: Findings, node: NodeLabels, lookup: CardLookup, resource: str, kind: CardKind, labelled: int | None,
    several: str = "",
) -> None:  # fmt: skip
    """Take the devices of a resource, unless more of them can be asked for than there are cards."""
    count = node.allocatable.get(resource, 0)
    found.read.add(resource)
    proofs = list(_prove_counts(node, lookup, kind, labelled, found)) if not kind.mig else []
    there = max(0, *(n for n, _ in proofs), node.capacity.get(resource, 0), count)
    if count == 0:
        if there:
            found.problems.append(
                f"{there}x {kind.name}, none of which can be allocated ({resource} is 0): not healthy"
            )
        return
    least, who = min(proofs, default=(count, ""))
    if count > least:
        why = several or "cards of several kinds, or shares of them"
        found.problems.append(f"{who} {least}x {kind.name}, and {resource} counts {count}: {why}")
        return
    if count < there:
        found.notes.append(f"{there}x {kind.name} by its labels, and {count} can be allocated")
    found.notes.extend((*kind.notes, MIG_NOTE) if kind.mig else kind.notes)
    found.groups.append(DeviceGroup(resource, kind, count, there))


def _prove_counts(
    node: NodeLabels, lookup: CardLookup, kind: CardKind, labelled: int | None, found: Findings
) -> Iterator[tuple[int, str]]:
    """(how many cards, by which source) of every source that counts them."""
    if labelled is not None:
        yield labelled, "its labels name"
    if node.registered:
        yield len(node.registered), "HAMi registered"
    if node.claimable:
        yield sum(node.claimable.values()), "its ResourceSlices list"
    cards = find_by_instance(node, lookup)
    if cards is None:
        return
    if kind.accelerator is None or cards[0].accelerator == kind.accelerator:
        yield cards[1], "its machine type has"
    elif cards[0].vendor == kind.vendor:
        found.notes.append(f"its machine type has {cards[0].name}, and the node says {kind.name}, which is believed")


def find_cloud_name(lookup: CardLookup, name: str, vendor: Vendor, gigabytes: int | None, mig: str | None) -> CardKind:
    """The card of a cloud's word for it; where it may be several, the one with so much memory."""
    words = re.sub(r"[_-]?nvlink", " SXM", read_node_words(lookup.rules).cards.get(name, name), flags=re.I)
    kind = find_by_words(lookup, words, vendor, mig)
    return kind if kind.total_bytes is not None else find_by_size(lookup, words, vendor, gigabytes, kind.may_be) or kind


def find_by_cloud(node: NodeLabels, lookup: CardLookup, vendor: Vendor, mig: str | None = None) -> CardKind:
    """The card, or its slice, as the cloud's labels name it: Karpenter's, GKE's, EKS's, CoreWeave's, else the machine
    type."""
    labels, cards, words = node.labels, find_by_instance(node, lookup), read_node_words(lookup.rules)
    for prefix in words.instance_cards:
        name, size = labels.get(f"{prefix}name"), node.label_count(f"{prefix}memory")
        if name and labels.get(f"{prefix}manufacturer", vendor) == vendor:
            kind = find_by_words(lookup, f"{name} {round(size / 1024)}GB" if size else name, vendor)
            return kind if kind.accelerator is not None else find_by_words(lookup, name, vendor)
    for key in words.cloud_names:
        if labels.get(key):
            kind = find_cloud_name(lookup, labels[key], vendor, node.label_count("gpu.nvidia.com/vram"), mig)
            return cards[0] if cards is not None and cards[0].accelerator in kind.may_be and not mig else kind
    if cards is None or cards[0].vendor not in (vendor, "unknown"):
        return make_unnamed(vendor)
    return find_by_words(lookup, cards[0].accelerator or "", vendor, mig) if mig else cards[0]


def make_unnamed(vendor: Vendor) -> CardKind:
    maker = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "google": "TPU", "aws": "Neuron"}.get(vendor, "")
    return CardKind(f"{maker} device".strip(), vendor, notes=(f"no label says which {maker} devices these are",))


def find_by_instance(node: NodeLabels, lookup: CardLookup) -> tuple[CardKind, int] | None:
    """The one kind of card of a cloud's machine type, and how many it has."""
    name = next((v for k in read_node_words(lookup.rules).machine_types if (v := node.labels.get(k))), None)
    return find_machine_cards(lookup, name) if name is not None else None


def list_by_pci(lookup: CardLookup, chip: str) -> tuple[str, ...]:
    """Ids of the cards that have a PCI id."""
    return tuple(a.id for a in lookup.rules.accelerators().values() if chip in a.pci_ids)


def find_by_pci(lookup: CardLookup, chip: str, name: str, vendor: Vendor) -> CardKind:
    """The card of a PCI id, where only one has it."""
    known = [a for a in lookup.rules.accelerators().values() if chip in a.pci_ids]
    if len(known) == 1:
        return find_by_words(lookup, known[0].id, vendor)
    note = f"may be {', '.join(a.name for a in known[:4])}" if known else "not in the catalogue of accelerators"
    return CardKind(name, vendor, notes=(f"{name}: {note}",))


_READERS: tuple[Callable[[NodeLabels, CardLookup, Findings], None], ...] = (
    read_nvidia,
    read_amd,
    _read_intel,
    _reader_of("habana.ai/gaudi", "habana", "Gaudi"),
    _reader_of("google.com/tpu", "google", "TPU", "cloud.google.com/gke-tpu-accelerator"),
    _reader_of("aws.amazon.com/neuron", "aws", "Neuron"),
    _read_neuron_cores,
    _read_claims,
)
