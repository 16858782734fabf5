"""Helpers: check a text, and read its launches."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from advisor.catalog import catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, FileResult, check_source, make_checker
from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.read.launch import Launch
from advisor.checks.rules.evaluate import Rulebook


@lru_cache(maxsize=1)
def knowledge() -> Knowledge:
    return Knowledge(catalog())


@lru_cache(maxsize=1)
def every_rule() -> Rulebook:
    return Rulebook(knowledge(), ("all",))


def check_text(source: str, name: str = "x", folder: Path | None = None, **options: object) -> FileResult:
    return check_source(source, name, folder, make_checker(every_rule(), CheckOptions(**options)))  # type: ignore[arg-type]


def launches(source: str, name: str = "x", folder: Path | None = None, **variables: str) -> list[Launch]:
    return read_launches(source, name, 1, ReaderContext(name, knowledge(), variables, folder))


def rules_of(found: FileResult) -> set[str]:
    return {f.rule for f in found.findings}
