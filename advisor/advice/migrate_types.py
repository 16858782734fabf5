"""What `migrate` reads (rules/migrations.yaml) and what it answers."""

from __future__ import annotations

from typing import Literal

from advisor.engines.flags import ConceptName
from advisor.meanings import EngineId
from advisor.record import Answer, Record

FILE = "migrations.yaml"
Takes = Literal["model", "address", "port", "key", "name", "format", "length", "requests", "ranks", "type", "share",
                "number", "text", "switch", "hand"]  # fmt: skip


class SettingConcept(Record, frozen=True, kw_only=True):
    """One thing that most engines have a setting for, and how its value is translated."""

    id: str
    label: str
    takes: Takes
    names: dict[EngineId, str]
    concept: ConceptName | None = None  # what the engines' own entries call it
    defaults: dict[EngineId, str] = {}
    notes: dict[EngineId, str] = {}
    values: tuple[dict[EngineId, tuple[str, ...]], ...] = ()  # one meaning a row
    shares: dict[EngineId, str] = {}  # what it is a share of
    only: tuple[EngineId, ...] = ()  # engines whose setting means the same; none = all
    inverted: tuple[EngineId, ...] = ()  # whose switch turns it off
    all_devices: tuple[EngineId, ...] = ()  # that take every device unless it is set otherwise
    refuses: dict[EngineId, str] = {}  # characters that no value may hold
    least: dict[EngineId, int] = {}  # what is taken unasked on the smallest device


class EnginePair(Record, frozen=True, rename={"source": "from", "target": "to"}):
    """What changes for clients and files between two engines."""

    source: str
    target: str
    says: list[str]
    except_to: list[EngineId] = []


class MigrationsFile(Record, frozen=True, kw_only=True):
    """rules/migrations.yaml."""

    source: str
    as_of: str
    concepts: list[SettingConcept]
    pairs: list[EnginePair]
    files: dict[str, str]  # kind of the old file -> target of the new one
    file_of_container: str
    command: str  # the target of all other kinds
    local_files: tuple[str, ...] = ()  # targets whose server clients reach on this machine
    kept_variables: tuple[str, ...] = ()  # of the old launch that mean the same to every engine
    not_targets: dict[EngineId, str] = {}


class SettingChange(Record, frozen=True, kw_only=True):
    """One thing that is set: its name here and there, what each does unasked, what to mind."""

    id: str
    label: str
    before: str | None  # None = the engine has no such setting
    after: str | None
    value: str | None = None  # as the launch that is migrated sets it
    written: str | None = None  # as the new launch sets it; None = it does not
    default_before: str | None = None
    default_after: str | None = None
    note: str | None = None


class NewLaunch(Record, frozen=True, kw_only=True):
    """The launch of the new engine: what a migration ends in."""

    target: str  # kind of launch file
    command: str | None  # None where the engine is started by nothing but its files
    files: tuple[tuple[str, str, bool], ...] = ()  # name, content, whether it is a program
    model: str
    quantization: str
    hardware: str | None = None
    fits: bool | None = None  # None = the hardware is not known
    url: str
    served_name: str | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()  # errors of `advise check` on it


class Migration(Answer, frozen=True, kw_only=True):
    """The answer to `advise migrate`: what changes between two engines, and the new launch where there is a model to
    start."""

    source: str
    target: str
    names: tuple[str, str]
    settings: tuple[SettingChange, ...]
    unknown: tuple[str, ...]  # settings of the launch that nothing here translates
    says: tuple[str, ...]  # files, clients, operation
    formats_lost: tuple[str, ...]
    lost: tuple[str, ...]  # features that the target lacks or has with limits
    gained: tuple[str, ...]
    warnings: tuple[str, ...]
    sources: str
    launch: NewLaunch | None = None
    next: str | None = None  # what to say for a launch to be written; None where one is
