"""Questions as they are asked: a plain value for each, names in, every field with its meaning, unit and spelling.

From the fields of a question are made: the options of its command with their help, the keywords of the library, the
JSON Schemas of HTTP and of agents' tools. A field that an interface cannot take says why (`FieldNotes.without`).
"""

import types
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from msgspec import NODEFAULT, Meta

from advisor.decoding import Json
from advisor.errors import BadInput
from advisor.record import Record, Value
from advisor.units import parse_tokens

Interface = Literal["cli", "library", "http", "mcp"]
LARGEST_LENGTH = 10**9  # tokens; above it a request is a slip of the keyboard

# why an interface does not take a field
NO_NETWORK: dict[Interface, str] = dict.fromkeys(("http", "mcp"), "nothing is asked over the network here")


class FieldNotes(Value, frozen=True):
    """What the interfaces need to know of a field in addition to its type and its meaning."""

    options: tuple[str, ...] = ()  # of the command line; none: the field is given by `--workload NAME=VALUE`
    metavar: str | None = None
    help: str | None = None  # of the options, where the meaning is worded for other interfaces
    name: str | None = None  # in JSON and the library, where it is not the attribute's
    old: tuple[str, ...] = ()  # earlier names in JSON and the library, taken for one minor version
    old_options: tuple[str, ...] = ()
    spelling: str | None = None  # how people write it: a key of SPELLINGS
    stands_for: Any = None  # the value that a bare option, or `true`, stands for
    path: Literal["", "file", "model"] = ""  # a file; a model, which may be one
    argument: bool = False  # of the command line, instead of an option
    empty: bool = False  # an option may be given empty
    examples: tuple[Any, ...] = ()
    without: Mapping[Interface, str] = {}  # interface that does not take the field -> why


class QuestionField(Value, frozen=True):
    """One field of a question, as its interfaces read it."""

    attribute: str
    name: str
    kind: str  # JSON's: integer, number, boolean, string, array, object
    meaning: str
    notes: FieldNotes
    required: bool
    default: Any
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    classes: tuple[type, ...] = ()  # values that are taken as they are

    @property
    def flag(self) -> bool:
        """Whether the option takes no value."""
        return self.kind == "boolean" or self.notes.stands_for is not None


class Asking(Value, frozen=True):
    """Who asks a question: what its fields are called there, for messages, and what the asker holds as values."""

    names: Mapping[str, str]  # of attributes
    machine: Any = None  # a Machine in place of hardware in words
    extra: Mapping[str, str] = {}  # further fields of a Workload
    folder: Path | None = None  # the only one that files are read from; None: any
    progress: Callable[[str], None] | None = None  # gets a line on what is read over the network


def describe(meaning: str, option: str = "", **notes: Any) -> Meta:
    """What a field's annotation says of it: its meaning, its option as help shows it (`--users --concurrency N`: every
    spelling, then what stands for the value), and further FieldNotes."""
    words = option.split()
    options = tuple(w for w in words if w.startswith("-"))
    notes |= {"metavar": words[-1]} if len(words) > len(options) else {}
    return Meta(description=meaning, extra={"notes": FieldNotes(options=options, **notes)})


@lru_cache(maxsize=64)
def list_fields(kind: type) -> tuple[QuestionField, ...]:
    """The fields of a question, from its base to its own; those of the workload (LISTED_LAST) are the last."""
    annotations: Json = {}
    bases = [b for b in reversed(kind.__mro__) if issubclass(b, Record)]
    for base in sorted(bases, key=lambda b: "LISTED_LAST" in vars(b)):
        annotations |= get_annotations(base)
    record = cast("type[Record]", kind)
    names = record.__struct_fields__
    optional = dict(zip(reversed(names), reversed(record.__struct_defaults__), strict=False))
    own = {n: a for base in bases for n, a in get_annotations(base).items()}  # the last that names a field
    return tuple(_read_field(n, own[n], optional.get(n, NODEFAULT)) for n in annotations if n in names)


@lru_cache(maxsize=64)
def make_asking(kind: type, interface: str) -> Asking:
    """Somebody who asks at an interface, and holds nothing."""
    if interface != "cli":
        return Asking({f.attribute: f.name for f in list_fields(kind)})
    return Asking({f.attribute: next(iter(f.notes.options), f"--workload {f.name}") for f in list_fields(kind)})


_KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_PLAIN = (str, int, float, tuple, type(None))  # of defaults; another is msgspec's maker of a dict
_CONTAINERS: dict[Any, str] = {tuple: "array", list: "array", dict: "object"}


def _read_field(attribute: str, annotation: Any, default: Any) -> QuestionField:
    metas, inner = _unwrap(annotation)
    notes: FieldNotes = next((m.extra["notes"] for m in metas if m.extra and "notes" in m.extra), FieldNotes())
    origin = get_origin(inner[0])
    choices = get_args(inner[0]) if origin is Literal else ()
    return QuestionField(
        attribute=attribute,
        name=notes.name or attribute,
        kind="string" if choices else _CONTAINERS[origin] if origin else _KINDS[inner[0]],
        meaning=next((m.description for m in metas if m.description), ""),
        notes=notes,
        required=default is NODEFAULT,
        default=None if default is NODEFAULT else default if isinstance(default, _PLAIN) else {},
        choices=choices,
        least=_limit(metas, "ge"),
        above=_limit(metas, "gt"),
        most=_limit(metas, "le"),
        classes=tuple(t for t in inner[1:] if isinstance(t, type)),
    )


def _limit(metas: list[Meta], name: str) -> float | None:
    return next((x for m in metas if (x := getattr(m, name)) is not None), None)


