"""The verdict on one launch: its hardware, its Deployment, and what the one estimator says about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from advisor.checks import placeholders, settings
from advisor.checks import read as reading
from advisor.checks.concept_flags import length_given, ranks
from advisor.checks.findings import AtOnce, Judged
from advisor.checks.knowledge import Knowledge
from advisor.checks.launch import Launch
from advisor.checks.settings import Arguments
from advisor.deployment import Deployment, MemoryEstimate
from advisor.errors import AdvisorError
from advisor.estimation import LoadSpec, answer, estimate, speed_of
from advisor.machines.types import Machine


class Asked(NamedTuple):
    """What the caller says about all files."""

    on: str | None = None
    on_from: str = "--on"
    fit: bool = True
    engine_version: str | None = None
    variables: dict[str, str] | None = None
    speed: bool = False


class Verdict(NamedTuple):
    """A launch with everything that was found out about it."""

    launch: Launch
    arguments: Arguments
    judged: Judged
    reading: reading.Reading
    machine: Machine | None
    deployment: Deployment | None
    estimate: MemoryEstimate | None


def judge(launch: Launch, know: Knowledge, asked: Asked, machines: dict[str, Any]) -> Verdict:
    """The verdict on a launch. Never raises for what a file says; what cannot be told is named in `why`."""
    if asked.engine_version is not None and launch.version is None:
        launch = msgspec.structs.replace(launch, version=asked.engine_version, version_from="--engine-version")
    launch = placeholders.marked(launch)
    a = settings.read(launch, know)
    words = (asked.on, asked.on_from) if asked.on is not None else reading.hardware_words(launch, a, know)
    r = reading.read(launch, a, know, words[0] if words else None)
    why, assumed = list(r.open), list(r.assumed)
    d: Deployment | None = None
    e: MemoryEstimate | None = None
    notes: tuple[str, ...] = ()
    machine = _machine(words[0], know, machines) if words else None
    if r.request is not None:
        try:
            d, notes = reading.deployment(r.request, know, machines)
            if asked.fit:
                e = estimate(d, know.rules)
        except AdvisorError as x:
            why.append(x.line())
    fits = e.fits if e is not None else None
    if e is not None and fits is None:
        open_ = d.uncounted if d is not None else ()
        why += [n for n in e.not_modelled if any(u in n for u in open_)]
        why += e.warnings or ["a figure it depends on is not known"]
    if e is not None and fits is False:
        why += e.short or tuple(w for w in e.warnings)
        if not length_given(a, launch.engine, know) and _shorter_fits(e):
            fits = None  # the engine refuses to start like this, which a finding says; what length is wanted is open
            tokens = tokens_of_one(e) or 0
            shorter = f"about {tokens:,} do" if tokens >= SHORTEST else "whether fewer do is too close to call"
            own = f"{e.context_length:,} tokens, the model's own, do not fit"
            why.insert(0, f"no context length is set: {own}, {shorter}")
        if r.by_path:
            fits = None
            why.insert(0, "it would not fit if the name of the path is the model's")
    entry = know.rules.engines().get(launch.engine)
    version = launch.version or (entry.version if entry else None)
    judged = Judged(
        source=launch.file,
        line=launch.line,
        kind=launch.kind,
        name=_plain(launch.name),
        engine=launch.engine,
        engine_version=_plain(version),
        version_from=launch.version_from or ("current" if version else None),
        model=str(r.model) if r.model is not None else r.named.name if r.named is not None else None,
        quantization=_plain(d.quantization if d is not None else r.named.quantization if r.named else None),
        hardware=_plain(words[0]) if words else None,
        hardware_from=_plain(words[1]) if words else None,
        fits=fits,
        why=tuple(dict.fromkeys(str(w) for w in why)),
        assumed=tuple(map(str, assumed)),
        ranks=ranks(a, launch.engine, know),
        memory=answer(e, d, notes) if e is not None and d is not None else None,
        speed=_speeds(d, e, know) if asked.speed and e is not None and d is not None else (),
    )
    return Verdict(launch, a, judged, r, machine, d, e)


AT_ONCE = (1, 16)  # requests, in `advise diff`


def _speeds(d: Deployment, e: MemoryEstimate, know: Knowledge) -> tuple[AtOnce, ...]:
    """Rates where they can be modelled."""
    out = []
    for n in AT_ONCE:
        try:
            s = speed_of(d, e, know.rules, LoadSpec(concurrency=n))
        except AdvisorError:
            continue
        if s is not None:
            out.append(AtOnce(concurrency=n, speed=s))
    return tuple(out)


SHORTEST = 2048  # tokens; a server that holds less serves nobody


def _shorter_fits(e: MemoryEstimate) -> bool:
    """Whether the weights fit and the pool holds requests of some length, only not of the whole one."""
    held = tokens_of_one(e)
    if held is None or held >= e.context_length:
        return False
    room, row = e.kv_cache.available_high_bytes, e.kv_cache.bytes_per_token
    return held >= SHORTEST or bool(room and row and room // row >= SHORTEST)


def tokens_of_one(e: MemoryEstimate) -> int | None:
    """Tokens that the pool of one replica holds, at the growth per token; None where there is no pool."""
    room, row = e.kv_cache.available_bytes, e.kv_cache.bytes_per_token
    return None if room is None or not row else max(0, int(room // row))


def _plain(value: str | None) -> str | None:
    """Without its place: answers are plain text."""
    return None if value is None else str(value)


def _machine(words: str, know: Knowledge, machines: dict[str, Any]) -> Machine | None:
    from advisor.estimation import machine_of

    try:
        return machine_of(words, know.rules, machines)
    except AdvisorError:
        return None
