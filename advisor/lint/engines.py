"""Engines: what an entry says of itself, its memory constants, its names for cache types, and recipes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from advisor import engines
from advisor.catalog.flaws import At, find_flaws
from advisor.catalog.launch_types import Concept, Concepts
from advisor.catalog.types import Accelerator, Engine
from advisor.decision.types import SYSTEMS
from advisor.decoding import Json
from advisor.engines import module_name
from advisor.engines.versions import version_key
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.lint.faults import Fault, nearest_names, one_line
from advisor.lint.flags import find_flag_table, is_known_setting, list_setting_names
from advisor.lint.house import House, RuleDocument, TableItem, memory_type
from advisor.lint.reading import EntryPlace
from advisor.models.types import Dense, Model
from advisor.session import Session

TABLES = ("os", "hardware", "formats", "quantization", "features", "floors")
MISSPELT = 0.8  # likeness from which a key that one engine alone has is taken for another's
KV_BYTES = (0.1, 8.0)  # of one value in a cache
# names by which engines are recognised: each leads to one engine
CLAIMS = ("programs", "modules", "packages", "installed_programs", "image_words")
SHARES = ("memory_share",)  # concepts whose number is a part of a whole
MISSPELT_VALUE = 0.85  # likeness from which a value is taken for another
LEAST_MEMORY = 16 * 2**30
BLOCKS = ("defaults", "memory")


def find_engines_faults(house: House) -> Iterator[Fault]:
    """What is wrong with engines' entries."""
    used = {t: Counter(k for e in house.engines.values() for k in getattr(e, t)) for t in TABLES}
    for item in house.tables["engines"].values():
        yield from _entry(house, item)
        yield from _keys(item, used)
        yield from _floors(item)
        entry: Engine = item.entry
        rows = enumerate(entry.quantization_on)
        yield from item.place.twice((("quantization_on", i), f"{r.quantization} on {r.generation}") for i, r in rows)
        for i, image in enumerate(entry.images):
            if "{version}" in image.tag and entry.version is None:
                problem = f"{image.repository} pins a version and the entry has no `version`"
                yield item.place.field("missing_key", ("images", i), problem)
        yield from _memory(item)
    for document in house.under("recipes/").values():
        yield from _recipes(house, document)


