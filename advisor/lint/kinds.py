"""Which rule file is read as what. A file that no line here names is read by no part of the program."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of file: its pattern, what it holds, its type (None: entries of tables, advisor/catalog/tables.py)."""

    pattern: str
    holds: str
    type: Callable[[], Any] | None = None
    deep: bool = True  # whether it may stand in a folder further down


def _named(module: str, name: str) -> Callable[[], Any]:
    """The type when it is asked for: the modules behind these names are many."""

    def load() -> Any:
        from importlib import import_module

        return getattr(import_module(module), name)

    return cache(load)


KINDS = (
    Kind("engines/*.yaml", "one engine"),
    Kind("engines/*.yml", "one engine"),
    Kind("hardware/*.yaml", "accelerators and processor platforms"),
    Kind("hardware/*.yml", "accelerators and processor platforms"),
    Kind("models/*.yaml", "models of a family"),
    Kind("models/*.yml", "models of a family"),
    Kind("prices/*.yaml", "rental offers"),
    Kind("prices/*.yml", "rental offers"),
    Kind("quantizations.*", "weight formats"),
    Kind("guides/*.yaml", "a decision guide", _named("advisor.report.rule_schemas", "GuideFile")),
    Kind("policy/*.yaml", "rulings of the house", _named("advisor.decision.policy", "PolicyFile")),
    Kind("flags/*.yaml", "flags of one engine", _named("advisor.engines.flag_tables", "FlagTable"), deep=False),
    Kind("checks/rules/*.yaml", "rules of `advise check`", _named("advisor.checks.rules", "CheckRulesFile")),
    Kind("checks/recognition.yaml", "how launches are recognised", _named("advisor.checks.knowledge", "Recognition")),
    Kind("checks/charts.yaml", "what charts set", _named("advisor.checks.knowledge", "Charts")),
    Kind("checks/resources.yaml", "what resources start", _named("advisor.checks.knowledge", "Resources")),
    Kind("checks/hardware.yaml", "names in clusters", _named("advisor.checks.accelerators", "ClusterNames")),
    Kind("checks/minimum_versions.yaml", "first versions", _named("advisor.checks.knowledge", "MinimumVersions")),
    Kind("targets.yaml", "launch files", _named("advisor.render.matrix", "Targets")),
    Kind("picks.yaml", "models that are offered", _named("advisor.advice.picks", "PicksFile")),
    Kind("cards.yaml", "cards that are shown", _named("advisor.advice.explain", "CardsFile")),
    Kind("workloads.yaml", "defaults of workloads", _named("advisor.advice.defaults", "Orders")),
    Kind("ranking.yaml", "points of the order", _named("advisor.advice.ranking", "Ranking")),
    Kind("budgets.yaml", "costs and budgets", _named("advisor.advice.budget_rules", "BudgetsFile")),
    Kind("comparisons.yaml", "tables of documents", _named("advisor.advice.compare", "ComparisonsFile")),
    Kind("migrations.yaml", "what changes between engines", _named("advisor.advice.migrate", "MigrationsFile")),
    Kind("live-prices.yaml", "names of live offers", _named("advisor.advice.live_prices", "Names")),
    Kind("shorthands.yaml", "short names of formats", _named("advisor.formats", "ShorthandsFile")),
    Kind("drafts.yaml", "draft heads", _named("advisor.memory.draft_bound", "DraftsFile")),
    Kind("speed.yaml", "efficiencies", _named("advisor.speed.efficiencies", "Rules")),
    Kind("speed-engines.yaml", "speed of engines", _named("advisor.speed.engine_rules", "EngineRules")),
)


def kind_of(file: str) -> Kind | None:
    """The kind of a file by its path in the folder of rules; None where nothing reads it."""
    return next(
        (k for k in KINDS if fnmatchcase(file, k.pattern) and (k.deep or file.count("/") == k.pattern.count("/"))), None
    )
