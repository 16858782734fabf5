"""Routers: programs that stand before servers of an engine and hand requests on (rules/routers). They load no model;
what is known of them is how they are started, and which flags and values their releases take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from advisor.catalog.documents import decode_document
from advisor.catalog.launch_types import EngineProgram, ImagePattern
from advisor.engines.flag_history import FlagHistory, Spans, ValueHistory
from advisor.engines.flag_tables import FlagEntry, FlagTable
from advisor.meanings import FlagName, Version
from advisor.memo import MemoRecord, memoize_by_identity

if TYPE_CHECKING:
    from advisor.catalog import Catalog

FOLDER = "routers/"


class Router(MemoRecord, frozen=True, kw_only=True):
    """One router. `flags`, `read`, `spans` and `values` are written by `make history`."""

    id: str
    name: str
    programs: dict[str, EngineProgram] = {}
    modules: dict[str, EngineProgram] = {}
    images: tuple[ImagePattern, ...] = ()
    words: tuple[str, ...] = ()  # without one of which, in any case, no file starts it
    parser: str = "argparse"
    source: str
    as_of: str
    version: Version  # whose flags stand here
    flags: dict[FlagName, FlagEntry]
    read: tuple[Version, ...]  # releases, oldest first
    spans: Spans = {}  # flags by the releases that have them, as in rules/flag-history
    values: dict[FlagName, ValueHistory] = {}


def load_routers(rules: Catalog) -> dict[str, Router]:
    """All routers by id. Raises BadInput where a file is not one."""
    routers = [decode_document(rules, path, Router) for path in sorted(rules.documents(FOLDER))]
    return {r.id: r for r in routers}


@memoize_by_identity
def make_flag_table(router: Router) -> FlagTable:
    """What a router takes, in the terms in which engines' flags are known."""
    history = FlagHistory(
        engine=router.id, source=router.source, as_of=router.as_of, read=router.read, flags=router.spans,
        values=router.values,
    )  # fmt: skip
    table = FlagTable(
        engine=router.id, version=router.version, source=router.source, parser=router.parser, flags=router.flags
    )
    return msgspec.structs.replace(table, history=history)
