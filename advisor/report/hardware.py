"""`advise hardware` as text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.advice.hardware_types import Option, Rules, Shopping, Tier
from advisor.catalog import Catalog
from advisor.report.text import bullets, paint, table, wrap
from advisor.units import gib, tokens

SHOWN = 12
_SIGN = {True: "yes", False: "no", None: "?"}


def shopped(x: Shopping, verbose: bool = False) -> str:
    """The options as a table a buyer can act on; all of them and every refusal with `verbose`."""
    money = [f"{m.amount:,.0f} {m.currency} {word}" for m, word in ((x.budget, "once"), (x.rent, "a month")) if m]
    head = f"{x.model} for {x.users} at once, {tokens(x.context_length)} tokens each"
    out = [paint(head, "bold"), wrap(f"Budget: {' and '.join(money) if money else 'none named'}", "  ")]
    if x.here:
        out.append(wrap(x.here[0].upper() + x.here[1:], "  "))
    for axis, title in (("buy", "To buy"), ("rent", f"To rent ({x.hours_per_month:g} hours a month)")):
        rows = [o for o in x.options if o.axis == axis]
        if rows:
            out += ["", f"{title}, {x.currency}:", _table(rows if verbose else rows[:SHOWN], axis)]
            if len(rows) > SHOWN and not verbose:
                out.append(f"  and {len(rows) - SHOWN} more (-v)")
    best = next((o for o in x.options if o.fits), x.options[0] if x.options else None)
    if best is not None:
        out += ["", *_first(best, x)]
    else:
        out += ["", "Nothing that is offered holds it for this money."]
        out += bullets(x.beyond)
    refused = x.rejected if verbose else [r for r in x.rejected if r.code != "over_budget"][:6]
    if refused:
        out += ["", "Not these:"]
        out += bullets(f"{r.hardware}: {r.text}" for r in refused)
        left = len(x.rejected) - len(refused)
        if left > 0:
            out.append(f"  and {left} more, over budget among them (-v)")
    if x.notes:
        out += ["", "Notes:"]
        out += bullets(x.notes)
    return "\n".join(out)


def _table(rows: Sequence[Option], axis: str) -> str:
    body = []
    for o in rows:
        cost = o.price if axis == "buy" else o.monthly_cost
        rate = o.speed.decode_tps if o.speed else None
        total = o.speed.output_tps if o.speed else None
        free = "-" if o.headroom_share is None else f"{100 * o.headroom_share:.0f}%"
        rates = ["-" if x is None else f"{x.value:.0f}" for x in (rate, total)]
        price = "-" if cost is None else f"{cost:,.0f}"
        body.append([_short(o.hardware), o.quantization, price, o.price_date[:7], *rates, free, _SIGN[o.fits]])
    head = ("hardware", "format", "price" if axis == "buy" else "month", "dated", "t/s", "all t/s", "free", "fits")
    return table(body, head, "llrlrrrl")


def _short(name: str) -> str:
    for word in ("GeForce ", "Radeon ", " Workstation", " Blackwell"):
        name = name.replace(word, "")
    return name if len(name) <= 24 else name[:23] + "…"


def _first(o: Option, x: Shopping) -> list[str]:
    """The first option in full: why, what it costs to run, what it needs, what the money does not buy."""
    out = [paint(f"First: {o.hardware}, {o.engine} with {o.quantization}", "bold")]
    lines = []
    if o.price is not None:
        lines.append(f"{o.price:,.0f} {o.currency}, {o.price_kind} price of {o.price_date} ({o.price_source})")
    if o.hourly is not None:
        who = f" at {o.provider}" if o.provider else ""
        lines.append(
            f"{o.hourly:.2f} {o.currency} an hour{who}, {o.price_kind}, {o.price_date}; {o.monthly_cost:,.0f} a month"
        )
    elif o.monthly_cost is not None:
        lines.append(
            f"electricity about {o.monthly_cost:,.0f} {o.currency} a month, {o.power_watts:.0f} W of cards at load"
        )
    if o.needed_bytes and o.available_bytes:
        at_once = f"; {o.max_sequences} requests of full length at most" if o.max_sequences else ""
        lines.append(f"{gib(o.needed_bytes)} of {gib(o.available_bytes)} on the tightest card{at_once}")
    if o.speed and o.speed.decode_tps:
        r = o.speed.decode_tps
        lines.append(f"about {r.value:.0f} ({r.low:.0f}-{r.high:.0f}) tokens/s for one request, modelled")
    if o.break_even_hours is not None:
        lines.append(
            f"costs as much as {o.break_even_hours:,.0f} hours of {o.break_even_source} (power and host not included)"
        )
    if o.api_break_even_tokens is not None:
        lines.append(f"costs as much as {o.api_break_even_tokens / 1e6:,.0f} million output tokens of the hosted API")
    if o.axis == "buy":
        psu = f"; power supply from {o.psu_watts:.0f} W" if o.psu_watts else ""
        lines.append(f"needs {o.needs}{psu}")
    lines.append(f"software: {o.maturity}")
    lines += o.why
    out += bullets(lines)
    asked = f"--model {x.model} --quant {o.quantization} --engine {o.engine}"
    load = f"--concurrency {x.users} --context {x.context_length}"
    out.append(wrap(f'Its launch: advise recommend --on "{o.hardware}" {asked} {load}', "  ", "    "))
    return out


def tier_dict(t: Tier) -> dict[str, Any]:
    """One tier as JSON."""
    d = {f: getattr(t, f) for f in t.__struct_fields__ if f != "from_"}
    d["accelerators"] = list(t.accelerators)
    d["from"] = t.from_
    return d


def tiered(budget: Rules, rules: Catalog) -> str:
    """The budget chart of the source: the author's answer and the corrected one, tier by tier."""
    table_ = rules.accelerators()
    out = [wrap(f"Budget tiers of: {budget.tiers_source}")]
    for t in budget.tiers:
        unit = f"{t.currency} a month" if t.axis == "per_month" else f"{t.currency} once"
        limit = f"up to {t.up_to:,.0f}" if t.up_to else f"above {t.from_:,.0f}"
        out += ["", paint(f"{t.title}: {limit} {unit}", "bold")]
        out += bullets([
            f"the author: {t.author}", f"we ({t.verdict}): {t.corrected}", f"because {t.because}",
            "cards: " + ", ".join(table_[a].name for a in t.accelerators if a in table_),
        ])  # fmt: skip
    return "\n".join(out)
