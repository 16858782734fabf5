"""`advise hardware`: what to buy or rent for a model, a number of users and a budget; cheapest that does it first."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

import msgspec

from advisor import estimation, formats
from advisor.advice.budget_rules import budget_rules
from advisor.advice.defaults import orders
from advisor.advice.hardware_place import WHOLE_COMPUTERS, Bench, No, Placed, tightest
from advisor.advice.hardware_types import Ask, Axis, Option, Refusal, Rules, Shopping
from advisor.advice.price_list import Priced, days_old, same_money
from advisor.advice.spread import spread
from advisor.catalog import Catalog
from advisor.catalog.resolve import resolve_model
from advisor.catalog.types import Accelerator
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.units import gib

MOST_SHOWN = 40  # options and refusals in the answer
NODE_CARD, NODE_COUNTS = "h200-sxm", (8, 16, 32, 64)  # what "several machines" is told with
_AXES: tuple[Axis, Axis] = ("buy", "rent")


def hardware(ask: Ask, rules: Catalog, today: datetime.date | None = None) -> Shopping:
    """Options to buy and to rent with reasons for what is not among them.

    Raises UnknownName, BadInput, BadFile; BadInput for a model whose layers are not known.
    """
    found = resolve_model(ask.model, rules)
    if found.model.layout is None:
        raise BadInput(f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized")
    budget = budget_rules(rules)
    if ask.rates is not None:
        budget = msgspec.structs.replace(budget, rates=ask.rates)
    usual = min(orders(rules).context[ask.workload.use_case], found.model.max_context or 2**31)
    bench = Bench(ask, found, ask.workload.context or usual, rules, budget)
    options: list[Option] = []
    rejected: list[Refusal] = []
    for axis in _axes(ask):
        good, bad = _axis(bench, axis)
        options += good
        rejected += bad
    options.sort(key=lambda o: _order(o, ask, budget, rules))
    notes = [*ask.prices.notes, *_notes(bench, options, today or datetime.date.today())]
    if found.note:
        notes.append(found.note)
    return Shopping(
        model=found.model.id,
        quantizations=tuple(dict.fromkeys(o.quantization for o in options)),
        context_length=bench.context,
        users=ask.workload.concurrency,
        budget=ask.budget,
        rent=ask.rent,
        hours_per_month=ask.hours,
        currency=ask.currency,
        options=tuple(options[:MOST_SHOWN]),
        rejected=tuple(_nearest(rejected)[:MOST_SHOWN]),
        beyond=tuple(_beyond(bench)) if not any(o.fits for o in options) else (),
        here=_here(bench) if ask.machine is not None else None,
        notes=tuple(dict.fromkeys(notes)),
    )


def _axes(ask: Ask) -> tuple[Axis, ...]:
    """The axes that were asked about; both when no budget was named."""
    if ask.budget is None and ask.rent is None:
        sold = any(p.buy is not None for p in ask.prices.prices)
        let = any(p.per_hour is not None for p in ask.prices.prices)
        return tuple(a for a, there in zip(_AXES, (sold, let), strict=True) if there)
    return tuple(a for a, b in zip(_AXES, (ask.budget, ask.rent), strict=True) if b is not None)


def _axis(bench: Bench, axis: Axis) -> tuple[list[Option], list[Refusal]]:
    """Options of one axis. Formats are tried in order until one surely fits something within the money."""
    good: list[Option] = []
    bad: dict[tuple[str, int], Refusal] = {}
    settled = False
    candidates = list(_candidates(bench, axis))
    longest = max((len(_formats(bench, p, n, axis)) for p, n, _ in candidates), default=0)
    unsure: list[Option] = []
    for step in range(longest):
        found: list[Option] = []
        for p, n, cost in candidates:
            over = _over(bench, p, n, axis, cost)
            if over is not None:
                bad[p.accelerator, n] = over
                continue
            names = _formats(bench, p, n, axis)
            if len(names) == 1 and step == 0:
                names = names * longest  # one format, whatever the step
            elif len(names) == 1 or step >= len(names):
                continue
            result = bench.place(p, n, names[step])
            if isinstance(result, No):
                bad[p.accelerator, n] = _refusal(bench, p, n, axis, result)
                continue
            option = _option(bench, p, n, axis, result)
            bad.pop((p.accelerator, n), None)
            (good if len(_formats(bench, p, n, axis)) == 1 else found).append(option)
        if any(o.fits for o in found) or (step == 0 and longest == 1):
            good += found
            settled = True
            break
        unsure = found
    if not settled and longest:
        good += unsure
    return good, list(bad.values())


def _formats(bench: Bench, p: Priced, n: int, axis: Axis) -> tuple[str, ...]:
    entry = bench.engine(p, n)
    return ("",) if isinstance(entry, No) else bench.formats(entry, axis)


def _candidates(bench: Bench, axis: Axis) -> Iterator[tuple[Priced, int, float]]:
    """(price, count, cost in the asked currency): a price once to buy, a month's rent to rent."""
    ask, budget = bench.ask, bench.budget
    table = bench.rules.accelerators()
    for p in ask.prices.prices:
        entry = table[p.accelerator]
        amount = p.buy if axis == "buy" else p.per_hour
        if amount is None:
            continue
        closed = ask.prices.closed
        for n in ask.prices.counts:
            host = budget.hosts.get(entry.form or "")
            if n > 1 and (entry.form in WHOLE_COMPUTERS or (not closed and host is not None and n > host.most)):
                continue  # several whole computers are several machines
            if not closed and axis == "buy" and entry.form in budget.not_bought_single and n < 4:
                continue
            one = same_money(p, amount, ask.currency, budget.rates) or 0.0
            yield p, n, one * n * (1 if axis == "buy" else ask.hours)


