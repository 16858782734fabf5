"""What goes with the options of `advise hardware`: notes, and what the machine that is there does."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

from advisor.advice.hardware_candidate import HardwareSearch, find_tightest_device
from advisor.advice.hardware_types import HardwareOption
from advisor.advice.price_list import count_days_old
from advisor.units import format_gib


def list_notes(search: HardwareSearch, options: Iterable[HardwareOption], today: datetime.date) -> Iterator[str]:
    """What a reader of the options has to know: formats, axes, old prices, rates, what is too close to call."""
    request, budget_rules = search.request, search.budget
    shown = [o for o in options if o.fits]
    kinds = {o.axis for o in shown}
    for axis in sorted(kinds):
        widths = {o.quantization for o in shown if o.axis == axis}
        if request.quantization is None and widths & set(budget_rules.formats["buy"]):
            yield f"to {axis}: {', '.join(sorted(widths))} ({budget_rules.format_reasons[axis]}; --quant decides)"
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
        yield f"exchange rates of {budget_rules.rates_as_of}, assumed (--rate)"
    if any(o.fits is None for o in options):
        yield "options marked `?` are too close to call: the interval of their memory straddles the limit"


def describe_here(search: HardwareSearch) -> str:
    """Whether the machine that is there holds it already."""
    from advisor.advice.recommend import RecommendRequest, recommend

    request = search.request
    assert request.machine is not None
    advice = recommend(
        RecommendRequest(request.machine, request.workload, request.model, request.quantization, request.engine),
        search.rules,
    )
    ranked = advice.chosen
    if ranked is None or ranked.memory is None:
        return f"on the machine that is there: no ({'; '.join(advice.remedies[:1]) or 'nothing fits'})"
    needed, room = find_tightest_device(ranked.memory)
    space = f", {format_gib(needed)} of {format_gib(room)} on the tightest card" if needed and room else ""
    verdict = {True: "yes", False: "no", None: "cannot tell"}[ranked.memory.fits]
    return f"on the machine that is there: {verdict}, {ranked.engine_name} with {ranked.quantization}{space}"
