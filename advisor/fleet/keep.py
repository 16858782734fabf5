"""A plan that runs already: read back, and kept as far as it serves what is asked now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from advisor.decoding import convert
from advisor.errors import BadFile
from advisor.files import parse_json, read_bytes
from advisor.fleet.capacity import Confidence
from advisor.fleet.offers import PoolOffers, find_free_indices, get_capacity
from advisor.fleet.types import Fleet, Pool
from advisor.record import Value

MOST_BYTES = 64 * 2**20


class RunningReplica(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a replica of a plan; further fields are left alone."""

    model: str
    engine: str
    quantization: str
    nodes: tuple[str, ...]
    devices: int
    device_indices: tuple[int, ...] = ()
    name: str | None = None


class RunningPlan(msgspec.Struct, frozen=True):
    """The part of a plan that says what runs where."""

    replicas: tuple[RunningReplica, ...]


def read_plan(path: str) -> tuple[RunningReplica, ...]:
    """The replicas of a plan in JSON. Raises BadFile for what is none."""
    data = parse_json(read_bytes(path, MOST_BYTES), Path(path))
    try:
        return convert(data, RunningPlan).replicas
    except msgspec.ValidationError as e:
        raise BadFile(path, f"is no fleet plan (`advise fleet plan --json` writes one): {e}") from None


class KeptReplica(Value, frozen=True):
    """A running replica that goes on: which demand, pool and candidate it is, on which node, with which devices."""

    demand: int
    pool: int
    candidate: int  # in the offer's order
    node: int  # position in the pool
    devices: tuple[int, ...]  # positions among the free devices of the node
    capacity: float


def find_kept(
    running: Sequence[RunningReplica], offers: PoolOffers, confidence: Confidence
) -> tuple[list[KeptReplica], list[RunningReplica]]:
    """(replicas that go on, those that cannot). A replica goes on where its model is asked for, its node is there and
    its kind is still offered; of a model no more than are needed."""
    kept: list[KeptReplica] = []
    stopped: list[RunningReplica] = []
    served = [0.0] * len(offers.demands)
    for replica in running:
        choices = (k for k in _list_matches(replica, offers, confidence) if not _overlaps(k, kept))
        found = next(choices, None)
        if found is None or served[found.demand] >= offers.demands[found.demand].demand.amount:
            stopped.append(replica)
            continue
        served[found.demand] += found.capacity
        kept.append(found)
    return kept, stopped


def _overlaps(one: KeptReplica, others: Sequence[KeptReplica]) -> bool:
    return any((one.pool, one.node) == (o.pool, o.node) and set(one.devices) & set(o.devices) for o in others)


def _list_matches(replica: RunningReplica, offers: PoolOffers, confidence: Confidence) -> Iterator[KeptReplica]:
    """What of the offers a running replica is. One over several nodes is none: it is planned again."""
    if len(replica.nodes) != 1:
        return
    for (d, p), offer in offers.offers.items():
        planned, pool = offers.demands[d], offers.pools[p]
        names = (planned.demand.model, planned.found.model.id if planned.found is not None else None)
        if replica.model not in names or replica.name not in (None, planned.demand.name):
            continue
        free = find_free_indices(pool) if pool.devices else (0,)
        wanted = replica.device_indices or free[: max(1, replica.devices)]
        if replica.nodes[0] not in pool.node_names or not set(wanted) <= set(free):
            continue
        for c, candidate in enumerate(offer.candidates):
            served = get_capacity(candidate, confidence)
            kind = candidate.engine, candidate.quantization, candidate.devices, candidate.nodes
            if served is not None and kind == (replica.engine, replica.quantization, max(1, replica.devices), 1):
                node = pool.node_names.index(replica.nodes[0])
                yield KeptReplica(d, p, c, node, tuple(free.index(x) for x in wanted), served.amount)


def without_kept(fleet: Fleet, offers: PoolOffers, kept: Sequence[KeptReplica]) -> Fleet:
    """The fleet as it is for what is added: nodes of kept replicas are pools of their own, with the devices that are
    left, and cost nothing more."""
    taken: dict[tuple[str, str], set[int]] = {}  # (pool, node) -> positions among the free devices
    for k in kept:
        pool = offers.pools[k.pool]
        taken.setdefault((pool.id, pool.node_names[k.node]), set()).update(k.devices)
    used = {(offers.pools[k.pool].group, offers.pools[k.pool].node_names[k.node]) for k in kept}
    out: list[Pool] = []
    for pool in fleet.pools:
        rest = tuple(n for n in pool.node_names if (pool.group, n) not in used)
        if rest:
            out.append(msgspec.structs.replace(pool, node_names=rest))
        for name in pool.node_names:
            if (pool.group, name) not in used:
                continue
            gone = taken.get((pool.id, name), set())
            left = tuple(x for k, x in enumerate(find_free_indices(pool)) if k not in gone)
            if not left or (not pool.devices and gone):
                continue
            out.append(
                msgspec.structs.replace(
                    pool,
                    id=f"{pool.id} ({name})",
                    group=f"{pool.group} ({name})",
                    node_names=(name,),
                    devices_free=len(left) if pool.devices else pool.devices_free,
                    free_indices=left if pool.devices else None,
                    price_per_hour=0.0,
                )
            )
    return msgspec.structs.replace(fleet, pools=tuple(out))
