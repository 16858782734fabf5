"""One attempt on one engine: what it asks of the estimators, each question once, and what it learns."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.engines import capacity
from advisor.errors import BadInput
from advisor.estimation import estimate_memory
from advisor.planning import objective
from advisor.planning.candidates import Attempt, Bounds, EngineTools, describe_failure
from advisor.planning.holding import find_holding
from advisor.planning.layouts import with_visible_devices
from advisor.planning.offload import left_to_engine
from advisor.planning.queueing import estimate_wait
from advisor.planning.search_request import SearchRequest
from advisor.planning.types import CardLayout, Plan, TriedFormat
from advisor.record import Value


class Trial(Value, frozen=True):
    """An attempt on an engine for a request; `bounds` and `tried` gather what was refused."""

    tools: EngineTools
    search: SearchRequest
    attempt: Attempt
    bounds: Bounds
    tried: list[TriedFormat]


def ask(trial: Trial, deployment: Deployment) -> MemoryEstimate | None:
    """The memory of a deployment; None, and noted among what was tried, where it allows no answer."""
    quantization, tools, known = trial.attempt.chosen.quantization, trial.tools, trial.search.known
    key = _key(deployment) if known is not None else None
    found: tuple[Deployment, MemoryEstimate | str] | None = known.get(key) if known is not None else None
    if found is None:
        try:
            answer: MemoryEstimate | str = estimate_memory(deployment, tools.module, tools.inner, quantization)
        except BadInput as e:
            answer = e.message
        found = (deployment, answer)  # the key has identities of what the deployment holds
        if known is not None:
            known[key] = found
    if isinstance(found[1], str):
        trial.tried.append(TriedFormat(quantization=quantization.id, fits=None, text=found[1]))
        return None
    return found[1]


def _key(deployment: Deployment) -> Hashable:
    """What of a deployment decides its memory, among those of one model."""
    d, kv = deployment, deployment.kv_cache_type
    parts = (d.engine, d.quantization, kv.k, kv.v, d.context_length, d.sequences, d.device_count, id(d.machine))
    return *parts, tuple(d.settings.items()), id(d.model), d.model_path


def estimate_rate(
    trial: Trial, deployment: Deployment, memory: MemoryEstimate, users: int, long: bool = False
) -> SpeedEstimate | None:
    """The speed of a deployment for so many users; `long`: with a prompt of the 95th percentile."""
    tools, search = trial.tools, trial.search
    shared = capacity.keeps_prefixes(deployment, tools.inner)
    known = search.known
    key = ("speed", _key(deployment), id(memory), users, long) if known is not None else None
    if known is not None and key in known:
        return known[key][-1]  # type: ignore[no-any-return]  # as it was put in below
    speed = objective.estimate_traffic_speed(deployment, memory, search.traffic, users, shared, tools.rules, long)
    if known is not None:
        known[key] = (deployment, memory, speed)  # the key has identities of these
    return speed


def note_failure(trial: Trial, deployment: Deployment, memory: MemoryEstimate) -> None:
    """Note that a deployment does not fit, and where it has all cards what of its width and wider does not either."""
    quantization, machine = trial.attempt.chosen.quantization, deployment.machine
    text = describe_failure(deployment, memory, quantization)
    rows = memory.devices or ((memory.host,) if memory.host is not None else ())
    known = [x.high_bytes for x in rows if x.high_bytes is not None]
    needs = sum(known) if known and len(known) == len(rows) and not trial.attempt.offload else None
    trial.tried.append(TriedFormat(quantization=quantization.id, fits=False, text=text, needs_bytes=needs))
    every = machine is None or len(machine.usable_devices) == len(trial.search.machine.usable_devices)
    if memory.short and every:
        trial.bounds.learn(trial.attempt, deployment, memory)


def count_held(trial: Trial, deployment: Deployment, memory: MemoryEstimate) -> int:
    """Requests of the traffic that a copy holds."""
    traffic, inner = trial.search.traffic, trial.tools.inner
    request = capacity.RequestTokens(memory.context_length)
    if not traffic.full_length:
        shared = traffic.shared_tokens if capacity.keeps_prefixes(deployment, inner) else 0
        request = capacity.RequestTokens(traffic.typical_tokens, shared)
    return capacity.count_held(deployment, memory, inner, [request])[0] or 0


class PlannedCopy(Value, frozen=True):
    """A copy as it is launched, with how many there are: `servers` behind a router, of `copies` in all."""

    deployment: Deployment
    memory: MemoryEstimate
    layout: CardLayout
    speed: SpeedEstimate | None  # of one copy
    on_time: bool | None
    servers: int = 1
    copies: int = 1


def make_plan(trial: Trial, copy: PlannedCopy) -> Plan:
    """A plan with what it holds and how fast it is as a whole."""
    traffic, deployment = (
        trial.search.traffic,
        with_visible_devices(copy.deployment, trial.search.whole or trial.search.machine),
    )
    holding = find_holding(deployment, copy.memory, traffic, trial.tools.rules, copy.servers)
    holds = holding.holds
    if holds is not None:
        served = objective.request_seconds(copy.speed, traffic, holds)
        holds = replace(holds, wait_s=estimate_wait(holds, traffic, served))
    return Plan(
        deployment=deployment,
        memory=copy.memory,
        quantization=trial.attempt.chosen.quantization,
        offload=trial.attempt.offload or left_to_engine(copy.memory, deployment.model),
        notes=(),
        tried=(),
        layout=copy.layout,
        servers=copy.servers,
        starts=holding.starts,
        holds=holds,
        speed=objective.scale_speed(copy.speed, copy.copies),
        on_time=copy.on_time,
    )


def make_unsure_plan(trial: Trial, deployment: Deployment, memory: MemoryEstimate, layout: CardLayout) -> Plan:
    """A plan that may start."""
    traffic = trial.search.traffic
    speed = objective.estimate_traffic_speed(deployment, memory, traffic, traffic.users, False, trial.tools.rules)
    return replace(make_plan(trial, PlannedCopy(deployment, memory, layout, speed, None)), starts=None)
