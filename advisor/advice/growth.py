"""When an answer stops being right, and what comes next: thresholds of the estimator, engines of the guide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from advisor import estimation
from advisor.advice.limits import largest
from advisor.catalog import Catalog
from advisor.decision.evaluate import compared, evaluate
from advisor.decision.types import Decision, Guide
from advisor.deployment import Deployment, MemoryEstimate
from advisor.errors import AdvisorError
from advisor.record import Record
from advisor.units import tokens

MOST_USERS, CONTEXT_STEP = 1024, 1024  # how far users are followed; tokens that context is followed in
ROUNDS = 4  # of looking for a limit where two answers point to
_STEPS = (2, 4, 5, 8, 16, 32, 64, 128, 256)  # users at which the guide is asked again


class Step(Record, frozen=True, kw_only=True):
    """One way this choice is outgrown."""

    what: str  # users, context, model
    limit: int | None  # the last value that is sure to work; None = not limited as far as it was followed
    then: str  # what comes next


def growth(
    d: Deployment, facts: Mapping[str, Any], guide: Guide, decision: Decision, rules: Catalog
) -> tuple[Step, ...]:
    """Users, context and model size at which the deployment ends, and what follows it.

    Limits are asked of the estimator (it surely fits at the limit, and is not sure one step beyond); the next engine is
    the guide's answer for more users.
    """
    length = d.context_length or 4096
    trained = d.model.max_context or 64 * length
    now = estimation.estimate(d, rules)
    users = _limit(lambda n: _asked(d, rules, sequences=n), now, d.sequences, MOST_USERS)
    steps = _limit(
        lambda k: _asked(d, rules, context_length=CONTEXT_STEP * k),
        now if length % CONTEXT_STEP == 0 else None,
        max(1, length // CONTEXT_STEP),
        max(1, trained // CONTEXT_STEP),
    )
    context = None if steps is None else max(CONTEXT_STEP * steps, length)
    out = []
    engine_at, following = _next_engine(d, facts, guide, decision)
    if engine_at is not None and (users is None or engine_at <= users):
        out.append(Step(what="users", limit=engine_at - 1, then=f"from {engine_at} at once on the guide {following}"))
    if users is not None and users < MOST_USERS:
        out.append(Step(what="users", limit=users, then=_more_users(d)))
    if context is not None and context < (d.model.max_context or 2**31):
        out.append(Step(what="context", limit=context, then=_more_context(d)))
    elif d.model.max_context:
        out.append(Step(what="context", limit=d.model.max_context, then="a model trained for more"))
    room = _room(d, now)
    if room:
        out.append(Step(what="model", limit=room, then="more or larger cards, or a narrower weight format"))
    return tuple(out)


def _asked(d: Deployment, rules: Catalog, **change: Any) -> MemoryEstimate | None:
    try:
        return estimation.estimate(msgspec.structs.replace(d, **change), rules)
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
        m = at(n)
        return m is not None and m.fits is True

    last, near = here, min(2 * here, at_most)
    for _ in range(ROUNDS):
        meeting = _meeting((last, at(last)), (near, at(near)))
        if meeting is None:
            break
        last, near = near, max(1, min(meeting, at_most))
        if near in known:
            break
    return largest(fits, at_most, near)


def _meeting(a: tuple[int, MemoryEstimate | None], b: tuple[int, MemoryEstimate | None]) -> int | None:
    """Where the first place that fills is full, on straight lines through two answers; None where none fills."""
    found = []
    for x, y in zip(_left(a[1]), _left(b[1]), strict=False):
        if x is not None and y is not None and (x - y) * (b[0] - a[0]) > 0:
            found.append(a[0] + x * (b[0] - a[0]) // (x - y))
    return min(found, default=None)


def _left(m: MemoryEstimate | None) -> tuple[int | None, ...]:
    """Bytes that each place surely has left; negative where it may be short, None where that is not known."""
    rows = () if m is None else (*m.devices, *(() if m.host is None else (m.host,)))
    return tuple(
        None if r.budget_bytes is None or r.high_bytes is None else r.budget_bytes - r.high_bytes for r in rows
    )


def _next_engine(
    d: Deployment, facts: Mapping[str, Any], guide: Guide, decision: Decision
) -> tuple[int | None, str | None]:
    """(users, what it says) where the guide, which now puts this engine first or second, no longer does."""

    def put_forward(x: Decision) -> bool:
        return d.engine in x.engines[:2] and d.engine not in x.held_back

    if not put_forward(decision):
        return None, None
    now = int(facts.get("workload.concurrency") or 1)
    turns = compared(guide, "workload.concurrency")
    for before, n in pairwise((now, *(s for s in _STEPS if s > now))):
        if not any(before <= t <= n for t in turns):
            continue  # no condition tells them apart
        there = evaluate(guide, {**facts, "workload.concurrency": n})
        if there.engines and not put_forward(there):
            others = [e for e in there.engines if e not in there.held_back][:2]
            held = "" if d.engine not in there.held_back else f"holds {d.engine} back"
            first = f"puts forward {' or '.join(others)}" if others else ""
            return n, " and ".join(x for x in (held, first) if x)
    return None, None


def _more_users(d: Deployment) -> str:
    """What holds more requests than these cards do."""
    if d.machine is not None and len(d.machine.usable_devices) > (d.device_count or len(d.machine.usable_devices)):
        return "the cards that are not used yet: a second copy (data parallel) or tensor parallel over more"
    if d.kv_cache_type.k == "auto":
        return "an 8-bit KV cache, then a second machine with a router before both"
    return "a second machine with a router before both"


def _more_context(d: Deployment) -> str:
    return "an 8-bit KV cache, or another card" if d.kv_cache_type.k == "auto" else "another card"


def _room(d: Deployment, m: MemoryEstimate) -> int | None:
    """Parameters of the largest model of this kind that its cards would hold in this format: scaled weights."""
    shares = [
        1 + (r.budget_bytes - r.high_bytes) / r.weights_bytes
        for r in m.devices
        if r.budget_bytes and r.high_bytes and r.weights_bytes
    ]
    if not shares or len(shares) != len(m.devices):
        return None
    share = min(shares)
    return int(d.model.params_total * share) if share > 0 else None


def told(steps: tuple[Step, ...], d: Deployment) -> tuple[str, ...]:
    """The steps as sentences."""
    out = []
    length = tokens(d.context_length or 4096)
    for s in steps:
        if s.what == "users":
            out.append(
                f"holds up to {s.limit} at once of {length} tokens; {s.then}" if "guide" not in s.then else s.then
            )
        elif s.what == "context":
            out.append(f"holds up to {tokens(s.limit or 0)} tokens for {d.sequences} at once; beyond: {s.then}")
        else:
            out.append(
                f"these cards hold models up to about {(s.limit or 0) / 1e9:.0f}B in {d.quantization}; beyond: {s.then}"
            )
    return tuple(out)