def _unwrap(annotation: Any) -> tuple[list[Meta], list[Any]]:
    """What stands around the types of a field, and the types."""
    if get_origin(annotation) is Annotated:
        metas, inner = _unwrap(annotation.__origin__)
        return [*reversed([m for m in annotation.__metadata__ if isinstance(m, Meta)]), *metas], inner
    if get_origin(annotation) in (Union, types.UnionType):
        found = [_unwrap(a) for a in get_args(annotation) if a is not type(None)]
        return [m for metas, _ in found for m in metas], [t for _, inner in found for t in inner]
    return [], [annotation]


# how people write values


def read_tokens(value: str, name: str) -> int:
    """A positive count of tokens (`8192`, `32k`). Raises BadInput naming the field."""
    try:
        n = parse_tokens(value)
    except ValueError as e:
        raise BadInput(f"{name}: {e}") from None
    if n < 1:
        raise BadInput(f"{name}: {n} is not a positive number of tokens")
    if n > LARGEST_LENGTH:
        raise BadInput(f"{name}: {value.strip()[:40]} is more than {LARGEST_LENGTH:,} tokens")
    return n


def read_number(text: str, name: str) -> float:
    """A number. Raises BadInput naming the field."""
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{name}: {text[:40]!r} is not a number") from None


def read_seconds(text: str, name: str) -> float:
    """Seconds: `2`, `2s`, `500ms`. Raises BadInput naming the field."""
    plain = text.strip().lower()
    for unit, size in (("ms", 1000), ("s", 1)):
        if plain.endswith(unit):
            return read_number(plain.removesuffix(unit).strip(), name) / size
    return read_number(plain, name)


PERCENTILES = ("p50", "p90", "p95", "p99")


def read_time_limit(text: str, name: str) -> float | str:
    """At most so many seconds, for a share of the requests: `2`, `200ms`, `0.2@p99`. Raises BadInput naming it."""
    seconds, at, share = text.partition("@")
    limit = read_seconds(seconds, name)
    if not 0 < limit <= 1e6:
        raise BadInput(f"{name}: {text[:40]!r} is not a number of seconds above 0")
    if at and share.strip().lower() not in PERCENTILES:
        raise BadInput(f"{name}: @{share[:20]} is none of {', '.join('@' + p for p in PERCENTILES)}")
    return f"{limit:.10g}@{share.strip().lower()}" if at else limit


def read_share(text: str, name: str) -> float:
    """A share: `0.8`, `80%`. Raises BadInput naming the field."""
    plain = text.strip()
    return read_number(plain.removesuffix("%"), name) / 100 if plain.endswith("%") else read_number(plain, name)


def read_list(value: Any, name: str) -> tuple[str, ...]:
    """Texts: `a,b`, or several of them. Raises BadInput naming the field."""
    texts = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(x, str) for x in texts):
        raise BadInput(f"{name}: texts are expected")
    words = tuple(w.strip() for text in texts for w in text.split(",") if w.strip())
    if not words and any(texts):
        what = name.strip("-").removesuffix("s")
        raise BadInput(f"{name} {', '.join(texts)!r} names no {what}")
    return words


def read_pairs(value: Any, name: str) -> dict[str, str]:
    """`KEY=VALUE` texts, or a mapping, as a mapping of texts. Raises BadInput naming the field."""
    if isinstance(value, Mapping):
        return {str(k).replace("-", "_"): _as_text(v, name) for k, v in value.items()}
    out = {}
    for text in [value] if isinstance(value, str) else value:
        key, eq, one = str(text).partition("=")
        if not eq or not key.strip():
            raise BadInput(f"{name} {text!r}: wants KEY=VALUE")
        out[key.strip().replace("-", "_")] = one.strip()
    return out


def _as_text(value: Any, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise BadInput(f"{name}: a text or a number is expected for each key")


def read_names(value: Any, name: str) -> tuple[str, ...]:
    """One text or several, whatever is in them. Raises BadInput naming the field."""
    texts = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(x, str) for x in texts):
        raise BadInput(f"{name}: texts are expected")
    return texts


def read_variables(value: Any, name: str, before: str = "", example: str = "") -> dict[str, str]:
    """`NAME=VALUE` texts, or a mapping, with the names as they are written; `before`: characters that may stand before
    a name. Raises BadInput naming the field, with the example."""
    if isinstance(value, Mapping):
        return {str(k): _as_text(v, name) for k, v in value.items()}
    out = {}
    for text in read_names(value, name):
        key, eq, one = text.lstrip(before).partition("=")
        if not eq or not key:
            hint = f", e.g. {name} {example}" if example else ""
            raise BadInput(f"{name} {text[:60]}: NAME=VALUE is expected{hint}")
        out[key] = one
    return out


def read_rates(value: Any, name: str) -> dict[str, float]:
    """`CUR=X` texts, or a mapping, as numbers. Raises BadInput naming the field."""
    if isinstance(value, Mapping) and all(isinstance(x, (int, float)) for x in value.values()):
        return {str(k): float(v) for k, v in value.items()}
    return {k: read_number(v, name) for k, v in read_pairs(value, name).items()}


SPELLINGS: dict[str, Callable[[Any, str], Any]] = {
    "tokens": read_tokens,
    "time limit": read_time_limit,
    "share": read_share,
    "list": read_list,
    "pairs": read_pairs,
    "rates": read_rates,
    "names": read_names,
    "variables": read_variables,
    "settings": partial(read_variables, before="-", example="tensor-parallel-size=2"),
}


def is_in_range(field: QuestionField, number: float) -> bool:
    """Whether a number is finite and within the limits of a field."""
    return (
        abs(number) < float("inf")
        and (field.least is None or number >= field.least)
        and (field.above is None or number > field.above)
        and (field.most is None or number <= field.most)
    )
