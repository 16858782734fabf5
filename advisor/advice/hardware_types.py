"""Values of `advise hardware`: what is asked, options with their price and speed, refusals, tiers."""

from __future__ import annotations

from typing import Literal

from advisor.advice.hardware.prices import PriceList
from advisor.deployment import Arrivals, Holds, Interval, Setting, SpeedEstimate, Workload
from advisor.machines.types import Machine
from advisor.money import Money
from advisor.planning.targets import TargetAnswer
from advisor.questions.hardware import Sort
from advisor.record import Answer, Record, Value

Axis = Literal["buy", "rent"]


class Ask(Value, frozen=True):
    """The question with prices read and names resolved. Rates a second are per request unless stated otherwise."""

    model: str | None  # None: the one that is worth the most on each computer
    workload: Workload
    prices: PriceList
    others: tuple[str, ...] = ()  # models that stay loaded next to it
    quantization: str | None = None
    engine: str | None = None
    backend: str | None = None
    budget: Money | None = None  # once
    rent: Money | None = None  # per month
    currency: str = "EUR"
    hours: float = 730
    electricity_price: float | None = None  # EUR
    duty: float | None = None
    api_price: float | None = None  # of a hosted API, currency per million output tokens
    machine: Machine | None = None  # what is there already
    cards_only: bool = False  # a computer for the cards is there
    new_only: bool = False
    ladder: bool = False  # what is worth the most at each budget of a row of them
    sort: Sort = "price"
    rates: dict[str, float] | None = None  # units for one US dollar; None = those of the rules


class ResidentModel(Record, frozen=True, kw_only=True):
    """Another model that stays loaded on the same devices."""

    model: str
    engine: str
    quantization: str
    settings: dict[str, Setting]
    holds: Holds | None
    speed: SpeedEstimate | None


class HardwareOption(Record, frozen=True, kw_only=True):
    """One thing to buy or rent that holds the deployment. Amounts are in `currency`."""

    hardware: str  # 2x GeForce RTX 3090, 64GB RAM, linux: what `--on` takes
    accelerator: str
    count: int
    cards_used: int  # of these, by the plan
    axis: Axis
    fits: bool | None
    model: str = ""  # no field of answers of before
    engine: str
    quantization: str
    settings: dict[str, Setting]
    currency: str
    price: float | None  # once, the host included where it has to be bought; None for rentals
    price_range: Interval | None = None  # of the price, by the sources of its parts
    within_budget: bool | None = True  # None: at the low end of its price
    host: str | None = None  # that is counted in, in words
    host_price: float | None = None
    noise: str | None = None  # of the host
    price_date: str
    price_kind: str
    price_source: str
    provider: str | None
    hourly: float | None  # rent of all devices
    monthly_cost: float | None  # rent at the asked hours, or electricity of a bought machine
    break_even_hours: float | None  # of rent that equal the price; power and host not included
    break_even_source: str | None
    api_break_even_tokens: float | None  # output tokens of a hosted API that cost as much
    power_watts: float | None  # of the devices at load
    psu_watts: float | None
    needed_bytes: int | None  # of the tightest device
    available_bytes: int | None
    headroom_share: float | None  # of the budget of the tightest device that stays free
    max_sequences: int | None
    copies: int  # equal copies, the engine's own data parallel included; `speed` is of all
    starts: bool | None
    tokens_per_money: float | None  # output tokens a second of the whole deployment per 1,000 of price (or per month)
    maturity: str
    needs: str
    holds: Holds | None
    speed: SpeedEstimate | None
    targets: TargetAnswer | None = None  # None: none was named, and nothing arrives
    arrivals: Arrivals | None = None  # where requests arrive, or percentiles are asked for
    worth: float | None = None  # to its owner, in units of ability (rules/choosing.yaml): compares models and computers
    weak: str = ""  # too_slow, too_narrow: why it is no good option
    why: tuple[str, ...]
    also: tuple[ResidentModel, ...] = ()  # in parts of the devices; bytes are those of the first model's part


class Rung(Record, frozen=True, kw_only=True):
    """A budget, and what is worth the most for it."""

    budget: float
    option: int | None  # index; None: nothing serves the load for so little


class RejectedHardware(Record, frozen=True, kw_only=True):
    """Hardware that is not offered, and why."""

    hardware: str
    accelerator: str
    count: int
    axis: Axis
    code: str  # over_budget, no_place, no_better, does_not_fit, too_slow, too_narrow, unproven, or one of engines
    text: str


class HardwareAdvice(Answer, frozen=True, kw_only=True):
    """The answer to `advise hardware`. `options` is empty when nothing fits; `beyond` then says what would."""

    model: str | None  # None: each option names its own
    others: tuple[str, ...] = ()  # models that stay loaded next to it
    quantizations: tuple[str, ...]
    workload: Workload = Workload()
    context_length: int
    users: int
    rate: float | None = None  # requests a second, in place of users
    budget: Money | None
    rent: Money | None
    hours_per_month: float
    currency: str
    options: tuple[HardwareOption, ...]
    weak: tuple[HardwareOption, ...] = ()  # where no option is within the budget: what runs, but slowly or narrowly
    named: dict[str, int | None]  # cheapest, value, fastest -> index of an option
    ladder: tuple[Rung, ...] = ()  # where it was asked for
    rejected: tuple[RejectedHardware, ...]
    beyond: tuple[str, ...]  # what it would take where nothing (or little) is within the budget
    here: str | None  # whether it fits the machine that is there
    buy_nothing: bool = False  # what is offered is no better than that
    notes: tuple[str, ...]

    @property
    def load(self) -> str:
        """The requests in words."""
        return f"{self.users} at once" if self.rate is None else f"{self.rate:g} requests/s"