def _entry(house: House, item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if not entry.sources:
        yield item.place.fault("source", "has no `sources`")
    for name in ("defaults", "memory", "versions"):
        yield from _keys_inside(entry, item.place, getattr(entry, name), (name,))
    newest = entry.latest_seen.version if entry.latest_seen else ""
    if entry.version and re.fullmatch(r"v?\d+(\.\d+)+\S*", newest) and version_key(entry.version) > version_key(newest):
        problem = f"{entry.version} is newer than latest_seen.version {newest}"
        yield item.place.field("contradiction", ("version",), problem)
    if _runs_itself(entry.id, house):
        yield item.place.field("contradiction", ("runs",), "runs itself in the end")


def _runs_itself(engine: str, house: House) -> bool:
    known, reached, stack = house.engines, set[str](), [engine]
    while stack:
        entry = known.get(stack.pop())
        for inner in entry.runs if entry else ():
            if inner == engine:
                return True
            if inner not in reached:
                reached.add(inner)
                stack.append(inner)
    return False


def _keys_inside(entry: Engine, place: EntryPlace, value: object, at: At) -> Iterator[Fault]:
    """Source keys in blocks of free form."""
    if not isinstance(value, dict):
        return
    cited = value.get("src")
    for i, name in enumerate(cited if isinstance(cited, list) else ()):
        yield from place.unknown((*at, "src", i), "source", name, entry.sources)
    for name, inner in value.items():
        yield from _keys_inside(entry, place, inner, (*at, name))


def _keys(item: TableItem, used: dict[str, Counter[str]]) -> Iterator[Fault]:
    """A key that no other engine has, and that nearly is one which others have."""
    for table in TABLES:
        for name in getattr(item.entry, table):
            if used[table][name] > 1 or name in SYSTEMS:
                continue
            others = [k for k, n in used[table].items() if n > 1]
            alike = [k for k in others if SequenceMatcher(None, k, name).ratio() >= MISSPELT]
            if alike:
                problem = f"no other engine has a key {name!r}"
                yield item.place.field("unknown_key", (table, name), problem, alike[:2])


def _floors(item: TableItem) -> Iterator[Fault]:
    for target, floor in item.entry.floors.items():
        for field in ("os_version", "arch"):
            for system in getattr(floor, field):
                yield from item.place.unknown(("floors", target, field, system), "operating system", system, SYSTEMS)


def _recipes(house: House, document: RuleDocument) -> Iterator[Fault]:
    """Recipes: parsers that the engine's flag takes, settings that its server has, patterns that some model matches."""
    table, recipes = find_flag_table(document.value.engine, house), document.value
    for part in ("parsers", "launches"):
        for i, entry in enumerate(getattr(recipes, part)):
            if not house.hidden and not any(re.search(entry.models, m) for m in house.ids["models"]):
                problem = f"{entry.models!r} matches no model of the catalogue"
                yield document.place.field("unknown_name", (part, i, "models"), problem)
            for name in getattr(entry, "settings", ()):
                if table is not None and not name.isupper() and not is_known_setting(name, table, whole=True):
                    problem = f"{name!r} is no setting of {recipes.engine}"
                    yield document.place.field("unknown_name", (part, i, "settings", name), problem)
    for i, entry in enumerate(recipes.parsers):
        for flag, field in (("tool-call-parser", "tool_calls"), ("reasoning-parser", "reasoning")):
            parser, listed = getattr(entry, field), table.flags.get(flag) if table else None
            choices = (*listed.c, *listed.v) if listed else ()
            if parser and choices and parser not in choices:
                near = nearest_names(parser, choices)
                yield document.place.field("unknown_name", ("parsers", i, field), f"--{flag} has no {parser!r}", near)


def _memory(item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if not entry.memory:
        return
    kind = memory_type(entry)
    if kind is None:
        runs = f"{entry.id} runs {entry.runs[0]}, whose constants count" if entry.runs else ""
        problem = (
            f"nothing reads `memory`: {runs or 'it says no `family` (pool or plain: no Python is needed)'}, and there "
            f"is no advisor/engines/{module_name(entry.id)}.py"
        )
        yield item.place.fault("missing_place", problem, ("memory",))
        return
    if not find_flaws(item.data["memory"], kind):
        yield from _constants(item)


def _constants(item: TableItem) -> Iterator[Fault]:
    """What the types of the constants cannot say."""
    memory: Json = item.data["memory"]
    sizes = memory.get("kv_bytes", {})
    for name, size in sizes.items():
        if not KV_BYTES[0] <= size <= KV_BYTES[1]:
            yield item.place.field(
                "unit", ("memory", "kv_bytes", name), f"{size:g} bytes are not the size of one value"
            )
    for i, name in enumerate(memory.get("smaller_kv", ()) if sizes else ()):
        yield from item.place.unknown(("memory", "smaller_kv", i), "cache type", name, sizes)
    for name in memory.get("packed_kv", {}):
        yield from item.place.unknown(("memory", "packed_kv", name), "cache type", name, sizes)
    tiers = memory.get("tiers")
    if tiers and not any("before" not in r and not r.get("accelerators") for r in tiers):
        problem = "one row must hold for any card and the newest version: without `before` and `accelerators`"
        yield item.place.field("range", ("memory", "tiers"), problem)
    outside = memory.get("outside_gib")
    if outside and not any(r.get("from_ranks", 1) <= 1 and not r.get("unified") for r in outside):
        problem = "one row must hold for one rank on a card of its own: without `from_ranks` and `unified`"
        yield item.place.field("range", ("memory", "outside_gib"), problem)
    for field in ("fraction", "activation"):
        rows = memory.get(field)
        if rows and sum("before" not in r for r in rows) != 1:
            problem = "one row, and only one, must be without `before`: it holds for the newest version"
            yield item.place.field("range", ("memory", field), problem)


def find_concepts_faults(house: House) -> Iterator[Fault]:
    """Concepts and marks of recognition that contradict each other."""
    for item in house.items("engines"):
        for name in Concepts.__struct_fields__:
            concept: Concept = getattr(item.entry.concepts, name)
            yield from _concept(house, item, name, concept)
        yield from _server(item)
    yield from _claimed(house)


def _concept(house: House, item: TableItem, name: str, concept: Concept) -> Iterator[Fault]:
    engine: Engine = item.entry
    at: At = ("concepts", name)
    table = find_flag_table(engine.id, house)
    for i, variable in enumerate(concept.environment):
        if table is not None and table.variables and variable not in list_setting_names(table):
            problem = f"{variable!r} is not a variable in rules/flags/{table.engine}.yaml"
            yield item.place.field(
                "unknown_name", (*at, "environment", i), problem, nearest_names(variable, list_setting_names(table))
            )
    if concept.default and sum(d.before is None for d in concept.default) != 1:
        problem = "one default, and only one, must be without `before`: it holds for the newest version"
        yield item.place.field("range", (*at, "default"), problem)
    for i, versioned_number in enumerate(concept.default):
        if name in SHARES and not 0 < versioned_number.number <= 1:
            yield item.place.field(
                "unit", (*at, "default", i), f"{versioned_number.number:g} is not a share of a whole (0 to 1)"
            )
    for flag in concept.flags:
        other_default = engine.defaults.get(flag.replace("-", "_"))
        newest = next((d.number for d in concept.default if d.before is None), None)
        if isinstance(other_default, (int, float)) and newest is not None and other_default != newest:
            problem = f"the default is {newest:g} here and {other_default:g} in `defaults`"
            yield item.place.field("contradiction", (*at, "default"), problem)
    if table is not None and concept.flags and concept.flags[0] in table.flags:
        entry = table.flags[concept.flags[0]]
        choices = (*entry.c, *entry.v)
        for i, word in enumerate(concept.accepts):  # older versions may have taken more: only slips can be found
            alike = [x for x in choices if x != word and SequenceMatcher(None, x, word).ratio() >= MISSPELT_VALUE]
            if word not in choices and alike:
                problem = f"--{concept.flags[0]} does not take {word!r}"
                yield item.place.field("unknown_name", (*at, "accepts", i), problem, alike[:2])


def _server(item: TableItem) -> Iterator[Fault]:
    server = item.entry.recognition.server
    recognised = item.entry.recognition
    recognisable = any(getattr(recognised, c) for c in (*CLAIMS, "images")) or server is not None
    if recognisable and not recognised.source:
        yield item.place.field("source", ("recognition",), "names no source")


def _claimed(house: House) -> Iterator[Fault]:
    """Programs, modules and packages that two engines call theirs."""
    for claim in CLAIMS:
        first: dict[str, TableItem] = {}
        for item in house.tables["engines"].values():
            for i, name in enumerate(getattr(item.entry.recognition, claim)):
                other = first.setdefault(name, item)
                if other is not item:
                    listed = isinstance(getattr(item.entry.recognition, claim), tuple)
                    at: At = ("recognition", claim, i if listed else name)
                    problem = f"{name!r} is also of {other.entry.id} ({other.place.file.shown})"
                    yield item.place.field("duplicate_name", at, problem)


def find_estimates_faults(house: House) -> Iterator[Fault]:
    """Blocks of an entry that its module refuses."""
    model, card = _model(house), _card(house)
    if model is None or card is None:
        return
    for item in house.items("engines"):
        name = item.entry.id
        if ("engines", name) in house.hopeless:
            continue
        try:
            refused = list(_refused(house, name, model, card))
        except Exception as e:  # what should have been refused: constants that each are right and do not go together
            if item.entry.memory:
                problem = f"an estimate with these constants fails ({type(e).__name__}: {e})"
                yield item.place.field("contradiction", ("memory",), one_line(problem))
            continue
        for problem in refused:
            yield from _refusal(name, item, problem)


def _refusal(name: str, item: TableItem, problem: str) -> Iterator[Fault]:
    """A refusal as a fault of the block that it is about."""
    m = re.fullmatch(rf"rules/engines/{re.escape(name)}\.yaml, (\w+): (.*?)(?: - at `\$\.?(.*)`)?", problem)
    if m and m[1] in BLOCKS:
        where = (m[1], *(p for p in re.split(r"\.|\[.*?\]", m[3] or "") if p))
        yield item.place.field("wrong_value", where, one_line(m[2][0].lower() + m[2][1:]))
    elif m is None and memory_type(item.entry) is not None:
        reason = problem.removeprefix(f"rules/engines/{name}.yaml: ")
        yield item.place.field("contradiction", ("memory",), one_line(f"the simplest estimate is refused: {reason}"))


def _refused(house: House, engine: str, model: Model, card: Accelerator) -> Iterator[str]:
    """What is stated when a small model is sized and its launch decided."""
    asked = EstimateRequest(model=model.id, engine=engine, hardware=f"1x {card.name}", context_length=2048)
    try:
        deployment, _ = resolve_request(asked, house.catalog)
        estimate(deployment, Session(house.catalog))
        engines.decide_settings(
            deployment, house.catalog.engines(), house.catalog.quantization(deployment.quantization)
        )
    except AdvisorError as e:
        yield e.message


def _model(house: House) -> Model | None:
    """The smallest dense chat model whose layout is known."""
    known = [m for m in house.models.values() if m.layout is not None and m.kind == "chat" and m.max_context]
    dense = [m for m in known if m.layout is not None and all(isinstance(g, Dense) for g in m.layout.ffn)]
    return min(dense, key=lambda m: m.params_total, default=None)


def _card(house: House) -> Accelerator | None:
    cards = [a for a in house.accelerators.values() if a.vendor == "nvidia" and (a.memory_bytes or 0) >= LEAST_MEMORY]
    return min(cards, key=lambda a: a.id, default=None)
