"""A plan as files are made of it: its replicas by kind, each as the deployment that starts it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.resolve import resolve_model
from advisor.decoding import convert
from advisor.deployment import Deployment, KvType
from advisor.errors import BadFile, BadInput
from advisor.estimation import find_machine
from advisor.files import parse_json, read_bytes
from advisor.fleet.plan_types import PlannedReplica
from advisor.record import Value
from advisor.render.context import make_slug
from advisor.render.files import LaunchFile, render_files

MOST_BYTES = 64 * 2**20


class PlannedPool(msgspec.Struct, frozen=True, kw_only=True):
    """What files need of a pool."""

    id: str
    devices: int
    labels: dict[str, str] = {}
    resource: str | None = None


class PlanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as `advise fleet plan --json` writes it."""

    replicas: tuple[PlannedReplica, ...]
    pools: tuple[PlannedPool, ...]


class ReplicaKind(Value, frozen=True):
    """Equal replicas: what they run, on which pool, and all of them."""

    name: str
    deployment: Deployment  # without the devices and the port of one of them
    nodes: int  # of one replica
    replicas: tuple[PlannedReplica, ...]
    suffix: str = ""  # of names in files, where a model has several kinds


def read_plan_file(path: str) -> PlanFile:
    """A plan in JSON. Raises BadFile for what is none."""
    data = parse_json(read_bytes(path, MOST_BYTES), Path(path))
    try:
        return convert(data, PlanFile)
    except msgspec.ValidationError as e:
        raise BadFile(path, f"is no fleet plan (`advise fleet plan --json` writes one): {e}") from None


def group_replicas(plan: PlanFile, rules: Catalog) -> list[ReplicaKind]:
    """Replicas by kind, each as the deployment that starts it. Raises UnknownName, BadInput."""
    kinds: dict[tuple[str, ...], list[PlannedReplica]] = {}
    for r in plan.replicas:
        key = (r.name, r.engine, r.quantization, r.pool, str(r.devices), str(len(r.nodes)))
        kinds.setdefault(key, []).append(r)
    names: set[str] = set()
    out = []
    for same in kinds.values():
        base = re.sub(r"[^a-z0-9]+", "-", same[0].name.lower().rpartition("/")[2]).strip("-")[:40] or "model"
        name, k = base, 2
        while name in names:
            name, k = f"{base}-{k}", k + 1
        names.add(name)
        made = _make_deployment_of(same[0], rules)
        out.append(ReplicaKind(name, made, len(same[0].nodes), tuple(same), name[len(base) :]))
    return out


def _make_deployment_of(replica: PlannedReplica, rules: Catalog) -> Deployment:
    if replica.hardware is None:
        raise BadInput(f"{replica.name}: the plan does not say on which hardware it runs")
    found = resolve_model(replica.model, rules)
    machine = msgspec.structs.replace(find_machine(replica.hardware, rules), nodes=max(1, len(replica.nodes)))
    entry = rules.engine(replica.engine)
    own = {k: v for k, v in replica.settings.items() if not k.isupper()}
    cache = own.get("kv-cache-dtype")
    return Deployment(
        model=found.model,
        engine=entry.id,
        engine_version=replica.engine_version,
        quantization=replica.quantization,
        machine=machine,
        device_count=replica.devices // max(1, len(replica.nodes)) or None,
        context_length=replica.context_length,
        sequences=replica.sequences,
        kv_cache_type=KvType(k=str(cache), v=str(cache)) if cache else KvType(),
        model_path=found.path,
        settings=own,
        served_name=replica.name,  # one name for all replicas of a model, whatever repository they load
    )


def render_kind(kind: ReplicaKind, target: str, rules: Catalog) -> LaunchFile:
    """The file of a kind; where one model has several, what it names has the number of the kind behind it."""
    made = render_files(kind.deployment, target, rules)[0]
    if not kind.suffix:
        return made
    name = make_slug(f"{kind.deployment.engine}-{kind.deployment.served_name}")
    text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", f"{name}{kind.suffix}", made.content)
    return msgspec.structs.replace(made, content=text)
