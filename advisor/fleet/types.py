"""What a fleet is: nodes as a source describes them, and pools of equal nodes, which plans are made for.

Unknown is `None` everywhere, never 0. A node's price is for the whole node.
"""

from __future__ import annotations

from typing import Literal

from advisor.machines.types import Machine
from advisor.record import Answer, Record, pick_fields

SourceKind = Literal["kubernetes", "slurm", "ray", "file", "snapshots"]


class NodePart(Record, frozen=True, kw_only=True):
    """The equal accelerators of one node, or, on a node without any, its processors."""

    machine: Machine  # the node, as if it had these devices only (all of them, the taken ones included)
    devices: int  # there; 0 = the node computes on its processors
    devices_free: int | None  # that nobody has taken; None = not known
    free_indices: tuple[int, ...] | None = None  # positions in machine.devices, where the source says which are free
    resource: str | None = None  # what pods and jobs ask for to get one: "nvidia.com/gpu", "gpu:h100", "GPU"
    whole: int | None = None  # that the machine has where some are lost: it is paid for whole


class Node(Record, frozen=True, kw_only=True):
    """One node: usable parts, or the reason why it is set aside. A reason and parts exclude each other."""

    name: str
    parts: tuple[NodePart, ...] = ()
    reason: str | None = None
    price_per_hour: float | None = None
    labels: dict[str, str] = {}  # what files for this node select it by: partition, zone, product
    tolerations: tuple[str, ...] = ()  # taints that pods have to tolerate: KEY[=VALUE]:EFFECT
    notes: tuple[str, ...] = ()  # what is odd about it but does not keep it from use


class Inventory(Record, frozen=True, kw_only=True):
    """All nodes of a source."""

    kind: SourceKind
    nodes: tuple[Node, ...]
    currency: str | None = None  # of the prices, where the source has any
    notes: tuple[str, ...] = ()


class Pool(NodePart, frozen=True, kw_only=True):
    """Nodes that are equal: the same hardware, the same number of free devices, the same price.

    Nodes with several kinds of devices stand in one pool for each kind; these pools have the same `group`.
    """

    id: str
    group: str  # pools of one group have the same nodes, in the same order
    node_names: tuple[str, ...]
    price_per_hour: float | None = None  # of one node, with all that is in it
    labels: dict[str, str] = {}
    tolerations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def memory_known(self) -> bool:
        """Whether plans can be made for it: how much memory its devices have is known."""
        return all(d.total_bytes is not None for d in self.machine.usable_devices)


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


class PoolAnswer(Record, frozen=True, kw_only=True):
    """Equal nodes. Nodes with several kinds of devices stand in one pool for each; these have the same `group`."""

    id: str
    group: str
    nodes: int
    node_names: tuple[str, ...]
    hardware: str | None  # of one node, in words
    accelerator: str | None
    vendor: str | None
    device_memory_bytes: int | None  # of one device
    mig_profile: str | None
    host_memory_bytes: int | None
    devices: int  # of one node
    devices_free: int | None
    resource: str | None  # what pods and jobs ask for to get a device
    needs_probe: bool  # the memory of its devices is not known
    price_per_hour: float | None  # of one node
    labels: dict[str, str]
    tolerations: tuple[str, ...] = ()  # taints of the nodes that pods have to tolerate: KEY[=VALUE]:EFFECT
    notes: tuple[str, ...]


class FleetAnswer(Answer, frozen=True, kw_only=True):
    """The answer to `advise fleet show`. Every node is in a pool, or set aside with the reason."""

    source: SourceKind
    pools: tuple[PoolAnswer, ...]
    set_aside: tuple[SetAside, ...]
    currency: str | None
    notes: tuple[str, ...]


def describe_pool(pool: Pool) -> PoolAnswer:
    """A pool as answers show it."""
    first = next(iter(pool.machine.usable_devices), None)
    return PoolAnswer(
        nodes=len(pool.node_names),
        hardware=pool.machine.text,
        accelerator=first.accelerator if first is not None else None,
        vendor=first.vendor if first is not None else None,
        device_memory_bytes=first.total_bytes if first is not None else None,
        mig_profile=first.mig_profile if first is not None else None,
        host_memory_bytes=pool.machine.memory.usable_bytes,
        needs_probe=not pool.memory_known,
        **pick_fields(pool, "id", "group", "node_names", "devices", "devices_free", "resource", "price_per_hour"),
        **pick_fields(pool, "labels", "tolerations", "notes"),
    )


def show_fleet(fleet: Fleet) -> FleetAnswer:
    """The answer to `advise fleet show`."""
    pools = tuple(map(describe_pool, fleet.pools))
    return FleetAnswer(
        source=fleet.kind, pools=pools, set_aside=fleet.set_aside, currency=fleet.currency, notes=fleet.notes
    )
