"""What a check answers: findings, judged deployments, skipped rules, and the report of all of it."""

from __future__ import annotations

from typing import Any, Literal

from advisor.deployment import DeploymentEstimate, Holds, SpeedEstimate, WhyNot
from advisor.record import Names, Record

Severity = Literal["error", "warning", "info"]
Source = Literal["file", "repository", "stated", "assumed"]
ORDER: dict[str, int] = {"error": 0, "warning": 1, "info": 2}
CONFIGURATION = "configuration"  # phase of what is reported about the check itself: it fails nothing


class Certainty(Record, frozen=True, kw_only=True):
    """Where the facts of a launch come from: this file, its repository, what the user states, or nowhere."""

    engine: Source = "file"
    release: Source = "file"
    entry_point: Source = "file"
    device: Source = "file"
    words: Source = "file"


class FileEdit(Record, frozen=True, kw_only=True):
    """A safe change of one place in a file: words, and what takes their place. A line that is then blank goes."""

    line: int
    column: int
    old: str
    new: str


class Finding(Record, frozen=True, kw_only=True):
    """One result: which rule, how bad, where, what is wrong, what to do."""

    rule: str
    severity: Severity
    file: str
    line: int
    column: int = 1
    message: str
    fix: str
    phase: str = "start"
    resource: str | None = None
    engine: str | None = None
    error: str | None = None  # what the engine itself says
    edits: tuple[FileEdit, ...] = ()
    certain: bool = True  # False: it rests on something that no file and nobody states, see `assumed`
    assumed: Names = ()  # what that is: engine, release, entry_point


def report_unused(file: str, line: int, message: str, fix: str, resource: str | None = None) -> Finding:
    """What is found of a suppression that suppresses nothing."""
    return Finding(
        rule="suppression-unused", severity="info", file=file, line=line, phase="lint", resource=resource,
        message=message, fix=fix
    )  # fmt: skip


class RuleSkip(Record, frozen=True, kw_only=True):
    """A rule that could not be answered for a deployment, and what is missing."""

    rule: str
    file: str
    resource: str | None = None
    missing: Names = ()


class ConcurrentSpeed(Record, frozen=True, kw_only=True):
    """Rates with so many requests at once, of 512 prompt and 128 output tokens each."""

    concurrency: int
    speed: SpeedEstimate


class LeastHardware(Record, frozen=True, kw_only=True):
    """The smallest common cards that hold all of a launch: `needs_bytes` of each. It is assumed, and no verdict."""

    hardware: str
    needs_bytes: int


class CheckedDeployment(Record, frozen=True, kw_only=True):
    """One deployment of a file with its verdict: `fits` is whether it starts and has room for its requests, None where
    that cannot be determined; `why` says why."""

    source: str
    line: int
    kind: str
    name: str | None
    engine: str
    engine_version: str | None
    version_from: str | None
    model: str | None
    quantization: str | None
    hardware: str | None
    hardware_from: str | None
    certainty: Certainty = Certainty()
    fits: bool | None
    why: Names = ()
    assumed: Names = ()
    unused: Names = ()  # settings and variables without effect on the verdict
    not_modelled: Names = ()  # those that bear on it, or on speed, and have no law: why they matter
    request: dict[str, Any] = {}  # the settings that the estimator was given: the effective launch
    least: LeastHardware | None = None  # where nothing says what it runs on
    ranks: int | None = None
    replicas: int | None = None  # equal ones, where the file says how many
    memory: DeploymentEstimate | None = None
    starts: bool | None = None  # the engine takes it, and weights, scratch and one longest request find room
    why_not: tuple[WhyNot, ...] = ()  # where `starts` is not true
    conditions: Names = ()  # a plugin, a source build, a switch, with which it starts
    holds: Holds | None = None
    speed: tuple[ConcurrentSpeed, ...] = ()  # where it was asked for (`advise diff`)

    @property
    def waits(self) -> bool:
        """Whether it starts without a model: requests say which to load."""
        return self.model is None and self.starts is True


class FileProblem(Record, frozen=True, kw_only=True):
    """A file that could not be read."""

    file: str
    line: int | None
    message: str
    passed_over: bool = False  # no text, or a link out of the tree, found in a folder: it fails only with --strict


class CheckReport(Record, frozen=True, kw_only=True):
    """Everything that `advise check` found, in a stable order."""

    deployments: tuple[CheckedDeployment, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[RuleSkip, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    files: int = 0
    passed_over: int = 0  # of them: found in a folder, and no deployment
    rules: int = 0  # rules in force
    asked_fit: bool = True
    fail_on: str = "error"
    strict: bool = False
    verbose: bool = False  # the text has the account of every launch

    def is_open(self, deployment: CheckedDeployment) -> bool:
        """Whether it is not known if a deployment fits; with --strict also where only the hardware is not stated, or
        the models that a server loads on request."""
        known = deployment.least is not None or deployment.waits
        return self.asked_fit and deployment.fits is None and (self.strict or not known)

    def status(self) -> int:
        """Exit status: 1 does not fit or findings at or above the threshold, 2 cannot tell, 0 all well."""
        threshold = "warning" if self.strict and self.fail_on == "error" else self.fail_on
        least = ORDER[threshold] if threshold != "none" else -1
        if any(ORDER[f.severity] <= least for f in self.findings if f.phase != CONFIGURATION):
            return 1
        if self.asked_fit and any(d.fits is False for d in self.deployments):
            return 1
        unread = any(self.strict or not p.passed_over for p in self.problems)
        return 2 if unread or any(map(self.is_open, self.deployments)) else 0
