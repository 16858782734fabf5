"""rules/budgets.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Accelerator, Price
from advisor.meanings import AcceleratorId, Currency, Form, UseCase, within
from advisor.record import Record

FILE = "budgets.yaml"


class BudgetTier(Record, frozen=True, kw_only=True):
    """One row of the source's budget chart, with our verdict."""

    id: str
    title: str
    claim: str
    axis: Literal["once", "per_month"]
    currency: Currency
    author: str
    verdict: str
    corrected: str
    because: str
    accelerators: tuple[AcceleratorId, ...]
    up_to: float | None = None
    from_: float | None = msgspec.field(default=None, name="from")


class FormNeeds(Record, frozen=True, kw_only=True):
    """What a form of card needs around it."""

    most: int  # devices in one machine
    psu_reserve_watts: float
    switch_usd: float = 0.0  # that links more than two whole computers
    gpu_share: float | None = (
        None  # of a memory that all share: what its owners let the GPU take; None = nobody sets it
    )
    words: str


class Host(Record, frozen=True, kw_only=True):
    """A computer without cards, as it is bought to carry them."""

    id: str
    words: str
    forms: tuple[Form, ...]
    cards: int  # at most
    card_watts: float  # that its power supply has for all cards
    cards_usd: float = float("inf")  # that cards may cost
    ram_gb: int
    more_ram_gb: tuple[int, ...] = ()  # that it takes, too
    usd_per_gb: tuple[float, float] = (0.0, 0.0)  # of that: low and high
    noise: Literal["quiet", "audible", "loud"]
    price: Price


class Maturity(Record, frozen=True, kw_only=True):
    """How far software is on a vendor's hardware, or on an architecture: 1 = first."""

    rank: int
    words: str
    unasked: bool = True  # False: offered only to those who name an engine or a price list
    rented: bool = True  # the same of rentals


class PlaceRules(Record, frozen=True, kw_only=True):
    """What goes into a computer that is there."""

    slot_watts: float  # that a slot gives without a lead
    rest_share: float  # of a power supply: the most that it keeps for what is no card
    least_limit: float  # of a card's power, that it may be limited to
    own_fan: tuple[Form, ...]
    low_profile: tuple[AcceleratorId, ...]
    source: str


class RunningCosts(Record, frozen=True, kw_only=True):
    """What running a bought machine costs; all can be overridden."""

    eur_per_kwh: Annotated[float, within(0.01, 3, "EUR are not a price of a kWh")]
    duty: float
    load_share: float
    idle_watts_per_card: Annotated[float, within(0, 20_000, "watts cannot be")]
    host_watts: Annotated[float, within(0, 20_000, "watts cannot be")]
    source: str


class CurrencyRates(msgspec.Struct, frozen=True, kw_only=True):
    """Units of a currency for one US dollar."""

    as_of: str
    source: str | None = None
    per_usd: dict[str, float]


class TierRows(msgspec.Struct, frozen=True, kw_only=True):
    """The source's budget chart."""

    source: str
    rows: tuple[BudgetTier, ...]


class BudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """rules/budgets.yaml."""

    source: str | None = None
    as_of: str | None = None
    rates: CurrencyRates
    hours_per_month: Annotated[float, within(600, 744, "hours are not a month")]
    power: RunningCosts
    vat: dict[Currency, float]  # share of a price without it
    old_after_days: int
    counts: tuple[int, ...]
    forms: dict[Form, FormNeeds]
    hosts: tuple[Host, ...]
    narrowest_bits: dict[str, float]  # of weights that are offered unasked, by family: where a card is squeezed full
    makeshift: tuple[str, ...]  # formats that a card takes which is a little too small: no reason to buy it
    usual_narrow: str  # the weight format that is tried where the plan's own is narrower than these
    least_part_gib: float  # of a card that is bought to hold a part of a model
    squeezed: float  # share of a budget, above which that is so; below it the least of these bits is enough
    least_known: float  # of the likeliest rate: a low end below it says nothing
    bearable: float  # of the slowest rate of a use, where nothing better is offered
    longest_prompt_s: dict[UseCase, float]
    worth_per_doubling: float
    looked_at: int
    looked_at_rung: int
    more: float
    ladder: tuple[float, ...]  # budgets
    host_free_gib: float  # next to weights
    least_bits: float  # of weights that are offered where nothing wider is within the money
    users_of_host_memory: int  # at most, at once, that experts in host memory are offered to
    enough: int  # sure options of an axis; after them only what is faster than all of them
    least_bought: dict[str, int]  # by form or id: what is sold on boards of so many
    least_held: float  # of the users at once; the others wait, no longer than the use's patience
    place: PlaceRules
    socket_watts: dict[str, float]  # by currency: what a household circuit carries for long, where that is little
    not_offered: tuple[Form, ...]
    not_sold_here: tuple[AcceleratorId, ...]
    launched_from: str
    kept_months: float  # that a bought computer is kept
    maturity: dict[str, Maturity]
    tiers: TierRows

    def find_maturity(self, entry: Accelerator) -> Maturity:
        """Of the card's architecture, else of its maker."""
        unknown = Maturity(rank=9, words="how far software is on this vendor's hardware is not known")
        return self.maturity.get(entry.architecture or "") or self.maturity.get(entry.vendor, unknown)


def load_budget_rules(rules: Catalog) -> BudgetRules:
    """Currencies, costs, hosts and tiers. Raises BadInput naming the field that an overlay spoiled."""
    return decode_document(rules, FILE, BudgetRules)
