"""Questions from names and values: keywords of the library, JSON of HTTP and of agents; and the schema of that JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from advisor.decoding import Json
from advisor.errors import BadInput
from advisor.near import near_matches, unknown_options
from advisor.questions import SPELLINGS, Interface, QuestionField, is_in_range, list_fields
from advisor.record import Record

Q = TypeVar("Q", bound=Record)
_INTERFACES = {"cli": "on the command line", "library": "by the library", "http": "over HTTP", "mcp": "from agents"}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
}


class ReadQuestion(NamedTuple):
    """A question, and notes on names that it was given by."""

    question: Any
    notes: tuple[str, ...]


def read_question(
    kind: type[Q],
    given: Mapping[str, Any],
    of: str,
    interface: Interface,
    hints: Callable[[str], str | None] | None = None,
    choose: Callable[[str, Sequence[str]], str] | None = None,
) -> ReadQuestion:
    """The question of a kind that names and values make; None is "not stated". `of`: what it is called in messages.

    `hints`: the field that another word means; `choose`: the choice that a phrase means, else the phrase. Raises
    BadInput for an unknown name, a field that is not taken here, and a value that is none.
    """
    fields = {f.name: f for f in list_fields(kind)}
    former = {old: f for f in fields.values() for old in f.notes.old}
    unknown = [k for k in given if k not in fields and k not in former]
    if unknown:
        raise _refuse_unknown(of, unknown, [f for f in fields.values() if interface not in f.notes.without], hints)
    values: Json = {}
    notes: list[str] = []
    for key, value in given.items():
        field = fields.get(key) or former[key]
        if value is None:
            continue
        if key in former:
            notes.append(f"{key} is called {field.name} now")
            if given.get(field.name) is not None:
                continue
        why = field.notes.without.get(interface)
        if why is not None:
            raise BadInput(f"{of}: {key} is not taken {_INTERFACES[interface]}: {why}")
        if choose is not None and field.choices and isinstance(value, str):
            value = choose(value, field.choices)
        values[field.attribute] = read_value(field, value, of, key)
    missing = next((f.name for f in fields.values() if f.required and f.attribute not in values), None)
    if missing is not None:
        raise BadInput(f"{of}: {missing} is missing")
    return ReadQuestion(kind(**values), tuple(notes))


def _refuse_unknown(
    of: str, unknown: Sequence[str], fields: Sequence[QuestionField], hints: Callable[[str], str | None] | None
) -> BadInput:
    """The error for names that no field has, with the names that fields have now."""
    now = {old: f.name for f in fields for old in f.notes.old}
    names = {f.attribute: f.name for f in fields}
    meant = {n: hints(n) or "" for n in unknown} if hints else {}
    spellings = {n: names[field] for n, field in meant.items() if field in names}
    error = unknown_options(of, unknown, [*(f.name for f in fields), *now], spellings)
    error.near = tuple(dict.fromkeys(now.get(n, n) for n in error.near))
    return error


def read_value(field: QuestionField, value: Any, of: str, name: str) -> Any:
    """A value of a field: of its type, or as people write it. Raises BadInput that names `of` and the field."""
    called = f"{of}: {name}"
    if isinstance(value, bool) and field.notes.stands_for is not None and field.kind != "boolean":
        return field.notes.stands_for if value else field.default
    spelling = field.notes.spelling
    if spelling and (isinstance(value, str) or field.kind in ("array", "object")) and _is_listed(value):
        value = SPELLINGS[spelling](value, name)
    if isinstance(value, field.classes):
        return value
    return _check_limits(field, _check_type(field, value, called), called)


def _is_listed(value: Any) -> bool:
    return isinstance(value, (str, list, tuple, Mapping))


def _check_type(field: QuestionField, value: Any, called: str) -> Any:
    right = isinstance(value, _TYPES[field.kind]) and (field.kind == "boolean" or not isinstance(value, bool))
    if field.kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not right:
        raise BadInput(f"{called}: {type(value).__name__} is given, {field.kind} is expected")
    if field.choices and value not in field.choices:
        shown = f"{called}: {str(value)[:60]!r} is none of {', '.join(field.choices)}"
        raise BadInput(shown, near_matches(str(value), field.choices))
    return value


def _check_limits(field: QuestionField, value: Any, called: str) -> Any:
    if field.kind not in ("integer", "number") or is_in_range(field, value):
        return value
    if field.least is not None and value < field.least:
        raise BadInput(f"{called}: {value} is below {field.least:g}")
    if field.most is not None and value > field.most:
        raise BadInput(f"{called}: {value} is above {field.most:g}")
    raise BadInput(f"{called}: {value} is not a number" + ("" if field.above is None else f" above {field.above:g}"))


# the schema of a question


def list_taken_fields(kind: type[Record], interface: Interface) -> list[QuestionField]:
    """The fields that an interface takes."""
    return [f for f in list_fields(kind) if interface not in f.notes.without]


def make_question_schema(kind: type[Record], interface: Interface) -> Json:
    """JSON Schema of a question as an interface takes it. Earlier names of fields are marked as deprecated."""
    fields = list_taken_fields(kind, interface)
    properties = {f.name: make_field_schema(f) for f in fields}
    for field in fields:
        for old in field.notes.old:
            properties[old] = {**properties[field.name], "description": f"Now {field.name}", "deprecated": True}
    return {
        "type": "object",
        "properties": properties,
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }


def make_field_schema(field: QuestionField) -> Json:
    """JSON Schema of a field: its type, or the text that people write in place of it."""
    types = [field.kind]
    if field.notes.spelling and field.kind != "string":
        types.append("string")
    if field.notes.stands_for is not None and field.kind != "boolean":
        types.append("boolean")
    out: Json = {"type": types[0] if len(types) == 1 else types, "description": field.meaning}
    if field.choices:
        out["enum"] = [*field.choices, *((True, False) if "boolean" in types[1:] else ())]
    limits = {"minimum": field.least, "exclusiveMinimum": field.above, "maximum": field.most}
    out |= {k: v for k, v in limits.items() if v is not None}
    if field.kind == "array":
        out["items"] = {"type": "string"}
    if field.default not in (None, (), {}, False) or field.default is True:
        out["default"] = field.default
    if field.notes.examples:
        out["examples"] = list(field.notes.examples)
    return out
