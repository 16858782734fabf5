"""Which rule file is read as what. A file that no line here names is read by no part of the program."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import msgspec

from advisor.catalog.load import TYPES, MisplacedDocument, read_entries
from advisor.decoding import convert
from advisor.record import Value

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
    "guides/*.yaml": "advisor.decision.types:GuideFile",
    "policy/*.yaml": "advisor.decision.policy:PolicyFile",
    "flags/*.yaml": "advisor.engines.flag_tables:FlagTable",
    "flag-history/*.yaml": "advisor.engines.flag_tables:FlagHistory",
    "routers/*.yaml": "advisor.engines.flag_tables:Router",
    "starts/*.yaml": "advisor.engines.registries:StartsFile",
    "recipes/*.yaml": "advisor.planning.recipes:RecipesFile",
    "variables.yaml": "advisor.engines.flag_tables:SettingEffects",
    "start-limits.yaml": "advisor.engines.registries:StartRules",
    "checks/rules/*.yaml": "advisor.checks.rules.load:CheckRulesFile",
    "checks/recognition.yaml": "advisor.checks.knowledge:RecognitionTables",
    "checks/charts.yaml": "advisor.checks.knowledge:Charts",
    "checks/resources.yaml": "advisor.checks.knowledge:ResourcesFile",
    "checks/hardware.yaml": "advisor.checks.read.accelerators:ClusterNames",
    "checks/minimum_versions.yaml": "advisor.checks.knowledge:MinimumVersions",
    "checks/drivers.yaml": "advisor.checks.facts.hardware:DriverVersions",
    "targets.yaml": "advisor.render.matrix:TargetsFile",
    "targets/*.yaml": "advisor.render.matrix:MoreTargets",
    "choosing.yaml": "advisor.planning.utility:UtilityRules",
    "abilities.yaml": "advisor.ability.lookup:AbilitiesFile",
    "boards.yaml": "advisor.ability.lookup:BoardsFile",
    "known-engines.yaml": "advisor.catalog.types:KnownEnginesFile",
    "thinking.yaml": "advisor.ability.lookup:ThinkingFile",
    "format-loss.yaml": "advisor.ability.lookup:FormatLossFile",
    "licences.yaml": "advisor.ability.lookup:LicencesFile",
    "fleet.yaml": "advisor.fleet.demand:FleetRules",
    "effects.yaml": "advisor.advice.effects:WhereItMatters",
    "node-labels.yaml": "advisor.fleet.inventory.labels:NodeWords",
    "cards.yaml": "advisor.catalog.described_machine:CardsFile",
    "guide-memory.yaml": "advisor.planning.rules:GuideMemory",
    "workloads.yaml": "advisor.planning.rules:WorkloadDefaults",
    "reserve.yaml": "advisor.catalog.described_machine:ReserveFile",
    "ranking.yaml": "advisor.planning.rules:Ranking",
    "budgets.yaml": "advisor.advice.hardware.budget:BudgetRules",
    "comparisons.yaml": "advisor.advice.compare:ComparisonsFile",
    "migrations.yaml": "advisor.advice.migrate_types:MigrationsFile",
    "freshness.yaml": "advisor.freshness:FreshnessFile",
    "mirrors.yaml": "advisor.render.matrix:Mirrors",
    "releases.yaml": "advisor.freshness:ReleasesFile",
    "live-prices.yaml": "advisor.advice.hardware.prices:LivePriceNames",
    "option-words.yaml": "advisor.advice.option_words:OptionWords",
    "shorthands.yaml": "advisor.formats:ShorthandsFile",
    "hardware-words.yaml": "advisor.catalog.described_machine:HardwareWords",
    "model-names.yaml": "advisor.catalog.model_spellings:ModelNamesFile",
    "drafts.yaml": "advisor.memory.draft_bound:DraftsFile",
    "gguf.yaml": "advisor.models.types:GgufArchitectures",
    "hf-generated.yaml": "advisor.models.hf_keys:ConfigClasses",
    "hf.yaml": "advisor.models.hf_keys:ConfigClasses",
    "speed.yaml": "advisor.speed.efficiencies:SpeedRules",
    "speed-engines.yaml": "advisor.speed.efficiencies:EngineRules",
    "speed-machines.yaml": "advisor.speed.rates:MachineRules",
}
WITHOUT_SUBFOLDERS = ("flags/*.yaml", "flag-history/*.yaml", "routers/*.yaml", "starts/*.yaml", "recipes/*.yaml")


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


def find_document_fault(file: str, document: object) -> str | None:
    """Why this program cannot read a rule file of this path; None where it can. Entries of tables are checked one by
    one, without the names that they refer to."""
    kind = find_kind(file)
    if kind is None:
        return "no part of the program reads a file of this name"
    try:
        if kind.type is not None:
            convert(document, kind.type)
            return None
        for entry in read_entries(file, document):
            convert(entry.data, TYPES[entry.table])
    except MisplacedDocument as e:
        return e.problem
    except msgspec.ValidationError as e:
        return str(e)
    return None
