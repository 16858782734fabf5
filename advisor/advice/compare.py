"""`compare_engines`: engines side by side on this hardware; and the source documents' tables next to today's
answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine, Support
from advisor.decision.facts import compute_facts
from advisor.decision.filters import hardware_support, judge_engine
from advisor.decision.types import FactValues
from advisor.deployment import PredictedFigures, Workload
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import (
    EstimateRequest,
    LoadSpec,
    RememberedNames,
    estimate,
    find_stated_machine,
    resolve_request,
)
from advisor.machines.types import Machine
from advisor.meanings import EngineId
from advisor.questions import Asking
from advisor.questions.files import CompareQuestion
from advisor.record import SCHEMA_VERSION, Answer, Record, pick_fields
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad

FILE = "comparisons.yaml"
FOUR_BIT = ("awq", "gptq", "int4_w4a16", "bitsandbytes_4bit", "nvfp4", "mxfp4")
UNKNOWN = "unknown"


class _SourceRow(msgspec.Struct, frozen=True):
    id: str
    label: str
    said: list[str]
    field: str | None = None
    verdict: str | None = None
    now: str | None = None
    remark: str | None = None


class _SourceTable(msgspec.Struct, frozen=True):
    id: str
    title: str
    engines: list[EngineId]
    rows: list[_SourceRow]
    names: list[str] = []  # the document's own, where they differ


class _ComparedField(msgspec.Struct, frozen=True):
    field: str
    label: str


class ComparisonsFile(msgspec.Struct, frozen=True):
    """rules/comparisons.yaml."""

    as_of: str
    tables: list[_SourceTable]
    rows: list[_ComparedField]


class ComparisonCell(Record, frozen=True, kw_only=True):
    """One answer: yes, partial, no, unknown, n/a or a short text; its note and where it was read."""

    value: str
    note: str | None = None
    source: str | None = None
    said: str | None = None  # what the source document stated, in its tables
    changed: bool = False


class ComparisonLine(Record, frozen=True, kw_only=True):
    """One row of a comparison, a cell for each engine."""

    id: str
    label: str
    cells: tuple[ComparisonCell, ...]
    verdict: str | None = None  # of a judgement that no entry answers
    remark: str | None = None


class Comparison(Record, frozen=True, kw_only=True):
    """Engines side by side."""

    id: str
    title: str
    engines: tuple[str, ...]
    names: tuple[str, ...]
    lines: tuple[ComparisonLine, ...]
    hardware: str | None = None
    refused: dict[str, tuple[str, ...]] = {}  # engine -> why it cannot run here
    as_of: str


class ComparisonAnswer(Comparison, frozen=True, kw_only=True):
    """The answer to `advise compare`. `sources`: the tables of the source documents, with `--all`."""

    sources: tuple[Comparison, ...] = ()
    schema_version: Literal[1] = SCHEMA_VERSION


def answer_question(question: CompareQuestion, session: Session, asking: Asking) -> ComparisonAnswer | EngineSpeeds:
    """Engines side by side: what they can do, or how fast they are predicted to be. Raises UnknownName, BadInput."""
    names, rules = asking.names, session.rules
    if not question.speed and (question.model or question.quantization):
        raise BadInput(f"{names['model']} and {names['quantization']} go with {names['speed']}")
    if question.all and question.engines:
        raise BadInput(f"{names['all']} compares every engine: leave the names out")
    engines = list(rules.engines()) if question.all else question.engines
    machine = find_stated_machine(question, rules, asking)
    if not question.speed:
        return compare_engines(engines, machine, rules, with_sources=question.all)
    if question.model is None:
        raise BadInput(f"{names['speed']} compares engines with a model: say which with {names['model']}")
    load = RequestLoad(concurrency=question.concurrency, prompt=question.prompt_tokens, output=question.output_tokens)
    return compare_speeds(engines, question.model, question.quantization, machine, load, session)


def compare_engines(
    names: Sequence[str], machine: Machine | None, rules: Catalog, with_sources: bool = False
) -> ComparisonAnswer:
    """The feature table of two or more engines, for a machine where one is given; `with_sources`: with the tables of
    the source documents. Raises UnknownName, BadInput."""
    entries = _find_entries(names, rules)
    file = decode_document(rules, FILE, ComparisonsFile)
    seen = compute_facts(machine, None, Workload(), rules.accelerators(), rules.engines()) if machine else {}
    vendor = seen.get("gpu.vendor")
    lines = []
    for row in file.rows:
        if row.field == "{hardware}" and machine is None:
            continue
        cells = tuple(_cell(e, row.field, vendor if isinstance(vendor, str) else None) for e in entries)
        lines.append(ComparisonLine(id=row.field, label=row.label, cells=cells))
    refused = {e.id: why for e in entries if machine is not None and (why := _list_refusals(e, seen))}
    return ComparisonAnswer(
        id="engines", title="Engines side by side", engines=tuple(e.id for e in entries),
        names=tuple(e.name for e in entries), lines=tuple(lines),
        hardware=", ".join(dict.fromkeys(d.name for d in machine.usable_devices)) or "CPU" if machine else None,
        refused=refused, as_of=file.as_of, sources=source_tables(rules) if with_sources else (),
    )  # fmt: skip


def _find_entries(names: Sequence[str], rules: Catalog) -> list[Engine]:
    """The engines by these names, each once. Raises UnknownName, and BadInput for fewer than two."""
    entries = list({e.id: e for e in (rules.engine(n) for n in names)}.values())
    if len(entries) < 2:
        raise BadInput("compare wants at least two engines (`advise list engines`)")
    return entries


def _list_refusals(entry: Engine, facts: FactValues) -> tuple[str, ...]:
    """Why an engine cannot run where these facts hold; nothing where it can."""
    reasons = judge_engine(entry, facts, None, None, Workload(cloud="allowed"), asked=[entry.id]).reasons
    return tuple(dict.fromkeys(r.text for r in reasons))


def source_tables(rules: Catalog) -> tuple[Comparison, ...]:
    """The tables of the source documents with today's cell next to each of the author's."""
    file = decode_document(rules, FILE, ComparisonsFile)
    out = []
    for source_table in file.tables:
        entries = [rules.engine(e) for e in source_table.engines]
        lines = []
        for row in source_table.rows:
            if len(row.said) != len(entries):
                raise BadInput(f"rules/{FILE}: {row.id} has {len(row.said)} cells for {len(entries)} engines")
            cells = tuple(_compare_with_source(row, s, e) for s, e in zip(row.said, entries, strict=True))
            same = pick_fields(row, "id", "label", "verdict")
            lines.append(ComparisonLine(cells=cells, remark=row.remark or row.now, **same))
        comparison = Comparison(
            engines=tuple(source_table.engines),
            names=tuple(source_table.names or [e.name for e in entries]),
            lines=tuple(lines),
            as_of=file.as_of,
            **pick_fields(source_table, "id", "title"),
        )
        out.append(comparison)
    return tuple(out)


def _compare_with_source(row: _SourceRow, stated: str, entry: Engine) -> ComparisonCell:
    """The author's cell and today's."""
    if row.field is None or stated == "n/a":
        return ComparisonCell(value=stated, said=stated)
    now = _cell(entry, row.field, None)
    same = (
        now.value == UNKNOWN
        or stated.split(" ")[0].lower() == now.value
        or {stated, now.value} <= {"limited", "partial"}
    )
    return replace(now, said=stated, changed=not same)


def _cell(entry: Engine, field: str, vendor: str | None) -> ComparisonCell:
    """One field of an engine's entry. What the entry does not say is unknown."""
    if field == "status":
        return ComparisonCell(value=entry.health.status, note=entry.health.note)
    if field == "version":
        return ComparisonCell(
            value=entry.version or (entry.latest_seen.version if entry.latest_seen else None) or UNKNOWN
        )
    if field == "license":
        return ComparisonCell(value=entry.license or UNKNOWN)
    if field == "os":
        return ComparisonCell(value=_list_support(entry.os))
    if field == "formats":
        sources = {s for x in entry.formats.values() for s in x.src}
        return ComparisonCell(value=_list_support(entry.formats), source=_source(entry, tuple(sorted(sources))))
    if field == "floor":
        return ComparisonCell(value=_floor(entry, vendor))
    if field == "{hardware}":
        return _support(entry, hardware_support(entry, vendor or "none"))
    if field == "quantization.4bit":
        own = [entry.quantization[k] for k in FOUR_BIT if k in entry.quantization]
        return _best(entry, own or [s for k, s in entry.formats.items() if k == "gguf"])
    part, _, key = field.partition(".")
    table: Any = getattr(entry, part)
    if not key:
        return _support(entry, table)
    if "|" in key:
        return _best(entry, [table[k] for k in key.split("|") if k in table])
    return _support(entry, table.get(key))


