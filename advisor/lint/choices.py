"""What is offered and compared: choosing, cards, workloads, ranking, tables of documents, migrations, drafts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.advice.compare import ComparisonsFile
from advisor.advice.migrate_types import MigrationsFile
from advisor.catalog.flaws import At
from advisor.catalog.types import Engine, MachinesFile
from advisor.decision.guides import guide_problems
from advisor.decision.policy import PolicyRule, read_policy_rules
from advisor.decision.types import USE_CASES
from advisor.decoding import Json
from advisor.errors import BadFile
from advisor.lint.faults import Code, Fault, nearest_names, one_line, without_hint
from advisor.lint.flags import find_flag_table, unknown_setting
from advisor.lint.house import House, RuleDocument
from advisor.lint.reading import EntryPlace
from advisor.near import simplify_name
from advisor.planning.utility import UtilityRules

ANY = "any"  # a pair of migrations that holds for every engine
PLACEHOLDER = "{hardware}"  # a row of comparisons that depends on the machine
# fields of a comparison that are no table or value of an entry
OF_COMPARISONS = ("status", "version", "license", "os", "formats", "floor", PLACEHOLDER, "quantization.4bit")
_WORDS: tuple[tuple[str, Code], ...] = (
    ("can never be reached", "unreachable"),
    ("unknown ", "unknown_name"),
    ("has no source", "source"),
    ("is missing", "missing_key"),
)


def find_choices_faults(house: House) -> Iterator[Fault]:
    """Choices that name nothing, say too little, or contradict each other."""
    checks = {
        "choosing.yaml": _choosing,
        "cards.yaml": _cards,
        "workloads.yaml": _workloads,
        "comparisons.yaml": _comparisons,
        "migrations.yaml": _migrations,
        "drafts.yaml": _drafts,
    }
    for path, check in checks.items():
        if path in house.documents:
            yield from check(house, house.documents[path])
    yield from _machines(house)


def _machines(house: House) -> Iterator[Fault]:
    """Machines of all files: each holds something that can be read, and no two have one name."""
    seen: dict[str, str] = {}
    for path, document in house.documents.items():
        if not path.startswith("machines/"):
            continue
        file: MachinesFile = document.value
        for i, machine in enumerate(file.machines):
            at: At = ("machines", i)
            if (machine.hardware is None) == (not machine.chips):
                yield document.place.field("wrong_value", at, f"{machine.names[0]} needs either `hardware` or `chips`")
            for name in machine.names:
                other = seen.setdefault(simplify_name(name), machine.names[0])
                if other != machine.names[0]:
                    yield document.place.field("duplicate_name", (*at, "names"), f"{name} is a name of {other} too")


def _choosing(house: House, document: RuleDocument) -> Iterator[Fault]:
    file: UtilityRules = document.value
    for use in USE_CASES:
        for table in ("slowest_decode_tps", "patience_s", "answer_tokens"):
            if use not in getattr(file, table):
                yield document.place.field("missing_place", (table,), f"{use} is in no row")


def _cards(house: House, document: RuleDocument) -> Iterator[Fault]:
    counts = document.value.counts
    if counts != sorted(set(counts)) or any(n < 1 for n in counts):
        yield document.place.field("range", ("counts",), f"{counts} do not rise from 1")
    yield from document.place.twice((("accelerators", i), n) for i, n in enumerate(document.value.accelerators))


def _workloads(house: House, document: RuleDocument) -> Iterator[Fault]:
    for use in USE_CASES:
        if use not in document.value.context:
            yield document.place.field("missing_place", ("context",), f"{use} has no context length")


def _comparisons(house: House, document: RuleDocument) -> Iterator[Fault]:
    file: ComparisonsFile = document.value
    rows = [(("tables", t, "rows", r, "id"), row.id) for t, x in enumerate(file.tables) for r, row in enumerate(x.rows)]
    yield from document.place.twice(rows)
    for t, table in enumerate(file.tables):
        for r, row in enumerate(table.rows):
            at: At = ("tables", t, "rows", r)
            if len(row.said) != len(table.engines):
                problem = f"{row.id} has {len(row.said)} cells for {len(table.engines)} engines"
                yield document.place.field("total", (*at, "said"), problem)
            if row.field is not None:
                yield from _field(house, document, (*at, "field"), row.field)
        if table.names and len(table.names) != len(table.engines):
            problem = f"{len(table.names)} names for {len(table.engines)} engines"
            yield document.place.field("total", ("tables", t, "names"), problem)
    for i, line in enumerate(file.rows):
        yield from _field(house, document, ("rows", i, "field"), line.field)


def _field(house: House, document: RuleDocument, at: At, field: str) -> Iterator[Fault]:
    """A field is a value of an entry, or keys of one of its tables that some engine has."""
    part, _, keys = field.partition(".")
    if field in OF_COMPARISONS:
        return
    if part not in Engine.__struct_fields__:
        yield document.place.field(
            "unknown_name", at, f"unknown field {field!r}", nearest_names(part, Engine.__struct_fields__)
        )
        return
    have = {k for e in house.engines.values() for k in _table(e, part)}
    for name in keys.split("|") if keys else ():
        if name not in have:
            yield document.place.field("unknown_name", at, f"no engine has {part}.{name}", nearest_names(name, have))


def _table(entry: Engine, part: str) -> Json:
    found = getattr(entry, part)
    return found if isinstance(found, dict) else {}


def _migrations(house: House, document: RuleDocument) -> Iterator[Fault]:
    file: MigrationsFile = document.value
    yield from document.place.twice((("concepts", i, "id"), concept.id) for i, concept in enumerate(file.concepts))
    for i, concept in enumerate(file.concepts):
        for engine, names in concept.names.items():
            table = find_flag_table(engine, house)
            for name in names.split(", ") if table is not None and "(" not in names else ():
                assert table is not None
                yield from unknown_setting(document.place, ("concepts", i, "names", engine), name, table, "setting")
    for i, pair in enumerate(file.pairs):
        for field, name in (("from", pair.source), ("to", pair.target)):
            if name != ANY:
                yield from house.unknown(document.place, ("pairs", i, field), "engine", name, table="engines")
        if pair.source == pair.target:
            yield document.place.field("contradiction", ("pairs", i), "from and to are the same")


def _drafts(house: House, document: RuleDocument) -> Iterator[Fault]:
    methods = list(enumerate(document.value.methods))
    yield from document.place.twice((("methods", i, "names", k), n) for i, m in methods for k, n in enumerate(m.names))
    for i, method in methods:
        for k, name in enumerate(method.names):
            if name != name.lower() or re.search(r"\s", name):
                problem = f"{name!r} is not in lower case, as it is looked up"
                yield document.place.field("wrong_value", ("methods", i, "names", k), problem)
        if method.layers < 1 or method.hidden_states < 0:
            yield document.place.field("unit", ("methods", i), "layers are one at least, hidden_states none at least")


def find_guides_faults(house: House) -> Iterator[Fault]:
    """Problems of guides and policies beyond the shape of their files."""
    for document in house.under("guides/").values():
        asked = house.is_asked(document.place)
        for line, text in guide_problems(document.value, document.file.line, house.ids["engines"]) if asked else ():
            if not _hidden(text, house):
                problem, hint = without_hint(text)
                file = document.file.shown
                yield Fault(file=file, line=line, code=_code(text), message=one_line(problem), near=hint)
    for name, document in house.under("policy/").items():
        yield from _policy(name, document, house)


def _code(text: str) -> Code:
    return next((code for words, code in _WORDS if words in text), "condition")


def _hidden(text: str, house: House) -> bool:
    """Whether what is unknown may stand in a file that cannot be read."""
    name = text.partition("unknown engine '")[2].partition("'")[0]
    return bool(name) and name in house.hidden


def _policy(name: str, document: RuleDocument, house: House) -> Iterator[Fault]:
    """Rulings one by one, so that a wrong one does not hide the others."""
    good: list[tuple[str, int, PolicyRule]] = []
    for kind, entries in document.data.items():
        for i, entry in enumerate(entries):
            try:
                ((_, ruling),) = read_policy_rules(name, {kind: [entry]}, house.engines)
            except BadFile as e:
                problem, hint = without_hint(e.problem.replace(f"{kind}.0", f"{kind}[{i}]", 1))
                yield document.place.fault(_code(problem), problem, (kind, i), hint)
            else:
                good.append((kind, i, ruling))
    yield from _contradictions(document.place, good)


def _contradictions(place: EntryPlace, entries: list[tuple[str, int, PolicyRule]]) -> Iterator[Fault]:
    """Engines that one file forbids and prefers (or pins) under the same condition, and entries stated twice."""
    forbidden = {(r.engine, r.condition) for kind, _, r in entries if kind == "forbid"}
    seen: set[tuple[str, str, object]] = set()
    for kind, i, rule in entries:
        if kind != "forbid" and ((rule.engine, rule.condition) in forbidden or (rule.engine, None) in forbidden):
            also = "preferred" if kind == "prefer" else "pinned"
            problem = f"{rule.engine} is forbidden and {also}; the second never counts"
            yield place.fault("contradiction", problem, (kind, i))
        if (kind, rule.engine, rule.condition) in seen:
            problem = f"{kind} of {rule.engine} is given twice under the same condition"
            yield place.fault("duplicate_name", problem, (kind, i))
        seen.add((kind, rule.engine, rule.condition))
