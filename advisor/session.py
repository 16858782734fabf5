"""What the answers of one run rest on besides their questions."""

from __future__ import annotations

import datetime
import os
from functools import cached_property
from typing import TYPE_CHECKING

from advisor.catalog import Catalog
from advisor.errors import BadInput

if TYPE_CHECKING:
    from advisor.history import MemoryResidual, SpeedMeasurement

TODAY_VARIABLE = "ADVISOR_TODAY"


class Session:
    """The rules, the day, and what was learnt on this machine: one value for all that answers a question.

    What only looks something up takes the rules. The day and what is kept on disk are read when an answer first needs
    them, and stay as they were then: a session lasts for one question, or for one run of a command.
    """

    def __init__(
        self,
        rules: Catalog,
        today: datetime.date | None = None,
        residuals: tuple[MemoryResidual, ...] | None = None,
        measurements: tuple[SpeedMeasurement, ...] | None = None,
    ) -> None:
        """What is left out is read: $ADVISOR_TODAY or the clock, and the files of `advisor.history`."""
        self.rules = rules
        stated = {"today": today, "residuals": residuals, "measurements": measurements}
        self.__dict__.update((name, value) for name, value in stated.items() if value is not None)

    @cached_property
    def today(self) -> datetime.date:
        """The day on which ages of facts are counted. Raises BadInput where $ADVISOR_TODAY is no day."""
        stated = os.environ.get(TODAY_VARIABLE)
        return datetime.date.today() if not stated else parse_day(stated, f"${TODAY_VARIABLE}")

    @cached_property
    def residuals(self) -> tuple[MemoryResidual, ...]:
        """What start-up logs stated beyond the prediction. Raises BadFile."""
        from advisor.history import load_residuals

        return load_residuals()

    @cached_property
    def measurements(self) -> tuple[SpeedMeasurement, ...]:
        """Speeds that were measured. Raises BadFile."""
        from advisor.history import load_measurements

        return load_measurements()

    def without_history(self) -> Session:
        """The same, with nothing learnt: predictions are those of the rules alone."""
        return Session(self.rules, self.__dict__.get("today"), (), ())


def parse_day(text: str, where: str) -> datetime.date:
    """A day such as 2026-11-24. Raises BadInput."""
    try:
        return datetime.date.fromisoformat(text.strip())
    except ValueError:
        raise BadInput(f"{where}: {text[:40]!r} is no day such as 2026-11-24") from None
