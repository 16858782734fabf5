"""`advise hardware`: what to buy or rent; each computer with the plan that `recommend` puts forward for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from advisor.advice.hardware.budget import BudgetRules
from advisor.advice.hardware.builds import Build
from advisor.advice.hardware.prices import count_days_old, is_dated
from advisor.advice.hardware.shop import (
    HardwareRejection,
    Progress,
    Shop,
    choose_plan,
    find_power_share,
    find_tightest_device,
)
from advisor.advice.hardware_types import (
    Ask,
    Axis,
    HardwareAdvice,
    HardwareOption,
    RejectedHardware,
    ResidentModel,
    Rung,
)
from advisor.advice.types import Advice, RankedDeployment
from advisor.catalog.described_machine import WHOLE_COMPUTERS
from advisor.catalog.types import Accelerator
from advisor.deployment import SIXTEEN_BIT_CACHES, Interval
from advisor.freshness import find_stale_note
from advisor.money import convert_currency
from advisor.planning.traffic import describe_cut_lengths
from advisor.planning.utility import add_up, load_utility
from advisor.session import Session
from advisor.units import format_gib

MOST_SHOWN = 40  # options and refusals in the answer
# of refusals those first that say most (what fits but costs too much is given by `beyond`), then small counts
ORDER = {"unproven": 0, "too_slow": 1, "too_narrow": 1, "does_not_fit": 2, "over_budget": 3, "more_than_needed": 4}
NODE_CARD, NODE_COUNTS = "h200-sxm", (8, 16, 32, 64)  # nodes that "several machines" is answered with
_AXES: tuple[Axis, Axis] = ("buy", "rent")


def find_hardware(
    request: Ask, session: Session, plans: dict[bytes, Advice] | None = None, progress: Progress | None = None
) -> HardwareAdvice:
    """Options to buy and to rent with reasons for what is not among them. `plans`: those known already, added to;
    `progress`: told what is looked at.

    Raises UnknownName, BadInput, BadFile; BadInput for a model whose layers are not known.
    """
    shop = Shop(request, session, {} if plans is None else plans, progress)
    options, weak, rejected = list[HardwareOption](), list[HardwareOption](), list[RejectedHardware]()
    for axis in _axes(request):
        good, poor, bad = _search_axis(shop, axis)
        options += good
        weak += poor
        rejected += bad
    weak.sort(key=lambda o: (o.weak != "too_slow", o.within_budget is None, o.price_kind == NOT_FOR_GOOD, _cost(o)))
    options.sort(key=lambda o: _sort_key(o, request, shop.budget, session))
    models = [f.model.id for f in shop.found]
    enough_here = not options and any(r.code == "no_better" for r in rejected)
    notes = [*request.prices.notes, *_tell_more(shop, options), *list_notes(shop, options)]
    stale = find_stale_note("hardware", session.rules, session.today)
    cut = describe_cut_lengths(shop.work, shop.traffic)
    notes += filter(None, (*(f.note for f in shop.found[:1]), cut, stale))
    return HardwareAdvice(
        model=next(iter(models), None),
        quantizations=tuple(dict.fromkeys(o.quantization for o in options)),
        workload=request.workload,
        context_length=shop.traffic.context_length,
        users=request.workload.concurrency,
        rate=request.workload.rate,
        budget=request.budget,
        rent=request.rent,
        hours_per_month=request.hours,
        currency=request.currency,
        options=tuple(options[:MOST_SHOWN]),
        weak=tuple(weak[:MOST_SHOWN]),
        ladder=tuple(climb(options[:MOST_SHOWN], list_rungs(request, shop.budget), load_utility(session.rules).tie)),
        rejected=tuple(sorted(rejected, key=lambda r: (ORDER.get(r.code, 2), r.count))[:MOST_SHOWN]),
        beyond=tuple(_beyond(shop)) if not any(o.fits for o in options) and not enough_here else (),
        buy_nothing=enough_here,
        here=describe_here(shop) if request.machine is not None else None,
        notes=tuple(dict.fromkeys(notes)),
        others=tuple(models[1:]),
        named=name_picks(
            options[:MOST_SHOWN],
            "rent" if pays_to_rent(options, shop.budget) else None,
            math.inf if request.rent is None else shop.budget.kept_months * request.hours,
        ),
    )


def _axes(request: Ask) -> tuple[Axis, ...]:
    """The axes that were asked about; both when no budget was named."""
    if request.ladder:
        return ("buy",)
    if request.budget is None and request.rent is None:
        sold = any(p.buy is not None for p in request.prices.prices)
        let = any(p.per_hour is not None for p in request.prices.prices)
        return tuple(a for a, there in zip(_AXES, (sold, let), strict=True) if there)
    return tuple(a for a, b in zip(_AXES, (request.budget, request.rent), strict=True) if b is not None)


def find_limit(request: Ask, axis: Axis, budget: BudgetRules) -> float | None:
    """The most money of an axis, in the asked currency; None where none was named."""
    named = request.budget if axis == "buy" else request.rent
    return named.amount if named is not None else budget.ladder[-1] if request.ladder else None


def list_rungs(request: Ask, budget: BudgetRules) -> list[float]:
    """The budgets of a ladder where one is asked for, up to the one that was named."""
    most = request.budget.amount if request.budget is not None else math.inf
    return [x for x in budget.ladder if request.ladder and x <= most]


def climb(options: Sequence[HardwareOption], budgets: Iterable[float], tie: float) -> Iterator[Rung]:
    """For each budget, from the least on, the option that is worth the most; a dearer one only where it is worth more
    than the rung before by `tie`."""
    best: int | None = None
    for budget in budgets:
        for i, option in sorted(enumerate(options), key=lambda x: _cost(x[1])):
            bought = option.axis == "buy" and option.fits and _cost(option) <= budget
            if bought and (best is None or (option.worth or 0.0) > (options[best].worth or 0.0) + tie):
                best = i
        yield Rung(budget=budget, option=best)


def _search_axis(shop: Shop, axis: Axis) -> tuple[list[HardwareOption], list[HardwareOption], list[RejectedHardware]]:
    """Options of one axis, cheapest first, weak ones where none of them is within the budget, and refusals. What is
    offered at a price does not depend on the budget, so that more money never takes an option away: computers are
    looked at in the order of their price."""
    request = shop.request
    limit = find_limit(request, axis, shop.budget)
    good, bad, taken = list[HardwareOption](), list[tuple[Build, HardwareRejection]](), list[Build]()
    builds = shop.list_builds(axis)
    worth_a_look = None
    if request.ladder and request.model is None:
        rungs = (_list_frontier(builds, amount, shop) for amount in list_rungs(request, shop.budget))
        worth_a_look = [b for found in rungs for b in found[-shop.budget.looked_at_rung :]]
    elif request.model is None:
        worth_a_look = _list_frontier(builds, limit, shop)
    for build in builds:
        result: RankedDeployment | HardwareRejection
        if limit is not None and build.cost.low > limit:
            per = "" if axis == "buy" else " a month"
            least = "" if build.cost.low == build.cost.value else " at the least"
            text = f"{build.cost.low:,.0f} {request.currency}{per}{least} is above {limit:,.0f}"
            result = HardwareRejection("over_budget", text)
        elif worth_a_look is not None and build not in worth_a_look:
            continue
        elif build.more_ram and any(o.accelerator == build.entry.id and o.count == build.count for o in good):
            continue  # does with less
        elif len(taken) >= shop.budget.enough and any(build.is_beaten(b) for b in taken):
            continue  # dearer, and neither faster nor larger than an option of the same maker
        else:
            result = choose_plan(shop, build)
            runs = result.plan if isinstance(result, HardwareRejection) else result
            result = (_refuse_no_better(shop, runs) if runs is not None else None) or result
        if isinstance(result, HardwareRejection):
            bad.append((build, result))
            continue
        option = _make_option(shop, build, result)
        good.append(option)
        taken += [build] if option.fits else []
    weak = list[tuple[Build, HardwareRejection]]()
    if not any(o.fits and o.within_budget for o in good):
        weak = [x for x in bad if x[1].plan is not None] or list(_list_narrow(shop, bad))
    kept, spare = drop_spare_cards(good)
    runs_all_the_same = [_make_option(shop, build, r.plan, r) for build, r in weak if r.plan is not None]
    return kept, runs_all_the_same, [*(_refuse(*x) for x in bad if x not in weak), *spare]


def _list_narrow(
    shop: Shop, bad: Sequence[tuple[Build, HardwareRejection]]
) -> Iterator[tuple[Build, HardwareRejection]]:
    """Of what is too small for weights that a buyer should settle for, the cheapest few that hold narrower ones."""
    found = 0
    for build, refusal in bad:
        if refusal.code != "does_not_fit" or found == shop.budget.looked_at or shop.request.quantization is not None:
            continue
        result = choose_plan(shop, build, narrow=True)
        if isinstance(result, HardwareRejection) and result.code == "too_narrow" and result.plan is not None:
            found += 1
            yield build, result


def _refuse_no_better(shop: Shop, found: RankedDeployment) -> HardwareRejection | None:
    """A plan that is worth no more than that of the machine that is there, nor clearly faster; speed does not count
    where the named targets are met, nor do the places of engines in a guide, which differ between machines."""
    there, weights = shop.here.chosen if shop.here is not None else None, load_utility(shop.session.rules)
    if there is None or there.exit_status:
        return None
    met = there.targets is not None and there.targets.met
    left_out = ("place", "wait", "unsure") if met else ("place",)
    new, old = (_value(x, shop.session) - sum(x.utility.get(t, 0.0) for t in left_out) for x in (found, there))
    now, then = (x.speed.tpot_s if x.speed is not None else None for x in (there, found))
    faster = not met and (now is None or then is None or then.value < weights.clearly * now.value)
    if faster or new > old + weights.tie:
        return None
    return HardwareRejection("no_better", "no better than what is there")


def _list_frontier(builds: Sequence[Build], limit: float | None, shop: Shop) -> list[Build]:
    """Of what the money buys, the dearest few of those computers than which none of the maker is as cheap, large and
    fast."""
    frontier: list[Build] = []
    for build in sorted(builds, key=lambda b: b.cost.value):
        if limit is not None and build.cost.value > limit:
            continue
        if not shop.refuse_unproven(build) and not any(build.is_beaten(b) for b in frontier):
            frontier.append(build)
    return frontier[-shop.budget.looked_at :]


def _tell_more(shop: Shop, options: Sequence[HardwareOption]) -> Iterator[str]:
    """What somewhat more money would bring where no model is named, if it is worth it."""
    limit, best = shop.request.budget, max((o.worth or 0.0 for o in options if o.fits), default=None)
    if shop.request.model is not None or limit is None or best is None:
        return
    builds = [b for b in shop.list_builds("buy") if limit.amount < b.cost.value <= shop.budget.more * limit.amount]
    for build in _list_frontier(builds, None, shop)[-1:]:
        found = choose_plan(shop, build)
        if isinstance(found, RankedDeployment) and _value(found, shop.session) > best:
            buys = f"{build.cost.value:,.0f} {shop.request.currency} would buy {build.hardware} with {found.model}"
            yield f"{buys}: worth {_value(found, shop.session) - best:.1f} more (rules/choosing.yaml)"


MOST_BEYOND = 3  # computers above the budget


def _refuse(build: Build, refusal: HardwareRejection) -> RejectedHardware:
    return RejectedHardware(
        hardware=build.hardware, accelerator=build.entry.id, count=build.count, axis=build.axis, code=refusal.code,
        text=refusal.text,
    )  # fmt: skip


def _make_option(
    shop: Shop, build: Build, chosen: RankedDeployment, weak: HardwareRejection | None = None
) -> HardwareOption:
    request, entry, offer, n = shop.request, build.entry, build.offer, build.count
    assert chosen.memory is not None
    memory, plan, buys = chosen.memory, chosen.plan, build.axis == "buy"
    cost, limit = build.cost.value, find_limit(request, build.axis, shop.budget)
    monthly = find_power_cost(shop, build) if buys else cost
    hours, break_even_source = find_break_even(shop, build)
    needed, there = find_tightest_device(memory)
    form = shop.budget.forms.get(entry.form or "")
    total = chosen.speed.output_tps.value if chosen.speed and chosen.speed.output_tps else None
    watts = build.watts
    why = [*([weak.text] if weak is not None else []), *_list_conditions(shop, build, chosen)]
    why += [*chosen.reasons, *chosen.conditions]
    if offer.kind == "launch":
        why.append("a launch price, not a market price")
    age = count_days_old(offer.date, shop.session.today)
    if age is not None and age > shop.budget.old_after_days:
        why.append(f"its price is {age} days old")
    return HardwareOption(
        hardware=build.hardware,
        accelerator=entry.id,
        count=n,
        cards_used=len(plan.layout.devices) or n,
        axis=build.axis,
        fits=memory.fits,
        model=chosen.model or "",
        engine=chosen.engine,
        quantization=chosen.quantization or "",
        settings=chosen.settings,
        currency=request.currency,
        price=round(cost, 2) if buys else None,
        price_range=build.cost if buys else None,
        within_budget=True if limit is None or cost <= limit else None,
        host=build.host.words if build.host else None,
        host_price=round(cost - build.cards.value, 2) if build.host else None,
        noise=build.host.noise if build.host else None,
        price_date=offer.date,
        price_kind=offer.kind,
        price_source=offer.source,
        provider=offer.provider,
        hourly=None if buys else round(cost / request.hours, 4),
        monthly_cost=None if monthly is None else round(monthly, 2),
        break_even_hours=hours,
        break_even_source=break_even_source,
        api_break_even_tokens=cost / request.api_price * 1e6 if request.api_price else None,
        power_watts=watts,
        psu_watts=watts + form.psu_reserve_watts if watts and form is not None and form.psu_reserve_watts else None,
        needed_bytes=needed,
        available_bytes=there,
        headroom_share=None if not needed or not there else round(1 - needed / there, 4),
        copies=chosen.copies,
        starts=chosen.starts,
        holds=chosen.holds,
        max_sequences=memory.kv_cache.max_sequences if memory.kv_cache else None,
        speed=chosen.speed,
        targets=chosen.targets,
        arrivals=chosen.arrivals,
        tokens_per_money=None if not total else round(1000 * total / cost, 3),
        maturity=shop.budget.find_maturity(entry).words,
        needs=form.words if form else "a host that takes this form; not known in detail",
        worth=_value(chosen, shop.session),
        weak=weak.code if weak is not None else "",
        why=tuple(dict.fromkeys(why)),
        also=tuple(
            ResidentModel(
                model=x.model or "", engine=x.engine, quantization=x.quantization or "", settings=x.settings,
                holds=x.holds, speed=x.speed,
            )
            for x in chosen.also
        ),
    )  # fmt: skip


def _list_conditions(shop: Shop, build: Build, chosen: RankedDeployment) -> Iterator[str]:
    """What the plan does with the cards that are there, with little power (of a supply or a socket) and memory."""
    if build.beside:
        used = len(chosen.plan.layout.devices) > build.count
        yield f"the cards that are there {'take a part of it' if used else 'are not needed for it'}"
    share = find_power_share(shop, build)
    if share is not None and share < 1 and build.entry.tdp_watts:
        yield f"the power supply that is there is enough with a limit of {share * build.entry.tdp_watts:.0f} W a card"
    host, socket = shop.budget.power.host_watts, shop.budget.socket_watts.get(shop.request.currency, math.inf)
    drawn = (build.watts or 0.0) + host
    if build.host is not None and drawn > socket and build.entry.form in shop.budget.place.own_fan:
        limit = (socket - host) / build.count
        yield (
            f"about {drawn:,.0f} W with its host, where a household circuit of 15 A carries {socket:,.0f} W for long: "
            f"limit the cards to {limit:.0f} W each"
        )
    kept = chosen.plan.deployment.kv_cache_type
    caches = {kept.k, kept.v} - {*SIXTEEN_BIT_CACHES}
    if caches:
        yield f"fits with a cache of {' and '.join(sorted(caches))}, not of 16 bits"


def _value(chosen: RankedDeployment, session: Session) -> float:
    """What the plan is worth, the model's ability included: plans of several models and computers compare by it."""
    quality, caution = chosen.quality, load_utility(session.rules).caution
    able = quality.ability - caution * quality.spread if quality is not None else 0.0
    return round(able + add_up(chosen.utility), 3)


