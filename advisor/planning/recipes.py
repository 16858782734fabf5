"""What the engines' own recipes say of a model: parsers of its answers, settings of its launch (rules/recipes)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.decision.starts import list_devices
from advisor.deployment import Deployment, Setting
from advisor.engines.flag_tables import FlagTable, find_presence, find_value, load_flag_table
from advisor.engines.registries import name_platform
from advisor.meanings import EngineId, FlagName, Pattern, QuantizationName
from advisor.models.types import Model
from advisor.record import Record
from advisor.render.words import make_model_reference

if TYPE_CHECKING:
    from advisor.machines.types import Machine

PART: dict[bool, Literal["flags", "variables"]] = {False: "flags", True: "variables"}  # of a history, by capitals


class AnswerParser(Record, frozen=True, kw_only=True):
    """Which of an engine's parsers take a model's answers apart. `models` is a regular expression over ids."""

    models: Pattern
    tool_calls: str | None = None
    reasoning: str | None = None
    note: str | None = None
    source: str


class LaunchRecipe(Record, frozen=True, kw_only=True):
    """Settings that a model's launch needs, or that its recipe has. Empty: for all of them."""

    models: Pattern
    devices: tuple[str, ...] = ()  # as rules/starts names them: gfx942, sm90, cuda
    formats: tuple[QuantizationName, ...] = ()
    publisher: bool = False  # only for checkpoints of the model's own publisher
    tools: bool = False  # only where tools are called
    settings: dict[str, Setting]  # a name in capitals is an environment variable
    note: str | None = None
    source: str


class ParserSwitch(Record, frozen=True, kw_only=True):
    """The engine's switch that a parser of tool calls needs."""

    setting: FlagName
    because: str


class RecipesFile(Record, frozen=True, kw_only=True):
    """rules/recipes/<engine>.yaml: of `parsers` and `drafts` the first that matches counts, of `launches` all do."""

    engine: EngineId
    as_of: str
    source: str
    switch: ParserSwitch | None = None
    parsers: tuple[AnswerParser, ...]
    launches: tuple[LaunchRecipe, ...] = ()
    drafts: tuple[LaunchRecipe, ...] = ()  # speculative decoding


def load_recipes(engine_id: str, rules: Catalog) -> RecipesFile | None:
    """The recipes of an engine; None where none were read."""
    path = f"recipes/{engine_id}.yaml"
    return decode_document(rules, path, RecipesFile) if rules.has_document(path) else None


def find_parsers(engine_id: str, model: Model, rules: Catalog) -> AnswerParser | None:
    """The parsers of an engine for a model, whatever the release; None where none are known."""
    known = load_recipes(engine_id, rules)
    found = known.parsers if known is not None and model.kind == "chat" else ()
    return next((p for p in found if re.search(p.models, model.id)), None)


def find_tool_parser(engine_id: str, model: Model, rules: Catalog) -> str | None:
    """The parser of tool calls for a model, whatever the release; None where none is known."""
    found = find_parsers(engine_id, model, rules)
    return found.tool_calls if found is not None else None


def find_draft_recipe(engine_id: str, model: Model, machine: Machine | None, rules: Catalog) -> dict[str, Setting]:
    """The settings by which the engine's recipe has a model draft on these devices; empty where it has none."""
    known = load_recipes(engine_id, rules)
    mine = (x for x in known.drafts if re.search(x.models, model.id)) if known is not None else ()
    found = next((x for x in mine if _runs_on(x.devices, machine, rules)), None)
    return {} if found is None else found.settings


