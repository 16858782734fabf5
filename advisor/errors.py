"""Errors a user can act on. Every one becomes one clear line and exit status 2 at the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class AdvisorError(Exception):
    """What is wrong, where, and what would be right.

    `code` is a stable word for scripts (`unknown_model`, `bad_file`, ...); `near` lists near matches of a name.
    """

    def __init__(self, code: str, message: str, near: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.near = tuple(near)

    def line(self) -> str:
        """The error as one line, near matches included."""
        text = " ".join(self.message.split())
        if self.near:
            text += ("" if text.endswith((".", "?", "!")) else ".") + f" Did you mean: {', '.join(self.near)}?"
        return text


class UnknownName(AdvisorError):
    """A model, accelerator, engine, quantization, guide or field that is not known."""

    def __init__(self, kind: str, name: str, near: Sequence[str] = (), hint: str = "") -> None:
        shown = name if len(name) <= 80 else name[:77] + "..."
        message = f"unknown {kind} {shown!r}." + (f" {hint}" if hint else "")
        super().__init__(f"unknown_{kind.replace(' ', '_')}", message, near)


class AmbiguousName(AdvisorError):
    """A name that several things have. The message lists them, so the line does not say them again."""

    def line(self) -> str:
        """The message alone."""
        return " ".join(self.message.split())


class BadFile(AdvisorError):
    """A file that cannot be used: where (path and, if known, line) and what is wrong."""

    def __init__(self, path: object, problem: str, line: int | None = None) -> None:
        place = f"{path}:{line}" if line else str(path)
        super().__init__("bad_file", f"{place}: {problem}")
        self.problem = problem
        self.at_line = line


class NotText(BadFile):
    """A file that is no UTF-8 text."""


class LinkOut(BadFile):
    """A file that is reached by a link out of its tree."""


class Unread(BadFile):
    """A text that its reader gave up: what stands behind a line was not read. `found` is what stands before it."""

    def __init__(self, why: str, line: int | None = None, found: Sequence[Any] = ()) -> None:
        upto = f"read no further than line {line}" if line else "not all of it was read"
        super().__init__("", f"{upto}: {why}", line)
        self.found = found


class BadInput(AdvisorError):
    """A value of an option or field that cannot be used."""

    def __init__(self, message: str, near: Sequence[str] = ()) -> None:
        super().__init__("bad_input", message, near)