def _sort_key(option: HardwareOption, request: Ask, budget_rules: BudgetRules, session: Session) -> tuple[float, ...]:
    """Sure before unsure, lasting prices first; then by price, speed or tokens for the money, or by worth where each
    computer has a model of its own; software maturity breaks ties."""
    rate = _rate(option)
    mature = float(budget_rules.find_maturity(session.rules.accelerators()[option.accelerator]).rank)
    key = {"price": _cost(option), "speed": -rate, "value": -(option.tokens_per_money or 0.0)}[request.sort]
    if request.model is None and request.sort == "price":
        key = budget_rules.worth_per_doubling * math.log2(max(_cost(option), 1.0)) - (option.worth or 0.0)
    unsure = (option.fits is not True, option.axis == "rent", not _lasts(option), option.within_budget is None)
    return (*map(float, unsure), key, mature, -rate)


def _beyond(shop: Shop) -> Iterator[str]:
    """What it would take: the cheapest hardware above the money, else how many machines."""
    request, found = shop.request, 0
    for axis in _axes(request):
        limit = find_limit(request, axis, shop.budget)
        for build in shop.list_builds(axis):
            if limit is None or build.cost.low <= limit or found == MOST_BEYOND:
                continue
            result = choose_plan(shop, build)
            sure = isinstance(result, RankedDeployment) and result.memory is not None and result.memory.fits
            if isinstance(result, RankedDeployment) and sure and not (result.plan.offload and build.count > 1):
                found += 1
                cost = f"{build.cost.value:,.0f} {request.currency}{'' if axis == 'buy' else ' a month'}"
                yield f"fits beyond the budget: {build.hardware}, {result.quantization}: {cost}"
    if not found:
        yield _count_nodes(shop)


