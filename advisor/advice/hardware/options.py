"""`advise hardware`: what to buy or rent for a model, a number of users and a budget; cheapest that does it first."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from advisor import estimation, formats
from advisor.advice.hardware.budget import BudgetRules, load_budget_rules
from advisor.advice.hardware.candidates import (
    HardwareCandidate,
    HardwareRejection,
    HardwareSearch,
    describe_resident,
    find_tightest_device,
    place_models,
    search_other,
)
from advisor.advice.hardware.prices import DeviceOffer, convert_offer_price, count_days_old
from advisor.advice.hardware_types import (
    Ask,
    Axis,
    HardwareAdvice,
    HardwareOption,
    RejectedHardware,
)
from advisor.catalog import Catalog
from advisor.catalog.described_machine import WHOLE_COMPUTERS
from advisor.catalog.resolve import resolve_model
from advisor.catalog.types import Accelerator
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.freshness import find_stale_note
from advisor.planning.layouts import spread_over_cards
from advisor.planning.traffic import describe_cut_lengths
from advisor.session import Session
from advisor.units import format_gib

MOST_SHOWN = 40  # options and refusals in the answer
NODE_CARD, NODE_COUNTS = "h200-sxm", (8, 16, 32, 64)  # nodes that "several machines" is answered with
_AXES: tuple[Axis, Axis] = ("buy", "rent")


def find_hardware(request: Ask, session: Session) -> HardwareAdvice:
    """Options to buy and to rent with reasons for what is not among them.

    Raises UnknownName, BadInput, BadFile; BadInput for a model whose layers are not known.
    """
    rules = session.rules
    found = resolve_model(request.model, rules)
    if found.model.layout is None:
        raise BadInput(f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized")
    budget_rules = load_budget_rules(rules)
    if request.rates is not None:
        stated = replace(budget_rules.rates, per_usd=request.rates)
        budget_rules = replace(budget_rules, rates=stated)
    search = HardwareSearch(request, found, session, budget_rules)
    search.others = tuple(search_other(name, request, session, budget_rules) for name in request.others)
    options: list[HardwareOption] = []
    rejected: list[RejectedHardware] = []
    for axis in _axes(request):
        good, bad = _search_axis(search, axis)
        options += good
        rejected += bad
    options.sort(key=lambda o: _sort_key(o, request, budget_rules, rules))
    notes = [*request.prices.notes, *list_notes(search, options, session.today)]
    stale, cut = find_stale_note("hardware", rules, session.today), describe_cut_lengths(search.work, search.traffic)
    notes += filter(None, (found.note, cut, stale))
    return HardwareAdvice(
        model=found.model.id,
        quantizations=tuple(dict.fromkeys(o.quantization for o in options)),
        context_length=search.context,
        users=request.workload.concurrency,
        budget=request.budget,
        rent=request.rent,
        hours_per_month=request.hours,
        currency=request.currency,
        options=tuple(options[:MOST_SHOWN]),
        rejected=tuple(_order_rejected(rejected)[:MOST_SHOWN]),
        beyond=tuple(_beyond(search)) if not any(o.fits for o in options) else (),
        here=describe_here(search) if request.machine is not None else None,
        notes=tuple(dict.fromkeys(notes)),
        others=tuple(s.found.model.id for s in search.others),
        named=name_picks(options[:MOST_SHOWN]),
    )


def _axes(request: Ask) -> tuple[Axis, ...]:
    """The axes that were asked about; both when no budget was named."""
    if request.budget is None and request.rent is None:
        sold = any(p.buy is not None for p in request.prices.prices)
        let = any(p.per_hour is not None for p in request.prices.prices)
        return tuple(a for a, there in zip(_AXES, (sold, let), strict=True) if there)
    return tuple(a for a, b in zip(_AXES, (request.budget, request.rent), strict=True) if b is not None)


def _search_axis(search: HardwareSearch, axis: Axis) -> tuple[list[HardwareOption], list[RejectedHardware]]:
    """Options of one axis. Formats are tried in order until one surely fits something within the money."""
    good: list[HardwareOption] = []
    bad: dict[tuple[str, int], RejectedHardware] = {}
    settled = False
    candidates = list(_candidates(search, axis))
    longest = max((len(_formats(search, p, n, axis)) for p, n, _ in candidates), default=0)
    unsure: list[HardwareOption] = []
    for step in range(longest):
        found: list[HardwareOption] = []
        for offer, n, cost in candidates:
            over = _reject_over_budget(search, offer, n, axis, cost)
            if over is not None:
                bad[offer.accelerator, n] = over
                continue
            names = _formats(search, offer, n, axis)
            if len(names) == 1 and step == 0:
                names = names * longest  # one format, whatever the step
            elif len(names) == 1 or step >= len(names):
                continue
            result = place_models(search, offer, n, names[step], axis)
            if isinstance(result, HardwareRejection):
                bad[offer.accelerator, n] = _refusal(search, offer, n, axis, result)
                continue
            option = _option(search, offer, n, axis, result)
            bad.pop((offer.accelerator, n), None)
            (good if len(_formats(search, offer, n, axis)) == 1 else found).append(option)
        if any(o.fits for o in found) or (step == 0 and longest == 1):
            good += found
            settled = True
            break
        unsure = found
    if not settled and longest:
        good += unsure
    kept, spare = drop_spare_cards(good)
    return kept, [*bad.values(), *spare]


def _formats(search: HardwareSearch, offer: DeviceOffer, n: int, axis: Axis) -> tuple[str, ...]:
    entry = search.engine(offer, n)
    return ("",) if isinstance(entry, HardwareRejection) else search.formats(entry, axis)


def _candidates(search: HardwareSearch, axis: Axis) -> Iterator[tuple[DeviceOffer, int, float]]:
    """(price, count, cost in the asked currency): a price once to buy, a month's rent to rent."""
    request, budget_rules, rates = search.request, search.budget, search.budget.rates.per_usd
    table = search.session.rules.accelerators()
    for offer in request.prices.prices:
        entry = table[offer.accelerator]
        amount = offer.buy if axis == "buy" else offer.per_hour
        if amount is None:
            continue
        closed = request.prices.closed
        for n in request.prices.counts:
            host = budget_rules.hosts.get(entry.form or "")
            if n > 1 and (entry.form in WHOLE_COMPUTERS or (not closed and host is not None and n > host.most)):
                continue  # several whole computers are several machines
            if not closed and axis == "buy" and entry.form in budget_rules.not_bought_single and n < 4:
                continue
            one = convert_offer_price(offer, amount, request.currency, rates) or 0.0
            yield offer, n, one * n * (1 if axis == "buy" else request.hours)


