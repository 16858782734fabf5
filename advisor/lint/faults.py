"""What the linter says: one fault with its file, line, a stable word, a sentence and near matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from advisor.near import near_matches
from advisor.record import Record

Code = Literal[
    "unreadable",  # the file cannot be read, or is no YAML
    "duplicate_key",  # one key twice in one mapping
    "unknown_file",  # no part of the program reads a file of this name
    "unknown_key",
    "missing_key",
    "wrong_value",  # a value of the wrong kind, or none of a closed list
    "duplicate_name",  # an id or a name that two entries claim
    "unknown_name",  # a reference to something that is nowhere
    "total",  # a figure that does not follow from the others
    "unit",  # a figure outside what its unit allows
    "range",  # low, value and high out of order
    "source",  # a fact that does not say where it was read
    "date",
    "version",
    "pattern",  # a regular expression
    "probe",  # a probe could not recognise it, or would take it for another
    "condition",
    "snippet",  # a rule's own examples
    "template",
    "missing_place",  # an entry that needs another one elsewhere
    "contradiction",
    "unreachable",
    "unchecked",  # spoiled rules brought a part of the linter down: what else is wrong is not known
]


class Fault(Record, frozen=True, kw_only=True, order=True):
    """One thing that is wrong. `file` as it was named, `line` where it is known; `message` is one line."""

    file: str
    line: int | None
    code: Code
    message: str
    near: tuple[str, ...] = ()

    def text(self) -> str:
        """`rules/engines/x.yaml:12: message`, with the near matches."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        hint = f". Did you mean: {', '.join(self.near)}?" if self.near else ""
        return f"{place}: {self.message.removesuffix('.') if hint else self.message}{hint}"


NO_FAULT = Fault(file="", line=None, code="missing_key", message="")  # what follows from a fault that was told


def order_faults(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Each fault once, by file, line and text."""
    return tuple(sorted(set(faults) - {NO_FAULT}, key=lambda f: (f.file, f.line or 0, f.message, f.code)))


def nearest_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """At most two known names that look like `name`."""
    return near_matches(name, known, n=2)


def without_hint(text: str) -> tuple[str, tuple[str, ...]]:
    """A problem of another part of the program as its sentence and the near matches that it ends with."""
    m = re.fullmatch(r"(.*?)\.? Did you mean: (.*)\?", " ".join(text.split()))
    return (m[1], tuple(m[2].split(", ")[:2])) if m else (text, ())


def one_line(text: str, most: int = 400) -> str:
    """Text without line ends, cut to a readable length."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."