def _over(bench: Bench, p: Priced, n: int, axis: Axis, cost: float) -> Refusal | None:
    limit = bench.ask.budget if axis == "buy" else bench.ask.rent
    if limit is None or cost <= limit.amount:
        return None
    per = "" if axis == "buy" else " a month"
    text = f"{cost:,.0f} {bench.ask.currency}{per} is above {limit.amount:,.0f}"
    return _refusal(bench, p, n, axis, No("over_budget", text))


def _refusal(bench: Bench, p: Priced, n: int, axis: Axis, no: No) -> Refusal:
    return Refusal(
        hardware=_name(bench.rules.accelerators()[p.accelerator], n, p),
        accelerator=p.accelerator, count=n, axis=axis, code=no.code, text=no.text,
    )  # fmt: skip


def _name(entry: Accelerator, n: int, p: Priced) -> str:
    size = f" {p.memory_gb:g}GB" if p.memory_gb else ""
    return f"{n}x {entry.name}{size}"


def _option(bench: Bench, p: Priced, n: int, axis: Axis, x: Placed) -> Option:
    ask, budget = bench.ask, bench.budget
    entry = bench.rules.accelerators()[p.accelerator]
    buy = same_money(p, p.buy, ask.currency, budget.rates) if axis == "buy" else None
    hourly = same_money(p, p.per_hour, ask.currency, budget.rates) if axis == "rent" else None
    price = None if buy is None else buy * n
    rent = None if hourly is None else hourly * n
    watts = entry.tdp_watts * n if entry.tdp_watts else None
    power = _power_cost(bench, entry, n)
    monthly = rent * ask.hours if rent is not None else power
    hours, said = _break_even(bench, p, price, n)
    needed, room = tightest(x.memory)
    host = budget.hosts.get(entry.form or "")
    maturity = budget.maturity.get(entry.vendor)
    total = x.speed.output_tps.value if x.speed and x.speed.output_tps else None
    money = price if price is not None else monthly
    single_rate = x.speed.decode_tps if x.speed else None
    why = list(x.why)
    if single_rate is not None and entry.bandwidth_gbs:
        why.append(f"memory bandwidth {entry.bandwidth_gbs:g} GB/s a card decides the rate of one request")
    if p.kind == "launch":
        why.append("a launch price, not a market price")
    api = None
    if ask.api_price and money:
        api = money / ask.api_price * 1e6
    return Option(
        hardware=_name(entry, n, p),
        accelerator=p.accelerator,
        count=n,
        axis=axis,
        fits=x.memory.fits,
        engine=x.engine.id,
        quantization=x.quantization.id,
        settings=x.deployment.settings,
        currency=ask.currency,
        price=None if price is None else round(price, 2),
        price_date=p.date,
        price_kind=p.kind,
        price_source=p.source,
        provider=p.provider,
        hourly=None if rent is None else round(rent, 4),
        monthly_cost=None if monthly is None else round(monthly, 2),
        break_even_hours=hours,
        break_even_source=said,
        api_break_even_tokens=api,
        power_watts=watts,
        psu_watts=None
        if watts is None or host is None or not host.psu_reserve_watts
        else watts + host.psu_reserve_watts,
        memory=x.memory,
        needed_bytes=needed,
        available_bytes=room,
        headroom_share=None if not needed or not room else round(1 - needed / room, 4),
        max_sequences=x.memory.kv_cache.max_sequences if x.memory.kv_cache else None,
        speed=x.speed,
        tokens_per_money=None if not total or not money else round(1000 * total / money, 3),
        maturity=maturity.words if maturity else "how far software is on this vendor's hardware is not known",
        needs=host.words if host else "a host that takes this form; not known in detail",
        why=tuple(dict.fromkeys(why)),
    )