def _reject_over_budget(
    search: HardwareSearch, offer: DeviceOffer, n: int, axis: Axis, cost: float
) -> RejectedHardware | None:
    limit = search.request.budget if axis == "buy" else search.request.rent
    if limit is None or cost <= limit.amount:
        return None
    per = "" if axis == "buy" else " a month"
    text = f"{cost:,.0f} {search.request.currency}{per} is above {limit.amount:,.0f}"
    return _refusal(search, offer, n, axis, HardwareRejection("over_budget", text))


def _refusal(
    search: HardwareSearch, offer: DeviceOffer, n: int, axis: Axis, rejection: HardwareRejection
) -> RejectedHardware:
    return RejectedHardware(
        hardware=_name_hardware(search.session.rules.accelerators()[offer.accelerator], n, offer),
        accelerator=offer.accelerator, count=n, axis=axis, code=rejection.code, text=rejection.text,
    )  # fmt: skip


def _name_hardware(entry: Accelerator, n: int, offer: DeviceOffer) -> str:
    size = f" {offer.memory_gb:g}GB" if offer.memory_gb else ""
    return f"{n}x {entry.name}{size}"


def _option(
    search: HardwareSearch, offer: DeviceOffer, n: int, axis: Axis, candidate: HardwareCandidate
) -> HardwareOption:
    request, budget_rules, rates = search.request, search.budget, search.budget.rates.per_usd
    entry = search.session.rules.accelerators()[offer.accelerator]
    buy = convert_offer_price(offer, offer.buy, request.currency, rates) if axis == "buy" else None
    hourly = convert_offer_price(offer, offer.per_hour, request.currency, rates) if axis == "rent" else None
    price = None if buy is None else buy * n
    rent = None if hourly is None else hourly * n
    watts = entry.tdp_watts * n if entry.tdp_watts else None
    power = find_power_cost(search, entry, n)
    monthly = rent * request.hours if rent is not None else power
    hours, break_even_source = find_break_even(search, offer, price, n)
    needed, budget_bytes = find_tightest_device(candidate.memory)
    host = budget_rules.hosts.get(entry.form or "")
    maturity = budget_rules.maturity.get(entry.vendor)
    total = candidate.speed.output_tps.value if candidate.speed and candidate.speed.output_tps else None
    money = price if price is not None else monthly
    single_rate = candidate.speed.decode_tps if candidate.speed else None
    why = list(candidate.why)
    if single_rate is not None and entry.bandwidth_gbs:
        why.append(f"memory bandwidth {entry.bandwidth_gbs:g} GB/s a card decides the rate of one request")
    if offer.kind == "launch":
        why.append("a launch price, not a market price")
    api = None
    if request.api_price and money:
        api = money / request.api_price * 1e6
    return HardwareOption(
        hardware=_name_hardware(entry, n, offer),
        accelerator=offer.accelerator,
        count=n,
        cards_used=len(candidate.plan.layout.devices) or n,
        axis=axis,
        fits=candidate.memory.fits,
        engine=candidate.engine.id,
        quantization=candidate.quantization.id,
        settings=candidate.deployment.settings,
        currency=request.currency,
        price=None if price is None else round(price, 2),
        price_date=offer.date,
        price_kind=offer.kind,
        price_source=offer.source,
        provider=offer.provider,
        hourly=None if rent is None else round(rent, 4),
        monthly_cost=None if monthly is None else round(monthly, 2),
        break_even_hours=hours,
        break_even_source=break_even_source,
        api_break_even_tokens=api,
        power_watts=watts,
        psu_watts=None
        if watts is None or host is None or not host.psu_reserve_watts
        else watts + host.psu_reserve_watts,
        needed_bytes=needed,
        available_bytes=budget_bytes,
        headroom_share=None if not needed or not budget_bytes else round(1 - needed / budget_bytes, 4),
        copies=candidate.plan.copies,
        starts=candidate.plan.starts,
        holds=candidate.plan.holds,
        max_sequences=candidate.memory.kv_cache.max_sequences if candidate.memory.kv_cache else None,
        speed=candidate.speed,
        targets=candidate.judged.targets,
        arrivals=candidate.judged.arrivals,
        tokens_per_money=None if not total or not money else round(1000 * total / money, 3),
        maturity=maturity.words if maturity else "how far software is on this vendor's hardware is not known",
        needs=host.words if host else "a host that takes this form; not known in detail",
        why=tuple(dict.fromkeys(why)),
        also=tuple(describe_resident(c) for c in candidate.also),
    )


