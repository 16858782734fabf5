"""Where the facts of a launch are written down: a table for each concern, which the modules next to this one fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.decision.types import Field, FieldType
from advisor.record import Value

if TYPE_CHECKING:
    from advisor.checks.knowledge import Knowledge
    from advisor.checks.resolve.judge import CheckedLaunch


class FactContext(Value, frozen=True):
    """What a fact is computed from: the launch, the tables, the other launches of the file, its text, other facts."""

    checked: CheckedLaunch
    knowledge: Knowledge
    siblings: Sequence[CheckedLaunch]
    source: str
    facts: Mapping[str, Any]


FactFunction = Callable[[FactContext], Any]


class Fact(Value, frozen=True):
    """A fact: its name, type and meaning, and the function that computes it. The function gives None for unknown."""

    field: Field
    compute: FactFunction


class FactTable(dict[str, Fact]):
    """The facts of one concern, by name."""

    def add(self, name: str, kind: FieldType, doc: str) -> Callable[[FactFunction], FactFunction]:
        """Writes a function down as a fact: its name, type and one line of what it means."""

        def keep(function: FactFunction) -> FactFunction:
            self[name] = Fact(Field(name=name, type=kind, doc=doc), function)
            return function

        return keep
