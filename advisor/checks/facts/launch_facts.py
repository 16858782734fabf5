"""The named facts that rules ask about, computed for one launch when they are asked for. Unknown is None.

The modules next to this one, one a concern, write them down in `FACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from advisor.checks.knowledge import Knowledge, KnownImage
from advisor.checks.read.recognise import ImageReference, parse_image
from advisor.checks.read.unknown_words import Guard, find_guard
from advisor.checks.resolve.arguments import LaunchArgument, list_concept_flags, parse_number
from advisor.checks.resolve.judge import CheckedLaunch
from advisor.decision.types import Field, FieldType
from advisor.engines.additions import read_json_object
from advisor.engines.flag_tables import FlagTable
from advisor.engines.flags import ConceptName
from advisor.errors import AdvisorError
from advisor.memo import memoize_by_identity
from advisor.models.types import Model
from advisor.record import Value
from advisor.yaml_places import Text

_TYPES: dict[str, FieldType] = {"int": "float", "float": "float", "flag": "bool", "json": "str", "str": "str"}


_ASKED: dict[str, tuple[FieldType | None, str]] = {  # what is asked of a flag or variable: type, None = the flag's
    "arg": (None, "value of --{}"),
    "given": ("bool", "whether {} is given"),
    "has": ("bool", "whether {} is given"),
    "env": ("str", "value of the variable {}"),
    "key": ("str", "value of a key in the JSON of --{}"),
    "noted": ("bool", "whether a reader of files has noted {}"),
}


class _Absent:
    """An argument or variable that the launch does not have (which is known, not unknown)."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


class LaunchFields(dict[str, Field]):
    """All fields: the registered facts, and `arg.X`, `given.X`, `env.X`, `has.X` of any flag or variable."""

    def __init__(self, knowledge: Knowledge, engines: Sequence[str] = ()) -> None:
        super().__init__({name: fact.field for name, fact in FACTS.items()})
        self._know = knowledge
        self._engines = engines

    def get(self, name: str, default: Field | None = None) -> Field | None:  # type: ignore[override]  # as of a dict of fields
        try:
            return self[name]
        except KeyError:
            return default

    def __missing__(self, name: str) -> Field:
        head, _, rest = str(name).partition(".")
        if not rest or head not in _ASKED:
            raise KeyError(name)
        kind, doc = _ASKED[head]
        self[name] = made = Field(name=name, type=kind or self._type(rest), doc=doc.format(rest))
        return made

    def _type(self, flag: str) -> FieldType:
        for e in self._engines or self._know.servers():
            table = self._know.flags(e)
            entry = table.table.flags.get(flag) if table else None
            if entry is not None:
                return _TYPES[entry.t]
        return "str"


@memoize_by_identity
def _fields(knowledge: Knowledge, engine: str) -> LaunchFields:
    return LaunchFields(knowledge, (engine,))


@memoize_by_identity
def find_catalogue_model(knowledge: Knowledge, name: str) -> Model | None:
    """The catalogue's model of a name; None where it has none."""
    from advisor.catalog.resolve import resolve_model

    try:
        return resolve_model(name, knowledge.rules).model
    except AdvisorError:
        return None


def compare(first: Any, second: Any, test: Callable[[Any, Any], bool]) -> bool | None:
    """A test on two values; None where one of them is not known."""
    return None if first is None or second is None else bool(test(first, second))