def with_recipe(deployment: Deployment, rules: Catalog, tools: bool) -> Deployment:
    """The deployment with what its engine's recipe adds, each with its reason.

    Nothing is written over a setting that is there, nor what the release does not have. `tools`: tools are called.
    """
    inner = engines.settings_entry(deployment.engine, rules.engines())
    known = load_recipes(inner.id, rules)
    if known is None:
        return deployment
    table = load_flag_table(inner.id, rules)
    there = {_plain(k) for k in (*deployment.settings, *deployment.environment)}
    settings: dict[str, Setting] = {}
    because: dict[str, str] = {}
    for name, value, why in _list_settings(deployment, known, inner.name, rules, tools):
        if _plain(name) not in there and _has_setting(table, name, value, deployment.engine_version):
            there.add(_plain(name))
            settings[name], because[name] = value, why
    if not settings:
        return deployment
    merged = {**deployment.settings, **settings}
    return replace(deployment, settings=merged, because={**deployment.because, **because})


def list_recipe_notes(deployment: Deployment, rules: Catalog) -> tuple[str, ...]:
    """What has to be known of the recipe's settings that a deployment has."""
    known = load_recipes(engines.settings_entry(deployment.engine, rules.engines()).id, rules)
    if known is None:
        return ()
    rows: list[tuple[str | None, str, dict[str, Setting]]] = [(x.note, x.models, x.settings) for x in known.launches]
    rows += [(x.note, x.models, {"tool-call-parser": x.tool_calls or ""}) for x in known.parsers]
    return tuple(
        note
        for note, models, settings in rows
        if note and re.search(models, deployment.model.id) and settings.items() <= deployment.settings.items()
    )


def _plain(name: str) -> str:
    return name if name.isupper() else name.replace("_", "-")


def _list_settings(
    deployment: Deployment, known: RecipesFile, engine: str, rules: Catalog, tools: bool
) -> Iterator[tuple[str, Setting, str]]:
    """(name, value, why) of everything that the recipe has for the deployment."""
    parsers = find_parsers(known.engine, deployment.model, rules)
    if known.switch is not None and ((parsers and parsers.tool_calls) or "tool-call-parser" in deployment.settings):
        yield known.switch.setting, True, known.switch.because
    if parsers is not None and parsers.tool_calls:
        yield "tool-call-parser", parsers.tool_calls, "the form of this model's tool calls"
    if parsers is not None and parsers.reasoning:
        yield "reasoning-parser", parsers.reasoning, "keeps this model's reasoning out of its answer"
    why = f"the {engine} recipe of {deployment.model.id.rpartition('/')[2]}"
    for launch in known.launches:
        if re.search(launch.models, deployment.model.id) and _meets(launch, deployment, rules, tools):
            yield from ((name, value, why) for name, value in launch.settings.items())


def _meets(launch: LaunchRecipe, deployment: Deployment, rules: Catalog, tools: bool) -> bool:
    if (launch.tools and not tools) or (launch.formats and deployment.quantization not in launch.formats):
        return False
    if not _runs_on(launch.devices, deployment.machine, rules):
        return False
    if not launch.publisher:
        return True
    served, maker = make_model_reference(deployment, rules), deployment.model.id.partition("/")[0]
    return served.path is None and (served.repository or "").partition("/")[0] == maker


def _runs_on(named: tuple[str, ...], machine: Machine | None, rules: Catalog) -> bool:
    """Whether all devices of a machine are among those that a recipe names, if it names any."""
    devices = list_devices(machine, rules) if machine is not None and named else ()
    return not named or (bool(devices) and all({d, name_platform(d)} & set(named) for d in devices))


def _has_setting(table: FlagTable | None, name: str, value: Setting, version: str | None) -> bool:
    """Whether the release has a setting, and the parser that it names; what was not read is taken to be there."""
    if table is None:
        return True
    key, part = _plain(name), PART[name.isupper()]
    has = f"--{key}" in table.spellings()
    if name.isupper():
        has = name in table.variables or not name.startswith(table.variable_prefix or name)
    if table.history is None:
        return has
    there, listed = (
        find_presence(table.history, key, version, part),
        find_value(table.history, key, str(value), version),
    )
    return (has if there is None else there.has is not False) and (listed is None or listed.has is not False)
