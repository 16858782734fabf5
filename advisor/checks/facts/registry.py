"""Where the facts of a launch are written down: a table for each concern, which the modules next to this one fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.decision.types import Field, FieldType
from advisor.record import Value

if TYPE_CHECKING:
    from advisor.catalog.launch_types import ServerDefaults
    from advisor.catalog.types import Engine
    from advisor.checks.knowledge import FlagLookup, Knowledge
    from advisor.checks.read.launch import Launch, LaunchSetup
    from advisor.checks.resolve.arguments import LaunchArgument, LaunchArguments
    from advisor.checks.resolve.judge import CheckedLaunch
    from advisor.checks.resolve.launch_reader import LaunchReading
    from advisor.deployment import Deployment, MemoryEstimate
    from advisor.engines.flags import ConceptName
    from advisor.yaml_places import Text


class FactContext(Value, frozen=True):
    """What a fact is computed from: the launch, the tables, the other launches of the file, its text, other facts."""

    checked: CheckedLaunch
    knowledge: Knowledge
    siblings: Sequence[CheckedLaunch]
    source: str
    facts: Mapping[str, Any]

    @property
    def launch(self) -> Launch:
        """The launch as the file has it."""
        return self.checked.launch

    @property
    def setup(self) -> LaunchSetup:
        """What is around the process."""
        return self.checked.launch.setup

    @property
    def env(self) -> Mapping[str, Text]:
        """The variables that the process is given."""
        return self.checked.launch.env

    @property
    def arguments(self) -> LaunchArguments:
        """The engine's arguments."""
        return self.checked.arguments

    @property
    def engine(self) -> Engine | None:
        """The engine's entry in the rules; None for one that has none."""
        return self.knowledge.rules.engines().get(self.checked.launch.engine)

    @property
    def flags(self) -> FlagLookup | None:
        """The flags of the engine; None where no table exists."""
        return self.knowledge.flags(self.checked.launch.engine)

    @property
    def server(self) -> ServerDefaults | None:
        """What the engine's server does without being told; None where that is not known."""
        return self.knowledge.server(self.checked.launch.engine)

    def concept_argument(self, *names: ConceptName) -> LaunchArgument | None:
        """The last argument that sets one of these concepts of the launch's engine; None where none does."""
        return self.arguments.last(*self.concept_flags(*names))

    def concept_value(self, *names: ConceptName) -> Text | None:
        """The value that one of these concepts is given; None where none is, or it takes none."""
        return self.arguments.value(*self.concept_flags(*names))

    def concept_flags(self, *names: ConceptName) -> tuple[str, ...]:
        """Every spelling of these concepts' flags, without dashes."""
        from advisor.checks.resolve.arguments import list_concept_flags

        return list_concept_flags(self.checked.launch.engine, names, self.knowledge)

    @property
    def reading(self) -> LaunchReading:
        """The launch as the Deployment it makes, as far as that is known."""
        return self.checked.reading

    @property
    def deployment(self) -> Deployment | None:
        """What is deployed; None where something about it is not known."""
        return self.checked.deployment

    @property
    def estimate(self) -> MemoryEstimate | None:
        """The memory estimate; None where there is none."""
        return self.checked.estimate


FactFunction = Callable[[FactContext], object]


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

    def define(self, name: str, kind: FieldType, doc: str, compute: FactFunction) -> None:
        """Writes a fact down that is one expression."""
        self.add(name, kind, doc)(compute)
