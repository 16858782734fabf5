"""The pages of `advise fleet plan`, `fleet check` and `fleet show`."""

from __future__ import annotations

from advisor.page.blocks import (
    Cell,
    Code,
    Json,
    Page,
    Paragraph,
    Table,
    make_items,
    make_section,
    read_figure,
    read_pointer,
)  # fmt: skip


def make_plan_page(answer: Json) -> Page:
    """The page of an answer of the shape `fleet-plan`."""
    unserved = answer["unserved"]
    verdict = "All models are served" if not unserved else f"{len(unserved)} of the models cannot be served"
    commands = {f"{r['name']} ({r['engine']} {r['quantization']})": r["command"] for r in answer["replicas"]}
    measure = answer.get("measure") or {}
    sections = (
        make_section("Cost", _costs(answer)),
        make_section("What is not served", _unserved(answer)),
        make_section("Replicas", _replicas(answer)),
        make_section("Measure first", *_measure(measure)),
        make_section("Notes", make_items(answer.get("notes"))),
        make_section("Commands, one of each kind", *(Code(label=k, text=v) for k, v in commands.items()), folded=True),
        make_section("Pools", _pools(answer)),
        make_section("Set aside", _set_aside(answer), folded=True),
    )
    return Page(title="Fleet plan", verdict=verdict, tone="bad" if unserved else "good",
                sections=tuple(s for s in sections if s))  # fmt: skip


def make_check_page(answer: Json) -> Page:
    """The page of an answer of the shape `fleet-check`."""
    good = answer["placeable"] and answer.get("survives") is not False and not answer.get("differences")
    verdict = "still placeable" if answer["placeable"] else "no longer placeable"
    if answer.get("survives") is not None:
        verdict += f", and {'survives' if answer['survives'] else 'does not survive'} the loss of {answer['lose']}"
    rows = tuple(tuple(str(v) for v in d.values()) for d in answer.get("differences") or ())
    headers = tuple(str(k).replace("_", " ") for k in next(iter(answer.get("differences") or ()), {}))
    sections = (
        make_section("Cost", _costs(answer)),
        make_section("What is not served", _unserved(answer)),
        make_section("Losses", make_items([_say_loss(x) for x in answer.get("losses") or ()])),
        make_section("Differences", Table(caption="Deployed against planned", headers=headers, rows=rows)),
        make_section("Notes", make_items(answer.get("notes"))),
    )
    return Page(title="Fleet check", verdict=f"The fleet is {verdict}", tone="good" if good else "bad",
                sections=tuple(s for s in sections if s))  # fmt: skip


def make_show_page(answer: Json) -> Page:
    """The page of an answer of the shape `fleet-show`."""
    nodes = sum(p["nodes"] for p in answer["pools"])
    sections = (
        make_section("Pools", _pools(answer)),
        make_section("Set aside", _set_aside(answer)),
        make_section("Notes", make_items(answer.get("notes"))),
    )
    return Page(title="Fleet", verdict=f"{nodes} nodes in {len(answer['pools'])} pools, "
                f"{len(answer['set_aside'])} set aside", tone="", sections=tuple(s for s in sections if s))  # fmt: skip


def _measure(measure: Json) -> tuple[Paragraph, Code] | tuple[()]:
    if not measure:
        return ()
    what = f"{measure['model']} on {measure['hardware']}: its speed decides most between the two costs."
    return Paragraph(text=what), Code(label="Measure it", text=measure["command"])


def _say_loss(loss: Json) -> str:
    return "; ".join(f"{k.replace('_', ' ')}: {v}" for k, v in loss.items() if v not in (None, [], ""))


def _costs(answer: Json) -> Table:
    currency = str(read_pointer(answer, "/cost_per_hour/currency") or "")
    rows = tuple((k, read_figure(answer, f"/cost_per_hour/{k}", currency)) for k in ("likely", "safe"))
    return Table(caption="Cost per hour", headers=("planned with", "cost"), rows=rows, numeric=(1,))


def _unserved(answer: Json) -> Table:
    rows = tuple(
        (str(u.get("model") or u.get("name")), str(u.get("why")), str(u.get("what_would_help") or ""))
        for u in answer["unserved"]
    )
    return Table(caption="Not served", headers=("model", "why", "what would help"), rows=rows)


def _replicas(answer: Json) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            str(r["name"]),
            str(r["model"]),
            str(r["engine"]),
            str(r["quantization"]),
            ", ".join(r["nodes"]),
            read_figure(answer, f"/replicas/{i}/devices", "count"),
            read_figure(answer, f"/replicas/{i}/load", "rate"),
            read_figure(answer, f"/replicas/{i}/capacity", "rate"),
        )
        for i, r in enumerate(answer["replicas"][:MOST_ROWS])
    )
    more = len(answer["replicas"]) - MOST_ROWS
    caption = "Replicas" + (f"; {more:,} more are in the JSON" if more > 0 else "")
    headers = ("name", "model", "engine", "format", "nodes", "devices", "load", "capacity")
    return Table(caption=caption, headers=headers, rows=rows, numeric=(5, 6, 7))


MOST_ROWS = 300  # of one table: a page stays below 200 kB


def _pools(answer: Json) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            str(p["id"]),
            str(p.get("hardware") or "unknown"),
            read_figure(answer, f"/pools/{i}/nodes", "count"),
            read_figure(answer, f"/pools/{i}/devices", "count"),
            read_figure(answer, f"/pools/{i}/device_memory_bytes", "gib"),
            read_figure(answer, f"/pools/{i}/price_per_hour", str(answer.get("currency") or "")),
        )
        for i, p in enumerate(answer.get("pools", ())[:MOST_ROWS])
    )
    headers = ("pool", "one node", "nodes", "devices", "GiB a device", "price per hour")
    return Table(caption="Pools", headers=headers, rows=rows, numeric=(2, 3, 4, 5))


def _set_aside(answer: Json) -> Table:
    rows = tuple((str(s["node"]), str(s["reason"])) for s in answer.get("set_aside", ())[:MOST_ROWS])
    return Table(caption="Nodes set aside", headers=("node", "reason"), rows=rows)
