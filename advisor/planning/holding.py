"""What a deployment starts with, how many requests it holds at once, and the one Estimate of every entry point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.starts import StartVerdict, judge_deployment
from advisor.deployment import (
    Deployment,
    DeploymentEstimate,
    Estimate,
    HeldRequests,
    Holds,
    MemoryEstimate,
    SpeedEstimate,
    UseCase,
    WhyNot,
    Workload,
)
from advisor.engines import capacity
from advisor.engines.additions import limit_requests, run_from_disk
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import (
    EstimateRequest,
    LoadSpec,
    RememberedNames,
    estimate_load_speed,
    find_idle_settings,
    resolve_request,
)
from advisor.estimation import estimate as estimate_memory_of
from advisor.memo import memoize_by_identity
from advisor.planning.traffic import Traffic, read_traffic
from advisor.record import Value
from advisor.session import Session
from advisor.unknowns import all_hold

RUNGS = 4  # of the ladder: the context length and its halves
SHORTEST = 512


class Holding(Value, frozen=True):
    """Whether one longest request is held, and how many requests are."""

    starts: bool | None
    holds: Holds | None
    start: StartVerdict | None = None  # what the engine itself says, memory aside


def make_traffic(
    deployment: Deployment,
    estimate: MemoryEstimate,
    rules: Catalog,
    prompt: int | None = None,
    output: int | None = None,
) -> Traffic:
    """The traffic of a deployment that was asked for by itself: its sequences, tokens of a chat unless given."""
    use: UseCase = "chat" if deployment.model.kind == "chat" else "embeddings"
    return _make_traffic(rules, use, deployment.sequences, max(1, estimate.context_length), prompt, output)


@memoize_by_identity
def _make_traffic(
    rules: Catalog, use: UseCase, users: int, context: int, prompt: int | None, output: int | None
) -> Traffic:
    work = Workload(use_case=use, concurrency=users, context=context, prompt_tokens=prompt, output_tokens=output)
    return read_traffic(work, None, rules)


def find_holding(
    deployment: Deployment, estimate: MemoryEstimate, traffic: Traffic, session: Session, copies: int = 1
) -> Holding:
    """What a deployment whose memory is `estimate` starts with and holds; `copies` of it stand behind a router.

    The lengths are those of the estimate where the traffic's are longer.
    """
    start = judge_deployment(deployment, session.rules)
    if start is not None and start.starts is False:
        return Holding(False, None, start)
    found = _hold(deployment, estimate, traffic, session, copies)
    return replace(found, starts=all_hold((found.starts, start is None or start.starts)), start=start)


def _hold(deployment: Deployment, estimate: MemoryEstimate, traffic: Traffic, session: Session, copies: int) -> Holding:
    """What memory has room for."""
    entry = engines.find_running(deployment, session.rules)[1]
    one = with_one_request(deployment, estimate, entry, session)
    if one is not None and one[1].longest_served is not None:
        return Holding(True, None)  # it serves shorter requests
    if one is None:
        return Holding(None, None)
    from_disk = run_from_disk(one[1]) if deployment.model.is_moe else None  # else each token reads all of it
    smaller, smaller_estimate = one[0], from_disk or one[1]
    if smaller_estimate.fits is False:
        return Holding(False, None)
    length = smaller_estimate.context_length
    typical = min(traffic.typical_tokens, length)
    shared = min(traffic.shared_tokens, typical) if capacity.keeps_prefixes(deployment, entry) else 0
    lengths = [length]
    while len(lengths) < RUNGS and lengths[-1] // 2 >= SHORTEST:
        lengths.append(lengths[-1] // 2)
    asked = [capacity.RequestTokens(typical, shared), *(capacity.RequestTokens(n) for n in lengths)]
    at_typical, *counts = _count_requests(deployment, smaller, smaller_estimate, entry, asked, session)
    ladder = [
        HeldRequests(context_length=n, held=copies * count)
        for n, count in zip(lengths, counts, strict=True)
        if count is not None
    ]
    if at_typical is None or not ladder:
        return Holding(smaller_estimate.fits, None)
    most = limit_requests(deployment, entry)
    if most is not None:
        ladder = [replace(x, held=min(x.held, copies * most)) for x in ladder]
        at_typical = min(at_typical, most)
    full, at_once = ladder[0].held, copies * at_typical
    taken = full if traffic.full_length else at_once
    return Holding(
        smaller_estimate.fits,
        Holds(
            asked=traffic.users,
            typical=at_once,
            full_length=full,
            waiting=max(0, traffic.users - taken),
            wait_s=None,
            shared_prefix=round(shared / traffic.prompt.mean, 4) if shared else 0.0,
            ladder=tuple(ladder),
        ),
    )


def with_one_request(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, session: Session
) -> tuple[Deployment, MemoryEstimate] | None:
    """The deployment with one longest request, and its memory; None where that cannot be determined."""
    if estimate.fits or deployment.sequences == 1 or capacity.has_fixed_slots(deployment, entry):
        return deployment, estimate
    one = replace(deployment, sequences=1)
    try:
        return one, estimate_memory_of(one, session)
    except AdvisorError:
        return None


def _count_requests(
    deployment: Deployment,
    one: Deployment,
    one_estimate: MemoryEstimate,
    entry: Engine,
    asked: Sequence[capacity.RequestTokens],
    session: Session,
) -> tuple[int | None, ...]:
    """Requests of each kind that are held. Slots that do not all fit are counted down until they do."""
    try:
        found = capacity.count_held(one, one_estimate, entry, asked)
        if one is deployment or found[0] != 1 or "device_overhead_mib" not in entry.memory:
            return found
        return (_most_slots(deployment, session),) * len(asked)
    except AdvisorError:
        return (None,) * len(asked)


def _most_slots(deployment: Deployment, session: Session) -> int:
    """The most slots of full length that fit, fewer than asked; at least one does."""
    low, high = 1, deployment.sequences
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fits = estimate_memory_of(replace(deployment, sequences=middle), session).fits
        except AdvisorError:
            fits = False
        low, high = (middle, high) if fits else (low, middle)
    return low


def answer_request(
    request: EstimateRequest,
    session: Session,
    remembered: RememberedNames | None = None,
    request_id: object = None,
    strict: bool = False,
) -> Estimate:
    """Memory and speed of a deployment by names. Raises UnknownName, BadFile, BadInput; with `strict` BadInput for a
    setting that the engine does not have, which is a warning otherwise."""
    rules = session.rules
    from advisor.engines.flag_tables import describe_unknown_settings

    deployment, notes = resolve_request(request, rules, remembered)
    unknown = describe_unknown_settings(request.settings, rules.engine(deployment.engine), rules)
    if unknown and strict:
        raise BadInput("; ".join(unknown))
    if request.engine_version is None:  # the other commands mean the newest release, which they install or pull
        deployment = replace(deployment, any_release=True)
    return answer_deployment(deployment, session, request.workload, (*notes, *unknown), request_id)


OF_ARRIVALS = ("burst", "prompt_p95", "output_p95")  # fields of a workload without effect on so many at once


def answer_deployment(
    deployment: Deployment,
    session: Session,
    load: LoadSpec | None = None,
    notes: tuple[str, ...] = (),
    request_id: object = None,
) -> Estimate:
    """Memory and speed of a deployment whose names are resolved. Raises BadInput as `estimate` does."""
    memory = estimate_memory_of(deployment, session)
    notes = (*notes, *find_idle_settings(deployment, memory, session))
    unused = [x for x in deployment.account.unused if not any(x in note for note in notes)]
    if unused:
        notes = (*notes, f"without effect on what starts, on memory and on speed: {', '.join(unused)}")
    holding = hold_deployment(deployment, memory, session, load)
    arrivals = None
    if load is not None and load.arrive:
        from advisor.planning.arrivals import estimate_arrivals

        arrivals = estimate_arrivals(deployment, memory, load, session)
        running = arrivals.running.mean if arrivals is not None and arrivals.running is not None else 1
        load = replace(load, concurrency=max(1, round(running)))
    elif load is not None:
        idle = [n for n in OF_ARRIVALS if getattr(load, n) != getattr(LoadSpec(), n)]
        notes = (*notes, *(f"workload.{n} has no effect: it is about requests that arrive at a rate" for n in idle))
    speed = estimate_load_speed(deployment, memory, session, load)
    answer = describe_estimate(Estimate, memory, deployment, holding, notes, request_id, speed)
    return answer if arrivals is None else replace(answer, arrivals=arrivals)


def hold_deployment(
    deployment: Deployment, memory: MemoryEstimate, session: Session, load: LoadSpec | None = None
) -> Holding:
    """What a deployment that was asked for by itself starts with and holds."""
    lengths = (load.prompt_tokens, load.output_tokens) if load is not None else (None, None)
    return find_holding(deployment, memory, make_traffic(deployment, memory, session.rules, *lengths), session)


E = TypeVar("E", bound=DeploymentEstimate)


def describe_estimate(
    kind: type[E],
    memory: MemoryEstimate,
    deployment: Deployment,
    holding: Holding,
    notes: tuple[str, ...] = (),
    request_id: object = None,
    speed: SpeedEstimate | None = None,
) -> E:
    """What is known of a deployment, as the answers of all commands hold it."""
    return kind(
        request_id,
        deployment.model.id,
        deployment.engine,
        deployment.quantization,
        **msgspec.structs.asdict(with_machine_notes(memory, deployment, notes)),
        speed=speed,
        starts=holding.starts,
        why_not=list_why_not(holding, memory),
        conditions=holding.start.list_conditions() if holding.start is not None else (),
        holds=holding.holds,
    )


def list_why_not(holding: Holding, memory: MemoryEstimate) -> tuple[WhyNot, ...]:
    """Why a deployment does not start, or may not: what the engine itself says, then memory."""
    if holding.starts is True:
        return ()
    own = holding.start.list_why_not() if holding.start is not None else ()
    refused = bool(own) and own[0].certain
    short = () if refused else memory.short or ((memory.message,) if memory.message else ())
    return (*own, *(WhyNot(code="memory", text=x, certain=holding.starts is False) for x in short))


def with_machine_notes(memory: MemoryEstimate, deployment: Deployment, notes: tuple[str, ...] = ()) -> MemoryEstimate:
    """An estimate whose warnings begin with notes, and with what is not known of a machine that was given in words."""
    machine = deployment.machine
    machine_notes = machine.notes if machine is not None and machine.source == "text" else ()
    return replace(memory, warnings=(*notes, *machine_notes, *memory.warnings))
