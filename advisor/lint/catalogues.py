"""A catalogue of rules that may be faulty: of what decodes, with the shipped rules in the place of what does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.catalog.compiled_rules import CompiledRules, encode_rules, load_compiled_rules, restore_rule_set
from advisor.catalog.load import RuleSet, read_rules
from advisor.catalog.roots import shipped_root
from advisor.catalog.store import Catalog
from advisor.decoding import decode_json
from advisor.errors import BadFile


def catalogue(roots: Sequence[Path], sound: Mapping[Path, Any], whole: bool) -> Catalog:
    """The catalogue of the files in `sound` (data without what is faulty). `whole`: nothing had to be left out."""

    def read(path: Path) -> Any:
        if path not in sound:
            raise BadFile(path, "is left out")
        return sound[path]

    rules = read_rules(roots, lambda _: None, read)
    if not whole and shipped_root() not in roots:
        rules = _over(_shipped(), rules)
    return Catalog(decode_json(encode_rules(rules), CompiledRules), tuple(roots))


def _shipped() -> RuleSet:
    """The shipped rules; empty where they are broken themselves."""
    try:
        return restore_rule_set(load_compiled_rules((shipped_root(),)))
    except BadFile:
        return RuleSet()


def _over(base: RuleSet, top: RuleSet) -> RuleSet:
    """Rules layered over others, entry by entry."""
    out = RuleSet()
    for table, rows in top.tables.items():
        out.tables[table] = base.tables[table] | rows
    out.offers = base.offers | top.offers
    out.documents = base.documents | top.documents
    out.names = {table: base.names[table] | names for table, names in top.names.items()}
    out.origin = top.origin
    return out