def _count_nodes(shop: Shop) -> str:
    """How many machines of eight large cards hold it, where one does not."""
    name = shop.session.rules.accelerators()[NODE_CARD].name
    for total in NODE_COUNTS:
        nodes = total // 8
        more = f", {nodes} nodes, nvlink+infiniband" if nodes > 1 else ""
        chosen = shop.plan(f"8x {NODE_CARD}, linux{more}").chosen
        if chosen is not None and chosen.memory is not None and chosen.memory.fits and not chosen.plan.offload:
            machines = f"{nodes} machine{'s' if nodes > 1 else ''} of 8x {name}, {chosen.quantization}"
            above = "; over nodes take InfiniBand or RoCE and Ray Serve, llm-d or Dynamo above the engine"
            return f"what holds it: {machines}{above if nodes > 1 else ''}"
    return "nothing in the catalogue holds it, up to 64 H200: a smaller model, a narrower format or fewer users"


def find_power_cost(shop: Shop, build: Build) -> float | None:
    """Electricity a month of a bought machine, in the asked currency; None where the board power is not known."""
    request, running_costs, entry, n = shop.request, shop.budget.power, build.entry, build.count
    if entry.tdp_watts is None:
        return None
    duty = running_costs.duty if request.duty is None else request.duty
    whole = entry.form in WHOLE_COMPUTERS
    load = entry.tdp_watts * n * running_costs.load_share
    idle = 0.15 * entry.tdp_watts if whole else running_costs.idle_watts_per_card * n
    host = 0.0 if whole else running_costs.host_watts
    kwh = (duty * load + (1 - duty) * idle + host) / 1000 * shop.budget.hours_per_month
    cost = kwh * (running_costs.eur_per_kwh if request.electricity_price is None else request.electricity_price)
    rates = shop.budget.rates.per_usd
    return cost if request.currency == "EUR" else cost / rates["EUR"] * rates[request.currency]


