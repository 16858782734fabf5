"""Which rule file is read as what. A file that no line here names is read by no part of the program."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from advisor.record import Value


class RuleFileKind(Value, frozen=True):
    """A kind of file: its pattern, what it holds, its type (None: entries of tables, advisor/catalog/load.py)."""

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
    RuleFileKind("engines/*.yaml", "one engine"),
    RuleFileKind("engines/*.yml", "one engine"),
    RuleFileKind("hardware/*.yaml", "accelerators and processor platforms"),
    RuleFileKind("hardware/*.yml", "accelerators and processor platforms"),
    RuleFileKind("models/*.yaml", "models of a family"),
    RuleFileKind("models/*.yml", "models of a family"),
    RuleFileKind("prices/*.yaml", "rental offers"),
    RuleFileKind("prices/*.yml", "rental offers"),
    RuleFileKind("downloads/*.yaml", "quantized copies", _named("advisor.catalog.downloads", "DownloadsFile")),
    RuleFileKind("machines/*.yaml", "machines by name", _named("advisor.catalog.types", "MachinesFile")),
    RuleFileKind("quantizations.*", "weight formats"),
    RuleFileKind("guides/*.yaml", "a decision guide", _named("advisor.report.rule_schemas", "GuideFile")),
    RuleFileKind("policy/*.yaml", "rulings of the house", _named("advisor.decision.policy", "PolicyFile")),
    RuleFileKind("flags/*.yaml", "flags of one engine", _named("advisor.engines.flag_tables", "FlagTable"), deep=False),
    RuleFileKind(
        "flag-history/*.yaml",
        "flags of an engine's releases",
        _named("advisor.engines.flag_tables", "FlagHistory"),
        deep=False,
    ),
    RuleFileKind(
        "routers/*.yaml", "a router before servers", _named("advisor.engines.flag_tables", "Router"), deep=False
    ),
    RuleFileKind(
        "checks/rules/*.yaml", "rules of `advise check`", _named("advisor.checks.rules.load", "CheckRulesFile")
    ),
    RuleFileKind(
        "checks/recognition.yaml",
        "how launches are recognised",
        _named("advisor.checks.knowledge", "RecognitionTables"),
    ),
    RuleFileKind("checks/charts.yaml", "what charts set", _named("advisor.checks.knowledge", "Charts")),
    RuleFileKind("checks/resources.yaml", "what resources start", _named("advisor.checks.knowledge", "ResourcesFile")),
    RuleFileKind(
        "checks/hardware.yaml", "names in clusters", _named("advisor.checks.read.accelerators", "ClusterNames")
    ),
    RuleFileKind(
        "checks/minimum_versions.yaml", "first versions", _named("advisor.checks.knowledge", "MinimumVersions")
    ),
    RuleFileKind("checks/drivers.yaml", "drivers and CUDA", _named("advisor.checks.facts.hardware", "DriverVersions")),
    RuleFileKind("targets.yaml", "launch files", _named("advisor.render.matrix", "TargetsFile")),
    RuleFileKind("choosing.yaml", "how a model is chosen", _named("advisor.advice.models.choice", "ChoosingFile")),
    RuleFileKind("abilities.yaml", "abilities of models", _named("advisor.ability.lookup", "AbilitiesFile")),
    RuleFileKind("boards.yaml", "tests of ability", _named("advisor.ability.lookup", "BoardsFile")),
    RuleFileKind("thinking.yaml", "models that think", _named("advisor.ability.lookup", "ThinkingFile")),
    RuleFileKind("format-loss.yaml", "what formats cost", _named("advisor.ability.lookup", "FormatLossFile")),
    RuleFileKind("licences.yaml", "what licences allow", _named("advisor.ability.lookup", "LicencesFile")),
    RuleFileKind("fleet.yaml", "defaults of fleet plans", _named("advisor.fleet.fleet_rules", "FleetRules")),
    RuleFileKind("cards.yaml", "cards that are shown", _named("advisor.advice.explain", "CardsFile")),
    RuleFileKind("workloads.yaml", "defaults of workloads", _named("advisor.planning.rules", "WorkloadDefaults")),
    RuleFileKind("ranking.yaml", "points of the order", _named("advisor.advice.recommend.engines", "Ranking")),
    RuleFileKind("budgets.yaml", "costs and budgets", _named("advisor.advice.hardware.budget", "BudgetsFile")),
    RuleFileKind("comparisons.yaml", "tables of documents", _named("advisor.advice.compare", "ComparisonsFile")),
    RuleFileKind(
        "migrations.yaml", "what changes between engines", _named("advisor.advice.migrate_types", "MigrationsFile")
    ),
    RuleFileKind("freshness.yaml", "how long facts are good for", _named("advisor.freshness", "FreshnessFile")),
    RuleFileKind("releases.yaml", "newest releases of engines", _named("advisor.freshness", "ReleasesFile")),
    RuleFileKind(
        "live-prices.yaml", "names of live offers", _named("advisor.advice.hardware.prices", "LivePriceNames")
    ),
    RuleFileKind("shorthands.yaml", "short names of formats", _named("advisor.formats", "ShorthandsFile")),
    RuleFileKind(
        "model-names.yaml", "how names are written", _named("advisor.catalog.model_spellings", "ModelNamesFile")
    ),
    RuleFileKind("drafts.yaml", "draft heads", _named("advisor.memory.draft_bound", "DraftsFile")),
    RuleFileKind("gguf.yaml", "architectures of GGUF files", _named("advisor.models.types", "GgufArchitectures")),
    RuleFileKind("speed.yaml", "efficiencies", _named("advisor.speed.efficiencies", "SpeedRules")),
    RuleFileKind("speed-engines.yaml", "speed of engines", _named("advisor.speed.efficiencies", "EngineRules")),
)


def find_kind(file: str) -> RuleFileKind | None:
    """The kind of a file by its path in the folder of rules; None where nothing reads it."""
    return next(
        (k for k in KINDS if fnmatchcase(file, k.pattern) and (k.deep or file.count("/") == k.pattern.count("/"))), None
    )