def _sort_key(option: HardwareOption, request: Ask, budget_rules: BudgetRules, rules: Catalog) -> tuple[float, ...]:
    """Sure before unsure; then by price, speed or tokens for the money; software maturity breaks ties."""
    cost = option.price if option.price is not None else option.monthly_cost or 0.0
    rate = option.speed.output_tps.value if option.speed and option.speed.output_tps else 0.0
    vendor = rules.accelerators()[option.accelerator].vendor
    mature = float(budget_rules.maturity[vendor].rank) if vendor in budget_rules.maturity else 9.0
    key = {"price": cost, "speed": -rate, "value": -(option.tokens_per_money or 0.0)}[request.sort]
    return (float(option.fits is not True), float(option.axis == "rent"), key, mature, -rate)


def _order_rejected(rejected: list[RejectedHardware]) -> list[RejectedHardware]:
    """Refusals that say most first: what fits but costs too much is given by `beyond`; small counts come first."""
    order = {"too_slow": 0, "no_native_format": 1, "does_not_fit": 2, "over_budget": 3, "more_than_needed": 4}
    return sorted(rejected, key=lambda r: (order.get(r.code, 2), r.count))


def _beyond(search: HardwareSearch) -> Iterator[str]:
    """What it would take: the cheapest hardware above the money, else how many machines."""
    best: list[tuple[float, str]] = []
    for axis in _axes(search.request):
        limit = search.request.budget if axis == "buy" else search.request.rent
        for offer, n, cost in _candidates(search, axis):
            if limit is None or cost <= limit.amount:
                continue
            for name in _formats(search, offer, n, axis)[-1:]:
                result = place_models(search, offer, n, name, axis) if name else None
                if isinstance(result, HardwareCandidate) and result.memory.fits:
                    per = "" if axis == "buy" else " a month"
                    what = _name_hardware(search.session.rules.accelerators()[offer.accelerator], n, offer)
                    best.append((cost, f"{what}, {name}: {cost:,.0f} {search.request.currency}{per}"))
    if best:
        yield from (f"fits beyond the budget: {text}" for _, text in sorted(best)[:3])
        return
    yield from _nodes(search)


