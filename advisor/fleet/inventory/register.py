"""Cards as sharing schedulers and drivers of claims list them: HAMi's annotation of a node, ResourceSlices.

Formats: Project-HAMi, docs/developers/protocol.md (a record of seven columns a card; JSON since 2.6); Kubernetes,
resource.k8s.io/v1 and its betas (`basic:` around attributes).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from advisor.decoding import Json, decode_json
from advisor.fleet.inventory.foreign import parse_quantity, positive
from advisor.record import Value

REGISTER = ("hami.io/node-nvidia-register", "4pd.io/node-nvidia-register", "hami.io/node-amd-register")
# drivers of accelerators (gpu.nvidia.com, gpu.amd.com); others hand out networks, processors and channels between nodes
DRIVERS = re.compile(r"\b(?:gpu|[tnx]pu|gaudi|neuron|accelerators?)\b", re.I)
CLASS = "deviceclass.resource.kubernetes.io/"  # Kubernetes' own name of a device class where a resource is meant
COLUMNS = 7  # id, shares, MiB, cores, type, NUMA, healthy


class RegisteredCard(Value, frozen=True):
    """A card, and in how many shares it is handed out."""

    name: str
    memory_mib: int | None
    shares: int


def read_register(annotations: Mapping[str, object]) -> tuple[RegisteredCard, ...]:
    """The cards that HAMi's device plugin registered; none where the annotation is absent or cannot be read."""
    text = next((v for k in REGISTER if isinstance(v := annotations.get(k), str) and v), "")
    if not text.startswith("["):
        rows = [r.split(",") for r in text.split(":")]
        return tuple(_make_card(r[4], r[2], r[1]) for r in rows if len(r) >= COLUMNS)
    try:
        cards = decode_json(text, list[Json])
    except msgspec.MsgspecError:
        return ()
    return tuple(_make_card(str(c.get("type", "")), c.get("devmem"), c.get("count")) for c in cards)


def _make_card(kind: str, mib: object, shares: object) -> RegisteredCard:
    name = kind.removeprefix("NVIDIA-")
    return RegisteredCard(name[:80], positive(mib), positive(shares) or 1)


class ClaimableDevice(Value, frozen=True):
    """A device that claims can have: of which driver, how it is called, and whether it is a part of a card."""

    driver: str
    name: str
    memory_mib: int | None
    part: bool


Claimable = Mapping[ClaimableDevice, int]  # how many


def count_claimable(slices: Iterable[Json]) -> dict[str, Claimable]:
    """node -> accelerators that claims can have, of the specs of ResourceSlices; of each pool the newest."""
    newest: dict[tuple[str, str, str], int] = {}
    found = []
    for spec in slices:
        pool = spec.get("pool") or {}
        key = (str(spec.get("nodeName")), str(spec.get("driver")), str(pool.get("name")))
        generation = positive(pool.get("generation")) or 0
        newest[key] = max(generation, newest.get(key, 0))
        found.append((key, generation, spec.get("devices") or ()))
    out: dict[str, Counter[ClaimableDevice]] = {}
    for key, generation, devices in found:
        cut = {_read_attribute(d, k) for d in devices for k in ("parentUUID", "parentDeviceID")} - {None}
        for device in devices if generation == newest[key] and DRIVERS.search(key[1]) else ():
            if {_read_attribute(device, k) for k in ("uuid", "deviceID")} & cut:
                continue  # a card whose slices are listed
            out.setdefault(key[0], Counter())[_describe_device(key[1], device)] += 1
    return dict(out)


def describe_claims(devices: Claimable) -> str:
    """Why devices that are claimed are not used, with the devices."""
    listed = ", ".join(f"{n}x {d.name}" for d, n in devices.items())
    return f"{listed[:120]} by dynamic resource allocation: parts of cards, or of several kinds"


def _describe_device(driver: str, device: Json) -> ClaimableDevice:
    words = [_read_attribute(device, k) for k in ("productName", "model", "profile", "partitionProfile")]
    memory = ((device.get("basic") or device).get("capacity") or {}).get("memory")
    size = parse_quantity(memory.get("value") if isinstance(memory, dict) else memory)
    virtual = _read_attribute(device, "brand") == "NvidiaVCS"
    part = virtual or any(_read_attribute(device, k) for k in ("parentUUID", "parentDeviceID", "profile"))
    name = " ".join(w for w in words if w)[:60] or "device"
    if virtual and size:
        name = f"{name} (a virtual GPU of {size / 2**30:g} GiB)"
    return ClaimableDevice(driver[:80], name, int(size / 2**20) if size else None, part)


def _read_attribute(device: Json, key: str) -> str | None:
    attributes: Mapping[str, Any] = (device.get("basic") or device).get("attributes") or {}
    value = attributes.get(key)
    text = value.get("string") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None
