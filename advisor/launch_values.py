"""What one launch sets, by what it means, before any of it is resolved: what a migration starts from."""

from __future__ import annotations

from advisor.record import Record


class LaunchValues(Record, frozen=True, kw_only=True):
    """One launch of an engine as its file has it. None = the file does not tell."""

    engine: str
    kind: str = "shell"  # of the file: shell, compose, kubernetes, systemd, ...
    container: bool = False
    model: str | None = None  # as the file writes it
    named: str | None = None  # what that is in the catalogue
    path: bool = False  # it is a place in some file system
    quantization: str | None = None  # weight format: as the file or the model's name says it
    settings: dict[str, str] = {}  # every flag, variable and parameter, under the engine's own name; switches are true
    environment: dict[str, str] = {}
    host: str | None = None
    port: int | None = None
    keyed: bool = False  # its clients show a key
    hardware: str | None = None
    devices: int | None = None  # that the file gives it
    others: int = 0  # further launches in the file
    unread: tuple[str, ...] = ()  # values that depend on what the file does not hold
