"""What is picked out of hardware options: cards that would stay unused go, and three have names."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.hardware_types import HardwareOption, RejectedHardware

NOT_FOR_GOOD = "spot"  # a price that may be withdrawn at any time


def name_picks(options: Sequence[HardwareOption]) -> dict[str, int]:
    """Index of each pick, of one axis: what is bought before what is rented, sure options and lasting prices only."""
    sure = [(i, o) for i, o in enumerate(options) if o.fits and o.price_kind != NOT_FOR_GOOD]
    if not sure:
        return {}
    axis = sure[0][1].axis
    here = [(i, o) for i, o in sure if o.axis == axis]
    found = {"cheapest": min(here, key=lambda x: _cost(x[1]))[0]}
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
