"""The page of `advise check`: verdicts, findings with their fixes, memory of each deployment."""

from __future__ import annotations

from advisor.page import parts
from advisor.page.blocks import Bar, Bars, Cell, Json, Page, Section, Table, make_section, read_figure


def make_page(answer: Json) -> Page:
    """The page of an answer of the shape `check`."""
    counts = answer["summary"]
    verdicts = [d["fits"] for d in answer["deployments"]]
    if counts["errors"] or False in verdicts:
        verdict, tone = "no", "bad"
    else:
        verdict, tone = ("cannot tell", "unsure") if None in verdicts or answer["problems"] else ("yes", "good")
    said = ", ".join(f"{counts[k]} {k}" for k in ("errors", "warnings", "infos"))
    sections: tuple[Section | None, ...] = (
        make_section("Findings", _findings(answer)),
        make_section("Files that could not be read", _problems(answer)),
        make_section("Deployments", _deployments(answer)),
        make_section("Memory", _memory(answer), *(_memory_tables(answer))),
        make_section("Suppressed", _suppressed(answer), folded=True),
    )
    return Page(
        title="Check", verdict=f"Do these deployments start and fit? {verdict} ({said})", tone=tone,
        sections=tuple(s for s in sections if s),
    )  # fmt: skip


def _place(entry: Json) -> str:
    return f"{entry.get('file') or entry.get('source')}" + (f":{entry['line']}" if entry.get("line") else "")


def _findings(answer: Json) -> Table:
    order = {"error": 0, "warning": 1, "info": 2}
    listed = sorted(answer["findings"], key=lambda f: order.get(f["severity"], 3))
    rows = tuple((f["severity"], f["rule"], _place(f), f["message"], f.get("fix") or "") for f in listed)
    return Table(caption="Findings", headers=("severity", "rule", "where", "what", "fix"), rows=rows)


def _problems(answer: Json) -> Table:
    rows = tuple((_place(p), str(p.get("message"))) for p in answer["problems"])
    return Table(caption="Files that could not be read", headers=("where", "what"), rows=rows)


def _deployments(answer: Json) -> Table:
    rows = tuple(
        (
            _place(d),
            " ".join(str(x) for x in (d.get("engine"), d.get("engine_version")) if x),
            str(d.get("model") or "unknown"),
            str(d.get("quantization") or "unknown"),
            str(d.get("hardware") or "unknown"),
            parts.say_fit(d["fits"])[0],
            "; ".join(map(str, d.get("why") or ())),
        )
        for d in answer["deployments"]
    )
    headers = ("where", "engine", "model", "format", "hardware", "fits", "why")
    return Table(caption="Deployments", headers=headers, rows=rows)


def _memory(answer: Json) -> Bars:
    bars = [
        Bar(label=f"{_place(d)}: {b.label}", parts=b.parts, limit=b.limit, low=b.low, high=b.high)
        for i, d in enumerate(answer["deployments"])
        if d.get("memory")
        for b in parts.make_memory_bars(answer, f"/deployments/{i}/memory").bars[:1]
    ]
    return Bars(caption="GiB on the first place of each deployment", bars=tuple(bars))


def _memory_tables(answer: Json) -> list[Table]:
    keys = (*parts.PARTS.values(), "total_bytes", "low_bytes", "high_bytes", "budget_bytes")
    rows: list[tuple[Cell, ...]] = [
        (_place(d), str(i_place), *(read_figure(answer, f"{at}/{k}", "gib") for k in keys))
        for i, d in enumerate(answer["deployments"])
        if d.get("memory")
        for at in parts.list_places(answer, f"/deployments/{i}/memory")
        for i_place in [parts.name_place(answer, at)]
    ]
    headers = ("where", "place", *parts.PARTS, "total", "at least", "at most", "there is")
    return [
        Table(caption="Memory, GiB", headers=headers, rows=tuple(rows), numeric=tuple(range(2, len(headers))))
    ]  # fmt: skip


def _suppressed(answer: Json) -> Table:
    rows = tuple((str(s.get("rule")), _place(s), str(s.get("reason") or "")) for s in answer.get("suppressed") or ())
    return Table(caption="Suppressed findings", headers=("rule", "where", "reason"), rows=rows)
