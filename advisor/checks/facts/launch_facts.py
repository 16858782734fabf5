"""The named facts that rules ask about, computed for one launch when they are asked for. Unknown is None."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from advisor.checks.facts import arguments, cluster, fit, hardware, images, llama, model, parallel, setup
from advisor.checks.facts.registry import Fact, FactContext
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.unknown_words import Guard, find_guard
from advisor.checks.resolve.arguments import parse_number
from advisor.checks.resolve.judge import CheckedLaunch
from advisor.decision.types import Field, FieldType
from advisor.memo import memoize_by_identity

_CONCERNS = (
    arguments,
    cluster,
    hardware,
    fit,
    images,
    llama,
    model,
    parallel,
    setup,
)
FACTS: Mapping[str, Fact] = {name: fact for concern in _CONCERNS for name, fact in concern.FACTS.items()}
FIELDS: Mapping[str, Field] = {name: fact.field for name, fact in FACTS.items()}
_TYPES: dict[str, FieldType] = {"int": "float", "float": "float", "flag": "bool", "json": "str", "str": "str"}


class _Absent:
    """An argument or variable that the launch does not have (which is known, not unknown)."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


class LaunchFields(dict[str, Field]):
    """All fields: the registered facts, and `arg.X`, `given.X`, `env.X`, `has.X` of any flag or variable."""

    def __init__(self, knowledge: Knowledge, engines: Sequence[str] = ()) -> None:
        super().__init__(FIELDS)
        self._know = knowledge
        self._engines = engines

    def get(self, name: str, default: Field | None = None) -> Field | None:  # type: ignore[override]
        found = super().get(name)
        if found is not None:
            return found
        head, _, rest = str(name).partition(".")
        if not rest:
            return default
        if head == "arg":
            made = Field(name=name, type=self._type(rest), doc=f"value of --{rest}")
        elif head in ("given", "has"):
            made = Field(name=name, type="bool", doc=f"whether {rest} is given")
        elif head == "env":
            made = Field(name=name, type="str", doc=f"value of the variable {rest}")
        else:
            return default
        self[name] = made
        return made

    def __missing__(self, name: str) -> Field:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

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


class LaunchFacts(Mapping[str, Any]):
    """The facts of one launch. A fact is computed once, when a rule asks for it."""

    def __init__(
        self, checked: CheckedLaunch, knowledge: Knowledge, siblings: Sequence[CheckedLaunch], source: str
    ) -> None:
        self.context = FactContext(checked, knowledge, siblings, source, self)
        self._values: dict[str, object] = {}
        self.fields = _fields(knowledge, checked.launch.engine)

    @cached_property
    def guards(self) -> dict[tuple[int, int], Guard]:
        """Place of an argument or variable -> the condition under which it is given, where that stays open."""
        checked = self.context.checked
        found: dict[tuple[int, int], Guard] = {}
        for word in (*(a.place for a in checked.arguments.given), *checked.launch.env.values()):
            if word.line and (guard := find_guard(word)):
                found.setdefault((word.line, word.column), guard)
        return found

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._compute(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(FIELDS)

    def __len__(self) -> int:
        return len(FIELDS)

    def _compute(self, name: str) -> object:
        found = FACTS.get(name)
        if found is not None:
            return found.compute(self.context)
        head, _, rest = name.partition(".")
        checked = self.context.checked
        if head in ("arg", "given"):
            return self._argument(head, rest)
        if head == "env":
            value = checked.launch.env.get(rest)
            return ABSENT if value is None else None if value.unknown else str(value)
        if head == "has":
            return rest in checked.launch.env
        raise KeyError(name)

    def _argument(self, head: str, flag: str) -> object:
        argument = self.context.arguments.last(flag)
        if argument is None:
            open_ = bool(self.context.arguments.open or self.context.launch.unresolved)
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
