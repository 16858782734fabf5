"""The page of `advise recommend`."""

from __future__ import annotations

from typing import Any

from advisor.page import parts
from advisor.page.blocks import (
    Cell,
    Code,
    Items,
    Json,
    Page,
    Paragraph,
    Plot,
    Point,
    Table,
    find_best,
    make_items,
    make_section,
    read_figure,
)  # fmt: skip


def make_page(answer: Json) -> Page:
    """The page of an answer of the shape `recommend`."""
    chosen = answer.get("chosen")
    if chosen is None:
        return _make_refusal(answer)
    what = " with ".join(str(x) for x in (chosen["engine"], chosen.get("model")) if x)
    version = f" {chosen['engine_version']}" if chosen.get("engine_version") else ""
    verdict = what.replace(str(chosen["engine"]), f"{chosen['engine']}{version}", 1)
    verdict += f", {chosen['quantization']}" if chosen.get("quantization") else ""
    memory = chosen.get("memory")
    tone = parts.say_fit(memory["fits"])[1] if memory else "good"
    sections = (
        make_section(
            "Start it",
            Code(label="Install", text=chosen.get("install") or ""),
            Code(label="Command", text=chosen.get("command") or ""),
            Code(label="Test", text=chosen.get("test") or ""),
        ),
        make_section("Why", make_items(chosen.get("reasons")), make_items(answer.get("because")), _quality(chosen)),
        make_section(
            "Memory",
            parts.make_memory_bars(answer, "/chosen/memory") if memory else None,
            parts.make_memory_table(answer, "/chosen/memory") if memory else None,
        ),
        make_section("What it holds", parts.make_ladder(answer, "/chosen/holds") if chosen.get("holds") else None),
        make_section("Speed", parts.make_speed_table(answer, "/chosen/speed"), _compare_speed(answer)),
        make_section("Alternatives", _alternatives(answer)),
        make_section("Other models", _models(answer)),
        make_section("As it grows", make_items(answer.get("growth"))),
        make_section("Warnings", make_items(answer.get("warnings"))),
        make_section("Near misses", _near_misses(answer)),
        make_section("Why not the others", make_refusals(answer), folded=True),
        make_section("Settings", parts.make_settings(chosen.get("settings")), make_items(chosen.get("notes"))),
        make_section("Rules and sources", parts.make_trace(answer.get("trace") or ()), folded=True),
    )
    return Page(title="Recommendation", verdict=verdict, tone=tone, sections=tuple(s for s in sections if s))


def _make_refusal(answer: Json) -> Page:
    sections = (
        make_section("What would change that", make_items(answer.get("remedies"))),
        make_section("Why not", make_refusals(answer)),
        make_section("Warnings", make_items(answer.get("warnings"))),
    )
    return Page(title="Recommendation", verdict="Nothing fits.", tone="bad", sections=tuple(s for s in sections if s))


def _quality(chosen: Json) -> Paragraph | None:
    quality = chosen.get("quality")
    if not quality:
        return None
    return Paragraph(
        text=f"Ability for {quality['use']}: {quality['ability']:+.1f} ± {quality['spread']:.1f}, "
        f"from {quality['boards']} tests, {quality['independent']} of them independent."
    )


def _label(entry: Json) -> str:
    return " ".join(str(x) for x in (entry["engine"], entry.get("quantization")) if x)


def _compare_speed(answer: Json) -> Plot:
    """One request's speed against all requests' together, for the choice and the alternatives."""
    listed = ["/chosen", *(f"/alternatives/{i}" for i in range(len(answer["alternatives"])))]
    entries = [answer["chosen"], *answer["alternatives"]]
    points = tuple(
        Point(
            label=_label(entry),
            x=read_figure(answer, f"{at}/speed/ttft_s/value", "seconds"),
            y=read_figure(answer, f"{at}/speed/output_tps/value", "rate"),
            y_low=read_figure(answer, f"{at}/speed/output_tps/low", "rate"),
            y_high=read_figure(answer, f"{at}/speed/output_tps/high", "rate"),
            chosen=at == "/chosen",
        )
        for at, entry in zip(listed, entries, strict=True)
        if entry.get("speed") and entry["speed"].get("ttft_s") and entry["speed"].get("output_tps")
    )
    return Plot(
        caption="Throughput against latency, with bounds", x_label="seconds to the first token",
        y_label="tokens/s of all requests together", points=points, best=find_best(points),
    )  # fmt: skip


def _alternatives(answer: Json) -> Table:
    rows: list[tuple[Cell, ...]] = []
    named = {i: name for name, i in (answer.get("named") or {}).items() if i is not None}
    for i, entry in enumerate(answer["alternatives"]):
        at = f"/alternatives/{i}"
        gains = [*([named[i]] if i in named else []), *entry.get("gains", ())]
        rows.append(
            (
                _label(entry),
                read_figure(answer, f"{at}/speed/decode_tps/value", "rate"),
                read_figure(answer, f"{at}/memory/devices/0/total_bytes", "gib"),
                parts.say_fit(entry["memory"]["fits"])[0] if entry.get("memory") else "runs elsewhere",
                "; ".join(gains),
                (entry.get("reasons") or [""])[0],
            )
        )
    headers = ("plan", "tokens/s", "GiB on the first device", "fits", "gains", "why")
    return Table(caption="Alternatives", headers=headers, rows=tuple(rows), numeric=(1, 2))


def _models(answer: Json) -> Table:
    rows = tuple(
        (
            str(m["model"]),
            str(m["quantization"]),
            f"{m['ability']:+.1f} ± {m['spread']:.1f}",
            read_figure(answer, f"/models/{i}/decode_tps", "rate"),
            str(m.get("licence") or "unknown"),
        )
        for i, m in enumerate(answer.get("models") or ())
    )
    headers = ("model", "format", "ability", "tokens/s", "licence")
    return Table(caption="Other models that fit", headers=headers, rows=rows, numeric=(3,))


def _near_misses(answer: Json) -> Table:
    rows = tuple(
        (str(n["what"]), str(n["missing"]), str(n.get("would_fit_if") or "")) for n in answer.get("near_misses") or ()
    )
    return Table(caption="What nearly fits", headers=("what", "is short of", "fits with"), rows=rows)


def make_refusals(answer: Json) -> Table | Items:
    """Engines that are not offered, each reason with its source."""
    rows = tuple(
        (str(r["engine"]), str(reason.get("text", "")), _source(reason.get("source")))
        for r in answer.get("rejected") or ()
        for reason in r.get("reasons") or ()
    )
    return Table(caption="Engines that are not offered", headers=("engine", "reason", "source"), rows=rows)


def _source(source: Any) -> str:
    return "; ".join(map(str, source)) if isinstance(source, list) else str(source or "")
