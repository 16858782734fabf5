"""`advise hardware` as text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.advice.hardware.budget import BudgetRules
from advisor.advice.hardware_types import HardwareAdvice, HardwareOption
from advisor.catalog import Catalog
from advisor.report.plan_text import describe_arrivals, list_phrases
from advisor.report.text import align_table, bullets, list_section, paint, wrap_text
from advisor.units import format_gib, format_tokens

SHOWN = 12
_SIGN = {True: "yes", False: "no", None: "?"}
_WEAK = {"": "", "too_slow": ", slow", "too_narrow": ", narrow"}


def describe_hardware_advice(advice: HardwareAdvice, verbose: bool = False) -> str:
    """The options as a table a buyer can act on; all of them and every refusal with `verbose`."""
    money = [
        f"{m.amount:,.0f} {m.currency} {word}" for m, word in ((advice.budget, "once"), (advice.rent, "a month")) if m
    ]
    beside = "".join(f", {m}" for m in advice.others)
    what = f"{advice.model}{beside}" if advice.model else "The model that is worth the most on each computer,"
    head = f"{what} for {advice.load}, requests of up to {format_tokens(advice.context_length)} tokens"
    out = [paint(head, "bold"), wrap_text(f"Budget: {' and '.join(money) if money else 'none named'}", "  ")]
    if advice.here:
        out.append(wrap_text(advice.here[0].upper() + advice.here[1:], "  "))
    if advice.ladder:
        out += ["", f"For each budget, {advice.currency}:", _draw_ladder(advice)]
    for axis, title in (
        ()
        if advice.ladder and not verbose
        else (("buy", "To buy"), ("rent", f"To rent ({advice.hours_per_month:g} hours a month)"))
    ):
        rows = [o for o in advice.options if o.axis == axis]
        if rows:
            out += ["", f"{title}, {advice.currency}:", _table(rows if verbose else rows[:SHOWN], advice, axis)]
            if len(rows) > SHOWN and not verbose:
                out.append(f"  and {len(rows) - SHOWN} more (-v)")
    if advice.weak:
        table = _table(advice.weak[: None if verbose else SHOWN], advice, advice.weak[0].axis)
        out += ["", f"Nothing good for this money; slow or narrow, {advice.currency}:", table]
    out += ["", *_picks(advice)] if _picks(advice) else []
    lead = advice.named.get("value") if advice.model else 0
    best = advice.options[lead or 0] if advice.options else None
    if advice.weak:
        out += ["", *_describe_option("First of these", advice.weak[0], advice)]
    elif best is not None:
        out += ["", *_describe_option("Best value" if lead is not None and advice.model else "First", best, advice)]
    elif advice.buy_nothing:
        out += ["", "Buy nothing: what is offered for this money is no better than the machine that is there."]
    else:
        out += ["", "Nothing that is offered holds it for this money."]
    out += bullets(advice.beyond)
    refused = dict[str, list[str]]()
    for r in advice.rejected:
        if verbose or r.code != "over_budget":
            refused.setdefault(r.text, []).append(r.hardware if verbose else _short(r.hardware.partition(",")[0]))
    shown = list(refused.items())[: None if verbose else 4]
    out += list_section("Not these", (f"{join_some(names)}: {text}" for text, names in shown))
    left = len(advice.rejected) - sum(len(names) for _, names in shown)
    if shown and left > 0:
        out.append(f"  and {left} more (-v)")
    out += list_section("Notes", advice.notes)
    return "\n".join(out)


def _table(rows: Sequence[HardwareOption], advice: HardwareAdvice, axis: str) -> str:
    body = []
    for option in rows:
        cost = option.price if axis == "buy" else option.monthly_cost
        each = option.speed.tpot_s if option.speed else None
        total = option.speed.output_tps if option.speed else None
        rates = [f"{1 / each.value:.0f}" if each else "-"]
        if advice.model is not None:
            rates.append(f"{total.value:.0f}" if total else "-")
        price = "-" if cost is None else f"{cost:,.0f}{'' if option.within_budget else '+'}"
        name = _short(option.hardware) if option.price_kind != "spot" else f"{_short(option.hardware)[:19]} spot"
        model = [_short(option.model.rpartition("/")[2])] if advice.model is None else []
        dated = [_shorten_date(option.price_date)] if advice.model is not None else []
        fits = _SIGN[option.fits] + _WEAK[option.weak]
        waiting = option.holds.waiting if option.holds is not None else 0
        fits = f"{fits}, {waiting} wait".removeprefix("yes, ") if waiting else fits
        body.append([name, *model, option.quantization, price, *dated, *rates, fits])
    price = "price" if axis == "buy" else "month"
    if advice.model is None:
        return align_table(body, ("hardware", "model", "format", price, "t/s", "fits"), "lllrrl")
    return align_table(body, ("hardware", "format", price, "dated", "t/s", "all t/s", "fits"), "llrlrrl")


def _draw_ladder(advice: HardwareAdvice) -> str:
    """A line for each budget: what is worth the most for it; what is the same is not repeated."""
    body, before = [], -1
    for rung in advice.ladder:
        if rung.option is None or rung.option == before:
            body.append(
                [f"{rung.budget:,.0f}", "nothing serves this" if rung.option is None else "the same", *[""] * 4]
            )
            continue
        before, option = rung.option, advice.options[rung.option]
        each = option.speed.tpot_s if option.speed else None
        rate = f"{1 / each.value:.0f}" if each else "-"
        price = f"{option.price:,.0f}" if option.price is not None else "-"
        name = _short(option.model.rpartition("/")[2])
        body.append([f"{rung.budget:,.0f}", _short(option.hardware), name[:18], option.quantization, price, rate])
    return align_table(body, ("up to", "hardware", "model", "format", "price", "t/s"), "rlllrr")


def _picks(advice: HardwareAdvice) -> list[str]:
    """The named picks in a line each, where they differ."""
    words = {
        "cheapest": "cheapest that is good",
        "value": "best value",
        "fastest": "fastest",
        "ablest": "worth the most",
    }
    by_option: dict[int, list[str]] = {}
    for name, i in advice.named.items():
        if i is not None:
            by_option.setdefault(i, []).append(words[name])
    if len(by_option) < 2:
        return []
    return bullets(
        f"{', '.join(names)}: {advice.options[i].hardware.removesuffix(', linux')}" for i, names in by_option.items()
    )


def _shorten_date(date: str) -> str:
    """Year and month of a date; `?` where only the years are known."""
    return date[:7] if date[4:5] == "-" and "date unknown" not in date else "?" if "unknown" in date else date


def join_some(names: Sequence[str], most: int = 4) -> str:
    """Names in a line, the first few of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _short(name: str) -> str:
    for word in ("GeForce ", "Radeon ", " Workstation", " Blackwell", ", linux", " RAM"):
        name = name.replace(word, "")
    return name if len(name) <= 27 else name[:26] + "…"


