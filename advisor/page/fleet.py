"""The pages of `advise fleet plan`, `fleet check` and `fleet show`."""

from __future__ import annotations

from advisor.fleet.check import FleetCheck, LossAnswer
from advisor.fleet.plan_types import FleetPlan, Measurement
from advisor.fleet.types import FleetAnswer
from advisor.page.blocks import (
    Block,
    Code,
    Column,
    Page,
    Paragraph,
    Table,
    make_items,
    make_page,
    make_section,
    make_table,
    read_figure,
)

MOST_ROWS = 300  # of one table: a page stays below 200 kB


def make_plan(plan: FleetPlan) -> Page:
    """The page of `advise fleet plan`."""
    unserved = plan.unserved
    verdict = "All models are served" if not unserved else f"{len(unserved)} of the models cannot be served"
    commands = {f"{r.name} ({r.engine} {r.quantization})": r.command for r in plan.replicas}
    more = len(plan.replicas) - MOST_ROWS
    caption = "Replicas" + (f"; {more:,} more are in the JSON" if more > 0 else "")
    columns: dict[str, Column] = {
        "name": "name",
        "model": "model",
        "engine": "engine",
        "format": "quantization",
        "nodes": lambda r: ", ".join(r.nodes),
        "devices": ("devices", "count"),
        "load": ("load", "rate"),
        "capacity": ("capacity", "rate"),
    }
    return make_page(
        "Fleet plan", verdict, "bad" if unserved else "good",
        make_section("Cost", _costs(plan)),
        make_section("What is not served", make_table(plan, "Not served", "/unserved", unserved, _UNSERVED)),
        make_section("Replicas", make_table(plan, caption, "/replicas", plan.replicas[:MOST_ROWS], columns)),
        make_section("Measure first", *_measure(plan.measure)),
        make_section("Notes", make_items(plan.notes)),
        make_section("Commands, one of each kind", *(Code(label=k, text=v) for k, v in commands.items()), folded=True),
        make_section("Pools", _pools(plan, "")),
        make_section("Set aside", _set_aside(plan), folded=True),
    )  # fmt: skip


def make_check(checked: FleetCheck) -> Page:
    """The page of `advise fleet check`."""
    good = checked.placeable and checked.survives is not False and not checked.differences
    verdict = "still placeable" if checked.placeable else "no longer placeable"
    if checked.survives is not None:
        verdict += f", and {'survives' if checked.survives else 'does not survive'} the loss of {checked.lose}"
    keys = {k: k for k in ("model", "engine", "devices", "planned", "deployed")}
    differences = make_table(checked, "Deployed against planned", "/differences", checked.differences or (), keys)
    return make_page(
        "Fleet check", f"The fleet is {verdict}", "good" if good else "bad",
        make_section("Cost", _costs(checked)),
        make_section("What is not served", make_table(checked, "Not served", "/unserved", checked.unserved, _UNSERVED)),
        make_section("Losses", make_items(map(_say_loss, checked.losses))),
        make_section("Differences", differences),
        make_section("Notes", make_items(checked.notes)),
    )  # fmt: skip


def make_show(fleet: FleetAnswer) -> Page:
    """The page of `advise fleet show`."""
    nodes = sum(p.nodes for p in fleet.pools)
    return make_page(
        "Fleet", f"{nodes} nodes in {len(fleet.pools)} pools, {len(fleet.set_aside)} set aside", "",
        make_section("Pools", _pools(fleet, fleet.currency or "")),
        make_section("Set aside", _set_aside(fleet)),
        make_section("Notes", make_items(fleet.notes)),
    )  # fmt: skip


def _measure(measure: Measurement | None) -> tuple[Block, ...]:
    if measure is None:
        return ()
    what = f"{measure.model} on {measure.hardware}: its speed decides most between the two costs."
    return Paragraph(text=what), Code(label="Measure it", text=measure.command)


def _say_loss(loss: LossAnswer) -> str:
    parts = {"lost": list(loss.lost), "served": loss.served, "unserved": list(loss.unserved)}
    return "; ".join(f"{k}: {v}" for k, v in parts.items() if v != [])


def _costs(answer: FleetPlan | FleetCheck) -> Table:
    currency = answer.cost_per_hour.currency or ""
    rows = tuple((k, read_figure(answer, f"/cost_per_hour/{k}", currency)) for k in ("likely", "safe"))
    return Table(caption="Cost per hour", headers=("planned with", "cost"), rows=rows, numeric=(1,))


_UNSERVED: dict[str, Column] = {
    "model": lambda u: u.model or u.name,
    "why": "why",
    "what would help": "what_would_help",
}


def _pools(answer: FleetPlan | FleetAnswer, currency: str) -> Table:
    columns: dict[str, Column] = {
        "pool": "id",
        "one node": lambda p: p.hardware or "unknown",
        "nodes": ("nodes", "count"),
        "devices": ("devices", "count"),
        "GiB a device": ("device_memory_bytes", "gib"),
        "price per hour": ("price_per_hour", currency),
    }
    return make_table(answer, "Pools", "/pools", answer.pools[:MOST_ROWS], columns)


def _set_aside(answer: FleetPlan | FleetAnswer) -> Table:
    columns: dict[str, Column] = {"node": "node", "reason": "reason"}
    return make_table(answer, "Nodes set aside", "", answer.set_aside[:MOST_ROWS], columns)