def _power_cost(bench: Bench, entry: Accelerator, n: int) -> float | None:
    """Electricity a month of a bought machine, in the asked currency; None where the board power is not known."""
    ask, p = bench.ask, bench.budget.power
    if entry.tdp_watts is None:
        return None
    duty = p.duty if ask.duty is None else ask.duty
    whole = entry.form in WHOLE_COMPUTERS
    load = entry.tdp_watts * n * p.load_share
    idle = 0.15 * entry.tdp_watts if whole else p.idle_watts_per_card * n
    host = 0.0 if whole else p.host_watts
    kwh = (duty * load + (1 - duty) * idle + host) / 1000 * bench.budget.hours_per_month
    cost = kwh * (p.eur_per_kwh if ask.eur_per_kwh is None else ask.eur_per_kwh)
    rates = bench.budget.rates
    return cost if ask.currency == "EUR" else cost / rates["EUR"] * rates[ask.currency]


def _break_even(bench: Bench, p: Priced, price: float | None, n: int) -> tuple[float | None, str | None]:
    """Hours of renting the same (or the same kind of) card that cost as much as buying it."""
    if price is None:
        return None, None
    table = bench.rules.accelerators()
    own = table[p.accelerator]
    rents = [r for r in bench.ask.prices.prices if r.per_hour is not None and r.kind != "spot"]
    same = [r for r in rents if r.accelerator == p.accelerator]
    near = same or [r for r in rents if _alike(table[r.accelerator], own)]
    if not near:
        return None, None
    best = min(near, key=lambda r: same_money(r, r.per_hour, bench.ask.currency, bench.budget.rates) or 0.0)
    hourly = same_money(best, best.per_hour, bench.ask.currency, bench.budget.rates) or 0.0
    where = f" ({best.provider}, {best.date})" if best.provider else f" ({best.date})"
    return round(
        price / (hourly * n), 1
    ), f"{table[best.accelerator].name} at {hourly:.2f} {bench.ask.currency}/h{where}"


def _alike(a: Accelerator, b: Accelerator) -> bool:
    """The same chip in another form: architecture, memory and (within a fifth) bandwidth."""
    if (a.vendor, a.architecture, a.memory_bytes) != (b.vendor, b.architecture, b.memory_bytes) or not a.memory_bytes:
        return False
    if not a.bandwidth_gbs or not b.bandwidth_gbs:
        return False
    return abs(a.bandwidth_gbs - b.bandwidth_gbs) <= 0.2 * max(a.bandwidth_gbs, b.bandwidth_gbs)


def _order(o: Option, ask: Ask, budget: Rules, rules: Catalog) -> tuple[float, ...]:
    """Sure before unsure; then by price, speed or tokens for the money; software maturity breaks ties."""
    cost = o.price if o.price is not None else o.monthly_cost or 0.0
    rate = o.speed.output_tps.value if o.speed and o.speed.output_tps else 0.0
    vendor = rules.accelerators()[o.accelerator].vendor
    mature = float(budget.maturity[vendor].rank) if vendor in budget.maturity else 9.0
    key = {"price": cost, "speed": -rate, "value": -(o.tokens_per_money or 0.0)}[ask.sort]
    return (float(o.fits is not True), float(o.axis == "rent"), key, mature, -rate)


def _nearest(rejected: list[Refusal]) -> list[Refusal]:
    """Refusals that say most first: what fits but costs too much is told by `beyond`; small counts come first."""
    order = {"too_slow": 0, "no_native_format": 1, "does_not_fit": 2, "over_budget": 3}
    return sorted(rejected, key=lambda r: (order.get(r.code, 2), r.count))


