"""`advise hardware` as text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.hardware.budget import BudgetRules
from advisor.advice.hardware_types import HardwareAdvice, HardwareOption
from advisor.catalog import Catalog
from advisor.report.plan_text import describe_arrivals, list_phrases
from advisor.report.text import align_table, bullets, list_section, paint, wrap_text
from advisor.units import format_gib, format_tokens

SHOWN = 12
_SIGN = {True: "yes", False: "no", None: "?"}


def describe_hardware_advice(advice: HardwareAdvice, verbose: bool = False) -> str:
    """The options as a table a buyer can act on; all of them and every refusal with `verbose`."""
    money = [
        f"{m.amount:,.0f} {m.currency} {word}" for m, word in ((advice.budget, "once"), (advice.rent, "a month")) if m
    ]
    beside = "".join(f", {m}" for m in advice.others)
    head = f"{advice.model}{beside} for {advice.load}, {format_tokens(advice.context_length)} tokens each"
    out = [paint(head, "bold"), wrap_text(f"Budget: {' and '.join(money) if money else 'none named'}", "  ")]
    if advice.here:
        out.append(wrap_text(advice.here[0].upper() + advice.here[1:], "  "))
    for axis, title in (("buy", "To buy"), ("rent", f"To rent ({advice.hours_per_month:g} hours a month)")):
        rows = [o for o in advice.options if o.axis == axis]
        if rows:
            out += ["", f"{title}, {advice.currency}:", _table(rows if verbose else rows[:SHOWN], axis)]
            if len(rows) > SHOWN and not verbose:
                out.append(f"  and {len(rows) - SHOWN} more (-v)")
    out += ["", *_picks(advice)] if _picks(advice) else []
    best = next((o for o in advice.options if o.fits), advice.options[0] if advice.options else None)
    if best is not None:
        out += ["", *_first(best, advice)]
    else:
        out += ["", "Nothing that is offered holds it for this money."]
        out += bullets(advice.beyond)
    refused = advice.rejected if verbose else [r for r in advice.rejected if r.code != "over_budget"][:6]
    out += list_section("Not these", (f"{r.hardware}: {r.text}" for r in refused))
    left = len(advice.rejected) - len(refused)
    if refused and left > 0:
        out.append(f"  and {left} more, over budget among them (-v)")
    out += list_section("Notes", advice.notes)
    return "\n".join(out)


def _table(rows: Sequence[HardwareOption], axis: str) -> str:
    body = []
    for option in rows:
        cost = option.price if axis == "buy" else option.monthly_cost
        rate = option.speed.decode_tps if option.speed else None
        total = option.speed.output_tps if option.speed else None
        free = "-" if option.headroom_share is None else f"{100 * option.headroom_share:.0f}%"
        rates = ["-" if x is None else f"{x.value:.0f}" for x in (rate, total)]
        price = "-" if cost is None else f"{cost:,.0f}"
        body.append(
            [
                _short(option.hardware) if option.price_kind != "spot" else f"{_short(option.hardware)[:19]} spot",
                option.quantization,
                price,
                option.price_date[:7],
                *rates,
                free,
                _SIGN[option.fits],
            ]
        )
    head = ("hardware", "format", "price" if axis == "buy" else "month", "dated", "t/s", "all t/s", "free", "fits")
    return align_table(body, head, "llrlrrrl")


def _picks(advice: HardwareAdvice) -> list[str]:
    """The named picks in a line each, where they differ."""
    words = {"cheapest": "cheapest that is good", "value": "best value", "fastest": "fastest"}
    by_option: dict[int, list[str]] = {}
    for name, i in advice.named.items():
        if i is not None:
            by_option.setdefault(i, []).append(words[name])
    if len(by_option) < 2:
        return []
    return bullets(f"{', '.join(names)}: {advice.options[i].hardware}" for i, names in by_option.items())


def _short(name: str) -> str:
    for word in ("GeForce ", "Radeon ", " Workstation", " Blackwell"):
        name = name.replace(word, "")
    return name if len(name) <= 24 else name[:23] + "…"


def _first(option: HardwareOption, advice: HardwareAdvice) -> list[str]:
    """The first option in full: why, what it costs to run, what it needs, what the money does not buy."""
    out = [paint(f"First: {option.hardware}, {option.engine} with {option.quantization}", "bold")]
    lines = []
    if option.price is not None:
        lines.append(
            f"{option.price:,.0f} {option.currency}, {option.price_kind} price of {option.price_date} "
            f"({option.price_source})"
        )
    if option.hourly is not None:
        who = f" at {option.provider}" if option.provider else ""
        lines.append(
            f"{option.hourly:.2f} {option.currency} an hour{who}, {option.price_kind}, {option.price_date}; "
            f"{option.monthly_cost:,.0f} a month"
        )
    elif option.monthly_cost is not None:
        lines.append(
            f"electricity about {option.monthly_cost:,.0f} {option.currency} a month, {option.power_watts:.0f} W of "
            "cards at load"
        )
    if option.needed_bytes and option.available_bytes:
        used = f"{format_gib(option.needed_bytes)} of {format_gib(option.available_bytes)} on the tightest card"
        if option.holds is not None:
            used += (
                f"; holds {option.holds.typical} typical requests at once, {option.holds.full_length} of full length"
            )
        lines.append(used)
    if option.speed and option.speed.decode_tps:
        interval = option.speed.decode_tps
        rate = f"about {interval.value:.0f} ({interval.low:.0f}-{interval.high:.0f}) tokens/s for one request"
        lines.append(", ".join((rate, *list_phrases(option.speed), "modelled")))
    if option.arrivals is not None:
        lines.append(", ".join(describe_arrivals(option.arrivals)))
    lines += (v.words for v in option.targets.verdicts) if option.targets is not None else ()
    if option.break_even_hours is not None:
        rented = f"{option.break_even_hours:,.0f} hours of {option.break_even_source}"
        lines.append(f"costs as much as {rented} (power and host not included)")
    if option.api_break_even_tokens is not None:
        tokens = f"{option.api_break_even_tokens / 1e6:,.0f} million output tokens"
        lines.append(f"costs as much as {tokens} of the hosted API")
    if option.axis == "buy":
        psu = f"; power supply from {option.psu_watts:.0f} W" if option.psu_watts else ""
        lines.append(f"needs {option.needs}{psu}")
    lines += (f"next to it: {x.model} {x.quantization} on {x.engine}" for x in option.also)
    lines.append(f"software: {option.maturity}")
    lines += option.why
    out += bullets(lines)
    asked = f"--model {advice.model} --quant {option.quantization} --engine {option.engine}"
    if option.also:
        asked = f"--models {','.join((advice.model, *(x.model for x in option.also)))} --workload swap=resident"
    users = f"--concurrency {advice.users}" if advice.rate is None else f"--rate {advice.rate:g}"
    load = f"{users} --context {advice.context_length}"
    out.append(wrap_text(f'Its launch: advise recommend --on "{option.hardware}" {asked} {load}', "  ", "    "))
    return out


def describe_tiers(budget_rules: BudgetRules, rules: Catalog) -> str:
    """The budget chart of the source: the author's answer and the corrected one, tier by tier."""
    table_ = rules.accelerators()
    out = [wrap_text(f"Budget tiers of: {budget_rules.tiers.source}")]
    for tier in budget_rules.tiers.rows:
        unit = f"{tier.currency} a month" if tier.axis == "per_month" else f"{tier.currency} once"
        limit = f"up to {tier.up_to:,.0f}" if tier.up_to else f"above {tier.from_:,.0f}"
        out += ["", paint(f"{tier.title}: {limit} {unit}", "bold")]
        out += bullets([
            f"the author: {tier.author}", f"we ({tier.verdict}): {tier.corrected}", f"because {tier.because}",
            "cards: " + ", ".join(table_[a].name for a in tier.accelerators if a in table_),
        ])  # fmt: skip
    return "\n".join(out)