def find_break_even(shop: Shop, build: Build) -> tuple[float | None, str | None]:
    """Hours of renting the same (or the same kind of) card that cost as much as buying it with its host."""
    if build.axis == "rent":
        return None, None
    table = shop.session.rules.accelerators()
    rents = [r for r in shop.request.prices.prices if r.per_hour is not None and r.kind != NOT_FOR_GOOD]
    same = [r for r in rents if r.accelerator == build.entry.id]
    near = same or [r for r in rents if _alike(table[r.accelerator], build.entry)]
    if not near:
        return None, None

    rates = shop.budget.rates.per_usd
    hourly, best = min(
        ((convert_currency(r.per_hour or 0.0, r.currency, shop.request.currency, rates), r) for r in near),
        key=lambda x: x[0],
    )
    where = f" ({best.provider}, {best.date})" if best.provider else f" ({best.date})"
    words = f"{table[best.accelerator].name} at {hourly:.2f} {shop.request.currency}/h{where}"
    return round(build.cost.value / (hourly * build.count), 1), words


def _alike(one: Accelerator, other: Accelerator) -> bool:
    """The same chip in another form: architecture, memory and (within a fifth) bandwidth."""
    kinds = {(x.vendor, x.architecture, x.memory_bytes) for x in (one, other)}
    least, most = sorted(x.bandwidth_gbs or 0.0 for x in (one, other))
    return len(kinds) == 1 and bool(one.memory_bytes) and least >= 0.8 * most > 0


