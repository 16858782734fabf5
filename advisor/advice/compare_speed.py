"""How fast engines are predicted to be at one load: with bounds, and an order only where the bounds do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.facts import compute_facts
from advisor.decision.filters import judge_engine
from advisor.deployment import Interval, Workload
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import EstimateRequest, LoadSpec, RememberedNames, estimate, resolve_request
from advisor.machines.types import Machine
from advisor.record import Record
from advisor.speed.estimator import estimate_speed
from advisor.speed.load import RequestLoad


class EngineSpeed(Record, frozen=True, kw_only=True):
    """One engine's prediction; None = not modelled."""

    engine: str
    quantization: str | None = None
    fits: bool | None = None
    decode_tps: Interval | None = None  # one request
    output_tps: Interval | None = None  # all requests
    ttft_s: Interval | None = None
    why: str | None = None  # why there is no figure


class FasterPair(Record, frozen=True, kw_only=True):
    """Two engines whose bounds do not overlap."""

    faster: str
    slower: str
    quantity: str  # decode_tps, output_tps


class EngineSpeeds(Record, frozen=True, kw_only=True):
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
    rules: Catalog,
) -> EngineSpeeds:  # fmt: skip
    """Predicted speeds of two or more engines. Raises UnknownName, BadInput."""
    entries = list({e.id: e for e in (rules.engine(n) for n in names)}.values())
    if len(entries) < 2:
        raise BadInput("compare wants at least two engines (`advise list engines`)")
    if machine is None:
        raise BadInput("speeds are compared on a machine: say which with --on")
    seen = compute_facts(machine, None, Workload(), rules.accelerators(), rules.engines())
    rows = []
    for entry in entries:
        reasons = judge_engine(entry, seen, None, None, Workload(cloud="allowed"), asked=[entry.id]).reasons
        rows.append(
            EngineSpeed(engine=entry.id, why="; ".join(dict.fromkeys(r.text for r in reasons)))
            if reasons
            else _predict(entry, model, quantization, machine, load, rules)
        )
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
    entry: Engine, model: str, quantization: str | None, machine: Machine, load: RequestLoad, rules: Catalog
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
        deployment, _ = resolve_request(request, rules, RememberedNames({"this": machine}))
        memory = estimate(deployment, rules)
        speed = estimate_speed(deployment, memory, rules, load)
    except AdvisorError as e:
        return EngineSpeed(engine=entry.id, why=e.line().rstrip("."))
    if speed is None:
        why = memory.message if memory.refused else "its speed is not modelled"
        return EngineSpeed(engine=entry.id, quantization=deployment.quantization, fits=memory.fits, why=why)
    return EngineSpeed(
        engine=entry.id,
        quantization=deployment.quantization,
        fits=memory.fits,
        decode_tps=speed.decode_tps,
        output_tps=speed.output_tps,
        ttft_s=speed.ttft_s,
    )


def _faster(rows: Sequence[EngineSpeed]) -> Iterator[FasterPair]:
    for quantity in ("decode_tps", "output_tps"):
        for one, other in permutations(rows, 2):
            fast, slow = getattr(one, quantity), getattr(other, quantity)
            if fast is not None and slow is not None and fast.low > slow.high:
                yield FasterPair(faster=one.engine, slower=other.engine, quantity=quantity)
