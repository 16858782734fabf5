"""`advise fleet plan` as text: the verdict and the cost first, then the replicas, what is not served, and why."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.fleet.check import FleetCheck
from advisor.fleet.plan_types import FleetPlan, Replica
from advisor.report.text import align_table, bullets, paint, wrap_text


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
    devices = sum(r.devices for r in plan.replicas)
    return f"{served}: {len(plan.replicas)} replicas on {plan.nodes_used} nodes, {devices} devices"


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
        size = f"{r.devices // max(1, len(r.nodes))}" + (f" x {len(r.nodes)} nodes" if len(r.nodes) > 1 else "")
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
    if checked.differences is not None:
        out.append("Deployed files: " + ("as planned" if not checked.differences else "not as planned"))
        out += bullets(
            f"{d.model} on {d.engine}: {d.deployed} deployed, {d.planned} planned" for d in checked.differences
        )
    return "\n".join(out)
