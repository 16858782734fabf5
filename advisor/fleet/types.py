"""What a fleet is: nodes as a source describes them, and pools of equal nodes, which plans are made for.

Unknown is `None` everywhere, never 0. A node's price is for the whole node.
"""

from __future__ import annotations

from typing import Any, Literal

from advisor.machines.types import Machine
from advisor.record import SCHEMA_VERSION, Record

SourceKind = Literal["kubernetes", "slurm", "ray", "file", "snapshots"]


class NodePart(Record, frozen=True, kw_only=True):
    """The equal accelerators of one node, or, on a node without any, its processors."""

    machine: Machine  # the node, as if it had these devices only (all of them, the taken ones included)
    devices: int  # there; 0 = the node computes on its processors
    devices_free: int | None  # that nobody has taken; None = not known
    free_indices: tuple[int, ...] | None = None  # positions in machine.devices, where the source says which are free
    resource: str | None = None  # what pods and jobs ask for to get one: "nvidia.com/gpu", "gpu:h100", "GPU"


class Node(Record, frozen=True, kw_only=True):
    """One node: usable parts, or the reason why it is set aside. A reason and parts exclude each other."""

    name: str
    parts: tuple[NodePart, ...] = ()
    reason: str | None = None
    price_per_hour: float | None = None
    labels: dict[str, str] = {}  # what files for this node select it by: partition, zone, product
    notes: tuple[str, ...] = ()  # what is odd about it but does not keep it from use


class Inventory(Record, frozen=True, kw_only=True):
    """All nodes of a source."""

    kind: SourceKind
    nodes: tuple[Node, ...]
    currency: str | None = None  # of the prices, where the source has any
    notes: tuple[str, ...] = ()


class Pool(Record, frozen=True, kw_only=True):
    """Nodes that are equal: the same hardware, the same number of free devices, the same price.

    Nodes with several kinds of devices stand in one pool for each kind; these pools have the same `group`.
    """

    id: str
    group: str  # pools of one group have the same nodes, in the same order
    node_names: tuple[str, ...]
    machine: Machine  # of one node, with the devices of this pool
    devices: int  # of one node
    devices_free: int | None
    free_indices: tuple[int, ...] | None = None
    resource: str | None = None  # what pods and jobs ask for to get a device
    price_per_hour: float | None = None  # of one node, with all that is in it
    labels: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    @property
    def memory_known(self) -> bool:
        """Whether plans can be made for it: how much memory its devices have is known."""
        return all(d.total_bytes is not None for d in self.machine.usable_devices)

    def to_dict(self) -> dict[str, Any]:
        """The public form in `advise fleet show --json`."""
        first = next(iter(self.machine.usable_devices), None)
        return {
            "id": self.id,
            "group": self.group,
            "nodes": len(self.node_names),
            "node_names": list(self.node_names),
            "hardware": self.machine.text,
            "accelerator": first.accelerator if first is not None else None,
            "vendor": first.vendor if first is not None else None,
            "device_memory_bytes": first.total_bytes if first is not None else None,
            "mig_profile": first.mig_profile if first is not None else None,
            "host_memory_bytes": self.machine.memory.usable_bytes,
            "devices": self.devices,
            "devices_free": self.devices_free,
            "resource": self.resource,
            "needs_probe": not self.memory_known,
            "price_per_hour": self.price_per_hour,
            "labels": self.labels,
            "notes": list(self.notes),
        }


class SetAside(Record, frozen=True, kw_only=True):
    """A node that no plan uses, and why."""

    node: str
    reason: str


class Fleet(Record, frozen=True, kw_only=True):
    """What plans are made for: every node of the source is in a pool or set aside."""

    kind: SourceKind
    pools: tuple[Pool, ...]
    set_aside: tuple[SetAside, ...]
    currency: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The public JSON of `advise fleet show` (advisor/schemas/fleet-show.json)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "source": self.kind,
            "pools": [p.to_dict() for p in self.pools],
            "set_aside": [s.to_dict() for s in self.set_aside],
            "currency": self.currency,
            "notes": list(self.notes),
        }
