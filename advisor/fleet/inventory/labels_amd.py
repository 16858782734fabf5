"""Devices of AMD: the device plugin's resources next to the labels of the node labeller, old and new."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.fleet.inventory.cards import CardKind, CardLookup, find_by_words
from advisor.fleet.inventory.foreign import positive
from advisor.fleet.inventory.label_devices import (
    Findings,
    NodeLabels,
    add_devices,
    find_by_cloud,
    find_by_pci,
    list_by_pci,
)


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
        add_devices(found, node, resource, kind, sum(counts) if len(counts) == len(chips) > 0 else None)


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
    kind = find_by_words(lookup, product, "amd") if product else None
    if (kind is None or kind.accelerator is None) and chip is not None:
        kind = find_by_pci(lookup, f"1002:{chip}", product or f"AMD {chip}", "amd")
    kind = kind or find_by_cloud(node, lookup, "amd")
    of_chip = list_by_pci(lookup, f"1002:{chip}")
    if kind.accelerator is not None and of_chip and kind.accelerator not in of_chip:
        said = f"{product}: its device id {chip} is that of {', '.join(of_chip)}: neither is believed"
        return CardKind(product, "amd", notes=(said,))
    size = next(iter(_amd_values(node.labels, "vram")), "")
    gib = positive(re.sub(r"gi?b?$", "", size.lower()))
    entry = lookup.rules.accelerators().get(kind.accelerator or "")
    if gib is None or entry is None or entry.memory_bytes is None:
        return kind
    nominal = entry.memory_bytes // entry.devices_per_card / 2**30
    if abs(gib - nominal) <= 0.05 * nominal:
        return kind
    said = f"{kind.name}: its label says {gib} GB, and the card has {nominal:g}: neither is believed"
    return CardKind(product or kind.name, "amd", notes=(said,))
