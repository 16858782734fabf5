"""Functions of Helm's templates that charts use most: values in, a value out.

OPEN is what the chart leaves to whoever installs it (a value that is empty or absent); UNKNOWN is what nothing here can
tell (a cluster, a release, a function that is not in this table).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN"})()
OPEN: Any = type("Open", (), {"__repr__": lambda self: "OPEN"})()
MAX_TEXT = 100_000


def is_empty(value: Any) -> bool:
    """Whether a value is left to be filled in: nothing, an empty text, list or mapping. `false` and 0 say something."""
    return (
        value is None
        or value is OPEN
        or (isinstance(value, (str, list, tuple, Mapping)) and (len(value) == 0 or value == "null"))
    )


def is_true(value: Any) -> bool:
    """Whether Go's templates take a value for true. Scalars of YAML are texts here."""
    if isinstance(value, str):
        return value not in ("", "false", "False", "0", "null", "~")
    return bool(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, str) else value


def _to_yaml(value: Any) -> Any:
    import yaml

    if is_empty(value):
        return OPEN
    text = yaml.safe_dump(_plain(value), default_flow_style=False, sort_keys=False, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")


def _to_json(value: Any) -> Any:
    import json

    return OPEN if is_empty(value) else json.dumps(_plain(value))


def _indent(count: Any, text: Any) -> str:
    pad = " " * min(int(count), 200)
    return "\n".join(pad + line for line in str(text).split("\n"))


def _quote(*values: Any) -> str:
    return " ".join('"' + _text(v).replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values if v is not None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _printf(form: Any, *values: Any) -> Any:
    out, rest = [], list(values)
    parts = str(form).split("%")
    out.append(parts[0])
    i = 1
    while i < len(parts):
        part = parts[i]
        if part == "" and i + 1 < len(parts):
            out.append("%" + parts[i + 1])
            i += 2
            continue
        if part[:1] not in "sdvq" or not part or not rest:
            return UNKNOWN
        value = rest.pop(0)
        out.append((_quote(value) if part[0] == "q" else _text(value)) + part[1:])
        i += 1
    return "".join(out)


def _number(value: Any) -> float:
    return float(str(value))


def _whole(value: Any) -> int:
    return int(float(str(value)))


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = value.get(key, OPEN) if isinstance(value, Mapping) else value[_whole(key)]
    return value


def _fill(*values: Any) -> Any:
    """`default` and `coalesce`: the first that is not empty, the given one first."""
    for value in values:
        if value is UNKNOWN:
            return UNKNOWN
        if not is_empty(value) and is_true(value):
            return value
    return OPEN


def _default(fallback: Any, *given: Any) -> Any:
    """The value of the chart, else the fallback: both are what stands there as long as nobody says another."""
    value = given[0] if given else OPEN
    if value is UNKNOWN:
        return UNKNOWN
    return fallback if is_empty(value) or not is_true(value) else value


def _dict(*pairs: Any) -> dict[str, Any]:
    return {str(k): v for k, v in zip(pairs[::2], pairs[1::2], strict=False)}


def _least_known(values: tuple[Any, ...]) -> Any:
    """UNKNOWN, OPEN, or the last of the values."""
    if any(v is UNKNOWN for v in values):
        return UNKNOWN
    return OPEN if any(is_empty(v) for v in values) else values[-1]


def _and(*values: Any) -> Any:
    for value in values:
        if value is not UNKNOWN and not is_empty(value) and not is_true(value):
            return value
    return _least_known(values)


def _or(*values: Any) -> Any:
    for value in values:
        if value is not UNKNOWN and not is_empty(value) and is_true(value):
            return value
    return _least_known(values)


def _not(value: Any) -> Any:
    return UNKNOWN if value is UNKNOWN else OPEN if is_empty(value) else not is_true(value)


def _kind_is(kind: Any, value: Any) -> Any:
    """Maps and lists alone: whether a scalar was a text or a number is not known of texts."""
    if isinstance(value, (Mapping, list, tuple)):
        return kind == ("map" if isinstance(value, Mapping) else "slice")
    return False if kind in ("map", "slice") else UNKNOWN


_KNOWN_ONLY: dict[str, Callable[..., Any]] = {
    "quote": _quote,
    "squote": lambda *v: " ".join("'" + _text(x) + "'" for x in v),
    "toYaml": _to_yaml,
    "toJson": _to_json,
    "indent": _indent,
    "nindent": lambda n, t: "\n" + _indent(n, t),
    "trim": lambda t: _text(t).strip(),
    "trimSuffix": lambda end, t: _text(t).removesuffix(_text(end)),
    "trimPrefix": lambda head, t: _text(t).removeprefix(_text(head)),
    "trunc": lambda n, t: _text(t)[: _whole(n)] if _whole(n) >= 0 else _text(t)[_whole(n) :],
    "lower": lambda t: _text(t).lower(),
    "upper": lambda t: _text(t).upper(),
    "replace": lambda old, new, t: _text(t).replace(_text(old), _text(new)),
    "contains": lambda part, t: _text(part) in _text(t),
    "hasPrefix": lambda head, t: _text(t).startswith(_text(head)),
    "hasSuffix": lambda end, t: _text(t).endswith(_text(end)),
    "toString": _text,
    "int": lambda v: str(_whole(v)),
    "int64": lambda v: str(_whole(v)),
    "float64": lambda v: _text(v),
    "printf": _printf,
    "print": lambda *v: "".join(map(_text, v)),
    "eq": lambda a, *b: any(_text(a) == _text(x) for x in b),
    "ne": lambda a, b: _text(a) != _text(b),
    "gt": lambda a, b: _number(a) > _number(b),
    "ge": lambda a, b: _number(a) >= _number(b),
    "lt": lambda a, b: _number(a) < _number(b),
    "le": lambda a, b: _number(a) <= _number(b),
    "add": lambda *v: str(sum(map(_whole, v))),
    "sub": lambda a, b: str(_whole(a) - _whole(b)),
    "mul": lambda a, b: str(_whole(a) * _whole(b)),
    "div": lambda a, b: str(_whole(a) // _whole(b)),
    "len": lambda v: str(len(v)),
    "list": lambda *v: list(v),
    "first": lambda v: v[0],
    "last": lambda v: v[-1],
    "join": lambda sep, v: _text(sep).join(map(_text, v)),
    "splitList": lambda sep, t: _text(t).split(_text(sep)),
    "index": _index,
    "get": _index,
    "hasKey": lambda m, k: k in m,
    "keys": lambda m: list(m),
    "required": lambda message, v: OPEN if is_empty(v) else v,
    "kindIs": _kind_is,
}


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        if any(v is UNKNOWN for v in values):
            return UNKNOWN
        if any(v is OPEN for v in values):
            return OPEN
        made = function(*values)
        return UNKNOWN if isinstance(made, str) and len(made) > MAX_TEXT else made

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _guarded(f) for name, f in _KNOWN_ONLY.items()},
    "default": _default,
    "coalesce": _fill,
    "dict": _dict,
    "and": _and,
    "or": _or,
    "not": _not,
    "empty": _not,
    "ternary": lambda yes, no, test: UNKNOWN if test is UNKNOWN else no if is_empty(test) or not is_true(test) else yes,
    "until": lambda n: [str(i) for i in range(min(_whole(n), 1000))],
    "append": lambda v, item: [*v, item],
    "concat": lambda *v: [x for part in v for x in part],
}