def list_notes(shop: Shop, options: Iterable[HardwareOption]) -> Iterator[str]:
    """What a reader of the options has to know: axes, what a price holds, old prices, rates, what is too close."""
    request, budget = shop.request, shop.budget
    shown = [o for o in options if o.fits]
    pair = _pair_axes(shown)
    if pair is not None:
        bought, rented, months = pair
        own, hired = (o.hardware.removesuffix(", linux") for o in (bought, rented))
        after = f"costs as much as {own} after {months.low:,.1f} to {months.high:,.1f} months"
        after = f"never costs as much as {own}: its electricity alone is dearer" if math.isinf(months.low) else after
        kept = f"what is bought is taken to be kept for {budget.kept_months:g}"
        yield f"{hired}, rented for {request.hours:g} hours a month, {after}; {kept} months"
    if request.machine is not None and request.machine.place is not None and request.machine.place.slots == 0:
        yield "laptops have no prices here, and these stand on a table: a laptop needs as much memory"
    tax = 0.0 if request.prices.closed else budget.vat.get(request.currency, 0.0)
    held = f"new goods with {tax:.1%} VAT" if tax else "no sales tax"
    if any(o.host for o in shown):
        yield f"prices hold the cards and a host for them (--cards-only leaves the host out); {held}, no shipping"
    elif any(o.axis == "buy" for o in shown):
        yield f"prices are for the cards alone (or a whole computer): {held}; host and shipping are not included"
    ages = {o.price_date: count_days_old(o.price_date, shop.session.today) or 0 for o in shown[:5]}
    old = [date for date, age in ages.items() if age > budget.old_after_days]
    if old:
        advice = "check them, or bring your own with --prices"
        yield f"prices older than {budget.old_after_days} days decide this order ({', '.join(sorted(old))}): {advice}"
    if any(o.currency != p.currency for o in shown for p in request.prices.prices if p.accelerator == o.accelerator):
        yield f"exchange rates of {budget.rates.as_of}, assumed (--exchange-rate)"
    if any(o.fits is None for o in options):
        yield "options marked `?` are too close to call: the interval of their memory straddles the limit"