def _best(entry: Engine, found: Sequence[Support]) -> ComparisonCell:
    """The most that any of several entries allows."""
    order = ("yes", "partial", "n/a", "unknown", "no")
    return _support(entry, min(found, key=lambda s: order.index(s.support), default=None))


def _support(entry: Engine, support: Support | None) -> ComparisonCell:
    if support is None:
        return ComparisonCell(value=UNKNOWN)
    return ComparisonCell(value=support.support, note=support.note, source=_source(entry, support.src))


def _source(entry: Engine, keys: Sequence[str]) -> str | None:
    found = [entry.sources[k] for k in keys if k in entry.sources]
    texts = [", ".join(str(x) for x in (s.title, s.version, s.date) if x) for s in found]
    return "; ".join(texts) or None


def _list_support(table: dict[str, Support]) -> str:
    words = [k if s.support == "yes" else f"{k} (partly)" for k, s in table.items() if s.support in ("yes", "partial")]
    return ", ".join(words) or UNKNOWN


def _floor(entry: Engine, vendor: str | None) -> str:
    """The floor of the machine's vendor (NVIDIA's without a machine)."""
    out = []
    if vendor in (None, "nvidia", "none"):
        caps = sorted(
            {f.nvidia_compute_capability for f in entry.floors.values() if f.nvidia_compute_capability}, key=float
        )
        cuda = sorted({f.cuda for f in entry.floors.values() if f.cuda})
        drivers = sorted({f.driver for f in entry.floors.values() if f.driver})
        out += [f"compute {caps[0]}"] if caps else []
        out += [f"CUDA {cuda[0]}"] if cuda else []
        out += [f"driver {drivers[0]}"] if drivers else []
    if vendor == "amd":
        gfx = sorted({g for f in entry.floors.values() for g in f.amd_gfx})
        out += [f"{len(gfx)} listed gfx"] if gfx else []
    python = sorted({f.python for f in entry.floors.values() if f.python})
    out += [f"Python {python[0]}"] if python else []
    return ", ".join(out) or "-"


