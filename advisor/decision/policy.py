"""House policy from overlays (`policy/*.yaml`): engines to forbid or prefer, versions to pin, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.conditions import Facts, Path, Problem, did_you_mean, outcome, parse_condition
from advisor.decision.fields import FIELDS
from advisor.decision.types import Condition, Reason
from advisor.errors import BadFile


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"condition": "if"}):
    engine: str
    reason: str
    source: str = "house policy"
    version: str | None = None  # of a pin
    condition: Any = None


class PolicyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of one `policy/*.yaml`."""

    forbid: list[_Entry] = []
    prefer: list[_Entry] = []
    pin: list[_Entry] = []


class Ruling(NamedTuple):
    """One entry that is ready to be asked."""

    engine: str
    reason: Reason
    condition: Condition | None
    version: str | None


class Policy(NamedTuple):
    """Everything that the overlays say."""

    forbid: tuple[Ruling, ...] = ()
    prefer: tuple[Ruling, ...] = ()
    pin: tuple[Ruling, ...] = ()

    def forbidden(self, engine: str, facts: Facts) -> Reason | None:
        """Why an engine must not be used; None when nothing forbids it."""
        return next((r.reason for r in self.forbid if r.engine == engine and _holds(r, facts)), None)

    def preferred(self, engine: str, facts: Facts) -> Reason | None:
        """Why an engine goes before the guide's own order; None when nothing prefers it."""
        return next((r.reason for r in self.prefer if r.engine == engine and _holds(r, facts)), None)

    def version(self, engine: str, facts: Facts) -> tuple[str, str] | None:
        """(version, reason) that an engine is pinned to; None when it is not."""
        found = (r for r in self.pin if r.engine == engine and r.version and _holds(r, facts))
        return next(((r.version or "", r.reason.text) for r in found), None)


def _holds(r: Ruling, facts: Facts) -> bool:
    return r.condition is None or outcome(r.condition, facts, FIELDS) is True


def policy(rules: Catalog) -> Policy:
    """The policy of all overlays together; empty without one. Raises BadFile naming file and place."""
    found: dict[str, list[Ruling]] = {"forbid": [], "prefer": [], "pin": []}
    for name, raw in rules.documents("policy/").items():
        for kind, ruling in rulings(name, raw, rules.engines()):
            found[kind].append(ruling)
    return Policy(**{k: tuple(v) for k, v in found.items()})


def rulings(name: str, raw: Any, engines: Mapping[str, Engine]) -> list[tuple[str, Ruling]]:
    """The entries of one policy file, checked. Raises BadFile."""
    where = f"rules/{name}"
    try:
        file = msgspec.convert(raw or {}, PolicyFile)
    except msgspec.ValidationError as e:
        raise BadFile(where, str(e)) from None
    out = []
    for kind in ("forbid", "prefer", "pin"):
        for i, entry in enumerate(getattr(file, kind)):
            path: Path = (kind, i)
            try:
                out.append((kind, _ruling(kind, entry, path, f"{name}:{kind}[{i}]", engines)))
            except Problem as e:
                place = ".".join(str(p) for p in e.path)
                raise BadFile(where, f"{place}: {e.text}") from None
    return out


def _ruling(kind: str, e: _Entry, path: Path, rule: str, engines: Mapping[str, Engine]) -> Ruling:
    by_name = {n: k for k, x in engines.items() for n in (x.id, *x.aliases)}
    if e.engine not in by_name:
        raise Problem((*path, "engine"), f"unknown engine {e.engine!r}.{did_you_mean(e.engine, by_name)}")
    if not e.reason.strip():
        raise Problem((*path, "reason"), "a ruling gives a reason")
    if (kind == "pin") != (e.version is not None):
        raise Problem(path, "a pin, and only a pin, names a version")
    condition = None if e.condition is None else parse_condition(e.condition, (*path, "if"), FIELDS, {}, {})
    code = "data_policy" if kind == "forbid" else kind
    return Ruling(by_name[e.engine], Reason(code=code, rule=rule, text=e.reason, source=e.source), condition, e.version)
