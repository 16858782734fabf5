"""What was given and changes nothing of an answer: fields of a question, words of a machine. Each is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from advisor.advice.workload import SPELLINGS
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.errors import AdvisorError
from advisor.machines.types import Machine
from advisor.questions import Asking, QuestionField, list_fields
from advisor.record import Answer, Record, Value

A = TypeVar("A", bound=Answer)
Q = TypeVar("Q", bound=Record)
# what of an answer repeats the question or says how it was decided; the rest is what was decided
ECHO = frozenset(("machine", "hours_per_month", "workload", "trace", "because", "points", "utility", "reasons"))


class WhereItMatters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """rules/effects.yaml: fields, and facts of a machine, that often have no effect, and where they have one."""

    source: str
    as_of: str
    matters: dict[str, str]
    machine_matters: dict[str, str]


class GivenInput(Value, frozen=True):
    """Something that was given and need not matter: a field, with `key` one entry of it; or a word of the machine."""

    name: str  # as the asker calls it
    matters: str  # where it has an effect; "" = not stated
    field: QuestionField | None = None
    key: str | None = None
    text: str | None = None  # of the machine


def name_unused(question: Q, answer: A, asking: Asking, rules: Catalog, again: Callable[[Q, Machine | None], A]) -> A:
    """The answer with a note on what was given (of what rules/effects.yaml lists) and changes nothing of it.

    `again` answers a question for a machine. It is asked without all that at once, and only where that gives another
    answer without each. It should remember what costs time.
    """
    machine: Machine | None = asking.machine
    where = decode_document(rules, "effects.yaml", WhereItMatters)
    given = [*_list_given(question, asking, where.matters), *_list_words(machine, rules, where.machine_matters)]
    if not given:
        return answer
    decided = _leave_out_echo(answer, machine)

    def is_same(left_out: Sequence[GivenInput]) -> bool:
        words = [g.text for g in left_out if g.text is not None]
        less = machine if not words or machine is None else _read_without(machine.text or "", words, rules)
        try:
            return _leave_out_echo(again(_leave_out(question, left_out), less), less) == decided
        except AdvisorError:  # the question needs it
            return False

    unused = given if is_same(given) else [g for g in given if len(given) > 1 and is_same([g])]
    listed = "warnings" if hasattr(answer, "warnings") else "notes"
    note = "; ".join(f"{g.name} has no effect" + (f": it matters {g.matters}" if g.matters else "") for g in unused)
    return answer.with_fields(**{listed: (note, *getattr(answer, listed))}) if note else answer


def _list_given(question: Record, asking: Asking, matters: Mapping[str, str]) -> list[GivenInput]:
    """The fields that differ from their defaults and need not matter, those that only scenarios name included."""
    fields = {f.attribute: f for f in list_fields(type(question))}
    out = []
    for attribute, field in fields.items():
        value, name = getattr(question, attribute), asking.names[attribute]
        for key in value if isinstance(value, dict) else ():
            same = SPELLINGS.get(key, key) if attribute == "workload" else attribute
            if same is not None and (same in matters or same not in fields):
                out.append(GivenInput(f"{name} {key}", matters.get(same, ""), field, key))
        if attribute in matters and value != field.default and not isinstance(value, dict):
            out.append(GivenInput(name, matters[attribute], field))
    return out


def _leave_out(question: Q, given: Sequence[GivenInput]) -> Q:
    changed: dict[str, Any] = {}
    for one in given:
        if one.field is not None:
            attribute = one.field.attribute
            held = changed.get(attribute, getattr(question, attribute))
            without = one.field.default if one.key is None else {k: v for k, v in held.items() if k != one.key}
            changed[attribute] = without
    return replace(question, **changed)


def _list_words(machine: Machine | None, rules: Catalog, matters: Mapping[str, str]) -> Iterator[GivenInput]:
    """Parts of the text of a machine without which only facts of it are others that need not matter."""
    if machine is None or machine.source != "text" or machine.text is None:
        return
    from advisor.machines.phrases import HardwareDetails, read_phrase, split_phrases

    for part in split_phrases(machine.text):
        stated = HardwareDetails()
        if not read_phrase(part, stated) or not (stated.list_stated() - _PASSING) or stated.list_stated() & _AMOUNTS:
            continue
        less = _read_without(machine.text, [part], rules)
        if less is None:
            continue
        places = [n for n in Machine.__struct_fields__ if getattr(less, n) != getattr(machine, n) and n not in _WORDS]
        if not places and stated.links:
            continue  # cards that are always linked so
        if all(n in matters for n in places) and _size(less) == _size(machine):
            yield GivenInput(part, matters[places[0]] if places else "where the rest does not say it", text=part)


_WORDS = ("text", "notes")
# what phrases state that always matters, and what many of them state in addition
_AMOUNTS = {"ram_bytes", "bare_bytes", "vram_bytes", "free_bytes", "limit_bytes", "nodes", "no_gpu"}
_PASSING = {"os", "host_only"}


def _size(machine: Machine) -> tuple[object, ...]:
    """What of a machine always matters."""
    memory = machine.memory
    sizes = (memory.total_bytes, memory.available_bytes, memory.limit_bytes)
    devices = tuple((d.name, d.total_bytes, d.free_bytes, d.visible, d.driver_missing) for d in machine.devices)
    return (*sizes, machine.cpu.model, devices)


def _read_without(text: str, parts: Sequence[str], rules: Catalog) -> Machine | None:
    from advisor.catalog.hardware_names import parse_hardware
    from advisor.machines.phrases import split_phrases

    try:
        return parse_hardware(", ".join(p for p in split_phrases(text) if p not in parts), rules)
    except AdvisorError:  # the rest is no machine
        return None


def _leave_out_echo(answer: Answer, machine: Machine | None) -> object:
    notes = frozenset(machine.notes if machine is not None else ())

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in ECHO}
        if isinstance(value, (list, tuple)):
            return [strip(v) for v in value if not isinstance(v, str) or v not in notes]
        return value

    return strip(msgspec.to_builtins(answer))
