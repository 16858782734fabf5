"""The files of the shipped rules, read once."""

from __future__ import annotations

from functools import cache

from advisor.catalog.roots import shipped_root
from advisor.lint.reading import RuleFile, read_folder


@cache
def files() -> tuple[RuleFile, ...]:
    return tuple(f for f, _ in read_folder(shipped_root()))
