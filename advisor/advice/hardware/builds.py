"""What can be bought or rented, as whole computers: cards with a host that carries them, at what price."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.advice.hardware.budget import BudgetRules, FormNeeds, Host
from advisor.advice.hardware.prices import DeviceOffer
from advisor.advice.hardware_types import Ask, Axis
from advisor.catalog import Catalog
from advisor.catalog.described_machine import WHOLE_COMPUTERS
from advisor.catalog.types import Accelerator
from advisor.deployment import Interval
from advisor.money import convert_currency
from advisor.record import Value
from advisor.units import GIB


class Build(Value, frozen=True):
    """One thing to buy or rent: so many of a priced device, in a host where that has a price, too."""

    offer: DeviceOffer
    entry: Accelerator
    count: int
    axis: Axis
    hardware: str  # as `--on` takes it
    cost: Interval  # once, or a month's rent
    cards: Interval  # of it without the host
    host: Host | None = None  # None: a whole computer, a rental, or one that is there
    ram_gb: int = 0  # of the host
    more_ram: bool = False  # than the host comes with
    beside: tuple[Accelerator, ...] = ()  # other cards of the maker, which are there and stay
    bought: int = 0  # of `count`, which holds those that are there

    @property
    def bandwidth(self) -> float:
        """GB/s of all devices; 0 where not known."""
        return (self.entry.bandwidth_gbs or 0.0) * self.count

    @property
    def memory_bytes(self) -> int:
        """Of all devices; 0 where not known."""
        size = self.offer.memory_gb * GIB if self.offer.memory_gb else self.entry.memory_bytes
        return int(size or 0) * self.count + sum(e.memory_bytes or 0 for e in self.beside)

    @property
    def watts(self) -> float | None:
        """Of all cards at their limit; None where one is not known."""
        known = [self.entry.tdp_watts] * self.count + [e.tdp_watts for e in self.beside]
        return sum(w for w in known if w) if all(known) else None

    def is_beaten(self, other: Build) -> bool:
        """Whether another one of the same maker has as much memory, as fast."""
        alike = self.entry.vendor == other.entry.vendor
        return alike and self.bandwidth <= other.bandwidth and self.memory_bytes <= other.memory_bytes


def list_builds(request: Ask, axis: Axis, budget: BudgetRules, rules: Catalog, more_ram: bool = False) -> list[Build]:
    """What the price list offers on an axis, lowest prices first, whatever the budget, in the asked currency.

    `more_ram`: hosts of few cards with more memory than they come with, too.
    """
    table = rules.accelerators()
    offered = (p for p in request.prices.prices if (p.buy if axis == "buy" else p.per_hour) is not None)
    found = [b for p in offered for b in _list_counts(request, p, table[p.accelerator], axis, budget, rules, more_ram)]
    return sorted(found, key=lambda b: b.cost.low)


def _list_counts(
    request: Ask,
    offer: DeviceOffer,
    entry: Accelerator,
    axis: Axis,
    budget: BudgetRules,
    rules: Catalog,
    more_ram: bool,
) -> Iterator[Build]:
    closed, whole = request.prices.closed, entry.form in WHOLE_COMPUTERS
    needs = budget.forms.get(entry.form or "")
    if axis == "buy" and whole and request.cards_only:
        return
    there = _list_owned(request, rules) if axis == "buy" and not whole else []
    owned = sum(e.id == entry.id for e in there)
    beside = tuple(e for e in there if e.vendor == entry.vendor and e.id != entry.id and e.form not in WHOLE_COMPUTERS)
    place = request.machine.place if request.machine is not None and axis == "buy" else None
    more = {owned + 1, owned + 2} if owned else set()
    more |= {place.free_slots or place.slots or 1} if place is not None and not whole else set()
    for n in sorted(more.union(request.prices.counts)):
        if n > 1 and (needs.most < n if needs is not None and not closed else whole):
            continue  # several whole computers are several machines, but for those that are sold to be linked
        least = budget.least_bought.get(entry.id) or budget.least_bought.get(entry.form or "", 1)
        if not closed and axis == "buy" and n < least:
            continue
        if n <= owned:
            continue  # they are there
        if place is not None and place.slots is not None and n + len(beside) > place.slots:
            beside = ()  # they make place
        cards = _price_cards(request, offer, n - owned, axis, budget)
        if whole and needs is not None and n > 2:
            link = convert_currency(needs.switch_usd, "USD", request.currency, budget.rates.per_usd)
            cards = Interval(value=cards.value + link, low=cards.low + link, high=cards.high + link)
        if axis == "rent" or closed or whole or request.machine is not None or request.cards_only:
            words = _describe(request, offer, entry, n, 0, axis, needs, beside)
            yield Build(offer, entry, n, axis, words, cards, cards, beside=beside, bought=n - owned)
            continue
        usd = convert_currency(cards.value, request.currency, "USD", budget.rates.per_usd)
        host = find_host(entry, n, usd, budget)
        if host is None:
            continue  # no host that carries so many has a price
        for ram in (host.ram_gb, *(host.more_ram_gb if more_ram else ())):
            empty = _price_host(request, host, ram, budget)
            cost = Interval(value=cards.value + empty.value, low=cards.low + empty.low, high=cards.high + empty.high)
            words = _describe(request, offer, entry, n, ram, axis, needs, beside)
            yield Build(offer, entry, n, axis, words, cost, cards, host, ram, ram > host.ram_gb)


def _price_host(request: Ask, host: Host, ram_gb: int, budget: BudgetRules) -> Interval:
    """Of a computer without cards and so much memory."""
    more = ram_gb - host.ram_gb
    bounds = zip((host.price.low, host.price.high or host.price.low), host.usd_per_gb, strict=True)
    tax = _find_tax(host.price.kind, host.price.currency, request, budget)
    usd = ((price + more * gb) * tax for price, gb in bounds)
    low, high = (convert_currency(x, host.price.currency, request.currency, budget.rates.per_usd) for x in usd)
    return Interval(value=(low + high) / 2, low=low, high=high)


def _list_owned(request: Ask, rules: Catalog) -> list[Accelerator]:
    """The cards of the machine that is there; they are not bought again."""
    table, there = rules.accelerators(), request.machine.devices if request.machine is not None else ()
    return [table[d.accelerator] for d in there if d.accelerator in table]


def _price_cards(request: Ask, offer: DeviceOffer, n: int, axis: Axis, budget: BudgetRules) -> Interval:
    """Of so many devices: once, or for the hours of a month."""
    tax = _find_tax(offer.kind, offer.currency, request, budget)
    times = n * tax if axis == "buy" else n * request.hours
    middle = (offer.buy if axis == "buy" else offer.per_hour) or 0.0
    bounds = (offer.buy_low, middle, offer.buy_high) if axis == "buy" else (None, middle, None)
    low, value, high = (
        convert_currency(middle if x is None else x, offer.currency, request.currency, budget.rates.per_usd) * times
        for x in bounds
    )
    net = max(tax, 1.0) if axis == "buy" else 1.0  # the low end is that of who need not bear it
    return Interval(low=low / net, value=value, high=high)


def _find_tax(kind: str | None, currency: str, request: Ask, budget: BudgetRules) -> float:
    """Times that a new thing costs with the sales tax that prices of the asked currency hold, to those of its own."""
    if kind not in ("new", "launch") or request.prices.closed:
        return 1.0
    return (1 + budget.vat.get(request.currency, 0.0)) / (1 + budget.vat.get(currency, 0.0))


def find_host(entry: Accelerator, count: int, usd: float, budget: BudgetRules) -> Host | None:
    """The cheapest host for so many of a card, which cost so much: enough places, and power for all at their limit."""
    watts = (entry.tdp_watts or 0) * count
    able = [h for h in budget.hosts if (entry.form or "") in h.forms and h.cards >= count and h.card_watts >= watts]
    able = [h for h in able if h.cards_usd >= usd]
    return min(able, key=lambda h: h.price.low + (h.price.high or h.price.low), default=None)


def _describe(
    request: Ask,
    offer: DeviceOffer,
    entry: Accelerator,
    n: int,
    ram_gb: int,
    axis: Axis,
    needs: FormNeeds | None,
    beside: tuple[Accelerator, ...],
) -> str:
    """The computer in the words of `--on`, which is how it is planned for."""
    size = f" {offer.memory_gb:g}GB" if offer.memory_gb else ""
    there = request.machine if axis == "buy" else None
    ram, system = "", ", linux"
    if needs is not None and needs.gpu_share is not None and offer.memory_gb:
        ram = f", GTT {needs.gpu_share * offer.memory_gb:.0f}GiB"
    elif ram_gb:
        ram = f", {ram_gb}GB RAM"
    elif there is not None and entry.form not in WHOLE_COMPUTERS:
        total = there.memory.total_bytes
        ram, system = f", {total / GIB:.0f}GB RAM" if total else "", f", {there.os or 'linux'}"
    names = [e.name for e in beside]
    others = "".join(f", {names.count(name)}x {name}" for name in dict.fromkeys(names))
    return f"{n}x {entry.name}{size}{others}{ram}{'' if entry.vendor == 'apple' else system}"