def describe_here(shop: Shop) -> str:
    """Whether the machine that is there holds it already."""
    advice = shop.here
    assert advice is not None
    ranked = advice.chosen
    if ranked is None or ranked.memory is None:
        return f"on the machine that is there: no ({'; '.join(advice.remedies[:1]) or 'nothing fits'})"
    needed, there = find_tightest_device(ranked.memory)
    space = f", {format_gib(needed)} of {format_gib(there)} on the tightest card" if needed and there else ""
    verdict = {True: "yes", False: "no", None: "cannot tell"}[ranked.memory.fits]
    return f"on the machine that is there: {verdict}, {ranked.engine_name} with {ranked.quantization}{space}"


def _pair_axes(options: Iterable[HardwareOption]) -> tuple[HardwareOption, HardwareOption, Interval] | None:
    """The cheapest to buy, the cheapest to rent for good, and the months after which renting has cost as much, by the
    range of the price; infinite where the electricity alone costs as much."""
    sure = [o for o in options if o.fits and o.within_budget and _lasts(o)]
    bought, rented = (sorted((o for o in sure if o.axis == axis), key=_cost)[:1] for axis in _AXES)
    if not bought or not rented or bought[0].price_range is None:
        return None
    saved, price = _cost(rented[0]) - (bought[0].monthly_cost or 0.0), bought[0].price_range
    low, value, high = (x / saved if saved > 0 else math.inf for x in (price.low, price.value, price.high))
    return bought[0], rented[0], Interval(low=low, value=value, high=high)


