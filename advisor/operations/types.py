"""An operation: its name, the JSON Schema of its arguments, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.record import Value

Json = dict[str, Any]


class OperationContext(Value, frozen=True):
    """What an answer rests on in addition to the arguments."""

    rules: Catalog
    folder: Path  # the only one that files are read from


class Operation(Value, frozen=True):
    """One thing that may be asked. `properties` are JSON Schemas of the arguments; `answer` takes them by name."""

    name: str
    description: str
    properties: dict[str, Json]
    required: tuple[str, ...]
    answer: Callable[[OperationContext, Json], Json]

    def schema(self) -> Json:
        """JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


def read_arguments(operation: Operation, given: Mapping[str, Any]) -> Json:
    """The arguments that are given, of the types that the schema names. Raises BadInput."""
    from advisor.near import unknown_options

    name = operation.name
    unknown = [k for k in given if k not in operation.properties]
    if unknown:
        raise unknown_options(name, unknown, tuple(operation.properties), {})
    missing = [k for k in operation.required if given.get(k) is None]
    if missing:
        raise BadInput(f"{name}: {missing[0]} is missing")
    return {k: _typed(name, k, v, operation.properties[k]) for k, v in given.items() if v is not None}


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,),
}  # fmt: skip


def _typed(tool: str, name: str, value: Any, schema: Json) -> Any:
    """A value of the type that the schema says. Raises BadInput."""
    kind = schema["type"]
    right = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not right:
        raise BadInput(f"{tool}: {name}: {type(value).__name__} is given, {kind} is expected")
    if "enum" in schema and value not in schema["enum"]:
        from advisor.near import near_matches

        raise BadInput(f"{tool}: {name}: {str(value)[:60]!r} is none of {', '.join(schema['enum'])}",
                       near_matches(str(value), schema["enum"]))  # fmt: skip
    if kind in ("integer", "number") and value < schema.get("minimum", value):
        raise BadInput(f"{tool}: {name}: {value} is below {schema['minimum']}")
    return value