def _nodes(search: HardwareSearch) -> Iterator[str]:
    """How many machines of eight large cards hold it, where one does not."""
    asked = search.request.engine
    entry = search.session.rules.engine(asked) if asked else formats.usual_engine("hf", search.session.rules)
    offer = DeviceOffer(accelerator=NODE_CARD, currency="USD", date="", kind="", source="")
    for total in NODE_COUNTS:
        nodes = total // 8
        text = f"8x {NODE_CARD}, linux" + (f", {nodes} nodes, nvlink+infiniband" if nodes > 1 else "")
        names = search.formats(entry, "rent")
        if not names:
            return
        deployment = spread_over_cards(
            Deployment(
                model=search.found.model, engine=entry.id, quantization=names[0],
                machine=estimation.find_machine(text, search.session.rules), context_length=search.context,
                sequences=search.request.workload.concurrency,
            ),
            entry,
        )  # fmt: skip
        try:
            estimate = estimation.estimate(deployment, search.session)
        except BadInput:
            continue
        if estimate.fits:
            name = search.session.rules.accelerators()[offer.accelerator].name
            above = (
                ""
                if nodes == 1
                else "; over nodes take InfiniBand or RoCE and Ray Serve, llm-d or Dynamo above the engine"
            )
            yield f"what holds it: {nodes} machine{'s' if nodes > 1 else ''} of 8x {name}, {names[0]}{above}"
            return
    yield "nothing in the catalogue holds it, up to 64 H200: a smaller model, a narrower format or fewer users"


def find_power_cost(search: HardwareSearch, entry: Accelerator, n: int) -> float | None:
    """Electricity a month of a bought machine, in the asked currency; None where the board power is not known."""
    request, running_costs = search.request, search.budget.power
    if entry.tdp_watts is None:
        return None
    duty = running_costs.duty if request.duty is None else request.duty
    whole = entry.form in WHOLE_COMPUTERS
    load = entry.tdp_watts * n * running_costs.load_share
    idle = 0.15 * entry.tdp_watts if whole else running_costs.idle_watts_per_card * n
    host = 0.0 if whole else running_costs.host_watts
    kwh = (duty * load + (1 - duty) * idle + host) / 1000 * search.budget.hours_per_month
    cost = kwh * (running_costs.eur_per_kwh if request.electricity_price is None else request.electricity_price)
    rates = search.budget.rates.per_usd
    return cost if request.currency == "EUR" else cost / rates["EUR"] * rates[request.currency]


def find_break_even(
    search: HardwareSearch, offer: DeviceOffer, price: float | None, n: int
) -> tuple[float | None, str | None]:
    """Hours of renting the same (or the same kind of) card that cost as much as buying it."""
    if price is None:
        return None, None
    table = search.session.rules.accelerators()
    own = table[offer.accelerator]
    rents = [r for r in search.request.prices.prices if r.per_hour is not None and r.kind != "spot"]
    same = [r for r in rents if r.accelerator == offer.accelerator]
    near = same or [r for r in rents if _alike(table[r.accelerator], own)]
    if not near:
        return None, None

    def convert(offer: DeviceOffer) -> float:
        rates = search.budget.rates.per_usd
        return convert_offer_price(offer, offer.per_hour, search.request.currency, rates) or 0.0

    best = min(near, key=convert)
    hourly = convert(best)
    where = f" ({best.provider}, {best.date})" if best.provider else f" ({best.date})"
    return round(
        price / (hourly * n), 1
    ), f"{table[best.accelerator].name} at {hourly:.2f} {search.request.currency}/h{where}"


def _alike(one: Accelerator, other: Accelerator) -> bool:
    """The same chip in another form: architecture, memory and (within a fifth) bandwidth."""
    if (one.vendor, one.architecture, one.memory_bytes) != (
        other.vendor,
        other.architecture,
        other.memory_bytes,
    ) or not one.memory_bytes:
        return False
    if not one.bandwidth_gbs or not other.bandwidth_gbs:
        return False
    return abs(one.bandwidth_gbs - other.bandwidth_gbs) <= 0.2 * max(one.bandwidth_gbs, other.bandwidth_gbs)