def pays_to_rent(options: Iterable[HardwareOption], budget: BudgetRules) -> bool:
    """Whether renting costs less than buying for as long as a bought computer is kept, even at its lowest price."""
    pair = _pair_axes(options)
    return pair is not None and pair[2].low > budget.kept_months


PICKS = ("cheapest", "value", "fastest", "ablest")
NOT_FOR_GOOD = "spot"  # a price that may be withdrawn at any time


def _lasts(option: HardwareOption) -> bool:
    """Whether a rental can be had again: neither spot, nor at a price of a day that nobody knows."""
    return option.axis == "buy" or (option.price_kind != NOT_FOR_GOOD and is_dated(option.price_date))


def name_picks(
    options: Sequence[HardwareOption], axis: Axis | None = None, kept_hours: float = math.inf
) -> dict[str, int | None]:
    """Index of each pick, of one axis: that one, else what is bought before what is rented; sure options and lasting
    prices only, launch prices where there are no others. What is rented for less in `kept_hours` is not bought."""
    found: dict[str, int | None] = dict.fromkeys(PICKS)
    pays = ((i, o) for i, o in enumerate(options) if (o.break_even_hours or 0.0) <= kept_hours)
    found_at_all = [(i, o) for i, o in pays if o.fits and o.price_kind != NOT_FOR_GOOD]
    lasting = [x for x in found_at_all if _lasts(x[1])] or found_at_all
    sold = [x for x in lasting if x[1].price_kind != "launch"] or lasting
    sure = [x for x in sold if x[1].within_budget] or sold
    if not sure:
        return found
    here = [(i, o) for i, o in sure if o.axis == axis] or [(i, o) for i, o in sure if o.axis == sure[0][1].axis]
    found["cheapest"] = min(here, key=lambda x: _cost(x[1]))[0]
    valued = [x for x in here if x[1].tokens_per_money]
    if valued:
        found["value"] = max(valued, key=lambda x: x[1].tokens_per_money or 0.0)[0]
    rated = [x for x in here if _rate(x[1])]
    if rated:
        found["fastest"] = max(rated, key=lambda x: _rate(x[1]))[0]
    if len({o.model for _, o in here}) > 1:
        found["ablest"] = max(here, key=lambda x: x[1].worth or 0.0)[0]
        found["value"] = here[0][0]  # worth for the money is their order; tokens of unlike models do not compare
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
