"""When an answer stops being right, and what comes next: thresholds of the estimator, engines of the guide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from advisor import estimation
from advisor.advice.limits import find_largest
from advisor.catalog import Catalog
from advisor.decision.evaluate import evaluate_guide, list_thresholds
from advisor.decision.types import Decision, Guide
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines.npu import limit_requests
from advisor.errors import AdvisorError
from advisor.planning.slots import on_all_layers
from advisor.record import Record
from advisor.units import format_tokens

MOST_USERS, CONTEXT_STEP = 1024, 1024  # how far users are followed; tokens that context is followed in
ROUNDS = 4  # of looking for a limit where two answers point to
_STEPS = (2, 4, 5, 8, 16, 32, 64, 128, 256)  # users at which the guide is asked again


class GrowthStep(Record, frozen=True, kw_only=True):
    """One way this choice is outgrown."""

    what: str  # engine, users, context, model
    limit: int | None  # the last value that is sure to work; None = not limited as far as it was followed
    then: str  # what comes next


def find_growth_steps(
    deployment: Deployment,
    facts: Mapping[str, Any],
    guide: Guide,
    decision: Decision,
    rules: Catalog,
    cards: int | None = None,
) -> tuple[GrowthStep, ...]:
    """Users, context and model size at which the deployment ends, and what follows it. `cards`: those of all copies.

    Limits are asked of the estimator (it surely fits at the limit, and is not sure one step beyond); the next engine is
    the guide's answer for more users.
    """
    length = deployment.context_length or 4096
    trained = deployment.model.max_context or 64 * length
    held = on_all_layers(deployment, rules.engines()[deployment.engine])
    now = estimation.estimate(held, rules)
    offloaded = now.host is not None and (now.host.weights_bytes or 0) > OFFLOADED * _on_devices(now)
    movable = held is not deployment  # by the engine itself
    if now.devices and (offloaded or (movable and now.fits is not True)):  # more would only move layers to the host
        return _engine_steps(deployment, facts, guide, decision, None)
    users = _limit(lambda n: _asked(held, rules, sequences=n), now, deployment.sequences, MOST_USERS)
    most = limit_requests(deployment, rules.engines()[deployment.engine])
    if most is not None:
        users = min(most, users or most)
    steps = _limit(
        lambda k: _asked(held, rules, context_length=CONTEXT_STEP * k),
        now if length % CONTEXT_STEP == 0 else None,
        max(1, length // CONTEXT_STEP),
        max(1, trained // CONTEXT_STEP),
    )
    context = None if steps is None else max(CONTEXT_STEP * steps, length)
    out = list(_engine_steps(deployment, facts, guide, decision, users))
    if users is not None and users < MOST_USERS:
        out.append(GrowthStep(what="users", limit=users, then=_more_users(deployment, cards)))
    if context is not None and context < (deployment.model.max_context or 2**31):
        out.append(GrowthStep(what="context", limit=context, then=_more_context(deployment)))
    elif deployment.model.max_context:
        out.append(GrowthStep(what="context", limit=deployment.model.max_context, then="a model trained for more"))
    room = _room(deployment, now)
    if room:
        out.append(GrowthStep(what="model", limit=room, then="more or larger cards, or a narrower weight format"))
    return tuple(out)


OFFLOADED = 0.1  # of the weights on the cards: so much in host memory is offload, and no table that is looked up


def _on_devices(estimate: MemoryEstimate) -> int:
    return sum(r.weights_bytes or 0 for r in estimate.devices)


def _engine_steps(
    deployment: Deployment, facts: Mapping[str, Any], guide: Guide, decision: Decision, users: int | None
) -> tuple[GrowthStep, ...]:
    """From how many users on the guide takes another engine, where that is before memory ends."""
    engine_at, following = _next_engine(deployment, facts, guide, decision)
    if engine_at is None or (users is not None and engine_at > users):
        return ()
    return (GrowthStep(what="engine", limit=engine_at - 1, then=following or ""),)


def _asked(deployment: Deployment, rules: Catalog, **change: Any) -> MemoryEstimate | None:
    try:
        return estimation.estimate(msgspec.structs.replace(deployment, **change), rules)
    except AdvisorError:
        return None


def _limit(
    ask: Callable[[int], MemoryEstimate | None], now: MemoryEstimate | None, here: int, at_most: int
) -> int | None:
    """The largest number that surely fits. Memory grows about evenly, so two answers tell where to look."""
    known: dict[int, MemoryEstimate | None] = {} if now is None else {here: now}

    def at(n: int) -> MemoryEstimate | None:
        if n not in known:
            known[n] = ask(n)
        return known[n]

    def fits(n: int) -> bool:
        estimate = at(n)
        return estimate is not None and estimate.fits is True

    last, near = here, min(2 * here, at_most)
    for _ in range(ROUNDS):
        meeting = _meeting((last, at(last)), (near, at(near)))
        if meeting is None:
            break
        last, near = near, max(1, min(meeting, at_most))
        if near in known:
            break
    return find_largest(fits, at_most, near)


def _meeting(lower: tuple[int, MemoryEstimate | None], upper: tuple[int, MemoryEstimate | None]) -> int | None:
    """Where the first place that fills is full, on straight lines through two answers; None where none fills."""
    found = []
    for x, y in zip(_left(lower[1]), _left(upper[1]), strict=False):
        if x is not None and y is not None and (x - y) * (upper[0] - lower[0]) > 0:
            found.append(lower[0] + x * (upper[0] - lower[0]) // (x - y))
    return min(found, default=None)


def _left(estimate: MemoryEstimate | None) -> tuple[int | None, ...]:
    """Bytes that each place surely has left; negative where it may be short, None where that is not known."""
    rows = () if estimate is None else (*estimate.devices, *(() if estimate.host is None else (estimate.host,)))
    return tuple(
        None if r.budget_bytes is None or r.high_bytes is None else r.budget_bytes - r.high_bytes for r in rows
    )


def _next_engine(
    deployment: Deployment, facts: Mapping[str, Any], guide: Guide, decision: Decision
) -> tuple[int | None, str | None]:
    """(users, the engines then) where the guide, which now names this engine first or second, no longer does."""

    def recommended(decision: Decision) -> bool:
        return deployment.engine in decision.engines[:2] and deployment.engine not in decision.held_back

    if not recommended(decision):
        return None, None
    now = int(facts.get("workload.concurrency") or 1)
    turns = list_thresholds(guide, "workload.concurrency")
    for before, n in pairwise((now, *(s for s in _STEPS if s > now))):
        if not any(before <= t <= n for t in turns):
            continue  # no condition tells them apart
        there = evaluate_guide(guide, {**facts, "workload.concurrency": n})
        if there.engines and not recommended(there):
            others = [e for e in there.engines if e not in there.held_back][:2]
            return n, " or ".join(others) or f"another engine than {deployment.engine}"
    return None, None


def _more_users(deployment: Deployment, cards: int | None) -> str:
    """What holds more requests than these cards do."""
    there = len(deployment.machine.usable_devices) if deployment.machine is not None else 0
    if there > (cards or deployment.device_count or there):
        return "the unused cards (data or tensor parallel)"
    if deployment.kv_cache_type.k == "auto":
        return "8-bit KV cache, second machine"
    return "a second machine behind a router"


def _more_context(deployment: Deployment) -> str:
    return "8-bit KV cache, another card" if deployment.kv_cache_type.k == "auto" else "another card"


def _room(deployment: Deployment, estimate: MemoryEstimate) -> int | None:
    """Parameters of the largest model of this kind that its cards would hold in this format: scaled weights."""
    shares = [
        1 + (r.budget_bytes - r.high_bytes) / r.weights_bytes
        for r in estimate.devices
        if r.budget_bytes and r.high_bytes and r.weights_bytes
    ]
    if not shares or len(shares) != len(estimate.devices):
        return None
    share = min(shares)
    return int(deployment.model.params_total * share) if share > 0 else None


def describe_growth_steps(steps: tuple[GrowthStep, ...], deployment: Deployment) -> tuple[str, ...]:
    """The steps as sentences."""
    out = []
    length = format_tokens(deployment.context_length or 4096)
    for step in steps:
        limit = step.limit or 0
        if step.what == "engine":
            out.append(f"from {limit + 1} users at once the guide recommends {step.then}")
        elif step.what == "users":
            out.append(
                f"beyond {limit} {'request' if limit == 1 else 'requests'} of {length} tokens at once: {step.then}"
            )
        elif step.what == "context":
            users = f"{deployment.sequences} requests" if deployment.sequences > 1 else "one request"
            out.append(f"beyond {format_tokens(limit)} tokens in {users}: {step.then}")
        else:
            out.append(f"beyond about {limit / 1e9:.0f}B parameters in {deployment.quantization}: {step.then}")
    return tuple(out)