def list_notes(search: HardwareSearch, options: Iterable[HardwareOption], today: datetime.date) -> Iterator[str]:
    """What a reader of the options has to know: formats, axes, old prices, rates, what is too close to call."""
    request, budget_rules = search.request, search.budget
    shown = [o for o in options if o.fits]
    kinds = {o.axis for o in shown}
    for axis in sorted(kinds):
        widths = {o.quantization for o in shown if o.axis == axis}
        if request.quantization is None and widths & set(budget_rules.list_formats("buy")):
            yield f"to {axis}: {', '.join(sorted(widths))} ({budget_rules.formats[f'why_{axis}']}; --quant decides)"
    if kinds == {"buy", "rent"} or (request.budget and request.rent):
        yield "a price once (buy) and a cost per month (rent) are different axes: break-even hours join them"
    if any(o.axis == "buy" for o in shown):
        yield "prices are for the cards alone (or a whole computer): host, VAT and shipping are not included"
    old = [o for o in shown[:5] if (count_days_old(o.price_date, today) or 0) > budget_rules.old_after_days]
    if old:
        dates = ", ".join(sorted({o.price_date for o in old}))
        advice = "check them, or bring your own with --prices"
        yield f"prices older than {budget_rules.old_after_days} days decide this order ({dates}): {advice}"
    if any(o.currency != p.currency for o in shown for p in request.prices.prices if p.accelerator == o.accelerator):
        yield f"exchange rates of {budget_rules.rates.as_of}, assumed (--exchange-rate)"
    if any(o.fits is None for o in options):
        yield "options marked `?` are too close to call: the interval of their memory straddles the limit"


def describe_here(search: HardwareSearch) -> str:
    """Whether the machine that is there holds it already."""
    from advisor.advice.recommend.answer import recommend
    from advisor.advice.recommend_request import RecommendRequest

    request = search.request
    assert request.machine is not None
    advice = recommend(
        RecommendRequest(request.machine, request.workload, request.model, request.quantization, request.engine),
        search.session,
    )
    ranked = advice.chosen
    if ranked is None or ranked.memory is None:
        return f"on the machine that is there: no ({'; '.join(advice.remedies[:1]) or 'nothing fits'})"
    needed, budget_bytes = find_tightest_device(ranked.memory)
    space = (
        f", {format_gib(needed)} of {format_gib(budget_bytes)} on the tightest card" if needed and budget_bytes else ""
    )
    verdict = {True: "yes", False: "no", None: "cannot tell"}[ranked.memory.fits]
    return f"on the machine that is there: {verdict}, {ranked.engine_name} with {ranked.quantization}{space}"


PICKS = ("cheapest", "value", "fastest")
NOT_FOR_GOOD = "spot"  # a price that may be withdrawn at any time


def name_picks(options: Sequence[HardwareOption]) -> dict[str, int | None]:
    """Index of each pick, of one axis: what is bought before what is rented, sure options and lasting prices only."""
    found: dict[str, int | None] = dict.fromkeys(PICKS)
    sure = [(i, o) for i, o in enumerate(options) if o.fits and o.price_kind != NOT_FOR_GOOD]
    if not sure:
        return found
    axis = sure[0][1].axis
    here = [(i, o) for i, o in sure if o.axis == axis]
    found["cheapest"] = min(here, key=lambda x: _cost(x[1]))[0]
    valued = [x for x in here if x[1].tokens_per_money]
    if valued:
        found["value"] = max(valued, key=lambda x: x[1].tokens_per_money or 0.0)[0]
    rated = [x for x in here if _rate(x[1])]
    if rated:
        found["fastest"] = max(rated, key=lambda x: _rate(x[1]))[0]
    return found


def _cost(option: HardwareOption) -> float:
    cost = option.price if option.price is not None else option.monthly_cost
    return float("inf") if cost is None else cost


def _rate(option: HardwareOption) -> float:
    return option.speed.output_tps.value if option.speed is not None and option.speed.output_tps is not None else 0.0


def drop_spare_cards(options: Sequence[HardwareOption]) -> tuple[list[HardwareOption], list[RejectedHardware]]:
    """The options without those of which cards stay unused though fewer of the same card are an option, and these."""
    kept, spare = list[HardwareOption](), list[RejectedHardware]()
    for option in options:
        fewer = [
            o.count
            for o in options
            if (o.accelerator, o.provider, o.price_kind) == (option.accelerator, option.provider, option.price_kind)
            and o.fits
            and o.count < option.count
        ]
        if option.cards_used < option.count and fewer:
            text = f"{option.cards_used} of the {option.count} cards are enough, and {min(fewer)} are offered"
            spare.append(
                RejectedHardware(
                    hardware=option.hardware, accelerator=option.accelerator, count=option.count, axis=option.axis,
                    code="more_than_needed", text=text,
                )
            )  # fmt: skip
        else:
            kept.append(option)
    return kept, spare
