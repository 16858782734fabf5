"""Faults of rule folders beyond types: guides, policies, contradictions, rules without a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from advisor.catalog.lint import lint
from advisor.catalog.load import read_document
from advisor.catalog.roots import rule_files
from advisor.decision.guides import load_guide_file
from advisor.decision.policy import Ruling, rulings
from advisor.engines.flag_tables import flag_table
from advisor.errors import BadFile, BadInput


def overlay_faults(shipped: Path, folder: Path) -> list[str]:
    """What is wrong with `folder` laid over the shipped rules, one line each; empty when all is well."""
    from advisor.catalog import catalog

    files = [name for name, _ in rule_files(folder)]
    if not files:
        return [f"{folder}: holds no rule file (*.yaml)"]
    found = [line for line in lint([shipped, folder]) if str(folder) in line]
    if found:
        return list(dict.fromkeys(found))
    rules = catalog([shipped, folder])
    engines = rules.engines()
    for name in files:
        path = folder / name
        try:
            if name.startswith("guides/"):
                load_guide_file(path, engines)
            elif name.startswith("policy/"):
                found += _contradictions(path, [(k, r) for k, r in rulings(name, read_document(path), engines)])
            elif name.startswith("flags/"):
                flag_table(Path(name).stem, rules)
            elif "/" in name and name.split("/")[0] not in ("engines", "hardware", "models", "prices", "checks"):
                found.append(f"{path}: no rules are read from a folder {name.split('/')[0]!r}")
        except BadInput as e:
            found.append(f"{path}: {e.message}")
        except BadFile as e:
            found.append(e.line() if str(folder) in e.line() else f"{path}: {e.message}")
    return list(dict.fromkeys(found))


def _contradictions(path: Path, entries: list[tuple[str, Ruling]]) -> Iterator[str]:
    """Engines that one file forbids and prefers (or pins) under the same condition, and entries said twice."""
    forbidden = {(r.engine, r.condition) for k, r in entries if k == "forbid"}
    seen: set[tuple[str, str, object]] = set()
    for kind, r in entries:
        if kind != "forbid" and ((r.engine, r.condition) in forbidden or (r.engine, None) in forbidden):
            also = "preferred" if kind == "prefer" else "pinned"
            yield f"{path}: {r.engine} is forbidden and {also}; the second never counts"
        if (kind, r.engine, r.condition) in seen:
            yield f"{path}: {kind} of {r.engine} stands twice under the same condition"
        seen.add((kind, r.engine, r.condition))