def _describe_option(title: str, option: HardwareOption, advice: HardwareAdvice) -> list[str]:
    """An option in full: why, what it costs to run, what it needs, what the money does not buy."""
    named = "" if advice.model else f"{option.model}, "
    out = [paint(f"{title}: {option.hardware}, {named}{option.engine} with {option.quantization}", "bold")]
    lines = list(_list_prices(option))
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
            wait = option.holds.wait_s
            used += f"; the others wait about {wait.value:.0f} s" if wait is not None else ""
        lines.append(used)
    if option.speed and option.speed.decode_tps:
        interval = option.speed.decode_tps
        rate = f"about {interval.value:.0f} ({interval.low:.0f}-{interval.high:.0f}) tokens/s for a request alone"
        if option.speed.tpot_s and advice.users > 1:
            rate += f", {1 / option.speed.tpot_s.value:.0f} for each of {advice.users} at once"
        lines.append(", ".join((rate, *list_phrases(option.speed), "modelled")))
    if option.arrivals is not None:
        lines.append(", ".join(describe_arrivals(option.arrivals)))
    lines += (v.words for v in option.targets.verdicts) if option.targets is not None else ()
    if option.break_even_hours is not None:
        rented = f"{option.break_even_hours:,.0f} hours of {option.break_even_source}"
        lines.append(f"costs as much as {rented} (power not included)")
    if option.api_break_even_tokens is not None:
        tokens = f"{option.api_break_even_tokens / 1e6:,.0f} million output tokens"
        lines.append(f"costs as much as {tokens} of the hosted API")
    if option.axis == "buy":
        psu = f"; power supply from {option.psu_watts:.0f} W" if option.psu_watts else ""
        lines += [] if option.host else [f"needs {option.needs}{psu}"]
    lines += (f"next to it: {x.model} {x.quantization} on {x.engine}" for x in option.also)
    lines.append(f"software: {option.maturity}")
    lines += option.why
    out += bullets(lines)
    out.append(wrap_text(f"Its launch: {_recall(option, advice)}", "  ", "    "))
    return out


def _recall(option: HardwareOption, advice: HardwareAdvice) -> str:
    """The command that prints the launch of an option."""
    work, models = advice.workload, ",".join((option.model, *(x.model for x in option.also)))
    words = ["advise recommend --on", f'"{option.hardware}"']
    words += [f"--models {models} --workload swap=resident"] if option.also else []
    words += [f"--model {advice.model}"] if advice.model and not option.also else []
    words += [f"--use-case {work.use_case}"] if work.use_case != "chat" else []
    words.append(f"--users {advice.users}" if advice.rate is None else f"--rate {advice.rate:g}")
    words += [f"--context {work.context}"] if work.context else []
    words += [f"--{n.replace('_', '-')} {x}" for n in STATED if (x := getattr(work, n)) is not None]
    words += [f"--{n.removesuffix('_s')} {x}" for n in LIMITS if (x := getattr(work, n)) is not None]
    return " ".join(words + (["--full-length"] if work.full_length else []))


# options of recommend, as they are
STATED = ("prompt_tokens", "output_tokens", "target_tps", "priority", "shared_prefix")
LIMITS = ("ttft_s", "tpot_s", "e2e_s")


def _list_prices(option: HardwareOption) -> Iterator[str]:
    """What it costs to buy, and what of that is the host."""
    if option.price is None or option.price_range is None:
        return
    bounds = option.price_range
    between = f" ({bounds.low:,.0f} to {bounds.high:,.0f})" if bounds.low < bounds.high else ""
    yield f"{option.price:,.0f} {option.currency}{between}{'' if option.within_budget else ', more than the budget'}"
    cards = option.price - (option.host_price or 0)
    yield f"of that {cards:,.0f} as a {option.price_kind} price of {option.price_date} ({option.price_source})"
    if option.host is not None:
        yield f"of that {option.host_price:,.0f} for {option.host} ({option.noise})"


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
