"""The one door to every estimate: names in, MemoryEstimate out. Every command asks here, so none can disagree."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor import engines, formats
from advisor.catalog import Catalog, catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, KvType, MemoryEstimate, Setting
from advisor.errors import AdvisorError, BadInput, UnknownName
from advisor.machine.types import Machine
from advisor.record import Record
from advisor.units import parse_tokens


class LoadSpec(Record, frozen=True, kw_only=True):
    """`workload` of a request line."""

    concurrency: int = 1
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    depth_tokens: int = 0


class Request(Record, frozen=True, kw_only=True):
    """One deployment by names, as `advise estimate --jsonl` reads it (design of the public interface)."""

    model: str
    id: Any = None
    engine: str = "llama.cpp"
    engine_version: str | None = None
    quantization: str | None = None
    hardware: str = "this"
    context_length: int | str | None = None
    sequences: int | None = None
    kv_cache_type: str | dict[str, str] | None = None
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    workload: LoadSpec | None = None


class Estimated(Record, frozen=True, kw_only=True):
    """A deployment with its estimate and what had to be said on the way."""

    deployment: Deployment
    engine: Engine
    quantization: Quantization
    memory: MemoryEstimate
    notes: tuple[str, ...] = ()


def estimate(d: Deployment, rules: Catalog | None = None) -> MemoryEstimate:
    """Memory of a deployment. Raises BadInput where a setting or the model's layout does not allow an answer."""
    rules = rules or catalog()
    module, inner = engines.find(d.engine, rules.engines())
    return module.memory(d, inner, rules.quantization(d.quantization))


def kv_type(value: str | dict[str, str] | None) -> KvType:
    """`"q8_0"` or `{"k": "q8_0", "v": "q4_0"}` as a KvType. Raises BadInput."""
    if value is None:
        return KvType()
    if isinstance(value, str):
        return KvType(k=value, v=value)
    unknown = set(value) - {"k", "v"}
    if unknown:
        raise BadInput(f"kv_cache_type: unknown key {sorted(unknown)[0]!r}; it takes k and v")
    return KvType(k=value.get("k", "auto"), v=value.get("v", "auto"))


def machine_of(hardware: str, rules: Catalog, memo: dict[str, Machine] | None = None) -> Machine:
    """The machine a hardware string names; `this` is probed. Raises UnknownName, BadInput."""
    key = hardware.strip()
    if memo is not None and key in memo:
        return memo[key]
    if key.lower() == "this":
        from advisor.catalog.match import attach
        from advisor.machine.probe import probe

        made = attach(probe(), rules.accelerators(), rules.cpu_platforms())
    else:
        from advisor.catalog.hardware_names import parse_hardware

        made = parse_hardware(key, rules)
    if memo is not None:
        memo[key] = made
    return made


def deployment(
    r: Request, rules: Catalog, machines: dict[str, Machine] | None = None
) -> tuple[Deployment, tuple[str, ...]]:
    """A request with every name resolved, and notes on what the names were taken to mean."""
    from advisor.catalog.resolve import resolve_model

    entry = rules.engine(r.engine)
    found = resolve_model(r.model, rules)
    chosen = formats.quantization(r.quantization or found.quantization, entry, found.model, rules)
    try:
        context = None if r.context_length is None else parse_tokens(r.context_length)
    except ValueError as e:
        raise BadInput(f"context_length: {e}") from None
    if context is not None and context < 1:
        raise BadInput(f"context_length: {context} is not a positive number of tokens")
    if r.sequences is not None and r.sequences < 1:
        raise BadInput(f"sequences: {r.sequences} is not a positive number")
    made = Deployment(
        model=found.model,
        engine=entry.id,
        engine_version=r.engine_version,
        quantization=chosen.quantization.id,
        machine=machine_of(r.hardware, rules, machines),
        context_length=context,
        sequences=r.sequences or 1,
        kv_cache_type=kv_type(r.kv_cache_type),
        settings=r.settings,
        model_path=found.path,
    )
    return made, tuple(n for n in (found.note, chosen.note) if n)


def answer(e: MemoryEstimate, d: Deployment, notes: tuple[str, ...] = (), request_id: object = None) -> dict[str, Any]:
    """The public form of an estimate: what `advise estimate` and `--json` print."""
    m = e.to_dict()
    machine_notes = d.machine.notes if d.machine and d.machine.source == "text" else ()
    return {
        "id": request_id,
        "model": d.model.id,
        "engine": d.engine,
        "quantization": d.quantization,
        "fits": m["fits"],
        "context_length": m["context_length"],
        "sequences": m["sequences"],
        "devices": m["devices"],
        "host": m["host"],
        "kv_cache": m["kv_cache"],
        "speed": None,
        "basis": m["basis"],
        "not_modelled": m["not_modelled"],
        "warnings": [*notes, *machine_notes, *m["warnings"]],
        "short": m["short"],
        "message": m["message"],
    }


def error(e: AdvisorError) -> dict[str, Any]:
    """The public form of an error."""
    return {"code": e.code, "message": e.message, "near": list(e.near)}


_DECODER = msgspec.json.Decoder(Request)


def answer_line(line: bytes, rules: Catalog, machines: dict[str, Machine]) -> dict[str, Any]:
    """One line of `--jsonl` in, its answer out; whatever is wrong is answered on its own line."""
    request_id = None
    try:
        try:
            r = _DECODER.decode(line)
        except (msgspec.DecodeError, RecursionError) as e:
            request_id = _id_of(line)
            raise BadInput(f"not a deployment: {e}") from None
        request_id = r.id
        d, notes = deployment(r, rules, machines)
        return answer(estimate(d, rules), d, notes, r.id)
    except AdvisorError as e:
        return {"id": request_id, "error": error(e)}


def _id_of(line: bytes) -> object:
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return data.get("id") if isinstance(data, dict) else None


__all__ = [
    "Estimated",
    "Request",
    "UnknownName",
    "answer",
    "answer_line",
    "deployment",
    "error",
    "estimate",
    "kv_type",
    "machine_of",
]