class LaunchFacts(Mapping[str, Any]):
    """The facts of one launch, and what they are computed from: the launch, the tables, the other launches of the
    file, its text. A fact is computed once, when it is asked for."""

    def __init__(
        self, checked: CheckedLaunch, knowledge: Knowledge, siblings: Sequence[CheckedLaunch], source: str
    ) -> None:
        self.checked, self.knowledge, self.siblings, self.source = checked, knowledge, siblings, source
        self.launch, self.arguments, self.reading = checked.launch, checked.arguments, checked.reading
        self.deployment, self.estimate, self.judged = checked.deployment, checked.estimate, checked.judged
        self.value, self.last = checked.arguments.value, checked.arguments.last
        self.setup, self.env = checked.launch.setup, checked.launch.env
        self.engine = knowledge.rules.engines().get(checked.launch.engine)
        self.server, self.version = knowledge.server(checked.launch.engine), checked.judged.engine_version
        lookup = knowledge.flags(checked.launch.engine)
        self.flags = lookup.table if lookup is not None else FlagTable(engine=checked.launch.engine)
        self.fields = _fields(knowledge, checked.launch.engine)
        self._values: dict[str, object] = {}

    @cached_property
    def image(self) -> ImageReference | None:
        """The image of the launch, taken apart; None where there is none."""
        return parse_image(self.setup.image, self.knowledge) if self.setup.image else None

    @property
    def known_image(self) -> KnownImage | None:
        """What is known of the image; None where there is none, or it is no engine's."""
        return self.image.entry if self.image is not None else None

    @cached_property
    def model(self) -> Model | None:
        """The catalogue's model; None where the name is not in it."""
        if self.deployment is not None:
            return self.deployment.model
        named = self.reading.named
        return None if named is None else find_catalogue_model(self.knowledge, named.name)

    def concept_argument(self, *names: ConceptName) -> LaunchArgument | None:
        """The last argument that sets one of these concepts of the launch's engine; None where none does."""
        return self.arguments.last(*self.concept_flags(*names))

    def concept_value(self, *names: ConceptName) -> Text | None:
        """The value that one of these concepts is given; None where none is, or it takes none."""
        return self.arguments.value(*self.concept_flags(*names))

    def concept_flags(self, *names: ConceptName) -> tuple[str, ...]:
        """Every spelling of these concepts' flags, without dashes."""
        return list_concept_flags(self.launch.engine, names, self.knowledge)

    @cached_property
    def guards(self) -> dict[tuple[int, int], Guard]:
        """Place of an argument or variable -> the condition under which it is given, where that stays open."""
        found: dict[tuple[int, int], Guard] = {}
        for word in (*(a.place for a in self.arguments.given), *self.env.values()):
            if word.line and (guard := find_guard(word)):
                found.setdefault((word.line, word.column), guard)
        return found

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._compute(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(FACTS)

    def __len__(self) -> int:
        return len(FACTS)

    def _compute(self, name: str) -> object:
        found = FACTS.get(name)
        if found is not None:
            return found.compute(self)
        head, _, rest = name.partition(".")
        if head in ("arg", "given"):
            return self._argument(head, rest)
        if head == "key":
            return self._key(*rest.split(".", 1))
        if head == "env":
            value = self.env.get(rest)
            return ABSENT if value is None else None if value.unknown else str(value)
        if head == "has":
            return rest in self.env
        if head == "noted":
            return rest in self.setup.places
        raise KeyError(name)

    def _key(self, flag: str, key: str) -> object:
        """The value of a key that one of the arguments of a flag sets, as text; absent where none does."""
        found: object = None if self.arguments.open or self.launch.unresolved else ABSENT
        for argument in (a for a in self.arguments.given if a.name == flag):
            if argument.guard is not None or argument.value is None or argument.value.unknown:
                return None
            named = {argument.key: str(argument.value)} if argument.key else read_json_object(argument.value)
            found = str(named[key]) if key in named else found
        return found

    def _argument(self, head: str, flag: str) -> object:
        argument = self.arguments.last(flag)
        if argument is None:
            open_ = bool(self.arguments.open or self.launch.unresolved)
            return None if open_ else False if head == "given" else ABSENT
        if argument.guard is not None:
            return None
        if head == "given":
            return True
        kind = self.fields[f"arg.{flag}"].type
        if kind == "bool":
            return not argument.off
        if argument.value is None or argument.value.unknown:
            return None
        if kind == "float":
            return parse_number(argument.value)
        return str(argument.value)


FactFunction = Callable[[LaunchFacts], object]


class Fact(Value, frozen=True):
    """A fact: its name, type and meaning, and the function that computes it. The function gives None for unknown."""

    field: Field
    compute: FactFunction


class FactTable(dict[str, Fact]):
    """All facts by name, as the modules next to this one write them down."""

    def add(self, name: str, doc: str, kind: FieldType | None = None) -> Callable[[FactFunction], FactFunction]:
        """Writes a function down as a fact: its name, one line of what it means, and its type if it is no bool."""

        def keep(function: FactFunction) -> FactFunction:
            self[name] = Fact(Field(name=name, type=kind or "bool", doc=doc), function)
            return function

        return keep

    def define(self, name: str, doc: str, compute: FactFunction, kind: FieldType | None = None) -> None:
        """Writes a fact down that is one expression."""
        self.add(name, doc, kind)(compute)


FACTS = FactTable()
fact, define = FACTS.add, FACTS.define
