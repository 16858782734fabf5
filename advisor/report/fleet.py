"""`advise fleet plan`, `check` and `show` as text: the verdict and the cost first, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.fleet.check import FleetCheck
from advisor.fleet.plan_types import FleetPlan, Replica
from advisor.fleet.types import Fleet, Pool, SetAside
from advisor.report.text import align_table, bullets, list_section, paint, text_width, wrap_text
from advisor.units import GIB


def describe_fleet_plan(plan: FleetPlan, verbose: bool = False) -> str:
    """The plan for people; `verbose`: with the command of every replica."""
    out = [paint(_headline(plan), "bold"), *_costs(plan), ""]
    if plan.replicas:
        out += [_table(plan.replicas), ""]
    for left in plan.unserved:
        out.append(paint(f"Not served: {left.name}", "red"))
        out.append(wrap_text(left.why, "  "))
        if left.what_would_help:
            out.append(wrap_text(f"What would help: {left.what_would_help}", "  "))
        out.append("")
    if plan.changes is not None:
        stopped = f", {len(plan.changes.stopped)} stopped" if plan.changes.stopped else ""
        out.append(f"Changes: {plan.changes.kept} replicas go on, {plan.changes.started} started{stopped}")
        out += [*bullets(f"stop {s}" for s in plan.changes.stopped), ""]
    if plan.measure is not None:
        out += _measure(plan)
    out += _commands(plan, verbose)
    out += ["Notes:", *bullets(plan.notes)] if plan.notes else []
    return "\n".join(out).rstrip()


def _headline(plan: FleetPlan) -> str:
    models = len({r.name for r in plan.replicas})
    total = models + len(plan.unserved)
    served = f"All {total} models are served" if not plan.unserved else f"{models} of {total} models are served"
    devices = sum(r.devices for r in plan.replicas if r.card_share == 1)
    devices += len({(r.nodes, r.pool, r.device_indices) for r in plan.replicas if r.card_share < 1})
    least = "" if plan.least_nodes is None else f" (at least {plan.least_nodes} in any plan)"
    return f"{served}: {len(plan.replicas)} replicas on {plan.nodes_used} nodes{least}, {devices} devices"


def _costs(plan: FleetPlan) -> list[str]:
    cost = plan.cost_per_hour
    unit = f" {cost.currency}" if cost.currency else ""

    def words(amount: float | None) -> str:
        return "not known, or not all can be served" if amount is None else f"{amount:,.2f}{unit} an hour"

    gap = "" if plan.solver.gap is None else f", at most {100 * plan.solver.gap:.2g} % above the least"
    return [
        f"Cost by likely speeds: {words(cost.likely)}; by safe ones: {words(cost.safe)}",
        f"Planned for {plan.confidence} speeds by {plan.solver.name} in {plan.solver.seconds:.1f} s{gap}",
    ]


def _table(replicas: Sequence[Replica]) -> str:
    rows: dict[tuple[str, ...], list[Replica]] = {}
    for r in replicas:
        size = f"{r.card_share * r.devices / max(1, len(r.nodes)):g}" + (
            f" x {len(r.nodes)} nodes" if len(r.nodes) > 1 else ""
        )
        rows.setdefault((r.name, r.engine, r.quantization, r.pool, size), []).append(r)
    table = [
        [
            str(len(same)),
            _shorten(key[0], 28),
            key[1],
            key[2],
            _shorten(key[3], 18),
            key[4],
            f"{sum(r.load for r in same):.3g}/{sum(r.capacity for r in same):.3g}",
        ]
        for key, same in rows.items()
    ]
    return align_table(table, ["", "model", "engine", "format", "pool", "cards", "load/capacity"], "rllllrr")


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else "..." + text[-(most - 3) :]


def _measure(plan: FleetPlan) -> list[str]:
    found = plan.measure
    assert found is not None
    unit = plan.cost_per_hour.currency or ""
    gain = (
        "lets the safe plan serve more"
        if found.saves_per_hour is None
        else f"saves up to {found.saves_per_hour:,.2f} {unit} an hour in the safe plan".replace("  ", " ")
    )
    said = f"Worth measuring first: {found.model} on {found.hardware} ({gain})"
    return [wrap_text(said, "", "  "), f"  {found.command}", ""]


def _commands(plan: FleetPlan, verbose: bool) -> list[str]:
    if not verbose:
        return ["Commands and node names: --verbose, or --json; files: advise fleet render PLAN", ""]
    out = []
    for r in plan.replicas:
        free = f"{100 * r.headroom:.0f} % headroom"
        out.append(f"{r.name} on {', '.join(r.nodes)} ({r.devices} devices, {free}):")
        out += [f"  {line}" for line in r.command.splitlines()]
    return [*out, ""]


def describe_fleet_check(checked: FleetCheck) -> str:
    """The answer of `advise fleet check` for people."""
    plan = checked.plan
    if not plan.unserved:
        out = [paint("Placeable: every model is served", "green"), *_costs(plan)]
    else:
        names = ", ".join(u.name for u in plan.unserved)
        out = [paint(f"Not placeable: {names}", "red")]
        out += bullets(f"{u.name}: {u.why}" for u in plan.unserved)
    failing = [x for x in checked.losses if not x.served]
    if checked.lose and not plan.unserved:
        what = "one node" if checked.lose == 1 else f"{checked.lose} nodes"
        out.append(f"Losing any {what}: " + ("survived" if not failing else "not survived"))
        out += bullets(f"without {' and '.join(x.lost)}: {', '.join(x.unserved)} is not served" for x in failing)
        worst = min((x.left for x in checked.losses if x.left is not None), default=1.0)
        if worst < 1:
            out.append(
                f"Until replicas are started elsewhere {worst:.0%} of a model may be served (`survive` of a demand)"
            )
    if checked.differences is not None:
        out.append("Deployed files: " + ("as planned" if not checked.differences else "not as planned"))
        out += bullets(
            f"{d.model} on {d.engine}: {d.deployed} deployed, {d.planned} planned" for d in checked.differences
        )
    return "\n".join(out)


DIFFERENCES_SHOWN = 20  # lines on labels
NAMES_SHOWN = 3  # of the nodes that were set aside for one reason
WORDS = {
    "kubernetes": "Kubernetes",
    "slurm": "Slurm",
    "ray": "Ray",
    "file": "a file of nodes",
    "snapshots": "snapshots",
}


def describe_fleet(fleet: Fleet) -> str:
    """The pools as a table, the nodes that no plan uses with their reasons, and notes."""
    out = [paint(_fleet_headline(fleet), "bold"), ""]
    if fleet.pools:
        out.append(_pool_table(fleet))
        out += _pool_notes(fleet.pools)
    else:
        out.append("  No node can be used.")
    out += list_section(f"Set aside ({len(fleet.set_aside)})", _reasons(fleet.set_aside))
    out += list_section("Notes", fleet.notes)
    return "\n".join(out)


def _fleet_headline(fleet: Fleet) -> str:
    used = {name for p in fleet.pools for name in p.node_names}
    devices = sum(p.devices * len(p.node_names) for p in fleet.pools)
    return (
        f"{_count(len(used), 'node')} with {_count(devices, 'device')} in {_count(len(fleet.pools), 'pool')}, from "
        f"{WORDS[fleet.kind]}"
    )


def _pool_table(fleet: Fleet) -> str:
    priced = any(p.price_per_hour is not None for p in fleet.pools)
    headers = ["pool", "nodes", "devices", "free", "memory", "RAM", *(["an hour"] if priced else [])]
    rows = [
        [
            p.id,
            len(p.node_names),
            p.devices or "-",
            "-" if not p.devices else "?" if p.devices_free is None else p.devices_free,
            _memory(p),
            _gib(p.machine.memory.usable_bytes),
            *(["?" if p.price_per_hour is None else f"{p.price_per_hour:g}"] if priced else []),
        ]
        for p in fleet.pools
    ]
    widest = text_width() - 2 - sum(_width(rows, headers, k) + 2 for k in range(1, len(headers)))
    for row in rows:
        row[0] = _cut(str(row[0]), max(16, widest))
    table = align_table(rows, headers, "l" + "r" * (len(headers) - 1))
    price = f" Prices are in {fleet.currency} for a whole node." if priced and fleet.currency else ""
    said = "Devices, free ones and memory are those of one node; memory is GiB of one device, RAM GiB of the node."
    return f"{table}\n\n{wrap_text(said + price, '  ')}"


def _width(rows: Sequence[Sequence[object]], headers: Sequence[str], k: int) -> int:
    return max(len(str(r[k])) for r in [headers, *rows])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _memory(pool: Pool) -> str:
    first = next(iter(pool.machine.usable_devices), None)
    if first is None:
        return "-"
    return _gib(first.total_bytes) if first.total_bytes is not None else "probe"


def _gib(n: int | None) -> str:
    return "?" if n is None else f"{n / GIB:.0f}"


def _pool_notes(pools: Sequence[Pool]) -> list[str]:
    """What is odd about pools, each note once, with the pools that it is about."""
    about: dict[str, list[str]] = {}
    for pool in pools:
        for note in pool.notes:
            about.setdefault(note, []).append(pool.id)
    odd = [f"{_some(ids)}: {note}" for note, ids in about.items()]
    return list_section("About pools", odd + _differences(pools))


def _differences(pools: Sequence[Pool]) -> list[str]:
    """The labels by which pools of the same hardware differ."""
    alike: dict[tuple[object, ...], list[Pool]] = {}
    for pool in pools:
        alike.setdefault((pool.machine.text, pool.devices_free), []).append(pool)
    lines = []
    for same in alike.values():
        shared = set.intersection(*(set(p.labels.items()) for p in same))
        for pool in same:
            own = ", ".join(f"{k}={v}" for k, v in pool.labels.items() if (k, v) not in shared)
            if own and len(same) > 1:
                lines.append(f"{pool.id}: {_cut(own, 120)}")
    return lines if len(lines) <= DIFFERENCES_SHOWN else [*lines[:DIFFERENCES_SHOWN], "... (more with --json)"]


def _reasons(set_aside: Sequence[SetAside]) -> list[str]:
    """Each reason once, with the nodes that it is about."""
    nodes: dict[str, list[str]] = {}
    for one in set_aside:
        nodes.setdefault(one.reason, []).append(one.node)
    return [f"{_some(names)}: {reason}" for reason, names in nodes.items()]


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(_cut(n, 60) for n in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"
