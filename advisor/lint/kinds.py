"""Which rule file is read as what. A file that no line here names is read by no part of the program."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Literal

import msgspec

from advisor.decision.types import GuideSource, Role
from advisor.decoding import Json
from advisor.meanings import FeatureKey, QuantizationName
from advisor.record import Value

Names = str | list[str]

# pattern of the file's path -> where its type stands, imported when it is asked for; None: entries of tables
# (advisor/catalog/load.py), which may be called .yml, too
FILES: dict[str, str | None] = {
    "engines/*.yaml": None,
    "hardware/*.yaml": None,
    "models/*.yaml": None,
    "prices/*.yaml": None,
    "downloads/*.yaml": "advisor.catalog.downloads:DownloadsFile",
    "machines/*.yaml": "advisor.catalog.types:MachinesFile",
    "quantizations.*": None,
    "guides/*.yaml": "advisor.lint.kinds:GuideFile",
    "policy/*.yaml": "advisor.decision.policy:PolicyFile",
    "flags/*.yaml": "advisor.engines.flag_tables:FlagTable",
    "flag-history/*.yaml": "advisor.engines.flag_tables:FlagHistory",
    "routers/*.yaml": "advisor.engines.flag_tables:Router",
    "checks/rules/*.yaml": "advisor.checks.rules.load:CheckRulesFile",
    "checks/recognition.yaml": "advisor.checks.knowledge:RecognitionTables",
    "checks/charts.yaml": "advisor.checks.knowledge:Charts",
    "checks/resources.yaml": "advisor.checks.knowledge:ResourcesFile",
    "checks/hardware.yaml": "advisor.checks.read.accelerators:ClusterNames",
    "checks/minimum_versions.yaml": "advisor.checks.knowledge:MinimumVersions",
    "checks/drivers.yaml": "advisor.checks.facts.hardware:DriverVersions",
    "targets.yaml": "advisor.render.matrix:TargetsFile",
    "targets/*.yaml": "advisor.render.matrix:MoreTargets",
    "choosing.yaml": "advisor.advice.models.choice:ChoosingFile",
    "abilities.yaml": "advisor.ability.lookup:AbilitiesFile",
    "boards.yaml": "advisor.ability.lookup:BoardsFile",
    "thinking.yaml": "advisor.ability.lookup:ThinkingFile",
    "format-loss.yaml": "advisor.ability.lookup:FormatLossFile",
    "licences.yaml": "advisor.ability.lookup:LicencesFile",
    "fleet.yaml": "advisor.fleet.demand:FleetRules",
    "cards.yaml": "advisor.advice.explain:CardsFile",
    "guide-memory.yaml": "advisor.planning.rules:GuideMemory",
    "workloads.yaml": "advisor.planning.rules:WorkloadDefaults",
    "ranking.yaml": "advisor.advice.recommend.engines:Ranking",
    "budgets.yaml": "advisor.advice.hardware.budget:BudgetRules",
    "comparisons.yaml": "advisor.advice.compare:ComparisonsFile",
    "migrations.yaml": "advisor.advice.migrate_types:MigrationsFile",
    "freshness.yaml": "advisor.freshness:FreshnessFile",
    "releases.yaml": "advisor.freshness:ReleasesFile",
    "live-prices.yaml": "advisor.advice.hardware.prices:LivePriceNames",
    "shorthands.yaml": "advisor.formats:ShorthandsFile",
    "model-names.yaml": "advisor.catalog.model_spellings:ModelNamesFile",
    "drafts.yaml": "advisor.memory.draft_bound:DraftsFile",
    "gguf.yaml": "advisor.models.types:GgufArchitectures",
    "speed.yaml": "advisor.speed.efficiencies:SpeedRules",
    "speed-engines.yaml": "advisor.speed.efficiencies:EngineRules",
}
WITHOUT_SUBFOLDERS = ("flags/*.yaml", "flag-history/*.yaml", "routers/*.yaml")


class RuleFileKind(Value, frozen=True):
    """A kind of file: its pattern, and where its type stands (None: entries of tables)."""

    pattern: str
    place: str | None

    @property
    def type(self) -> Any:
        """The type that such a file is read with; None for entries of tables, each of which has its own."""
        module, _, name = (self.place or "").partition(":")
        return getattr(import_module(module), name) if module else None


def find_kind(file: str) -> RuleFileKind | None:
    """The kind of a file by its path in the folder of rules; None where nothing reads it."""
    for pattern, place in FILES.items():
        name = f"{file[:-4]}.yaml" if place is None and file.endswith(".yml") else file
        if fnmatchcase(name, pattern) and (pattern not in WITHOUT_SUBFOLDERS or file.count("/") == pattern.count("/")):
            return RuleFileKind(pattern, place)
    return None


class GuideNode(msgspec.Struct, forbid_unknown_fields=True, rename={"condition": "if", "otherwise": "else"}):
    """A branch or leaf of a guide."""

    id: str
    condition: Any = None
    otherwise: Literal[True] | None = None
    then: Names | None = None
    nodes: list[GuideNode] | None = None
    order: Literal["first_match", "none"] = "first_match"
    refine: list[GuideNode] | None = None
    later: Names | None = None
    overlay: Names | None = None
    hardware: Names | None = None
    quantizations: QuantizationName | list[QuantizationName] | None = None
    avoid: QuantizationName | list[QuantizationName] | None = None
    requires: FeatureKey | list[FeatureKey] | None = None
    prefers: FeatureKey | list[FeatureKey] | None = None
    notes: Names | None = None
    settings: dict[str, bool | int | float | str] = {}
    code: str | None = None
    says: str | None = None
    because: str | None = None
    source: Names | None = None
    verdict: Json | None = None


class GuideTree(msgspec.Struct, forbid_unknown_fields=True):
    """One tree of a guide."""

    name: str
    order: Literal["first_match", "none"]
    nodes: list[GuideNode]
    role: Role = "engine"
    title: str | None = None
    remark: str | None = None
    gaps: str | None = None
    questions: dict[str, Json] = {}


class GuideFile(msgspec.Struct, forbid_unknown_fields=True):
    """guides/*.yaml."""

    name: str
    title: str
    kind: Literal["advice", "source"]
    as_of: str
    sources: dict[str, GuideSource]
    trees: list[GuideTree]
    about: str | None = None
    settings: dict[str, Json] = {}
    terms: Json = {}
    modes: dict[str, str] = {}