def _notes(bench: Bench, options: Iterable[Option], today: datetime.date) -> Iterator[str]:
    ask, budget = bench.ask, bench.budget
    shown = [o for o in options if o.fits]
    kinds = {o.axis for o in shown}
    for axis in sorted(kinds):
        widths = {o.quantization for o in shown if o.axis == axis}
        if ask.quantization is None and widths & set(budget.formats["buy"]):
            yield f"to {axis}: {', '.join(sorted(widths))} ({budget.format_reasons[axis]}; --quant decides)"
    if kinds == {"buy", "rent"} or (ask.budget and ask.rent):
        yield "a price once (buy) and a cost per month (rent) are different axes: break-even hours join them"
    if any(o.axis == "buy" for o in shown):
        yield "prices are for the cards alone (or a whole computer): host, VAT and shipping are not included"
    old = [o for o in shown[:5] if (days_old(o.price_date, today) or 0) > budget.old_after_days]
    if old:
        dates = ", ".join(sorted({o.price_date for o in old}))
        advice = "check them, or bring your own with --prices"
        yield f"prices older than {budget.old_after_days} days decide this order ({dates}): {advice}"
    if any(o.currency != p.currency for o in shown for p in ask.prices.prices if p.accelerator == o.accelerator):
        yield f"exchange rates of {budget.rates_as_of}, assumed (--rate)"
    if any(o.fits is None for o in options):
        yield "options marked `?` are too close to call: the interval of their memory straddles the limit"


def _here(bench: Bench) -> str:
    """Whether the machine that is there holds it already."""
    from advisor.advice.recommend import Question, recommend

    ask = bench.ask
    assert ask.machine is not None
    advice = recommend(Question(ask.machine, ask.workload, ask.model, ask.quantization, ask.engine), bench.rules)
    c = advice.chosen
    if c is None or c.memory is None:
        return f"on the machine that is there: no ({'; '.join(advice.remedies[:1]) or 'nothing fits'})"
    needed, room = tightest(c.memory)
    space = f", {gib(needed)} of {gib(room)} on the tightest card" if needed and room else ""
    verdict = {True: "yes", False: "no", None: "cannot tell"}[c.memory.fits]
    return f"on the machine that is there: {verdict}, {c.engine_name} with {c.quantization}{space}"


def _beyond(bench: Bench) -> Iterator[str]:
    """What it would take: the cheapest hardware above the money, else how many machines."""
    best: list[tuple[float, str]] = []
    for axis in _axes(bench.ask):
        limit = bench.ask.budget if axis == "buy" else bench.ask.rent
        for p, n, cost in _candidates(bench, axis):
            if limit is None or cost <= limit.amount:
                continue
            for name in _formats(bench, p, n, axis)[-1:]:
                result = bench.place(p, n, name) if name else None
                if isinstance(result, Placed) and result.memory.fits:
                    per = "" if axis == "buy" else " a month"
                    what = _name(bench.rules.accelerators()[p.accelerator], n, p)
                    best.append((cost, f"{what}, {name}: {cost:,.0f} {bench.ask.currency}{per}"))
    if best:
        yield from (f"fits beyond the budget: {text}" for _, text in sorted(best)[:3])
        return
    yield from _nodes(bench)


def _nodes(bench: Bench) -> Iterator[str]:
    """How many machines of eight large cards hold it, where one does not."""
    asked = bench.ask.engine
    entry = bench.rules.engine(asked) if asked else formats.usual_engine("hf", bench.rules)
    p = Priced(accelerator=NODE_CARD, currency="USD", date="", kind="", source="")
    for total in NODE_COUNTS:
        nodes = total // 8
        text = f"8x {NODE_CARD}, linux" + (f", {nodes} nodes, nvlink+infiniband" if nodes > 1 else "")
        names = bench.formats(entry, "rent")
        if not names:
            return
        d = spread(
            Deployment(
                model=bench.found.model, engine=entry.id, quantization=names[0],
                machine=estimation.machine_of(text, bench.rules), context_length=bench.context,
                sequences=bench.ask.workload.concurrency,
            ),
            entry,
        )  # fmt: skip
        try:
            m = estimation.estimate(d, bench.rules)
        except BadInput:
            continue
        if m.fits:
            name = bench.rules.accelerators()[p.accelerator].name
            above = (
                ""
                if nodes == 1
                else "; over nodes take InfiniBand or RoCE and Ray Serve, llm-d or Dynamo above the engine"
            )
            yield f"what holds it: {nodes} machine{'s' if nodes > 1 else ''} of 8x {name}, {names[0]}{above}"
            return
    yield "nothing in the catalogue holds it, up to 64 H200: a smaller model, a narrower format or fewer users"
