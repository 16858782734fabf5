"""What `advise upgrade` answers: each launch at the release that runs and at the one to come, and what is between."""

from __future__ import annotations

from typing import Literal

from advisor.checks.findings import FileEdit, FileProblem
from advisor.deployment import DeploymentEstimate, WhyNot
from advisor.engines.account import Bearing
from advisor.record import Answer, Names, Record

Kind = Literal["gone", "renamed", "came", "value", "deprecated", "default", "rule", "version"]
Effect = Literal["breaks", "stays", "mends", "warns", "moves", "unknown"]


class UpgradeChange(Record, frozen=True, kw_only=True):
    """One difference between two releases that touches a launch. `old` and `new` are what the word meant or was, and
    what takes its place; null where there is nothing."""

    kind: Kind
    effect: Effect  # breaks: the new release refuses it; stays: both do; mends: the old one did; moves: without a word
    word: str  # the flag, variable, value, or rule of `advise check`
    old: str | None = None
    new: str | None = None
    text: str
    fix: str | None = None
    bears_on: Bearing | None = None
    certainty: Literal["file", "stated", "assumed"]  # where the releases are from; assumed: one was not read itself
    source: str = ""
    file: str
    line: int
    column: int = 1
    edits: tuple[FileEdit, ...] = ()
    certain: bool = True  # False: `--fix` leaves it, unless --unsafe


class ReleaseSide(Record, frozen=True, kw_only=True):
    """A launch at one release, as `advise check` judges it."""

    version: str
    read: bool  # whether the flags of this release were read, and not only those of its neighbours
    starts: bool | None
    fits: bool | None
    why: Names = ()
    why_not: tuple[WhyNot, ...] = ()
    conditions: Names = ()
    memory: DeploymentEstimate | None = None


class LaunchUpgrade(Record, frozen=True, kw_only=True):
    """What an upgrade changes for one launch."""

    source: str
    line: int
    kind: str
    name: str | None
    engine: str
    version_from: str | None  # what states the release that runs; null: nothing does
    model: str | None
    quantization: str | None
    hardware: str | None
    before: ReleaseSide | None  # null: which release runs is not known
    after: ReleaseSide
    changes: tuple[UpgradeChange, ...] = ()
    notes: Names = ()

    def count(self, effect: Effect) -> int:
        """How many changes have an effect."""
        return sum(c.effect == effect for c in self.changes)


class Upgrade(Answer, frozen=True, kw_only=True):
    """`advise upgrade --json`."""

    engine: str
    to: str
    launches: tuple[LaunchUpgrade, ...]
    problems: tuple[FileProblem, ...] = ()
    notes: Names = ()
    exit_status: int  # 0 nothing breaks, 1 something does not start or a word is refused, 2 cannot tell
