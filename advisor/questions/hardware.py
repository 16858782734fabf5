"""The question what to buy or rent."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from advisor.money import Money
from advisor.questions import NO_NETWORK, describe
from advisor.questions.recommend import (
    BackendName,
    EngineName,
    HardwareText,
    ModelName,
    Models,
    Quantization,
    SnapshotFile,
    describe_models,
)
from advisor.questions.workload import Positive, Rate, TrafficFields

Amount = Annotated[float, Meta(gt=0)]
Sort = Literal["price", "speed", "value"]


class HardwareQuestion(TrafficFields, frozen=True, kw_only=True):
    """What to buy or rent for a model (or a use), a number of users and a budget. Rates a second are of one request."""

    NO_OPTION: ClassVar[Mapping[str, str]] = dict.fromkeys(("endpoint", "cloud"), "hardware is what is looked for")

    model: ModelName = None
    models: Annotated[
        Models, describe_models("Several models that stay loaded side by side; users ask each of them.")
    ] = ()
    quantization: Quantization = None
    engine: EngineName = None
    backend: BackendName = None
    budget: Annotated[
        str | Money | None,
        describe("To spend once: 3000EUR, 9000USD.", "--budget AMOUNT", examples=("3000EUR", "2000 EUR")),
    ] = None
    rent: Annotated[
        str | Money | None,
        describe("To spend a month: 1500EUR/month.", "--rent AMOUNT", examples=("1500EUR/month",)),
    ] = None
    prices: Annotated[
        str | None, describe("Your own closed price list (JSON or YAML).", "--prices FILE", path="file")
    ] = None
    online: Annotated[
        bool, describe("Rentals as clouds offer them now, by gpuhunt (extra `prices`).", "--online", without=NO_NETWORK)
    ] = False
    currency: Annotated[
        str | None,
        describe("Currency of the answer (default: the budget's, else EUR).", "--currency CUR", empty=True),
    ] = None
    exchange_rates: Annotated[
        dict[str, float],
        describe(
            "Exchange rate: units for one US dollar.",
            "--exchange-rate CUR=X",
            spelling="rates",
            old_options=("--rate",),
            examples=({"EUR": 0.86},),
        ),
    ] = {}
    hours_per_month: Annotated[
        Amount | None, describe("Hours a month that a rental runs (default 730).", "--hours H")
    ] = None
    electricity_price: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        describe("Price of one kWh in EUR.", "--electricity EUR", old=("eur_per_kwh",)),
    ] = None
    duty: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        describe("Share of the time at load, 0 to 1.", "--duty SHARE", spelling="share"),
    ] = None
    api_price: Annotated[
        Amount | None, describe("Price of a hosted API for a million output tokens.", "--api-price X")
    ] = None
    cards_only: Annotated[
        bool, describe("A computer for the cards is there: prices are of the cards alone.", "--cards-only")
    ] = False
    new_only: Annotated[bool, describe("New goods only, the host too; nothing used.", "--new")] = False
    ladder: Annotated[
        bool, describe("What is worth the most at each of several budgets, in a line each.", "--ladder")
    ] = False
    sort: Annotated[Sort, describe("Order of the options.", "--sort")] = "price"
    hardware: HardwareText = None
    snapshot: SnapshotFile = None
    concurrency: Annotated[
        Positive | None, describe("Requests at once.", "--users --concurrency N", old=("users",))
    ] = None
    rate: Annotated[
        Rate | None, describe("Requests a second, instead of users at once.", "--requests-per-second R")
    ] = None
    target_tps: Annotated[
        Rate | None,
        describe(
            "Required rate of one request.",
            "--target-tps N",
            old=("min_decode_tps",),
            old_options=("--decode", "--tokens-per-second"),
        ),
    ] = None
