"""House policy from overlays (`policy/*.yaml`): engines to forbid or prefer, versions to pin, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.conditions import GuideFault, Path, evaluate_condition, parse_condition, suggest_names
from advisor.decision.types import FIELDS, Condition, FactValues, Reason
from advisor.decoding import convert
from advisor.errors import BadFile
from advisor.record import Value


class _PolicyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"condition": "if"}):
    engine: str
    reason: str
    source: str = "house policy"
    version: str | None = None  # of a pin
    condition: Any = None


class PolicyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of one `policy/*.yaml`."""

    forbid: list[_PolicyEntry] = []
    prefer: list[_PolicyEntry] = []
    pin: list[_PolicyEntry] = []


class PolicyRule(Value, frozen=True):
    """One entry that is ready to be asked."""

    engine: str
    reason: Reason
    condition: Condition | None
    version: str | None


class Policy(Value, frozen=True):
    """Everything that the overlays say."""

    forbid: tuple[PolicyRule, ...] = ()
    prefer: tuple[PolicyRule, ...] = ()
    pin: tuple[PolicyRule, ...] = ()

    def forbidden(self, engine: str, facts: FactValues) -> Reason | None:
        """Why an engine must not be used; None when nothing forbids it."""
        return next((r.reason for r in self.forbid if r.engine == engine and _holds(r, facts)), None)

    def preferred(self, engine: str, facts: FactValues) -> Reason | None:
        """Why an engine goes before the guide's own order; None when nothing prefers it."""
        return next((r.reason for r in self.prefer if r.engine == engine and _holds(r, facts)), None)

    def version(self, engine: str, facts: FactValues) -> tuple[str, str] | None:
        """(version, reason) that an engine is pinned to; None when it is not."""
        found = (r for r in self.pin if r.engine == engine and r.version and _holds(r, facts))
        return next(((r.version or "", r.reason.text) for r in found), None)


def _holds(rule: PolicyRule, facts: FactValues) -> bool:
    return rule.condition is None or evaluate_condition(rule.condition, facts, FIELDS) is True


def load_policy(rules: Catalog) -> Policy:
    """The policy of all overlays together; empty without one. Raises BadFile naming file and place."""
    found: dict[str, list[PolicyRule]] = {"forbid": [], "prefer": [], "pin": []}
    for name, raw in rules.documents("policy/").items():
        for kind, ruling in read_policy_rules(name, raw, rules.engines()):
            found[kind].append(ruling)
    return Policy(**{k: tuple(v) for k, v in found.items()})


def read_policy_rules(name: str, raw: object, engines: Mapping[str, Engine]) -> list[tuple[str, PolicyRule]]:
    """The entries of one policy file, checked. Raises BadFile."""
    where = f"rules/{name}"
    try:
        file = convert(raw or {}, PolicyFile)
    except msgspec.ValidationError as e:
        raise BadFile(where, str(e)) from None
    out = []
    for kind in ("forbid", "prefer", "pin"):
        for i, entry in enumerate(getattr(file, kind)):
            path: Path = (kind, i)
            try:
                out.append((kind, _ruling(kind, entry, path, f"{name}:{kind}[{i}]", engines)))
            except GuideFault as e:
                place = ".".join(str(p) for p in e.path)
                raise BadFile(where, f"{place}: {e.text}") from None
    return out


def _ruling(kind: str, entry: _PolicyEntry, path: Path, rule: str, engines: Mapping[str, Engine]) -> PolicyRule:
    by_name = {n: k for k, x in engines.items() for n in (x.id, *x.aliases)}
    if entry.engine not in by_name:
        raise GuideFault((*path, "engine"), f"unknown engine {entry.engine!r}.{suggest_names(entry.engine, by_name)}")
    if not entry.reason.strip():
        raise GuideFault((*path, "reason"), "a ruling gives a reason")
    if (kind == "pin") != (entry.version is not None):
        raise GuideFault(path, "a pin, and only a pin, names a version")
    condition = None if entry.condition is None else parse_condition(entry.condition, (*path, "if"), FIELDS, {}, {})
    code = "data_policy" if kind == "forbid" else kind
    return PolicyRule(
        by_name[entry.engine],
        Reason(code=code, rule=rule, text=entry.reason, source=entry.source),
        condition,
        entry.version,
    )