class EngineSpeed(PredictedFigures, frozen=True, kw_only=True):
    """One engine's prediction; None = not modelled."""

    engine: str
    quantization: str | None = None
    fits: bool | None = None
    why: str | None = None  # why there is no figure


class FasterPair(Record, frozen=True, kw_only=True):
    """Two engines whose bounds do not overlap."""

    faster: str
    slower: str
    quantity: str  # decode_tps, output_tps


class EngineSpeeds(Answer, frozen=True, kw_only=True):
    """Engines at one load. `faster` is empty where all bounds overlap: then no order is stated."""

    model: str
    hardware: str
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    engines: tuple[EngineSpeed, ...]
    faster: tuple[FasterPair, ...]


def compare_speeds(
    names: Sequence[str], model: str, quantization: str | None, machine: Machine | None, load: RequestLoad,
    session: Session,
) -> EngineSpeeds:  # fmt: skip
    """Predicted speeds of two or more engines. Raises UnknownName, BadInput."""
    rules = session.rules
    entries = _find_entries(names, rules)
    if machine is None:
        raise BadInput("speeds are compared on a machine: say which with --on")
    seen = compute_facts(machine, None, Workload(), rules.accelerators(), rules.engines())
    rows = [
        EngineSpeed(engine=e.id, why="; ".join(why))
        if (why := _list_refusals(e, seen))
        else _predict(e, model, quantization, machine, load, session)
        for e in entries
    ]
    return EngineSpeeds(
        model=rules.find_model(model).id,
        hardware=machine.text or ", ".join(dict.fromkeys(d.name for d in machine.usable_devices)) or "CPU",
        concurrency=load.concurrency,
        prompt_tokens=load.prompt,
        output_tokens=load.output,
        engines=tuple(rows),
        faster=tuple(_faster(rows)),
    )


def _predict(
    entry: Engine, model: str, quantization: str | None, machine: Machine, load: RequestLoad, session: Session
) -> EngineSpeed:
    flags, n = entry.concepts.tensor_parallel.flags, len(machine.usable_devices)
    request = EstimateRequest(
        model=model,
        engine=entry.id,
        quantization=quantization,
        hardware="this",
        context_length=max(2048, load.prompt + load.output),
        sequences=load.concurrency,
        settings={flags[0]: n} if flags and n > 1 else {},
        workload=LoadSpec(concurrency=load.concurrency, prompt_tokens=load.prompt, output_tokens=load.output),
    )
    try:
        deployment, _ = resolve_request(request, session.rules, RememberedNames({"this": machine}))
        memory = estimate(deployment, session)
        speed = estimate_speed(deployment, memory, session, load)
    except AdvisorError as e:
        return EngineSpeed(engine=entry.id, why=e.line().rstrip("."))
    sized = EngineSpeed(engine=entry.id, quantization=deployment.quantization, fits=memory.fits)
    if speed is None:
        return replace(sized, why=memory.message if memory.refused else "its speed is not modelled")
    return replace(sized, **pick_fields(speed, *PredictedFigures.__struct_fields__))


def _faster(rows: Sequence[EngineSpeed]) -> Iterator[FasterPair]:
    for quantity in ("decode_tps", "output_tps"):
        for one, other in permutations(rows, 2):
            fast, slow = getattr(one, quantity), getattr(other, quantity)
            if fast is not None and slow is not None and fast.low > slow.high:
                yield FasterPair(faster=one.engine, slower=other.engine, quantity=quantity)
